/* alert.c - `lockstep alert`: follows the log of a run and passes the verdicts of alert decisions on, as a child of the launcher.
 *
 * At least once: what was delivered is written to RUN/spool/alert.lsf as the outcome of the decision, and whoever is started again
 * reads it there.  A target that fails is tried again with growing pauses; the newest alerts wait meanwhile, and when too many
 * wait the oldest is given up, with an outcome that says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "act/alert/alert_send.h"
#include "act/verdict_follow.h"
#include "agent/runinfo.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "show/record_view.h"
#include "show/verdict_view.h"
#include "wire/spool.h"

#define ALERTS_WAITING 64
#define ALERT_VERDICTS 64
#define ALERT_TRIES 4
#define ALERT_LIMIT_NS (10 * NS_PER_S)  /* of one try */
#define ALERT_LAST_NS (2 * NS_PER_S)    /* of one try when the run is over */
#define ALERT_PAUSE_NS (2 * NS_PER_S)   /* before the second one; doubled each time */
#define ALERT_LOOK_NS (200 * NS_PER_MS) /* between two looks at the log */
#define ALERT_END_NS (10 * NS_PER_S)    /* for all that is left when the run is over */

struct alert_options {
    const char *run_dir, *webhook, *exec;
};

struct alert_waiting {
    struct decision decision;
    unsigned tries;
    int64_t due_ns;
};

struct alert_follow {
    const struct alert_options *options;
    char run[FACT_NAME];
    struct verdict_follow *log;
    struct spool_writer *journal;
    struct verdict *verdict; /* the newest ones, a ring */
    size_t verdicts;
    struct alert_waiting waiting[ALERTS_WAITING]; /* oldest first */
    size_t count;
    struct map done; /* hash of a decision's id → 1 */
};

static volatile sig_atomic_t alert_stopped;

static void alert_on_signal(int number)
{
    (void)number;
    alert_stopped = 1;
}

static const struct opt alert_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct alert_options, run_dir), "DIR",
      "directory of the run", NULL, false },
    { "webhook", 0, OPT_TEXT, offsetof(struct alert_options, webhook), "URL", "POST alerts there",
      "LOCKSTEP_ALERT_WEBHOOK", false },
    { "exec", 0, OPT_TEXT, offsetof(struct alert_options, exec), "PROGRAM", "start it with each",
      "LOCKSTEP_ALERT_EXEC", false },
    { .name = NULL },
};

static uint64_t alert_key(const char *id)
{
    return hash64(0, id, strlen(id));
}

/* ---- the journal ---- */

static int alert_journal_open(struct alert_follow *follow, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct outcome outcome;
    struct frame frame;
    struct path path;
    char name[PATH_MAX];

    snprintf(name, sizeof(name), "%s/spool", follow->options->run_dir);
    if (path_join(&path, name, "alert.lsf", err) < 0)
        return -ENAMETOOLONG;
    if (spool_reader_open(path.text, &reader, NULL) == 0) {
        while (spool_next(reader, &frame, NULL) == 1) {
            if (frame.type == FRAME_OUTCOME &&
                outcome_get(reader_of(frame.payload, frame.payload_bytes), &outcome) == 0)
                map_put(&follow->done, alert_key(outcome.decision), 1);
        }
    }
    return spool_writer_open(path.text, "alert", &follow->journal, err);
}

static void alert_outcome(struct alert_follow *follow, const struct alert_waiting *waiting,
                          enum outcome_result result, const char *text)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct outcome outcome = { .mono_ns = time_mono_ns(),
                               .part = "alert",
                               .result = (uint8_t)result,
                               .began_real_ns = waiting->decision.decided_real_ns,
                               .ended_real_ns = time_real_ns(),
                               .step = DECISION_NO_STEP };
    struct err err = { "" };

    memcpy(outcome.decision, waiting->decision.id, sizeof(outcome.decision));
    snprintf(outcome.text, sizeof(outcome.text), "%s", text);
    outcome_put(&payload, &outcome);
    map_put(&follow->done, alert_key(waiting->decision.id), 1);
    if (payload.failed || spool_put(follow->journal, FRAME_OUTCOME, &payload, &err) < 0)
        log_error("the outcome of alert %s is not recorded: %s", waiting->decision.id, err.text);
}

/* ---- the log ---- */

static void alert_drop(struct alert_follow *follow, size_t at)
{
    memmove(&follow->waiting[at], &follow->waiting[at + 1],
            (follow->count - at - 1) * sizeof(follow->waiting[0]));
    follow->count--;
}

static void alert_take_decision(struct alert_follow *follow, const struct decision *decision)
{
    if (decision->action != ACTION_ALERT || decision->state != DECISION_ORDERED ||
        map_get(&follow->done, alert_key(decision->id)))
        return;
    if (follow->count == ALERTS_WAITING) {
        alert_outcome(follow, &follow->waiting[0], OUTCOME_FAILED,
                      "given up: too many newer alerts wait");
        alert_drop(follow, 0);
    }
    follow->waiting[follow->count++] = (struct alert_waiting){ .decision = *decision };
}

static void alert_take_verdict(struct alert_follow *follow, const struct verdict *verdict)
{
    for (size_t i = 0; i < MIN(follow->verdicts, (size_t)ALERT_VERDICTS); i++) {
        if (strcmp(follow->verdict[i].id, verdict->id) == 0) {
            follow->verdict[i] = *verdict;
            return;
        }
    }
    follow->verdict[follow->verdicts++ % ALERT_VERDICTS] = *verdict;
}

static void alert_read(struct alert_follow *follow)
{
    enum verdict_follow_what what;
    struct decision decision;
    struct verdict verdict;

    while ((what = verdict_follow_next(follow->log, &verdict, &decision))) {
        if (what == VERDICT_FOLLOW_VERDICT)
            alert_take_verdict(follow, &verdict);
        else if (verdict_follow_is_new(follow->log))
            alert_take_decision(follow, &decision);
    }
}

/* ---- delivery ---- */

static struct json_object *alert_json(const struct alert_follow *follow,
                                      const struct decision *decision)
{
    struct json_object *root = json_object_new_object(), *verdict = NULL;

    for (size_t i = 0; i < MIN(follow->verdicts, (size_t)ALERT_VERDICTS) && !verdict; i++) {
        if (strcmp(follow->verdict[i].id, decision->of) == 0)
            verdict = verdict_json(&follow->verdict[i]);
    }
    json_object_object_add(root, "run", json_object_new_string(follow->run));
    json_object_object_add(root, "verdict", verdict);
    json_object_object_add(root, "decision", decision_json(decision));
    return root;
}

static int alert_deliver(const struct alert_follow *follow, const struct decision *decision,
                         int64_t limit_ns, struct err *err)
{
    struct json_object *root = alert_json(follow, decision);
    const char *text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN);
    int result = 0;

    if (follow->options->exec)
        result = alert_exec(follow->options->exec, text, limit_ns, err);
    if (result == 0 && follow->options->webhook)
        result = alert_post(follow->options->webhook, text, limit_ns, err);
    json_object_put(root);
    return result;
}

/* Those that are due; when the run is over, each once more. */
static void alert_turn(struct alert_follow *follow, bool last)
{
    for (size_t i = 0; i < follow->count;) {
        struct alert_waiting *waiting = &follow->waiting[i];
        struct err err = { "" };
        char text[160];

        if (!last && waiting->due_ns > time_mono_ns()) {
            i++;
            continue;
        }
        if (alert_deliver(follow, &waiting->decision, last ? ALERT_LAST_NS : ALERT_LIMIT_NS,
                          &err) == 0) {
            alert_outcome(follow, waiting, OUTCOME_DONE, "delivered");
            alert_drop(follow, i);
            continue;
        }
        log_error("%s", err.text);
        if (++waiting->tries == ALERT_TRIES || last) {
            snprintf(text, sizeof(text), "given up after %u tries: %.100s", waiting->tries,
                     err.text);
            alert_outcome(follow, waiting, OUTCOME_FAILED, text);
            alert_drop(follow, i);
            continue;
        }
        waiting->due_ns = time_mono_ns() + (ALERT_PAUSE_NS << waiting->tries);
        i++;
    }
}

static void alert_serve(struct alert_follow *follow)
{
    const struct timespec look = time_spec(ALERT_LOOK_NS);
    pid_t parent = getppid();
    int64_t until_ns;

    while (!alert_stopped && getppid() == parent) {
        alert_read(follow);
        alert_turn(follow, false);
        nanosleep(&look, NULL);
    }
    /* The controller writes the last decisions now. */
    until_ns = time_mono_ns() + ALERT_END_NS;
    while (!verdict_follow_is_closed(follow->log) && time_mono_ns() < until_ns) {
        alert_read(follow);
        nanosleep(&look, NULL);
    }
    alert_turn(follow, true);
}

static int alert_run(const struct alert_options *options, struct err *err)
{
    CLEAN(free_clean) struct alert_follow *follow = calloc(1, sizeof(*follow));
    struct runfile file;
    int result = follow ? runinfo_check_owner(options->run_dir, err) : -ENOMEM;

    if (result == 0)
        result = runfile_read(options->run_dir, &file, err);
    if (result < 0)
        return result;
    snprintf(follow->run, sizeof(follow->run), "%s", file.id);
    runfile_fini(&file);
    follow->options = options;
    follow->verdict = calloc(ALERT_VERDICTS, sizeof(*follow->verdict));
    result = follow->verdict ? verdict_follow_create(options->run_dir, &follow->log) : -ENOMEM;
    if (result == 0)
        result = alert_journal_open(follow, err);
    if (result == 0)
        alert_serve(follow);
    verdict_follow_destroy(follow->log);
    if (follow->journal)
        spool_writer_close(follow->journal);
    map_fini(&follow->done);
    free(follow->verdict);
    return result;
}

static int alert_main(int argc, char **argv)
{
    const struct sigaction stop = { .sa_handler = alert_on_signal };
    struct alert_options options = { 0 };
    int first = opt_parse(&command_alert, argc, argv, &options);
    struct err err = { "" };
    sigset_t mask;

    if (first < 0)
        return OPT_EXIT(first);
    if (!options.run_dir || first < argc) {
        log_error("this is started by 'lockstep run' alone");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &stop, NULL);
    sigemptyset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL); /* it was blocked until now */
    if (alert_run(&options, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 3;
}

const struct command command_alert = {
    .name = "alert",
    .operands = "",
    .summary = "passes alerts of a run on, started by 'lockstep run'",
    .opt = alert_opts,
    .run = alert_main,
    .hidden = true,
};
