/* line_tone.c - lines in which the program itself says that it goes on.
 *
 * The words of an error are in warnings, in retries and in messages about errors that were handled, too.  What was handled is
 * never a cause; what is only a warning is one where something else shows that the job failed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <string.h>

#include "core/clean.h"
#include "read/log/line.h"
#include "read/log/matcher.h"

/* "|CCL_WARN|", "[UCX_INFO]", "<warning>": a level, perhaps behind the name of its program, as a field of the beginning */
static bool tone_is_field(const struct log_line *line)
{
    static const char *const levels[] = { "WARN", "WARNING", "INFO", "NOTICE", "DEBUG",
                                          "warn", "warning", "info", "notice", "debug" };
    const char *end = MIN(line->end, line->raw + 100);

    for (const char *at = line->raw; at < end; at++) {
        if (at == line->raw || !strchr("|[<_", at[-1]))
            continue;
        for (size_t i = 0; i < COUNT(levels); i++) {
            size_t bytes = strlen(levels[i]);

            if ((size_t)(end - at) > bytes && memcmp(at, levels[i], bytes) == 0 && at[bytes] &&
                strchr("|]>", at[bytes]))
                return true;
        }
    }
    return false;
}

/* NCCL and its plugins print their level behind their name; most of their warnings are errors, and what they only inform of
 * is none, unless it is the status that a function returned ("init.cc:1012 -> 3").
 */
static bool tone_is_low(const struct log_line *line)
{
    if (!line->level && tone_is_field(line))
        return true;
    if (line_find(line, "NCCL INFO "))
        return !line_find(line, " -> ") && !line_find(line, "retrying (");
    return line->level == LINE_INFO ||
           (line->level == LINE_WARNING && !line_find(line, " NET/OFI "));
}

/* "(attempt 1 of 5)", "Retry 2/3": another try follows; the last one is an error. */
static bool tone_has_another_try(const struct log_line *line)
{
    static const char *const words[] = { "attempt", "Attempt", "retry", "Retry" };

    for (size_t i = 0; i < COUNT(words); i++) {
        int64_t tried, tries;
        const char *at = line_find(line, words[i]);

        if (!at || !line_number(at += strlen(words[i]), line->end, &tried))
            continue;
        while (at < line->end && (isdigit((unsigned char)*at) || (*at && strchr(" :=", *at))))
            at++;
        if (line->end - at > 3 && memcmp(at, "of ", 3) == 0)
            at += 2;
        else if (at == line->end || *at++ != '/')
            continue;
        if (line_number(at, line->end, &tries) && tried >= 0 && tried < tries)
            return true;
    }
    return false;
}

static bool tone_is_handled(const struct log_line *line)
{
    static const char *const handled[] = {
        "retrying",
        "will retry",
        "retry in ",
        "retry attempt",
        "trying again",
        "try again in",
        "falling back",
        "fall back to",
        "fallback to",
        "skipping",
        "skipped",
        "ignoring",
        "recovered",
        " was handled",
        "using internal",
        "continuing",
        "retry loop",
        "resuming",
        "error resolved",
        "one has already been registered", /* TensorFlow's start beside JAX or torch */
        "for unknown op: ",                /* and on a TPU */
    };
    int64_t tried, tries;
    const char *last = line_find(line, "retrying (");

    if (last && line_number(last + 10, line->end, &tried) &&
        (last = memchr(last, '/', (size_t)(line->end - last))) &&
        line_number(last + 1, line->end, &tries) && tried == tries)
        return false; /* "retrying (34/34)": the last time */
    for (size_t i = 0; i < COUNT(handled); i++) {
        if (pattern_fits(handled[i], line->text, line->end, NULL))
            return true;
    }
    return tone_has_another_try(line);
}

enum line_tone line_tone(const struct log_line *line)
{
    const char *at;

    if (tone_is_handled(line))
        return LINE_HANDLED;
    if (tone_is_low(line))
        return LINE_WARNED;
    if (!pattern_fits("Warning: ", line->text, line->end, &at))
        return LINE_PLAIN;
    /* "UserWarning: " is the name of a class; "libibverbs: Warning: " is a level. */
    return at > line->text && isalpha((unsigned char)at[-1]) ? LINE_REMARK : LINE_WARNED;
}

/* Source code and C++ frames name errors without having one. */
bool line_is_code(const struct log_line *line)
{
    static const char *const begins[] = { "raise ",  "File \"", "frame #",       "except ",
                                          "return ", "assert ", "self.",         "#",
                                          "def ",    "import ", "from ",         "^^^",
                                          "logger.", "print(",  "warnings.warn", "+ ",
                                          "++ ",     "echo " };
    const char *text = line->text;

    while (text < line->end && (*text == ' ' || *text == '\t'))
        text++;
    for (size_t i = 0; i < COUNT(begins); i++) {
        size_t bytes = strlen(begins[i]);

        if ((size_t)(line->end - text) >= bytes && memcmp(text, begins[i], bytes) == 0)
            return true;
    }
    return false;
}
