/* log_tail.c - keeps the end of a log, and searches it for what a program calls an error.
 *
 * Programs that nobody here has seen write errors, too.  Where a log has no line that the table knows, words that any
 * program uses are all there is (tell.h).  Only the end counts: many programs write errors when they start, and run well.  Kernel logs do not count:
 * they are never without errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_tail.h"

#include <string.h>

#include "core/clean.h"
#include "read/log/clue.h"
#include "read/log/log_nan.h"
#include "read/log/log_watch.h"
#include "read/log/matcher.h"

#define LINES 40
#define FOLLOWED 15      /* percent: that the job failed; what failed is not known */
#define LINES_OF_HINTS 3 /* behind a hint, at most, unless the job is known to have failed */
/* Ordinary lines behind what may have ended the program, at most: other processes may have written them. */
#define ORDINARY_NAMED 3
#define ORDINARY_ERROR 1
#define ORDINARY_FATAL 10

void log_tail_begin(struct log_tail *tail)
{
    tail->used = 0;
}

void log_tail_add(struct log_tail *tail, const char *text, size_t bytes)
{
    size_t take = MIN(bytes, (size_t)LOG_TAIL_BYTES);
    size_t keep = MIN(tail->used, LOG_TAIL_BYTES - take);

    memmove(tail->text, tail->text + tail->used - keep, keep);
    memcpy(tail->text + keep, text + bytes - take, take);
    tail->used = keep + take;
}

/* Loggers also print what they only inform of with the words of errors.  A NaN is one whatever the level. */
static enum clue tail_by_tone(const struct log_line *line, const struct log_event *event,
                              bool failed, enum clue clue)
{
    enum line_tone tone = line_tone(line);

    if (tone == LINE_HANDLED || tone == LINE_REMARK || line_mentions(line, NULL))
        return CLUE_NOTHING;
    if (tone != LINE_WARNED || event->kind == LOG_EVENT_WRONG)
        return clue;
    if (failed)
        return MIN(clue, CLUE_ERROR);
    return line->level == LINE_WARNING && clue >= CLUE_ERROR ? CLUE_HINT : CLUE_NOTHING;
}

/* "... kernel: ", "kernel: [", " kernel:[Hardware Error]": a message of the kernel, in all forms in which people copy them */
static bool tail_is_of_kernel(const char *text, const char *end)
{
    static const char word[] = "kernel:";
    size_t bytes = strlen(word);

    if (memmem(text, (size_t)(end - text), "[Hardware Error]", 16))
        return true;

    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, bytes)); at += bytes) {
        if ((at == text || strchr(" \n", at[-1])) && at + bytes < end && strchr(" [", at[bytes]))
            return true;
    }
    return false;
}

/* What a line tells; `left`: how many lines follow it. */
static enum clue tail_clue(const struct log_tail_rules *rules, const struct log_line *line,
                           uint32_t left, struct log_event *event)
{
    enum log_tail_known known;
    enum clue clue;

    if (line->boot_ns || tail_is_of_kernel(line->raw, line->end) || line_is_code(line))
        return CLUE_NOTHING;
    known = rules->known(rules->user, line);
    if (known == LOG_TAIL_FOLLOWS && line_tone(line) < LINE_WARNED) {
        event->kind = LOG_EVENT_ERROR;
        event->confidence = FOLLOWED;
        return CLUE_FOLLOW;
    }
    if (known)
        return CLUE_NOTHING;
    clue = clue_line(line, event);
    if (clue < CLUE_NAMED && log_watch_is_step(line->raw, line->end))
        return CLUE_NOTHING; /* a service that calls all that a program writes to stderr an error */
    if (clue)
        clue = tail_by_tone(line, event, rules->failed, clue);
    return clue == CLUE_HINT && !rules->failed && left > LINES_OF_HINTS ? CLUE_NOTHING : clue;
}

/* Did the program go on behind [at, end)?  One step, or one line that reports a recovery, suffices here. */
static bool tail_went_on(const char *at, const char *end, bool nccl)
{
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line line;

        stop = stop ? stop : end;
        line_read(&line, at, stop, 0);
        if (log_watch_is_step(at, stop) || (nccl && line_nccl_goes_on(&line)) ||
            line_tone(&line) == LINE_HANDLED)
            return true;
        at = stop + 1;
    }
    return false;
}

/* Is the value that is NaN in this line a number in a later step? */
static bool tail_nan_passed(const struct log_line *line, const char *at, const char *end)
{
    struct log_nan nan;

    for (log_nan_begin(&nan, line); at < end && nan.name[0];) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line here;

        stop = stop ? stop : end;
        line_read(&here, at, stop, 0);
        if (log_nan_passed(&nan, &here))
            return true;
        at = stop + 1;
    }
    return false;
}

/* A log that shows a failure may count steps of other ranks behind it. */
static bool tail_counts(const struct log_tail_rules *rules, const struct log_line *line,
                        const struct log_event *event, const char *at, const char *end)
{
    if (event->kind == LOG_EVENT_WRONG)
        return !tail_nan_passed(line, at, end);
    return rules->failed || !tail_went_on(at, end, line_find(line, " NCCL WARN ") != NULL);
}

/* "RuntimeError:" alone: its words are in the next line. */
static void tail_join(const struct log_event *found, const char *at, const char *end,
                      struct log_event *event)
{
    size_t bytes = strlen(found->text);
    const char *stop;

    if (!found->exception || !bytes || found->text[bytes - 1] != ':')
        return;
    while (at < end && strchr(" \t\r\n", *at))
        at++;
    stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop ? stop : end;
    snprintf(event->text, sizeof(event->text), "%s %.*s", found->text,
             (int)MIN((size_t)(stop - at), sizeof(event->text) - bytes - 2), at);
}

/* Where the last LINES lines begin. */
static const char *tail_first_line(const struct log_tail *tail, uint32_t *lines)
{
    const char *end = tail->text + tail->used, *at = end;

    *lines = 0;
    while (at > tail->text && *lines < LINES) {
        const char *before = memrchr(tail->text, '\n', (size_t)(at - 1 - tail->text));

        at = before ? before + 1 : tail->text;
        ++*lines;
        if (!before)
            break;
    }
    return at;
}

/* A line that a program writes while it is at work: no error, no part of one, and nothing about the end or what to do now. */
static bool tail_is_ordinary(const struct log_tail_rules *rules, const struct log_line *line)
{
    static const char *const closing[] = {
        "exit",  "shut", "stopping", "stopped", "terminat", "clean", "please", " see ",    "try ",
        "check", "hint", "note",     "help",    "usage",    " set ", "using ", "https://",
    };
    struct log_event event = { .rank = LOG_EVENT_NO_RANK };

    if (line->text >= line->end || strchr(" \t", *line->raw) || line_is_code(line) ||
        rules->known(rules->user, line) || line->boot_ns)
        return false;
    if (clue_line(line, &event) && line_tone(line) == LINE_PLAIN)
        return false;
    if (line_find(line, "NCCL INFO ") && !line_nccl_goes_on(line))
        return false;
    for (size_t i = 0; i < COUNT(closing); i++) {
        if (pattern_fits(closing[i], line->text, line->end, NULL))
            return false;
    }
    return true;
}

uint32_t log_tail_ordinary(const struct log_tail *tail, const struct log_tail_rules *rules,
                           uint32_t count)
{
    const char *end = tail->text + tail->used;
    uint32_t lines, ordinary = 0;

    for (const char *at = tail_first_line(tail, &lines); at < end; lines--) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line line;

        stop = stop ? stop : end;
        line_read(&line, at, stop, rules->near_real_ns);
        ordinary += lines <= count && stop > at && tail_is_ordinary(rules, &line);
        at = stop + 1;
    }
    return ordinary;
}

/* Words after which no program goes on; what follows them is other processes, or the rest of the message. */
static bool tail_is_fatal(const struct log_line *line)
{
    static const char *const words[] = {
        "fatal error", "assertion failed", "assertion `", "abort(",      "panic",
        "aborting",    "non-ok-status",    "unhandled e", "core dumped", "internal compiler error",
    };

    for (size_t i = 0; i < COUNT(words); i++) {
        if (pattern_fits(words[i], line->text, line->end, NULL))
            return true;
    }
    return false;
}

/* Where the program goes on with its work behind words of an error, it only mentioned one. */
static bool tail_ends_with(const struct log_tail_rules *rules, enum clue clue,
                           const struct log_line *found, bool quoted, const char *at,
                           const char *end)
{
    size_t limit = tail_is_fatal(found)           ? ORDINARY_FATAL
                   : clue == CLUE_HINT            ? 0
                   : clue == CLUE_ERROR || quoted ? ORDINARY_ERROR
                                                  : ORDINARY_NAMED;
    size_t ordinary = 0;

    while (at < end && ordinary <= limit && !rules->failed) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line line;

        stop = stop ? stop : end;
        line_read(&line, at, stop, rules->near_real_ns);
        ordinary += stop > at && tail_is_ordinary(rules, &line);
        at = stop + 1;
    }
    return ordinary <= limit;
}

/* What ended the program counts before all that it only mentions. */
#define ENDS 16

static unsigned tail_weight(const struct log_tail_rules *rules, enum clue clue,
                            const struct log_line *found, bool quoted, const char *behind,
                            const char *end)
{
    return clue + (clue && tail_ends_with(rules, clue, found, quoted, behind, end) ? ENDS : 0);
}

bool log_tail_error(const struct log_tail *tail, const struct log_tail_rules *rules,
                    struct log_line *line, struct log_event *event, uint32_t *behind)
{
    const char *end = tail->text + tail->used;
    const struct log_event empty = *event;
    unsigned best = CLUE_NOTHING;
    uint32_t lines;

    /* Messages of the system are never without errors. */
    if (!rules->failed && tail_is_of_kernel(tail->text, tail->text + tail->used))
        return false;
    for (const char *at = tail_first_line(tail, &lines); at < end; lines--) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *next;
        struct log_event found = empty;
        struct log_line here;
        unsigned weight;
        enum clue clue;

        stop = stop ? stop : end;
        next = MIN(stop + 1, end);
        line_read(&here, at, stop, rules->near_real_ns);
        clue = here.text < here.end ? tail_clue(rules, &here, lines - 1, &found) : CLUE_NOTHING;
        weight = tail_weight(rules, clue, &here, found.exception, next, end);
        if (weight > best && tail_counts(rules, &here, &found, next, end)) {
            best = weight;
            *line = here;
            *event = found;
            event->mention = weight < ENDS;
            *behind = lines - 1;
            tail_join(&found, next, end, event);
        }
        at = stop + 1;
    }
    return best != CLUE_NOTHING;
}
