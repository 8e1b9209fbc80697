/* send.c - registers a run with the site's controller and sends its spools.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/send/send.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act/orders/acknowledged.h"
#include "agent/send/enlist.h"
#include "agent/send/sender.h"
#include "base/log.h"
#include "base/net/control_url.h"
#include "base/net/token.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define SPOOLS_MAX 4096
#define LOOK_NS (200 * NS_PER_MS)
#define TELL_NS (50 * NS_PER_MS) /* a launcher of several lives by it */
#define FINISH_NS (20 * NS_PER_MS)
#define GIVE_UP_NS NS_PER_S /* a launcher waits for us: nothing goes out for so long */
#define AGAIN_MIN_NS (300 * NS_PER_MS)
#define AGAIN_MAX_NS (10 * NS_PER_S)

struct send {
    const struct send_settings *settings;
    struct path spools, token_file;
    struct token token; /* the run's; "": not registered yet */
    struct loop *loop;
    struct client *client;
    struct loop_timer enlist, look;
    struct one {
        char name[256];
        struct sender *sender;
    } * one;
    size_t count, room;
    pid_t parent;
    int64_t again_ns, deadline_ns, look_ns;
    int64_t stuck_ns; /* of a launcher: since when some spool cannot be sent; 0: all can */
    struct acknowledged written; /* to the launcher, of its own spool */
    bool enlisted, finishing, finish_asked, done, complained;
    struct err trouble;
};

static void send_close(struct send *send)
{
    for (size_t i = 0; i < send->count; i++)
        sender_destroy(send->one[i].sender);
    free(send->one);
    client_close(send->client);
    loop_destroy(send->loop);
}

/* ---- the run's token ---- */

static void send_enlist_later(struct send *send, const struct err *err)
{
    if (strcmp(send->trouble.text, err->text) != 0)
        log_error("run %s is not registered with the controller: %s; will try again",
                  send->settings->run, err->text);
    send->trouble = *err;
    loop_timer_set(send->loop, &send->enlist, time_mono_ns() + send->again_ns);
    send->again_ns = MIN(send->again_ns * 2, AGAIN_MAX_NS);
}

/* Where the run is, for tools.  It is sent without this file, too. */
static void send_url_keep(const struct send_settings *settings)
{
    struct control_url where = { .url = "" };

    snprintf(where.url, sizeof(where.url), "%s", settings->control.url);
    control_url_write(settings->run_dir, &where, NULL);
}

static void send_on_enlisted(void *arg, const struct client_answer *answer)
{
    struct send *send = arg;
    struct err err = { "" };
    struct token token;
    int result = enlist_token(answer, send->settings->run, &token, &err);

    if (result == 0)
        result = token_write(send->token_file.text, &token, &err);
    if (result < 0) {
        send_enlist_later(send, &err);
        return;
    }
    send_url_keep(send->settings);
    send->token = token;
    send->enlisted = true;
    for (size_t i = 0; i < send->count; i++)
        sender_hurry(send->one[i].sender);
}

static void send_on_enlist(void *arg, int64_t now_ns)
{
    struct send *send = arg;
    struct err err = { "" };

    (void)now_ns;
    if (enlist_call(send->client, send->settings->launch_file, send->settings->run,
                    send_on_enlisted, send, &err) < 0)
        send_enlist_later(send, &err);
}

/* ---- spools ---- */

static bool send_has_sender(const struct send *send, const char *name)
{
    for (size_t i = 0; i < send->count; i++) {
        if (strcmp(send->one[i].name, name) == 0)
            return true;
    }
    return false;
}

static void send_add_sender(struct send *send, const char *name)
{
    struct path spool;
    struct one *one;

    if (send_has_sender(send, name) || send->count == SPOOLS_MAX ||
        strlen(name) >= sizeof(one->name) || path_join(&spool, send->spools.text, name, NULL) < 0 ||
        !ARRAY_FIT(send->one, send->room, send->count + 1))
        return;
    one = &send->one[send->count];
    strcpy(one->name, name);
    if (sender_create(&(struct sender_settings){ .loop = send->loop,
                                                 .client = send->client,
                                                 .run = send->settings->run,
                                                 .spool = spool.text,
                                                 .token = &send->token },
                      &one->sender) == 0)
        send->count++;
}

/* Agents send their own while they live; the launcher has nobody else. */
static void send_find_spools(struct send *send)
{
    DIR *dir;

    if (!send->finishing) {
        send_add_sender(send, "launcher.lsf");
        return;
    }
    dir = opendir(send->spools.text);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t size = strlen(entry->d_name);

        if (entry->d_name[0] != '.' && size > 4 && strcmp(entry->d_name + size - 4, ".lsf") == 0)
            send_add_sender(send, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static size_t send_spools_left(struct send *send)
{
    size_t left = 0;

    for (size_t i = 0; i < send->count; i++)
        left += !sender_is_done(send->one[i].sender);
    return left;
}

/* Some spool cannot be sent now. */
static bool send_spools_in_trouble(const struct send *send)
{
    for (size_t i = 0; i < send->count; i++) {
        if (sender_is_in_trouble(send->one[i].sender))
            return true;
    }
    return false;
}

/* The launcher of a job on several nodes lives by that (act/launch/launch_crew.c). */
static void send_tell(struct send *send)
{
    struct acknowledged now = { 0 };

    for (size_t i = 0; i < send->count && send->settings->run_dir; i++) {
        if (strcmp(send->one[i].name, "launcher.lsf") != 0)
            continue;
        now.before = sender_passed(send->one[i].sender);
        now.heard_boot_ns = sender_heard(send->one[i].sender);
    }
    if (now.before <= send->written.before && now.heard_boot_ns <= send->written.heard_boot_ns)
        return;
    send->written =
        (struct acknowledged){ MAX(now.before, send->written.before), now.heard_boot_ns };
    acknowledged_write(send->settings->run_dir, &send->written);
}

/* ---- the end ---- */

static void send_on_finished(void *arg, const struct client_answer *answer)
{
    struct send *send = arg;

    send->finish_asked = false;
    if (answer->status == 200) {
        send->done = true;
        loop_stop(send->loop);
    }
}

static void send_ask_to_finish(struct send *send)
{
    struct buf body = { 0 };
    char path[128];

    if (send->finish_asked)
        return;
    snprintf(path, sizeof(path), "/api/v1/runs/%s/finish", send->settings->run);
    send->finish_asked =
        client_call(send->client, path, &send->token, &body, send_on_finished, send) == 0;
}

static void send_begin_to_finish(struct send *send)
{
    if (send->finishing)
        return;
    send->finishing = true;
    send->deadline_ns = time_mono_ns() + send->settings->patience_ns;
    if (send->settings->child && !send->enlisted) /* in all its life: it will hardly be now */
        send->deadline_ns = time_mono_ns() + MIN(send->settings->patience_ns, GIVE_UP_NS);
    send_find_spools(send);
    loop_timer_set(send->loop, &send->look, 0);
}

static void send_on_look(void *arg, int64_t now_ns)
{
    struct send *send = arg;

    if (send->settings->child && getppid() != send->parent)
        send_begin_to_finish(send);
    send_find_spools(send);
    send_tell(send);
    if (send->finishing && send->enlisted && send_spools_left(send) == 0)
        send_ask_to_finish(send);
    if (!send->settings->child || !send_spools_in_trouble(send))
        send->stuck_ns = 0;
    else if (!send->stuck_ns)
        send->stuck_ns = now_ns;
    if (send->finishing &&
        (now_ns > send->deadline_ns || (send->stuck_ns && now_ns - send->stuck_ns > GIVE_UP_NS)))
        loop_stop(send->loop);
    loop_timer_set(send->loop, &send->look, now_ns + (send->finishing ? FINISH_NS : send->look_ns));
}

static void send_on_signal(void *arg, int signal)
{
    struct send *send = arg;

    (void)signal;
    if (!send->settings->child)
        loop_stop(send->loop);
    send_begin_to_finish(send);
}

static int send_open(struct send *send, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
    const struct send_settings *settings = send->settings;
    int result = 0;

    signal(SIGPIPE, SIG_IGN);
    send->again_ns = AGAIN_MIN_NS;
    send->parent = getppid();
    snprintf(send->spools.text, sizeof(send->spools.text), ".");
    if (settings->run_dir)
        result = path_join(&send->spools, settings->run_dir, "spool", err);
    if (result == 0 && settings->token) {
        send->token = *settings->token;
        send->enlisted = true;
    } else if (result == 0) {
        result = path_join(&send->token_file, settings->run_dir, "agent.token", err);
        if (result == 0)
            token_read(send->token_file.text, &send->token, NULL); /* of an earlier life */
    }
    if (result == 0)
        result = loop_create(&send->loop, err);
    if (result == 0)
        result = loop_signals(send->loop, wanted, COUNT(wanted), send_on_signal, send, err);
    if (result == 0)
        result = client_open(send->loop, &settings->control, &send->client, err);
    if (result < 0)
        return result;
    send->look_ns =
        settings->run_dir && acknowledged_is_wanted(settings->run_dir) ? TELL_NS : LOOK_NS;
    send->enlist = (struct loop_timer){ .fn = send_on_enlist, .arg = send };
    send->look = (struct loop_timer){ .fn = send_on_look, .arg = send };
    if (!send->enlisted)
        loop_timer_set(send->loop, &send->enlist, 0);
    loop_timer_set(send->loop, &send->look, 0);
    if (!settings->child)
        send_begin_to_finish(send);
    return 0;
}

int send_run(const struct send_settings *settings, struct err *err)
{
    CLEAN(send_close) struct send send = { .settings = settings };
    int result = send_open(&send, err);

    if (result == 0)
        result = loop_run(send.loop, err);
    if (result < 0 || send.done)
        return result;
    return err_set(err, -ETIMEDOUT, "not all facts of run %s were sent%s%s", settings->run,
                   send.trouble.text[0] ? ": " : "", send.trouble.text);
}
