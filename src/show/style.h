/* style.h - how words go to a terminal, a file or JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_STYLE_H
#define LOCKSTEP_SHOW_STYLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <json-c/json.h>

struct show_style {
    bool colour, bars;
    size_t width; /* of wrapped text; 0: SHOW_WIDTH */
};

#define SHOW_WIDTH 100 /* longer lines are hard to read */

/* Colours and bars on a terminal only, lines no wider than it; no colours with NO_COLOR set or TERM=dumb. */
struct show_style show_style_of(FILE *out);

enum show_colour {
    SHOW_PLAIN,
    SHOW_BAD,
    SHOW_OVER, /* was so, is no more */
    SHOW_GOOD,
    SHOW_FAINT,
    SHOW_COLOURS
};
const char *show_begin(const struct show_style *style, enum show_colour colour); /* "" without */
const char *show_end(const struct show_style *style);

/* What a rank or a file said goes to terminals and into JSON: what text.h does not show becomes '?', a byte each.  Cut to the room; returns `out`.
 */
const char *show_clean(const char *text, char *out, size_t room);

/* "41.0 ms", "1.20 s", "310 us". */
const char *show_seconds(double seconds, char out[static 32]);

/* A number as people write it, nine digits; null when it is not finite. */
struct json_object *show_number(double value);
struct json_object *show_string(const char *text);         /* cleaned */
struct json_object *show_string_or_null(const char *text); /* "": null */
/* Prints it on stdout, cleaned as a whole: for objects with texts of any length. */
void show_json(struct json_object *object, int flags);
struct json_object *show_time(long long real_ns); /* 0: null */

#endif
