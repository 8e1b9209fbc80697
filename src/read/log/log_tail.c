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

#define LINES 40
#define FOLLOWED 15      /* percent: that the job failed; what failed is not known */
#define LINES_OF_HINTS 3 /* behind a hint, at most, unless the job is known to have failed */

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

    if (tone == LINE_HANDLED || tone == LINE_REMARK)
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

/* NCCL goes on after most of its warnings: then it informs of more than the status that its functions returned. */
static bool tail_nccl_goes_on(const struct log_line *line)
{
    return line_find(line, "NCCL INFO ") && !line_find(line, " -> ") && !line_find(line, "bort") &&
           !line_find(line, "estroy") && !line_find(line, "losed");
}

/* Did the program go on behind [at, end)?  One step, or one line that reports a recovery, suffices here. */
static bool tail_went_on(const char *at, const char *end, bool nccl)
{
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line line;

        stop = stop ? stop : end;
        line_read(&line, at, stop, 0);
        if (log_watch_is_step(at, stop) || (nccl && tail_nccl_goes_on(&line)) ||
            line_tone(&line) == LINE_HANDLED)
            return true;
        at = stop + 1;
    }
    return false;
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

bool log_tail_error(const struct log_tail *tail, const struct log_tail_rules *rules,
                    struct log_line *line, struct log_event *event, uint32_t *behind)
{
    const char *end = tail->text + tail->used;
    const struct log_event empty = *event;
    enum clue best = CLUE_NOTHING;
    uint32_t lines;

    /* Messages of the system are never without errors. */
    if (!rules->failed && tail_is_of_kernel(tail->text, tail->text + tail->used))
        return false;
    for (const char *at = tail_first_line(tail, &lines); at < end; lines--) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_event found = empty;
        struct log_line here;
        enum clue clue;

        stop = stop ? stop : end;
        line_read(&here, at, stop, rules->near_real_ns);
        clue = here.text < here.end ? tail_clue(rules, &here, lines - 1, &found) : CLUE_NOTHING;
        if (clue > best && tail_counts(rules, &here, &found, MIN(stop + 1, end), end)) {
            best = clue;
            *line = here;
            *event = found;
            *behind = lines - 1;
            tail_join(&found, MIN(stop + 1, end), end, event);
        }
        at = stop + 1;
    }
    return best != CLUE_NOTHING;
}
