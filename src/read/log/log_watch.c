/* log_watch.c - ranks that write, steps that are counted on.
 *
 * One more step after an error may be that of another rank, which has not noticed yet.  Three more are not: ranks wait for
 * each other in every step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_watch.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "wire/log_event.h"

#define LINES_FOR_RANKS 2000
#define LINES_FOR_STEPS 20000 /* behind an error; who has not counted until then does not */
#define LINES_NEAR 3
#define STEPS_ENOUGH 3
#define TEN_THOUSANDTHS 10000
#define NO_STEP INT64_MIN

void log_watch_begin(struct log_watch *watch)
{
    *watch = (struct log_watch){ .newest = NO_STEP };
}

bool log_watch_wants_ranks(const struct log_watch *watch)
{
    return watch->lines < LINES_FOR_RANKS;
}

void log_watch_rank(struct log_watch *watch, const struct log_line *line)
{
    watch->lines++;
    watch->local |= line->local;
    if (line->rank >= LOG_WATCH_RANKS || line->local)
        return;
    watch->labelled++;
    watch->writes[line->rank / 8] |= (uint8_t)(1u << line->rank % 8);
}

bool log_watch_is_labelled(const struct log_watch *watch)
{
    return watch->lines >= 4 && 10 * (uint64_t)watch->labelled >= 9 * (uint64_t)watch->lines;
}

bool log_watch_writes(const struct log_watch *watch, uint32_t rank)
{
    return rank < LOG_WATCH_RANKS && watch->writes[rank / 8] >> rank % 8 & 1;
}

void log_watch_error(struct log_watch *watch)
{
    watch->after_error = true;
    watch->lines_left = LINES_FOR_STEPS;
    watch->steps = 0;
    watch->newest = NO_STEP;
    watch->at_work = watch->failed = false;
}

bool log_watch_is_near(const struct log_watch *watch)
{
    return watch->after_error && watch->lines_left + LINES_NEAR >= LINES_FOR_STEPS;
}

bool log_watch_went_on(const struct log_watch *watch)
{
    uint32_t ranks = 0;

    for (size_t i = 0; i < sizeof(watch->writes); i++)
        ranks += (uint32_t)__builtin_popcount(watch->writes[i]);
    return watch->after_error && !watch->failed && !watch->local && ranks <= 1 &&
           (watch->steps || watch->at_work);
}

/* "123", "0.25": in ten-thousandths; where it ends. */
static const char *watch_number(const char *at, const char *end, int64_t *ret)
{
    int64_t value = 0, scale = TEN_THOUSANDTHS;

    for (; at < end && isdigit((unsigned char)*at) && value < INT64_C(1) << 40; at++)
        value = 10 * value + (*at - '0');
    value *= TEN_THOUSANDTHS;
    if (at + 1 < end && *at == '.' && isdigit((unsigned char)at[1])) {
        for (at++; at < end && isdigit((unsigned char)*at); at++) {
            scale /= 10;
            value += (*at - '0') * scale;
        }
    }
    *ret = value;
    return at;
}

/* "step 12", "step=12", "'epoch': 0.25", "iteration     12/ 500", "Epoch [3][12/500]": the number; NO_STEP. */
static int64_t watch_number_behind(const char *at, const char *end)
{
    int64_t value = NO_STEP, next;

    for (int i = 0; i < 8 && at < end && *at && strchr(" :=#[('\"", *at); i++)
        at++;
    if (at == end || !isdigit((unsigned char)*at))
        return NO_STEP;
    at = watch_number(at, end, &value);
    if (end - at > 1 && *at == '.' && isalpha((unsigned char)at[1]))
        return NO_STEP; /* "step 4711.batch": of a scheduler */
    if (end - at > 2 && at[0] == ']' && at[1] == '[' && isdigit((unsigned char)at[2])) {
        watch_number(at + 2, end, &next);
        value = next; /* the step in the epoch */
    }
    return value;
}

/* "| 12/500 [" of a progress bar */
static int64_t watch_bar(const char *line, const char *end)
{
    const char *speed = memmem(line, (size_t)(end - line), "it/s", 4);
    const char *slash = memmem(line, (size_t)(end - line), "| ", 2);
    int64_t value;

    if (!speed)
        speed = memmem(line, (size_t)(end - line), "s/it", 4);
    if (!speed || !slash)
        return NO_STEP;
    for (slash += 2; slash < end && *slash == ' ';)
        slash++;
    if (slash == end || !isdigit((unsigned char)*slash))
        return NO_STEP;
    slash = watch_number(slash, end, &value);
    return slash < end && *slash == '/' ? value : NO_STEP;
}

static int64_t watch_step_in(const char *line, const char *end)
{
    static const char *const words[] = { "step", "iteration", "iter", "epoch" };
    int64_t value = watch_bar(line, end);

    for (const char *at = line; value == NO_STEP && at + 5 < end; at++) {
        if (!strchr("siSIeE", *at) || (at > line && isalnum((unsigned char)at[-1])))
            continue;
        for (size_t i = 0; i < COUNT(words) && value == NO_STEP; i++) {
            size_t bytes = strlen(words[i]);

            if ((size_t)(end - at) > bytes && strncasecmp(at, words[i], bytes) == 0)
                value = watch_number_behind(at + bytes, end);
        }
    }
    return value;
}

bool log_watch_step(struct log_watch *watch, const char *line, const char *end)
{
    int64_t value = watch_step_in(line, MIN(end, line + 400));

    watch->after_error = --watch->lines_left > 0;
    if (end > line)
        watch->at_work = value != NO_STEP && watch_bar(line, MIN(end, line + 400)) == NO_STEP;
    if (value == NO_STEP || value == watch->newest)
        return false;
    if (watch->newest != NO_STEP && value > watch->newest)
        watch->steps++;
    watch->newest = value;
    if (watch->steps < STEPS_ENOUGH)
        return false;
    watch->after_error = false;
    return true;
}

bool log_watch_step_of(const char *line, const char *end, int64_t *ret)
{
    int64_t value = watch_step_in(line, MIN(end, line + 400));

    if (value == NO_STEP)
        return false;
    *ret = value;
    return true;
}

bool log_watch_is_step(const char *line, const char *end)
{
    int64_t value;

    return log_watch_step_of(line, end, &value);
}
