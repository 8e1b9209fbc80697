/* clue.c - words that any program uses for a failure.
 *
 * Each form is a row of `forms`, the most telling first.  A rank is named only where the words say whose end they report:
 * who wrote such a line is not known to be at fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/clue.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"
#include "read/log/traceback.h"

#define CERTAIN 45 /* percent: a signal, a NaN; the row of a table would be surer */
#define LIKELY 35  /* ... an exception in the middle of a line */
#define QUOTED 180
#define UNKNOWN 20 /* ... what only its program calls an error */

static bool clue_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Where one of these words stands alone in the line, neither as a part of a name nor as the name of a setting; NULL. */
static const char *clue_word(const struct log_line *line, const char *const *words, size_t count)
{
    for (const char *at = line->text; at < line->end; at++) {
        if (at > line->text && (clue_is_word(at[-1]) || strchr("-/.", at[-1])))
            continue;
        for (size_t i = 0; i < count; i++) {
            size_t bytes = strlen(words[i]);
            const char *end = at + bytes;

            if (*words[i] == tolower((unsigned char)*at) && (size_t)(line->end - at) >= bytes &&
                strncasecmp(at, words[i], bytes) == 0 &&
                (end == line->end || (!clue_is_word(*end) && !strchr("=-/", *end))))
                return at;
        }
    }
    return NULL;
}

static bool clue_fits(const struct log_line *line, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pattern_fits(patterns[i], line->text, line->end, NULL))
            return true;
    }
    return false;
}

static void clue_cause(struct log_event *event, const char *cause)
{
    snprintf(event->cause, sizeof(event->cause), "%s", cause);
}

/* A long line is quoted from shortly before the word that tells. */
static void clue_quote(const struct log_line *line, const char *at, struct log_event *event)
{
    if (at && line->end - line->text > QUOTED && at - line->text > QUOTED / 2)
        snprintf(event->text, sizeof(event->text), "... %.*s",
                 (int)MIN(line->end - at + QUOTED / 2, QUOTED), at - QUOTED / 2);
}

/* "grad_norm 1.03 (nan)": the mean holds an old one */
static bool clue_is_mean(const struct log_line *line, const char *at)
{
    return at - line->text >= 2 && at[-1] == '(' && at[-2] == ' ';
}

/* "loss_net: nan", "'eval_loss': nan", "grad norm: nan", "loss=tensor(nan": a NaN behind a name that matters */
static bool clue_nan(const struct log_line *line, struct log_event *event)
{
    static const char *const names[] = { "loss", "norm", "grad", "perplexity", "ppl" };
    static const char *const firsts[] = { "best", "lowest", "initial", "min_", "minimum" };

    for (const char *at = line->text + 1; at + 3 <= line->end; at++) {
        const char *from = at;
        struct log_line name = { .end = at };

        if (strncasecmp(at, "nan", 3) != 0 || clue_is_word(at[-1]) || clue_is_mean(line, at) ||
            (at + 3 < line->end && (clue_is_word(at[3]) || at[3] == ':')))
            continue;
        while (from > line->text && !strchr(",|{;", from[-1]) && at - from < 24)
            from--;
        name.text = name.raw = from;
        if (!clue_fits(&name, names, COUNT(names)) || clue_fits(&name, firsts, COUNT(firsts)))
            continue;
        event->kind = LOG_EVENT_WRONG;
        event->layer = LAYER_UNKNOWN;
        event->confidence = CERTAIN;
        clue_cause(event, "results are NaN");
        return true;
    }
    return false;
}

/* "Mismatched collective", "mismatch ... across ranks" */
static bool clue_desync(const struct log_line *line, struct log_event *event)
{
    static const char *const patterns[] = { "mismatch*collective",   "collective*mismatch",
                                            "mismatch*across ranks", "mismatch*between ranks",
                                            "differ*across ranks",   "differ*between ranks" };

    if (!clue_fits(line, patterns, COUNT(patterns)))
        return false;
    event->kind = LOG_EVENT_DESYNC;
    event->layer = LAYER_USER_CODE;
    event->confidence = CERTAIN;
    event->by_name = true; /* neither side is known to be the wrong one */
    clue_cause(event, "ranks entered different collectives");
    return true;
}

/* What waited, and that it waited too long. */
static bool clue_timeout(const struct log_line *line, struct log_event *event)
{
    static const char *const late[] = { "timed out", "timeout", "time out", "stuck",
                                        "hang",      "hung",    "deadlock" };
    static const char *const what[] = { "collective", "barrier",   "heartbeat",  "watchdog",
                                        "all_reduce", "allreduce", "all_gather", "allgather",
                                        "nccl",       "gloo",      "rendezvous", "ranks" };

    if (!clue_word(line, late, COUNT(late)) || !clue_fits(line, what, COUNT(what)) ||
        clue_fits(line, (const char *const[]){ "timeout=", "timeout:" }, 2))
        return false;
    event->kind = LOG_EVENT_TIMEOUT;
    event->confidence = CERTAIN;
    clue_cause(event, "waiting for other ranks timed out");
    return true;
}

static bool clue_signal(const struct log_line *line, struct log_event *event)
{
    static const struct {
        const char *pattern;
        int8_t number;
    } signals[] = {
        { "segmentation fault", 11 },
        { "segfault", 11 },
        { "sigsegv", 11 },
        { "signal 11", 11 },
        { "bus error", 7 },
        { "sigbus", 7 },
        { "signal 7", 7 },
        { "floating point exception", 8 },
        { "sigfpe", 8 },
        { "illegal instruction", 4 },
        { "sigill", 4 },
        { "sigkill", 9 },
        { "signal 9", 9 },
        { "termsig 9", 9 },
        { "#  Killed", 9 },
        { "# Killed", 9 },
        { "^Killed", 9 },
        { "sigabrt", 6 },
        { "core dumped", 6 },
    };
    static const char *const sent[] = { "sending", "send signal", "forwarding", "will be" };

    if (clue_fits(line, sent, COUNT(sent)))
        return false;
    for (size_t i = 0; i < COUNT(signals); i++) {
        if (!pattern_fits(signals[i].pattern, line->text, line->end, NULL))
            continue;
        event->kind = LOG_EVENT_SIGNAL;
        event->value = -signals[i].number;
        patterns_end_text(event);
        event->confidence = signals[i].number == 6 ? UNKNOWN : CERTAIN;
        return true;
    }
    return false;
}

/* "Evicted", "preempted", "deleted at request of": somebody ended it */
static bool clue_outside(const struct log_line *line, struct log_event *event)
{
    static const char *const words[] = { "preempted",   "evicted",      "evict",   "cancelled",
                                         "canceled",    "preemption",   "sigterm", "sigint",
                                         "job deleted", "death signal", "walltime" };

    const char *at = clue_word(line, words, COUNT(words));

    if (!at || pattern_fits("sending", line->text, line->end, NULL))
        return false;
    clue_quote(line, at, event);
    event->kind = LOG_EVENT_ERROR;
    event->layer = (uint8_t)pattern_layer(line->text, line->end, LAYER_UNKNOWN);
    event->confidence = LIKELY;
    clue_cause(event, "ended from outside, by the words of its log");
    event->advice = "Find out who or what ended the job: the scheduler's log, kubectl get events.";
    return true;
}

/* "RuntimeError:", with its words in the next line; "\"message\": \"MemoryError: std::bad_alloc\"", "worker 3: got ValueError: ...": an exception behind other words */
static bool clue_exception(const struct log_line *line, struct log_event *event)
{
    for (const char *at = line->text; at < line->end; at++) {
        size_t name;

        if (!isalpha((unsigned char)*at) ||
            (at > line->text && (clue_is_word(at[-1]) || at[-1] == '.')))
            continue;
        name = exception_name(at, line->end, false);
        if (name && at == line->text && at + name + 1 < line->end)
            return false; /* the table has seen it, and it was no cause */
        if (!name || memmem(at, name, "Exit", 4) || memmem(at, name, "Interrupt", 9))
            continue;
        event->exception = true;
        snprintf(event->text, sizeof(event->text), "%.*s", (int)MIN(line->end - at, 190), at);
        pattern_of_exception(at, name, event);
        event->confidence = LIKELY;
        return event->kind == LOG_EVENT_ERROR;
    }
    return false;
}

/* "Exit Code:    137", "rc=137", "ExitCode=1:0", "returned non-zero exit status 2" */
static bool clue_status(const struct log_line *line, struct log_event *event)
{
    static const char *const names[] = { "exit code",    "exitcode",    "exit_code",
                                         "exit status",  "return code", "returncode",
                                         " rc=",         "^rc=",        "exited with code ",
                                         "exited with ", "status: " };

    for (size_t i = 0; i < COUNT(names); i++) {
        const char *at;
        int64_t value;

        if (!pattern_fits(names[i], line->text, line->end, &at))
            continue;
        at += strlen(names[i]) - (*names[i] == '^');
        if (!line_number(at, line->end, &value) || !value || value < -64 || value > 255)
            continue;
        event->kind = LOG_EVENT_EXIT;
        event->value = value;
        event->confidence = LIKELY;
        patterns_end_text(event);
        return true;
    }
    return false;
}

/* ERROR, CRITICAL or FATAL where a logger prints its level, behind names that no prefix knows. */
static bool clue_has_level(const struct log_line *line)
{
    static const char *const levels[] = { " ERROR ",  " CRITICAL ", " FATAL ",
                                          "[ERROR]",  "|ERROR|",    " ERROR: ",
                                          " FATAL: ", "[FATAL]",    "*** FATAL" };
    struct log_line head = *line;

    head.end = MIN(line->end, line->raw + 160);
    for (size_t i = 0; i < COUNT(levels); i++) {
        if (line_find(&head, levels[i]))
            return true;
    }
    return line->level == LINE_ERROR && line->text < line->end &&
           !isdigit((unsigned char)*line->text);
}

/* "Mean Radial Error : MRE = 5.0", "test error: 0.23": a measure */
static bool clue_is_measure(const struct log_line *line, const char *at)
{
    static const char *const of[] = {
        "mean",       "squared",        "square",   "absolute", "radial",
        "relative",   "train",          "training", "test",     "val",
        "validation", "standard",       "max",      "average",  "avg",
        "eval",       "median",         "pixel",    "rotation", "translation",
        "prediction", "reconstruction",
    };
    const char *end = at, *begin;
    struct log_line before = { .raw = line->text, .text = line->text };

    if (strncasecmp(at, "error", 5) != 0 || !memchr(at, '.', (size_t)(line->end - at)))
        return false;
    while (end > line->text && end[-1] == ' ')
        end--;
    for (begin = end; begin > line->text && isalpha((unsigned char)begin[-1]);)
        begin--;
    before.text = begin;
    before.end = end;
    return clue_word(&before, of, COUNT(of)) != NULL;
}

static bool clue_error(const struct log_line *line, struct log_event *event)
{
    static const char *const words[] = {
        "failed",  "failure",   "fatal",     "panic",           "aborted", "aborting", "crashed",
        "died",    "error",     "exception", "killed",          "abort",   "corrupt",  "corrupted",
        "refused", "cannotrun", "fails",     "nonzeroexitcode", "halted",  "dead",
    };
    static const char *const none[] = {
        "no error",        "without error", "error: 0",    "failed: 0",    "0 failed",
        "exception: none", "error: none",   "error: null", "errors: 0",    "0 errors",
        "error rate",      "not failed",    "if it fails", "on failure",   "error #.",
        "error: #.",       "error #%",      "error: #%",   "abort request"
    };

    const char *at = clue_word(line, words, COUNT(words));
    struct log_line whole = *line;

    whole.text = line->raw; /* "error rate 0.25" begins with what looks like a level */
    if (clue_fits(&whole, none, COUNT(none)) || (!clue_has_level(line) && !at) ||
        line_mentions(line, at) || (at && clue_is_measure(line, at)))
        return false;
    clue_quote(line, at, event);
    event->kind = LOG_EVENT_ERROR;
    event->layer = (uint8_t)pattern_layer(line->text, line->end, LAYER_UNKNOWN);
    event->confidence = UNKNOWN;
    return true;
}

static bool clue_hint(const struct log_line *line, struct log_event *event)
{
    static const char *const words[] = {
        "cannot",        "can't",          "could not",      "couldn't",       "unable to",
        "not found",     "denied",         "timed out",      "timeout",        "exceeded",
        "exceeds",       "invalid",        "mismatch",       "mismatched",     "no such",
        "not permitted", "lost",           "exhausted",      "insufficient",   "unavailable",
        "unreachable",   "does not exist", "low on",         "unsupported",    "interrupted",
        "disconnected",  "already",        "link down",      "unrecognized",   "unexpectedly",
        "prematurely",   "unknown option", "no such option", "invalid option",
    };

    const char *at = clue_word(line, words, COUNT(words));

    if (!at || line_mentions(line, at))
        return false;
    clue_quote(line, at, event);
    event->kind = LOG_EVENT_ERROR;
    event->layer = (uint8_t)pattern_layer(line->text, line->end, LAYER_UNKNOWN);
    event->confidence = UNKNOWN;
    return true;
}

static const struct {
    bool (*fits)(const struct log_line *line, struct log_event *event);
    enum clue clue;
} forms[] = {
    { clue_nan, CLUE_NAMED },     { clue_desync, CLUE_NAMED },    { clue_timeout, CLUE_NAMED },
    { clue_signal, CLUE_NAMED },  { clue_exception, CLUE_NAMED }, { clue_outside, CLUE_ERROR },
    { clue_status, CLUE_STATUS }, { clue_error, CLUE_ERROR },     { clue_hint, CLUE_HINT },
};

/* "Rank 2 crashed with exit code -7", "the trainer process with rank=[2] was aborted": whose end the line reports */
static void clue_subject(const struct log_line *line, struct log_event *event)
{
    static const char *const verbs[] = { "crashed", "exited", "died",       "failed",
                                         "aborted", "killed", "terminated", "exit code" };

    for (const char *at = line->text; at + 5 < line->end; at++) {
        struct log_line rest = { .end = MIN(line->end, at + 60) };
        int64_t rank;

        if (strncasecmp(at, "rank", 4) != 0 || (at > line->text && isalpha((unsigned char)at[-1])))
            continue;
        rest.text = rest.raw = at + 4;
        while (rest.text < rest.end && *rest.text && strchr(" =:#[", *rest.text))
            rest.text++;
        if (rest.text == rest.end || !isdigit((unsigned char)*rest.text) ||
            !line_number(rest.text, rest.end, &rank) || rank >= 1 << 20 ||
            !clue_word(&rest, verbs, COUNT(verbs)))
            continue;
        event->rank = (uint32_t)rank;
        event->local = at - line->text >= 6 && strncasecmp(at - 6, "local", 5) == 0;
        return;
    }
}

/* Lines of stars, requests that a server answered well, and what a logger whose form is not known calls information. */
static bool clue_is_idle(const struct log_line *line)
{
    const char *info = line_find(line, " INFO ");
    ptrdiff_t words = 0;

    if (pattern_fits("HTTP/#.#\" 2", line->text, line->end, NULL))
        return true;
    for (const char *at = line->text; at < line->end; at++)
        words += isalnum((unsigned char)*at) || *at == ' ';
    return 2 * words < line->end - line->text || (info && info - line->raw < 80 && !line->level);
}

/* "can lead to", "could potentially cause", "may result in": a verb that says what happens, at most one word behind one that
 * says that it need not.
 */
static bool clue_is_possible(const struct log_line *line)
{
    static const char *const may[] = { "can", "may", "could", "might", "would" };
    static const char *const verbs[] = { "cause", "lead", "result", "hang", "fail", "block" };
    struct log_line rest = *line;

    while ((rest.text = clue_word(&rest, may, COUNT(may)))) {
        struct log_line next = { .raw = rest.text, .text = rest.text };
        int words = 0;

        for (next.end = next.text; next.end < line->end && words < 3; next.end++)
            words += *next.end == ' ';
        while (next.end < line->end && isalpha((unsigned char)*next.end))
            next.end++;
        if (clue_word(&next, verbs, COUNT(verbs)))
            return true;
        rest.text++;
    }
    return false;
}

/* What could happen did not, and what was missing was not needed. */
static bool clue_is_hypothetical(const struct log_line *line)
{
    static const char *const words[] = {
        "might ",          "deprecat",     "to avoid",      "early stop",
        "earlystop",       "from scratch", "using default", "defaulting to",
        "will be ignored", "not needed",   "optional",
    };

    return clue_fits(line, words, COUNT(words)) || clue_is_possible(line);
}

enum clue clue_line(const struct log_line *line, struct log_event *event)
{
    if (clue_is_hypothetical(line) || clue_is_idle(line))
        return CLUE_NOTHING;
    for (size_t i = 0; i < COUNT(forms); i++) {
        if (!forms[i].fits(line, event))
            continue;
        if (event->kind != LOG_EVENT_TIMEOUT && event->kind != LOG_EVENT_DESYNC)
            clue_subject(line, event);
        return event->kind == LOG_EVENT_EXIT && (event->value < 0 || event->value > 128)
                   ? CLUE_NAMED
                   : forms[i].clue;
    }
    return CLUE_NOTHING;
}
