/* log_tail.c - keeps the end of a log, and searches it for what a program calls an error.
 *
 * Programs that nobody here has seen write errors, too.  Where a log has no line that the table knows, the level of a line
 * is all there is.  Only the end counts: many programs write errors when they start, and run well.  Kernel logs do not count:
 * they are never without errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_tail.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "read/log/log_watch.h"

#define LINES 40

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

/* "Error: ", "sbatch: error: " at the beginning of a message */
static bool tail_names_its_error(const struct log_line *line)
{
    static const char *const begins[] = { "Training failed", "fatal: ", "Fatal error" };
    static const char alone[] = "Error: ", words[] = ": error: ";
    const char *at = line->text;

    for (size_t i = 0; i < COUNT(begins); i++) {
        if ((size_t)(line->end - at) > strlen(begins[i]) &&
            strncasecmp(at, begins[i], strlen(begins[i])) == 0)
            return true;
    }

    if ((size_t)(line->end - at) > strlen(alone) && memcmp(at, alone, strlen(alone)) == 0)
        return !isdigit((unsigned char)at[strlen(alone)]); /* "Error: 0.53" measures something */
    while (at < line->end && (isalnum((unsigned char)*at) || strchr("_-./", *at)))
        at++;
    return at > line->text && (size_t)(line->end - at) > strlen(words) &&
           strncasecmp(at, words, strlen(words)) == 0;
}

static bool tail_is_error(const struct log_line *line)
{
    if (line->boot_ns || line_find(line, " kernel: ") || line_tone(line) == LINE_HANDLED)
        return false;
    return (line->level == LINE_ERROR && line->text < line->end &&
            !isdigit((unsigned char)*line->text)) ||
           tail_names_its_error(line);
}

static bool tail_went_on(const char *at, const char *end)
{
    struct log_watch watch;

    log_watch_begin(&watch);
    log_watch_error(&watch);
    while (at < end && watch.after_error) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop ? stop : end;
        if (log_watch_step(&watch, at, stop))
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

bool log_tail_error(const struct log_tail *tail, int64_t near_real_ns, struct log_line *line,
                    uint32_t *behind)
{
    const char *end = tail->text + tail->used;
    uint32_t lines;

    for (const char *at = tail_first_line(tail, &lines); at < end; lines--) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop ? stop : end;
        if (stop > at) {
            line_read(line, at, stop, near_real_ns);
            if (tail_is_error(line) && !tail_went_on(MIN(stop + 1, end), end)) {
                *behind = lines - 1;
                return true;
            }
        }
        at = stop + 1;
    }
    return false;
}
