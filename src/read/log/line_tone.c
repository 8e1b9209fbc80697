/* line_tone.c - lines in which the program itself says that it goes on.
 *
 * The words of an error are in warnings, in retries and in messages about errors that were handled, too.  What was handled is
 * never a cause; what is only a warning is one where something else shows that the job failed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

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
    if (line_find(line, " received by PID "))
        return false; /* a stack that glog writes as a warning */
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

static bool tone_has_word(const char *at, const char *end, const char *word)
{
    size_t bytes = strlen(word);

    return (size_t)(end - at) >= bytes && strncasecmp(at, word, bytes) == 0;
}

/* "... test passed", "PASSED [ 10%]", "... ok", "(simulated)": how a check ended, at the end of the line */
static bool tone_ends_well(const struct log_line *line)
{
    static const char *const words[] = {
        "passed",      "pass",       "ok",        "succeeded",  "resolved",  "recovered",
        "(simulated)", "(expected)", "(ignored)", "(harmless)", "(handled)", "(test)",
        ": no",        ": none",     ": 0",       "=0",         ": false",   "not found: ok",
    };
    const char *end = line->end, *percent;

    while (end > line->text && strchr(" .!\r", end[-1]))
        end--;
    percent = end - line->text > 8 && end[-1] == ']'
                  ? memrchr(line->text, '[', (size_t)(end - line->text))
                  : NULL;
    if (percent && end[-2] == '%') /* pytest */
        for (end = percent; end > line->text && end[-1] == ' ';)
            end--;
    for (size_t i = 0; i < COUNT(words); i++) {
        size_t bytes = strlen(words[i]);

        if ((size_t)(end - line->text) > bytes && strncasecmp(end - bytes, words[i], bytes) == 0 &&
            (!isalpha((unsigned char)*words[i]) || strchr(" .:\t", end[-(ptrdiff_t)bytes - 1])))
            return true;
    }
    return false;
}

/* Words at the beginning of advice, of options and of tests. */
static bool tone_begins_apart(const struct log_line *line)
{
    static const char *const words[] = {
        "if you",    "if the",   "tip:",       "tip ",    "hint:",     "note:",
        "usage:",    "example:", "e.g.",       "simulat", "to avoid ", "to prevent ",
        "watching ", "[ RUN ",   "[       OK", "test_",   "tests/",    "tests::",
    };
    const char *at = line->text;

    while (at < line->end && *at && strchr(" \t*>\"'", *at))
        at++;
    if (line->end - at > 3 && at[0] == '-' &&
        (at[1] == '-' ? isalpha((unsigned char)at[2])
                      : isalpha((unsigned char)at[1]) && strchr(" ,", at[2])))
        return true; /* "--abort-on-error  ..." of a help text */
    for (size_t i = 0; i < COUNT(words); i++) {
        if (tone_has_word(at, line->end, words[i]))
            return true;
    }
    return false;
}

/* What stands directly before the words of an error says that there is none: "no segmentation fault", "if you see 'CUDA
 * out of memory'", "retry_on: [\"NCCL error\"".
 */
static bool tone_is_denied(const struct log_line *line, const char *found)
{
    static const char *const before[] = {
        "no",         "not",     "without",  "zero",       "never",    "avoid",
        "avoids",     "prevent", "prevents", "you see",    "you get",  "you encounter",
        "in case of", "such as", "like",     "e.g.",       "retry_on", "on_error",
        "policy",     "pattern", "patterns", "instead of", "against",  "detected 0",
        "found 0",    "any",
    };
    const char *end = found;

    while (end > line->text && end[-1] && strchr(" '\"`[(:,=", end[-1]))
        end--;
    for (size_t i = 0; i < COUNT(before); i++) {
        size_t bytes = strlen(before[i]);

        if ((size_t)(end - line->text) >= bytes &&
            strncasecmp(end - bytes, before[i], bytes) == 0 &&
            ((size_t)(end - line->text) == bytes ||
             !isalnum((unsigned char)end[-(ptrdiff_t)bytes - 1])))
            return true;
    }
    return false;
}

bool line_mentions(const struct log_line *line, const char *found)
{
    if (tone_ends_well(line) || tone_begins_apart(line))
        return true;
    return found && found > line->text && found < line->end && tone_is_denied(line, found);
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

bool line_nccl_goes_on(const struct log_line *line)
{
    return line_find(line, "NCCL INFO ") && !line_find(line, " -> ") && !line_find(line, "bort") &&
           !line_find(line, "estroy") && !line_find(line, "losed");
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
