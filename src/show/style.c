/* style.c - colours when they help, and text that cannot hurt. */
#include "show/style.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/time.h"

#define CLEAN_ROOM 512

static const char *const colours[SHOW_COLOURS] = {
    [SHOW_PLAIN] = "",        [SHOW_BAD] = "\033[1;31m", [SHOW_OVER] = "\033[33m",
    [SHOW_GOOD] = "\033[32m", [SHOW_FAINT] = "\033[2m",
};

struct show_style show_style_of(FILE *out)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    bool terminal = isatty(fileno(out));

    return (struct show_style){
        .bars = terminal,
        .colour = terminal && !(none && none[0]) && !(term && strcmp(term, "dumb") == 0),
    };
}

const char *show_begin(const struct show_style *style, enum show_colour colour)
{
    return style->colour ? colours[colour] : "";
}

const char *show_end(const struct show_style *style)
{
    return style->colour ? "\033[0m" : "";
}

/* Bytes of the UTF-8 sequence that begins here; 0: none does, or it is a control character. */
static size_t utf8_size(const unsigned char *byte)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t size = byte[0] < 0x80           ? 1
                  : (byte[0] >> 5) == 0x6  ? 2
                  : (byte[0] >> 4) == 0xe  ? 3
                  : (byte[0] >> 3) == 0x1e ? 4
                                           : 0;
    uint32_t code = size > 1 ? byte[0] & (0xffu >> (size + 1)) : byte[0];

    for (size_t i = 1; i < size; i++) { /* a NUL ends it: not of the form 10xxxxxx */
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (byte[i] & 0x3f);
    }
    if (size == 0 || code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : size;
}

const char *show_clean(const char *text, char *out, size_t room)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t used = 0;

    while (*byte) {
        size_t size = utf8_size(byte);

        if (used + (size ? size : 1) >= room)
            break;
        if (size == 0) {
            out[used++] = '?';
            byte++;
        } else {
            memcpy(out + used, byte, size);
            used += size;
            byte += size;
        }
    }
    out[used] = '\0';
    return out;
}

const char *show_seconds(double seconds, char out[static 32])
{
    if (seconds < 0.001)
        snprintf(out, 32, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(out, 32, "%.1f ms", seconds * 1e3);
    else
        snprintf(out, 32, seconds < 100 ? "%.2f s" : "%.0f s", seconds);
    return out;
}

struct json_object *show_number(double value)
{
    struct json_object *number;

    if (!isfinite(value))
        return NULL;
    number = json_object_new_double(value);
    json_object_set_serializer(number, json_object_double_to_json_string, (void *)"%.9g", NULL);
    return number;
}

struct json_object *show_string(const char *text)
{
    char clean[CLEAN_ROOM];

    return json_object_new_string(show_clean(text, clean, sizeof(clean)));
}

struct json_object *show_string_or_null(const char *text)
{
    return text[0] ? show_string(text) : NULL;
}

struct json_object *show_time(long long real_ns)
{
    char text[32];

    if (real_ns == 0)
        return NULL;
    time_format_utc(real_ns, text);
    return json_object_new_string(text);
}
