/* style.c - colours when they help, and text that cannot hurt.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/style.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"
#include "core/time.h"

#define CLEAN_ROOM 512
#define WIDTH_MIN 40

static const char *const colours[SHOW_COLOURS] = {
    [SHOW_PLAIN] = "",        [SHOW_BAD] = "\033[1;31m", [SHOW_OVER] = "\033[33m",
    [SHOW_GOOD] = "\033[32m", [SHOW_FAINT] = "\033[2m",
};

static size_t style_terminal_width(FILE *out)
{
    struct winsize size;

    if (ioctl(fileno(out), TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_col > SHOW_WIDTH)
        return SHOW_WIDTH;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

struct show_style show_style_of(FILE *out)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    bool terminal = isatty(fileno(out));

    return (struct show_style){
        .bars = terminal,
        .width = terminal ? style_terminal_width(out) : SHOW_WIDTH,
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

const char *show_clean(const char *text, char *out, size_t room)
{
    size_t used = 0, left = strlen(text);

    while (left) {
        size_t size = text_char(text, left), step = size ? size : 1;

        if (used + step >= room)
            break;
        memcpy(out + used, size ? text : "?", step);
        used += step;
        text += step;
        left -= step;
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

void show_json(struct json_object *object, int flags)
{
    char *text = strdup(json_object_to_json_string_ext(object, flags));

    if (!text)
        return;
    text[text_clean(text, strlen(text), true)] = '\0';
    puts(text);
    free(text);
}

struct json_object *show_time(long long real_ns)
{
    char text[32];

    if (real_ns == 0)
        return NULL;
    time_format_utc(real_ns, text);
    return json_object_new_string(text);
}
