/* log_nan.c - a value that is NaN in one step and a number again in a later one.
 *
 * Ranks that write into one log do so in the same step, so only a later step counts, and only that of whoever wrote the NaN.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_nan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "read/log/log_watch.h"

static bool nan_is_name(char c)
{
    return isalnum((unsigned char)c) || strchr("_/.", c);
}

/* What stands between a name and its value: "loss: ", "'loss': ", "loss=", "loss nan" */
static bool nan_is_between(char c)
{
    return c && strchr(" :='\"", c);
}

/* "grad_norm: nan", "grad norm: nan": the last name before a NaN; 0: there is none. */
static size_t nan_name(const struct log_line *line, const char **ret)
{
    for (const char *at = line->end - 3; at > line->text; at--) {
        const char *end = at, *name;

        if (strncasecmp(at, "nan", 3) != 0 || (at + 3 < line->end && nan_is_name(at[3])))
            continue;
        while (end > line->text && nan_is_between(end[-1]))
            end--;
        for (name = end; name > line->text && nan_is_name(name[-1]);)
            name--;
        if (end < at && name < end && isalpha((unsigned char)*name)) {
            *ret = name;
            return (size_t)(end - name);
        }
    }
    return 0;
}

void log_nan_begin(struct log_nan *nan, const struct log_line *line)
{
    const char *name;
    size_t bytes = line->end - line->text > 3 ? nan_name(line, &name) : 0;

    nan->name[0] = '\0';
    if (!bytes || bytes >= sizeof(nan->name) ||
        !log_watch_step_of(line->raw, line->end, &nan->step))
        return;
    snprintf(nan->name, sizeof(nan->name), "%.*s", (int)bytes, name);
    nan->rank = line->rank;
}

/* Is there a number behind this name? */
static bool nan_has_number(const char *at, const char *end)
{
    const char *value = at;

    while (value < end && nan_is_between(*value))
        value++;
    value += value < end && *value == '-';
    return value > at && value < end && isdigit((unsigned char)*value);
}

bool log_nan_passed(struct log_nan *nan, const struct log_line *line)
{
    size_t bytes = strlen(nan->name);
    int64_t step;

    if (!bytes || line->rank != nan->rank || !log_watch_step_of(line->raw, line->end, &step) ||
        step <= nan->step)
        return false;
    for (const char *at = line->text; (size_t)(line->end - at) > bytes; at++) {
        at = memmem(at, (size_t)(line->end - at), nan->name, bytes);
        if (!at)
            return false;
        if ((at > line->text && nan_is_name(at[-1])) || !nan_has_number(at + bytes, line->end))
            continue;
        nan->name[0] = '\0';
        return true;
    }
    return false;
}
