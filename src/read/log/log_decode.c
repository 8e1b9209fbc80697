/* log_decode.c - UTF-16 to UTF-8, and text without the escape sequences of terminals.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "read/log/log_file.h"

bool log_is_utf16(const void *head, size_t bytes)
{
    const unsigned char *text = head;
    size_t odd = 0, even = 0, looked = MIN(bytes, (size_t)256) & ~(size_t)1;

    if (bytes >= 2 &&
        ((text[0] == 0xff && text[1] == 0xfe) || (text[0] == 0xfe && text[1] == 0xff)))
        return true;
    if (looked < 16)
        return false;
    for (size_t i = 0; i < looked; i += 2) {
        even += text[i] == 0;
        odd += text[i + 1] == 0;
    }
    return (odd * 10 >= looked * 4 && !even) || (even * 10 >= looked * 4 && !odd);
}

size_t log_from_utf16(const unsigned char *from, size_t bytes, bool big_endian, char *to)
{
    char *at = to;

    for (size_t i = 0; i + 1 < bytes; i += 2) {
        unsigned code = big_endian ? (unsigned)(from[i] << 8 | from[i + 1])
                                   : (unsigned)(from[i + 1] << 8 | from[i]);

        if (code == 0xfeff)
            continue;
        if (code < 0x80) {
            *at++ = (char)code;
        } else if (code < 0x800) {
            *at++ = (char)(0xc0 | code >> 6);
            *at++ = (char)(0x80 | (code & 0x3f));
        } else if (code >= 0xd800 && code < 0xe000) {
            *at++ = '?'; /* half of a character beyond 16 bits */
        } else {
            *at++ = (char)(0xe0 | code >> 12);
            *at++ = (char)(0x80 | (code >> 6 & 0x3f));
            *at++ = (char)(0x80 | (code & 0x3f));
        }
    }
    return (size_t)(at - to);
}

/* Bytes of the escape sequence at `at`. */
static size_t log_escape_bytes(const char *at, const char *end)
{
    const char *next = at + 1;

    if (next == end)
        return 1;
    if (*next == '[') {
        for (next++; next < end && (unsigned char)*next >= 0x20 && (unsigned char)*next < 0x40;)
            next++;
        return (size_t)(MIN(next + 1, end) - at);
    }
    if (*next == ']') { /* a title or a link, up to BEL or ESC \ in the same line */
        while (next < end && *next != '\a' && *next != '\033' && *next != '\n')
            next++;
        if (next < end && *next == '\n')
            return 2;
        return (size_t)(MIN(next + (next < end && *next == '\033' ? 2 : 1), end) - at);
    }
    return 2;
}

size_t log_strip_colours(char *text, size_t bytes)
{
    char *escape = memchr(text, '\033', bytes), *to = escape;
    const char *at = escape, *end = text + bytes;

    if (!escape)
        return bytes;
    while (at < end) {
        const char *next;

        at += log_escape_bytes(at, end);
        next = memchr(at, '\033', (size_t)(end - at));
        if (!next)
            next = end;
        memmove(to, at, (size_t)(next - at));
        to += next - at;
        at = next;
    }
    return (size_t)(to - text);
}
