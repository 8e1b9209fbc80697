/* text.c - removes unsafe characters from UTF-8 text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/text.h"

#include <stdint.h>
#include <string.h>

#include "core/clean.h"

/* Formats and fillers, by ranges of code points. */
static const struct {
    uint32_t first, last;
} hidden[] = {
    { 0x00, 0x1f },       { 0x7f, 0x9f },       { 0xad, 0xad },     { 0x34f, 0x34f },
    { 0x61c, 0x61c },     { 0x115f, 0x1160 },   { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
    { 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f }, { 0x3164, 0x3164 },
    { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb }, { 0xfffe, 0xffff },
    { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

/* A whole sequence of UTF-8, and which code point it is; 0: none. */
static size_t text_utf8_get(const unsigned char *byte, size_t left, uint32_t *ret)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t size = byte[0] < 0x80           ? 1
                  : (byte[0] >> 5) == 0x6  ? 2
                  : (byte[0] >> 4) == 0xe  ? 3
                  : (byte[0] >> 3) == 0x1e ? 4
                                           : 0;
    uint32_t code = size > 1 ? byte[0] & (0xffu >> (size + 1)) : byte[0];

    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (byte[i] & 0x3f);
    }
    if (code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret = code;
    return size;
}

static bool text_is_hidden(uint32_t code)
{
    for (size_t i = 0; i < COUNT(hidden); i++) {
        if (code >= hidden[i].first && code <= hidden[i].last)
            return true;
    }
    return false;
}

size_t text_char(const char *at, size_t left)
{
    uint32_t code;
    size_t size = left ? text_utf8_get((const unsigned char *)at, left, &code) : 0;

    return size && !text_is_hidden(code) ? size : 0;
}

size_t text_clean(char *text, size_t size, bool lines)
{
    size_t used = 0;

    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t shown = text_char(text + at, size - at), length = shown;

        if (lines && (text[at] == '\n' || text[at] == '\t'))
            shown = length = 1;
        if (!length)
            length = text_utf8_get((const unsigned char *)text + at, size - at, &code);
        if (shown)
            memmove(text + used, text + at, shown);
        else
            text[used] = '?';
        used += shown ? shown : 1;
        at += length ? length : 1;
    }
    return used;
}

size_t text_word_end(const char *line, size_t most)
{
    size_t at = most;

    while (at > most / 2 && line[at] != ' ')
        at--;
    if (line[at] != ' ')
        for (at = most; at && ((unsigned char)line[at] & 0xc0) == 0x80;)
            at--;
    while (at && line[at - 1] == ' ')
        at--;
    return at;
}

const char *text_shorten(const char *line, size_t size, char *ret, size_t room)
{
    static const char more[] = " ...";
    bool fits = size < room;
    size_t kept = fits ? size : text_word_end(line, room - sizeof(more));

    memcpy(ret, line, kept);
    strcpy(ret + kept, fits ? "" : more);
    return ret;
}
