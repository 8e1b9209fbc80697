/* sender.c - sends a spool to the controller by POST.
 *
 * Two states: asking (an empty body; the response lists what the controller has) and sending.  Every failure leads
 * back to asking, because another controller, or the same one with fewer frames, may respond next.  A body that was
 * not acknowledged is sent again unchanged: the controller drops duplicates.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/send/sender.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/send/sent.h"
#include "base/log.h"
#include "base/net/token.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "core/time.h"
#include "wire/spool.h"

#define BATCH_BYTES (1u << 20)
#define LOOK_NS (50 * NS_PER_MS)       /* at a spool that had nothing new */
#define PAUSE_MIN_NS (200 * NS_PER_MS) /* after a failure; doubled each time */
#define PAUSE_MAX_NS (10 * NS_PER_S)
#define PAUSE_HEARD_NS                                                                             \
    (400 * NS_PER_MS) /* its disk is full: a launcher's lease goes on meanwhile */
#define PAUSE_HOPELESS_NS (30 * NS_PER_S) /* wrong version: the operator must update one side */
#define TROUBLE_AGAIN_NS                                                                           \
    (60 * NS_PER_S) /* between messages about one status with different reasons */
#define BOOTS_MAX 4096

struct boot {
    uint64_t boot, next;
};

struct sender {
    struct sender_settings settings;
    char frames[160]; /* path of the API to which they go, up to the sender's id */
    char spool[PATH_MAX], token_file[PATH_MAX];
    uint64_t id; /* the frames' sender; 0: none read yet */
    struct loop_timer timer;
    struct spool_reader *reader;
    struct rand rand;
    bool asked;                     /* the controller's answer is in `boot` */
    bool busy;                      /* a call is under way */
    bool dry;                       /* the last look found nothing new */
    bool refused;                   /* the last response was that the token is not valid */
    struct buf batch;               /* sent, not acknowledged */
    size_t batch_frames, batch_max; /* frames; 0: as bytes allow */
    size_t batch_steps;             /* of these */
    size_t bytes_max;
    struct sent sent;                  /* the newest frame that was ever sent */
    uint64_t last_boot, last_number;   /* of the newest frame in the batch */
    uint64_t passed_boot, passed_next; /* frames before this one are not read again */
    uint64_t passed_bytes;             /* of the spool: the controller has what is before */
    struct boot *boot;
    size_t boots, boot_room;
    int64_t pause_ns, trouble_again_ns, trouble_ns;
    int64_t called_boot_ns, heard_boot_ns; /* the newest call; the newest that was heard */
    unsigned trouble_status;               /* HTTP status of the newest failure; 0: no response */
    bool body_failed; /* a body with frames failed, and none has been accepted since */
    char trouble[400];
    struct sender_counts counts;
};

static void sender_turn(void *arg, int64_t now_ns);

bool sender_sent(const struct sender *sender, uint64_t *number)
{
    *number = sender->sent.number;
    return sender->sent.any;
}

int sender_create(const struct sender_settings *settings, struct sender **ret)
{
    struct sender *sender = calloc(1, sizeof(*sender));

    if (!sender)
        return -ENOMEM;
    sender->settings = *settings;
    if (settings->node)
        snprintf(sender->frames, sizeof(sender->frames),
                 "/api/v1/nodes/%s/frames?sender=", settings->node);
    else
        snprintf(sender->frames, sizeof(sender->frames),
                 "/api/v1/frames?run=%s&sender=", settings->run);
    snprintf(sender->spool, sizeof(sender->spool), "%s", settings->spool);
    snprintf(sender->token_file, sizeof(sender->token_file), "%s",
             settings->token ? "" : settings->token_file);
    sent_open(&sender->sent, sender->spool);
    sender->bytes_max = BATCH_BYTES;
    sender->pause_ns = PAUSE_MIN_NS;
    sender->rand.state = (uint64_t)time_real_ns() ^ (uint64_t)getpid() << 32 ^
                         hash64(0, settings->spool, strlen(settings->spool));
    sender->timer = (struct loop_timer){ .fn = sender_turn, .arg = sender };
    loop_timer_set(settings->loop, &sender->timer, 0);
    *ret = sender;
    return 0;
}

void sender_destroy(struct sender *sender)
{
    if (!sender)
        return;
    loop_timer_drop(sender->settings.loop, &sender->timer);
    spool_reader_close(sender->reader);
    buf_fini(&sender->batch);
    free(sender->boot);
    free(sender);
}

/* ---- what the controller has ---- */

uint64_t sender_acknowledged(const struct sender *sender, uint64_t boot)
{
    for (size_t i = 0; i < sender->boots; i++) {
        if (sender->boot[i].boot == boot)
            return sender->boot[i].next;
    }
    return 0;
}

int64_t sender_heard(const struct sender *sender)
{
    return sender->heard_boot_ns;
}

uint64_t sender_passed(const struct sender *sender)
{
    return sender->passed_next;
}

static void boot_set(struct sender *sender, uint64_t boot, uint64_t next)
{
    for (size_t i = 0; i < sender->boots; i++) {
        if (sender->boot[i].boot == boot) {
            sender->boot[i].next = next;
            return;
        }
    }
    if (sender->boots == BOOTS_MAX ||
        !ARRAY_FIT(sender->boot, sender->boot_room, sender->boots + 1))
        return; /* doubles are sent, and dropped there */
    sender->boot[sender->boots++] = (struct boot){ boot, next };
}

static struct json_object *sender_answer_member(struct json_object *root, const char *name,
                                                enum json_type type)
{
    struct json_object *value = NULL;

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, name, &value) || !json_object_is_type(value, type))
        return NULL;
    return value;
}

static struct json_object *sender_answer_parse(const struct buf *body)
{
    struct json_tokener *tokener = json_tokener_new_ex(8);
    struct json_object *root = NULL;

    if (tokener && body->size && body->size < INT_MAX)
        root = json_tokener_parse_ex(tokener, (const char *)body->data, (int)body->size);
    if (tokener)
        json_tokener_free(tokener);
    return root;
}

/* False: that was no answer of a controller. */
static bool sender_durable_read(struct sender *sender, struct json_object *root)
{
    struct json_object *list = sender_answer_member(root, "durable", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        const char *who = json_object_get_string(
                       sender_answer_member(one, "sender", json_type_string)),
                   *boot =
                       json_object_get_string(sender_answer_member(one, "boot", json_type_string));
        struct json_object *next = sender_answer_member(one, "next", json_type_int);

        if (who && boot && next && strtoull(who, NULL, 16) == sender->id)
            boot_set(sender, strtoull(boot, NULL, 16), json_object_get_uint64(next));
    }
    return list != NULL;
}

/* ---- messages ---- */

/* Logs a failure when it is new: another status, or after a while another reason.  A failure that repeats is logged once. */
static void sender_trouble_report(struct sender *sender, unsigned status, const char *what)
{
    int64_t now_ns = time_mono_ns();

    sender->counts.failures++;
    if (!sender->trouble_ns)
        sender->trouble_ns = now_ns;
    if (sender->trouble[0] && status == sender->trouble_status &&
        (now_ns < sender->trouble_again_ns || strcmp(what, sender->trouble) == 0))
        return;
    sender->trouble_status = status;
    snprintf(sender->trouble, sizeof(sender->trouble), "%s", what);
    sender->trouble_again_ns = now_ns + TROUBLE_AGAIN_NS;
    log_error("cannot send facts: %s; they stay in %s; will retry", what, sender->spool);
}

static void sender_trouble_over(struct sender *sender)
{
    if (sender->trouble[0])
        log_info("the controller accepts facts again after %.1f s; the error was: %s",
                 (double)(time_mono_ns() - sender->trouble_ns) / 1e9, sender->trouble);
    sender->trouble[0] = '\0';
    sender->trouble_ns = 0;
    sender->refused = sender->body_failed = false;
    sender->pause_ns = PAUSE_MIN_NS;
}

/* Half to all of the pause: agents that were cut off together do not come back together. */
static void sender_back_off(struct sender *sender, int64_t least_ns)
{
    int64_t pause_ns = MAX(sender->pause_ns, least_ns);

    pause_ns = pause_ns / 2 + (int64_t)(rand_unit(&sender->rand) * (double)pause_ns / 2);
    sender->pause_ns = MIN(sender->pause_ns * 2, PAUSE_MAX_NS);
    sender->asked = false;
    loop_timer_set(sender->settings.loop, &sender->timer, time_mono_ns() + pause_ns);
}

/* ---- answers ---- */

static void sender_error_text(const struct client_answer *answer, struct json_object *root,
                              char *out, size_t room)
{
    const char *text =
        json_object_get_string(sender_answer_member(root, "error", json_type_string));

    if (answer->status == 0)
        snprintf(out, room, "%s", answer->why);
    else
        snprintf(out, room, "the controller responded with status %u: %s", answer->status,
                 text ? text : "no reason given");
}

/* A single frame that is refused as malformed will never be accepted: it is skipped. */
static bool sender_refused_for_good(struct sender *sender, unsigned status, const char *why)
{
    if (status == 413 && sender->bytes_max > 4096) {
        sender->bytes_max /= 2;
        return false;
    }
    if (status != 400 && status != 413)
        return false;
    if (sender->batch_frames > 1) {
        sender->batch_max = 1;
        return false;
    }
    log_error("frame %llu of %s is skipped: %s", (unsigned long long)sender->last_number,
              sender->spool, why);
    sender->counts.refused++;
    return true;
}

static void sender_batch_drop(struct sender *sender)
{
    if (sender->batch.failed)
        buf_fini(&sender->batch);
    sender->batch.size = 0;
    sender->batch_frames = sender->batch_steps = 0;
}

static void sender_on_failed(struct sender *sender, const struct client_answer *answer,
                             struct json_object *root)
{
    char why[400];

    sender_error_text(answer, root, why, sizeof(why));
    if (sender->batch_frames && (answer->status == 400 || answer->status == 413)) {
        if (sender_refused_for_good(sender, answer->status, why)) {
            boot_set(sender, sender->last_boot, sender->last_number + 1);
            sender->batch_max = 0;
        }
        sender_batch_drop(sender);
        sender_restart(sender); /* smaller, or without it */
        loop_timer_set(sender->settings.loop, &sender->timer, 0);
        return;
    }
    sender_trouble_report(sender, answer->status, why);
    if (json_object_get_boolean(sender_answer_member(root, "heard", json_type_boolean))) {
        sender->heard_boot_ns = sender->called_boot_ns;
        sender->pause_ns = MIN(sender->pause_ns, PAUSE_HEARD_NS);
    }
    sender->body_failed = sender->body_failed || sender->batch_frames > 0;
    sender->refused = answer->status == 401 || answer->status == 403 || answer->status == 404;
    sender_back_off(sender, answer->status == 426 ? PAUSE_HOPELESS_NS : 0);
}

static void sender_on_sent(void *arg, const struct client_answer *answer)
{
    struct sender *sender = arg;
    struct json_object *root = answer->status ? sender_answer_parse(answer->body) : NULL;
    int64_t again_ms;

    sender->busy = false;
    if (answer->status != 200 || !sender_durable_read(sender, root)) {
        sender_on_failed(sender, answer, root);
        json_object_put(root);
        return;
    }
    sender_trouble_over(sender);
    again_ms = json_object_get_int64(sender_answer_member(root, "again_ms", json_type_int));
    json_object_put(root);
    if (sender_acknowledged(sender, sender->last_boot) > sender->last_number) {
        sender->counts.bodies += sender->batch_frames > 0;
        sender->counts.bytes += sender->batch.size;
        sender->counts.frames += sender->batch_frames;
        sender->counts.steps += sender->batch_steps;
        if (sender->batch_frames) /* else the spool was rewritten meanwhile */
            sender->passed_bytes = spool_reader_offset(sender->reader);
        sender->passed_boot = sender->last_boot;
        sender->passed_next = sender->last_number + 1;
        sender_batch_drop(sender);
    }
    loop_timer_set(sender->settings.loop, &sender->timer,
                   time_mono_ns() + MIN(MAX(again_ms, 0), 5000) * NS_PER_MS);
}

/* The controller may have less than it acknowledged (another controller, an older disk): then all is read again. */
static void sender_on_asked(void *arg, const struct client_answer *answer)
{
    struct sender *sender = arg;
    struct json_object *root = answer->status ? sender_answer_parse(answer->body) : NULL;

    sender->busy = false;
    sender->boots = 0;
    if (answer->status != 200 || !sender_durable_read(sender, root)) {
        sender_on_failed(sender, answer, root);
        json_object_put(root);
        return;
    }
    json_object_put(root);
    sender->refused = false;
    if (!sender->body_failed) /* else the next body shows whether the controller accepts facts */
        sender_trouble_over(sender);
    sender->asked = true;
    if (sender_acknowledged(sender, sender->passed_boot) < sender->passed_next) {
        sender->passed_next = 0;
        sender_restart(sender);
    }
    loop_timer_set(sender->settings.loop, &sender->timer, 0);
}

/* ---- sending ---- */

void sender_restart(struct sender *sender)
{
    spool_reader_close(TAKE(sender->reader));
    sender_batch_drop(sender);
    sender->passed_bytes = 0;
    sender->dry = false;
}

/* Fills the batch with what the controller does not have.  False: nothing is there. */
static bool sender_batch_fill(struct sender *sender)
{
    struct err err = { "" };
    struct frame frame;
    int result = 0;

    if (!sender->reader)
        result = spool_reader_open(sender->spool, &sender->reader, &err);
    sender->dry = false;
    while (result >= 0 && sender->batch.size < sender->bytes_max &&
           !(sender->batch_max && sender->batch_frames >= sender->batch_max) &&
           (result = spool_next(sender->reader, &frame, &err)) == 1) {
        if (!sender->id)
            sender->id = frame.sender;
        if (frame.number < sender_acknowledged(sender, frame.boot)) {
            sender->passed_boot = frame.boot;
            sender->passed_next = frame.number + 1;
            if (!sender->batch_frames)
                sender->passed_bytes = spool_reader_offset(sender->reader);
            continue;
        }
        frame_put(&sender->batch, &frame);
        if (sender->batch.failed) {
            result = err_nomem(&err);
            break;
        }
        sender->batch_frames++;
        sender->batch_steps += frame.type == FRAME_STEP;
        sender->last_boot = frame.boot;
        sender->last_number = frame.number;
    }
    sender->dry = result == 0;
    if (result < 0 && result != -ENOENT)
        sender_trouble_report(sender, 0, err.text);
    /* A part of a frame may be in the batch, or the reader had no memory for one: both begin again. */
    if (sender->batch.failed || (result == -ENOMEM && !sender->batch_frames))
        sender_restart(sender);
    return sender->batch_frames > 0;
}

/* The spool's first frame says who we are.  False: there is none yet. */
static bool sender_learn_id(struct sender *sender)
{
    struct frame frame;

    if (!sender->id && spool_reader_open(sender->spool, &sender->reader, NULL) == 0) {
        if (spool_next(sender->reader, &frame, NULL) == 1)
            sender->id = frame.sender;
        sender_restart(sender);
    }
    return sender->id != 0;
}

/* -ENOENT: the run is being registered. */
static int sender_token(const struct sender *sender, struct token *ret, struct err *err)
{
    if (!sender->settings.token)
        return token_read(sender->token_file, ret, err);
    *ret = *sender->settings.token;
    if (!ret->text[0])
        return err_set(err, -ENOENT, "the run is not registered with the controller yet");
    return 0;
}

static void sender_call(struct sender *sender, const struct buf *body, client_fn *fn)
{
    struct buf copy = { 0 };
    struct token token;
    struct err err = { "" };
    char path[256];
    int result = sender_token(sender, &token, &err);

    if (result < 0) {
        if (result != -ENOENT)
            sender_trouble_report(sender, 0, err.text);
        sender_back_off(sender, 0);
        return;
    }
    snprintf(path, sizeof(path), "%s%016" PRIx64, sender->frames, sender->id);
    buf_put(&copy, body->data, body->size);
    sender->busy = true;
    sender->called_boot_ns = time_boot_ns();
    if (copy.failed || client_call(sender->settings.client, path, &token, &copy, fn, sender) < 0) {
        sender->busy = false;
        buf_fini(&copy);
        sender_back_off(sender, 0);
    }
}

static void sender_turn(void *arg, int64_t now_ns)
{
    static const struct buf nothing = { 0 };
    struct sender *sender = arg;
    bool known;

    if (sender->busy)
        return;
    known = sender_learn_id(sender);
    if (known && !sender->asked) {
        sender_call(sender, &nothing, sender_on_asked);
    } else if (known && (sender->batch_frames || sender_batch_fill(sender))) {
        sent_note(&sender->sent, sender->last_number);
        sender_call(sender, &sender->batch, sender_on_sent);
    } else {
        if (sender->body_failed) /* the controller has all frames of that body */
            sender_trouble_over(sender);
        loop_timer_set(sender->settings.loop, &sender->timer, now_ns + LOOK_NS);
    }
}

bool sender_is_done(struct sender *sender)
{
    if (sender->busy || sender->batch_frames)
        return false;
    if (!sender->id && access(sender->spool, F_OK) < 0)
        return true;
    if (!sender->asked)
        return false;
    if (!sender_batch_fill(sender))
        return sender->dry;
    sender_hurry(sender);
    return false;
}

bool sender_is_in_trouble(const struct sender *sender)
{
    /* Without a token nobody was asked yet: the run is not registered. */
    return sender->trouble_ns != 0 ||
           (!sender->asked && sender->token_file[0] && access(sender->token_file, F_OK) < 0);
}

bool sender_is_refused(const struct sender *sender)
{
    return sender->refused;
}

void sender_hurry(struct sender *sender)
{
    if (!sender->busy)
        loop_timer_set(sender->settings.loop, &sender->timer, 0);
}

void sender_counts(const struct sender *sender, struct sender_counts *ret)
{
    struct stat st;

    *ret = sender->counts;
    ret->wire_bytes = client_wire_bytes(sender->settings.client);
    ret->spool_bytes = stat(sender->spool, &st) == 0 ? (uint64_t)st.st_size : 0;
    ret->backlog_bytes = ret->spool_bytes - MIN(ret->spool_bytes, sender->passed_bytes);
}
