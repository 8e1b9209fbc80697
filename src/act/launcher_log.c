/* launcher_log.c - the launcher's facts: attempts, exits and outcomes, as frames in spool/launcher.lsf.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/launcher_log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"
#include "wire/spool.h"

struct launcher_log {
    struct spool_writer *writer;
};

/* Frees the payload, too. */
static int launcher_log_put(struct launcher_log *log, enum frame_type type, struct buf *payload,
                            struct err *err)
{
    int r = payload->failed ? err_nomem(err) : spool_put(log->writer, type, payload, err);

    buf_fini(payload);
    return r;
}

static int launcher_log_hello(struct launcher_log *log, const char *run, const char *node,
                              struct err *err)
{
    struct fact_hello fact = { .kind = SENDER_LAUNCHER,
                               .mono_ns = time_mono_ns(),
                               .real_ns = time_real_ns() };
    struct buf payload = { 0 };

    snprintf(fact.run, sizeof(fact.run), "%s", run);
    snprintf(fact.node, sizeof(fact.node), "%s", node);
    snprintf(fact.version, sizeof(fact.version), "%s", LOCKSTEP_VERSION);
    fact_hello_put(&payload, &fact);
    return launcher_log_put(log, FRAME_HELLO, &payload, err);
}

static void launcher_log_clean(struct launcher_log **log)
{
    launcher_log_close(*log);
}

int launcher_log_open(const char *spool, const char *run, const char *node,
                      struct launcher_log **ret, struct err *err)
{
    CLEAN(launcher_log_clean) struct launcher_log *log = calloc(1, sizeof(*log));
    struct path path;
    int r;

    if (!log)
        return err_nomem(err);
    r = path_join(&path, spool, "launcher.lsf", err);
    if (r == 0)
        r = spool_writer_open(path.text, "launcher", &log->writer, err);
    if (r == 0)
        r = launcher_log_hello(log, run, node, err);
    if (r < 0)
        return r;
    *ret = TAKE(log);
    return 0;
}

void launcher_log_close(struct launcher_log *log)
{
    if (!log)
        return;
    if (log->writer)
        spool_writer_close(log->writer);
    free(log);
}

int launcher_log_run(struct launcher_log *log, const struct fact_run *fact, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    fact_run_put(&payload, fact);
    return launcher_log_put(log, FRAME_RUN, &payload, err);
}

int launcher_log_exit(struct launcher_log *log, const struct fact_exit *fact, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    fact_exit_put(&payload, fact);
    return launcher_log_put(log, FRAME_EXIT, &payload, err);
}

int launcher_log_request(struct launcher_log *log, const struct request *request, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    request_put(&payload, request);
    return launcher_log_put(log, FRAME_REQUEST, &payload, err);
}

int launcher_log_policy(struct launcher_log *log, const struct policy_table *table, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    policy_table_put(&payload, table);
    return launcher_log_put(log, FRAME_POLICY, &payload, err);
}

int launcher_log_means(struct launcher_log *log, const struct policy_means *means, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    policy_means_put(&payload, means);
    return launcher_log_put(log, FRAME_MEANS, &payload, err);
}

int launcher_log_outcome(struct launcher_log *log, const struct outcome *outcome, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return err_set(err, -EBADF, "the launcher has no log");
    outcome_put(&payload, outcome);
    return launcher_log_put(log, FRAME_OUTCOME, &payload, err);
}

int launcher_log_places(struct launcher_log *log, const struct places *places, struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return 0;
    places_put(&payload, places);
    return launcher_log_put(log, FRAME_PLACES, &payload, err);
}

int launcher_log_member(struct launcher_log *log, const struct member *member, uint64_t *ret,
                        struct err *err)
{
    struct buf payload = { 0 };

    if (!log)
        return err_set(err, -EBADF, "the launcher has no log");
    *ret = spool_writer_number(log->writer);
    member_put(&payload, member);
    return launcher_log_put(log, FRAME_MEMBER, &payload, err);
}

void launcher_log_status_text(int status, char *ret, size_t room)
{
    const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;

    if (WIFEXITED(status))
        snprintf(ret, room, "exited with %d", WEXITSTATUS(status));
    else if (name)
        snprintf(ret, room, "killed by signal %d (SIG%s)%s", WTERMSIG(status), name,
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(ret, room, "killed by signal %d", WTERMSIG(status));
}

int launcher_log_status_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Into ret[*at …], which has room for a 0 behind it.  False: it does not fit. */
static bool launcher_escape_put(const char *text, size_t size, char *ret, size_t room, size_t *at)
{
    if (*at + size >= room)
        return false;
    memcpy(ret + *at, text, size);
    *at += size;
    return true;
}

/* The characters of a word into ret[*at …]. */
static void launcher_escape_chars_put(const char *word, char *ret, size_t room, size_t *at)
{
    size_t left = strlen(word), size;
    bool fits = true;

    for (; left && fits; word += size, left -= size) {
        char escape[8];

        size = text_char(word, left);
        snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)*word);
        if (size)
            fits = launcher_escape_put(word, size, ret, room, at);
        else if ((unsigned char)*word < ' ')
            fits = launcher_escape_put(" ", 1, ret, room, at);
        else
            fits = launcher_escape_put(escape, 4, ret, room, at);
        size = size ? size : 1;
    }
}

void launcher_log_word_text(const char *word, char *ret, size_t room)
{
    size_t at = 0;

    launcher_escape_chars_put(word, ret, room, &at);
    ret[at] = '\0';
}

void launcher_log_exec_failed(const char *program)
{
    int why = errno;
    char text[1024];

    launcher_log_word_text(program, text, sizeof(text));
    dprintf(STDERR_FILENO, "lockstep run: %s: %s\n", text, strerror(why));
    errno = why;
}

/* One word into ret[*at …]: in single quotes when it has more than harmless letters. */
static void launcher_escape_word_put(const char *word, char *ret, size_t room, size_t *at)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@+%";
    bool quote = !*word || strspn(word, plain) != strlen(word);

    if (quote)
        launcher_escape_put("'", 1, ret, room, at);
    launcher_escape_chars_put(word, ret, room, at);
    if (quote)
        launcher_escape_put("'", 1, ret, room, at);
}

void launcher_log_command_text(char *const *command, char *ret, size_t room)
{
    size_t at = 0;

    for (size_t i = 0; command && command[i] && at + 1 < room; i++) {
        if (i)
            ret[at++] = ' ';
        launcher_escape_word_put(command[i], ret, room, &at);
    }
    ret[at] = '\0';
}
