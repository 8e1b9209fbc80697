/* last_words.c - picks whole lines from the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/output/last_words.h"

#include <stdbool.h>
#include <string.h>

#include "core/clean.h"

#define LEAST_PIECE 120 /* of a line that does not fit: less would say nothing */

struct words_line {
    const char *at;
    size_t size;
};

static bool words_begin(struct words_line line, const char *start)
{
    size_t size = strlen(start);

    return line.size >= size && memcmp(line.at, start, size) == 0;
}

/* Without "[rank3]: ", which torch puts before each line of a traceback. */
static struct words_line words_after_rank(struct words_line line)
{
    const char *end = words_begin(line, "[rank") ? memchr(line.at, ']', line.size) : NULL;

    if (end && (size_t)(end + 1 - line.at) < line.size && end[1] == ':') {
        line.size -= (size_t)(end + 2 - line.at);
        line.at = end + 2;
    }
    while (line.size && *line.at == ' ') {
        line.at++;
        line.size--;
    }
    return line;
}

static bool words_are_noise(struct words_line line)
{
    static const char *const starts[] = { "frame #", "Exception raised from ", "warnings.warn" };
    static const char warning[] = "Warning:";
    bool marks = true;

    line = words_after_rank(line);
    for (size_t i = 0; i < line.size && marks; i++)
        marks = strchr(" ^~\t\r", line.at[i]) != NULL && line.at[i] != '\0';
    if (marks || memmem(line.at, line.size, warning, strlen(warning)))
        return true;
    for (size_t i = 0; i < COUNT(starts); i++) {
        if (words_begin(line, starts[i]))
            return true;
    }
    return false;
}

/* The line before `end`; `end` becomes the end of the one before it. */
static struct words_line words_line_before(const char *text, size_t *end)
{
    size_t begin = *end;
    struct words_line line;

    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    line = (struct words_line){ text + begin, *end - begin };
    *end = begin ? begin - 1 : 0;
    return line;
}

/* Puts the line before what is there; false: that was all that fits. */
static bool words_put(struct words_line line, char *ret, size_t room, size_t *used)
{
    size_t left = room - 1 - *used, gap = *used ? 1 : 0;
    bool fits = line.size + gap <= left;

    if (!fits && (left < gap + LEAST_PIECE && *used))
        return false;
    line.size = fits ? line.size : left - gap;
    memmove(ret + line.size + gap, ret, *used);
    memcpy(ret, line.at, line.size);
    if (gap)
        ret[line.size] = '\n';
    *used += line.size + gap;
    return fits;
}

void last_words_pick(const char *text, size_t size, char *ret, size_t room)
{
    size_t used = 0, end;
    bool more = true;

    while (size && (text[size - 1] == '\n' || text[size - 1] == ' '))
        size--;
    for (end = size; more && end;) {
        struct words_line line = words_line_before(text, &end);

        if (!words_are_noise(line))
            more = words_put(line, ret, room, &used);
    }
    if (!used && size) {
        end = size;
        words_put(words_line_before(text, &end), ret, room, &used);
    }
    for (size_t i = 0; i < used; i++) /* others will print it */
        ret[i] = (unsigned char)ret[i] >= ' ' || ret[i] == '\n' ? ret[i] : ' ';
    ret[used] = '\0';
}
