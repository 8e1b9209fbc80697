/* kernel_prefix.c - what stands before a kernel message: level, time, host, tag.
 *
 * Tools write it in many ways, and locales change the names of months, so a date is found by the time of the day in it.
 * Whether the kernel or a program wrote the line is known from the facility (/dev/kmsg, dmesg -r, dmesg -x) or from the
 * tag (syslog): no program can write with the kernel's facility.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <string.h>

#include "core/clean.h"
#include "core/date.h"
#include "core/time.h"
#include "wire/kernel/kernel_private.h"

#define DATE_MOST 40 /* bytes before the time of the day; names of months may have many */
#define LONGEST_US UINT64_C(9000000000000000)

struct cursor {
    const char *at, *end;
};

static void kernel_skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t'))
        cursor->at++;
}

static bool kernel_take_number(struct cursor *cursor, char stop, uint64_t *ret)
{
    const char *at = cursor->at;
    uint64_t value = 0;

    while (at < cursor->end && *at >= '0' && *at <= '9' && at - cursor->at < 19)
        value = value * 10 + (uint64_t)(*at++ - '0');
    if (at == cursor->at || at == cursor->end || *at != stop)
        return false;
    cursor->at = at + 1;
    *ret = value;
    return true;
}

/* "6,1234,987654,-;" */
static bool kernel_take_record(struct cursor *cursor, struct kernel_prefix *prefix)
{
    struct cursor at = *cursor;
    uint64_t level, seq, us;
    const char *text;

    if (!kernel_take_number(&at, ',', &level) || !kernel_take_number(&at, ',', &seq) ||
        !kernel_take_number(&at, ',', &us))
        return false;
    text = memchr(at.at, ';', MIN((size_t)(at.end - at.at), (size_t)64));
    if (!text)
        return false;
    prefix->raw = true;
    prefix->seq = seq;
    prefix->user = level >> 3 != 0;
    prefix->boot_ns = us < LONGEST_US ? MAX((int64_t)us * NS_PER_US, 1) : 0;
    cursor->at = text + 1;
    return true;
}

/* "<6>" as `dmesg -r`, or "kern  :warn  : " as `dmesg -x`. */
static void kernel_take_level(struct cursor *cursor, struct kernel_prefix *prefix)
{
    struct cursor at = *cursor;
    const char *facility = at.at;
    uint64_t level;

    if (at.at < at.end && *at.at == '<') {
        at.at++;
        if (kernel_take_number(&at, '>', &level)) {
            prefix->user = level >> 3 != 0;
            *cursor = at;
        }
        return;
    }
    for (int i = 0; i < 2; i++) {
        while (at.at < at.end && islower((unsigned char)*at.at))
            at.at++;
        kernel_skip_blanks(&at);
        if (at.at - facility < 4 || at.at >= at.end || *at.at++ != ':' ||
            (i == 0 && (at.at >= at.end || !islower((unsigned char)*at.at))))
            return;
    }
    prefix->user = memcmp(facility, "kern", 4) != 0 || islower((unsigned char)facility[4]);
    kernel_skip_blanks(&at);
    *cursor = at;
}

/* "98712.345678", " T1946", "Sun Nov 15 15:41:03 2026", "+0.000016", "Jan28 14:33", "..." */
static bool kernel_is_stamp(const char *at, const char *end)
{
    size_t digits = 0, letters = 0, marks = 0;

    for (const char *c = at; c < end; c++) {
        digits += *c >= '0' && *c <= '9';
        letters += isalpha((unsigned char)*c) != 0;
        marks += *c == '.' || *c == ':';
        if (*c == '#' || *c == '=' || *c == '/' || *c == '_')
            return false;
    }
    if (!letters)
        return digits || marks == (size_t)(end - at);
    return digits && (marks || letters == 1);
}

static bool kernel_take_brackets(struct cursor *cursor, struct kernel_prefix *prefix)
{
    const char *at = cursor->at, *close;
    struct cursor inside;
    uint64_t seconds, fraction;

    if (at >= cursor->end || *at != '[')
        return false;
    close = memchr(at, ']', MIN((size_t)(cursor->end - at), (size_t)DATE_MOST + 16));
    if (!close || !kernel_is_stamp(at + 1, close))
        return false;
    inside = (struct cursor){ at + 1, close + 1 };
    kernel_skip_blanks(&inside);
    at = inside.at;
    if (kernel_take_number(&inside, '.', &seconds) && close - inside.at == 6 &&
        kernel_take_number(&inside, ']', &fraction) && seconds < LONGEST_US / 1000000)
        prefix->boot_ns = MAX((int64_t)(seconds * 1000000 + fraction) * NS_PER_US, 1);
    cursor->at = close + 1;
    kernel_skip_blanks(cursor);
    return true;
}

static bool kernel_two_digits(const char *at)
{
    return isdigit((unsigned char)at[0]) && isdigit((unsigned char)at[1]);
}

/* Is the first colon of the line that of a time of the day, with a date before it?  Returns what follows. */
static const char *kernel_date_end(const struct cursor *cursor, bool *with_host)
{
    const char *at = cursor->at, *end = cursor->end;
    const char *colon = memchr(at, ':', MIN((size_t)(end - at), (size_t)DATE_MOST));
    bool digit = false;

    if (!colon || *at == '[' || colon - at < 6 || end - colon < 7 || colon[3] != ':' ||
        !kernel_two_digits(colon - 2) || !kernel_two_digits(colon + 1) ||
        !kernel_two_digits(colon + 4) || (colon[-3] != ' ' && colon[-3] != 'T'))
        return NULL;
    for (const char *c = at; c < colon - 3; c++)
        digit |= isdigit((unsigned char)*c) != 0;
    colon += 6;
    *with_host = *colon != ','; /* `dmesg --time-format iso` writes a comma, and no host */
    while (colon < end && *colon != ' ')
        colon++;
    return digit ? colon : NULL;
}

/* The tag of a line, "kernel:" or "python3[123]:"; NULL: the word is none. */
static const char *kernel_tag_end(const char *at, const char *end)
{
    const char *stop = at;

    if (at >= end || !isalpha((unsigned char)*at))
        return NULL;
    while (stop < end && *stop != ' ')
        stop++;
    return stop > at && stop[-1] == ':' ? stop : NULL;
}

/* "kernel - - - ": name of the program, process, number of the message and data, as RFC 5424 has them.  NULL: something
 * else.
 */
static const char *kernel_program_end(const char *at, const char *end)
{
    for (int i = 0; i < 4; i++) {
        const char *from = at;

        while (at < end && *at != ' ' && *at != ':' && *at != '[')
            at++;
        if (at == from || at == end || *at != ' ' || (i >= 2 && (at - from != 1 || *from != '-')))
            return NULL;
        at++;
    }
    return at;
}

/* Some daemons write the year before the host, or facility or level before the tag: "2026 n7 kernel:", "kern.info kernel:",
 * "n7 WARNING kernel:".
 */
static const char *kernel_skip_word(const char *at, const char *end, int (*plain)(int),
                                    size_t least)
{
    const char *stop = at;

    while (stop < end && plain((unsigned char)*stop))
        stop++;
    if (end - at > 5 && memcmp(at, "kern.", 5) == 0)
        while (stop < end && *stop != ' ')
            stop++;
    return (size_t)(stop - at) >= least && stop < end && *stop == ' ' ? stop + 1 : at;
}

static void kernel_take_host(struct cursor *cursor, struct kernel_prefix *prefix)
{
    const char *host = cursor->at, *blank, *tag, *stop;

    host = kernel_skip_word(host, cursor->end, isdigit, 4);

    blank = memchr(host, ' ', (size_t)(cursor->end - host));
    if (!blank)
        return;
    if (kernel_tag_end(host, cursor->end)) { /* no host */
        tag = host;
    } else {
        tag = kernel_skip_word(blank + 1, cursor->end, isupper, 3);
        prefix->host = host;
        prefix->host_bytes = (size_t)(blank - host);
    }
    stop = kernel_tag_end(tag, cursor->end);
    if (!stop)
        stop = kernel_program_end(tag, cursor->end);
    if (!stop) {
        prefix->host = NULL;
        return;
    }
    prefix->user |= /* a tag never outweighs the facility */
        stop - tag < 7 || memcmp(tag, "kernel", 6) != 0 || isalpha((unsigned char)tag[6]);
    cursor->at = stop;
    kernel_skip_blanks(cursor);
}

/* "kernel: " or "host kernel: " without a date before it. */
static void kernel_take_tag(struct cursor *cursor, struct kernel_prefix *prefix)
{
    static const char tag[] = "kernel: ";
    const char *at = cursor->at, *blank;

    if ((size_t)(cursor->end - at) < sizeof(tag))
        return;
    if (memcmp(at, tag, sizeof(tag) - 1) != 0) {
        blank = memchr(at, ' ', MIN((size_t)(cursor->end - at), (size_t)64));
        if (!blank || (size_t)(cursor->end - blank) < sizeof(tag) + 1 ||
            memcmp(blank + 1, tag, sizeof(tag) - 1) != 0)
            return;
        prefix->host = at;
        prefix->host_bytes = (size_t)(blank - at);
        at = blank + 1;
    }
    cursor->at = at + sizeof(tag) - 1;
    kernel_skip_blanks(cursor);
}

/* "n7: [98712.345678] ...": a shell on many nodes puts their names first. */
static void kernel_take_shell(struct cursor *cursor, struct kernel_prefix *prefix)
{
    const char *at = cursor->at, *colon;

    if (at >= cursor->end || !isalpha((unsigned char)*at))
        return;
    while (at < cursor->end && (isalnum((unsigned char)*at) || *at == '-' || *at == '.'))
        at++;
    colon = at;
    if (cursor->end - at < 6 || at[0] != ':' || at[1] != ' ' || at[2] != '[')
        return;
    for (at += 3; at < cursor->end && (*at == ' ' || isdigit((unsigned char)*at) || *at == '.');)
        at++;
    if (at == cursor->end || *at != ']')
        return;
    prefix->host = cursor->at;
    prefix->host_bytes = (size_t)(colon - cursor->at);
    cursor->at = colon + 2;
}

void kernel_prefix_read(const char *line, size_t bytes, struct kernel_prefix *ret)
{
    struct cursor cursor = { line, line + bytes };
    struct kernel_prefix prefix = { 0 };
    const char *date;
    bool with_host;

    while (cursor.end > cursor.at && (cursor.end[-1] == '\n' || cursor.end[-1] == '\r'))
        cursor.end--;
    if (!kernel_take_record(&cursor, &prefix)) {
        kernel_take_shell(&cursor, &prefix);
        kernel_take_level(&cursor, &prefix);
        date = kernel_date_end(&cursor, &with_host);
        if (date) {
            cursor.at = date;
            kernel_skip_blanks(&cursor);
            if (with_host && cursor.at < cursor.end && *cursor.at != '[')
                kernel_take_host(&cursor, &prefix);
        }
    }
    kernel_skip_blanks(&cursor);
    for (int i = 0; i < 4 && kernel_take_brackets(&cursor, &prefix); i++)
        ;
    kernel_take_tag(&cursor, &prefix);
    for (int i = 0; i < 4 && kernel_take_brackets(&cursor, &prefix); i++)
        ;
    prefix.message = cursor.at;
    prefix.message_bytes = (size_t)(cursor.end - cursor.at);
    *ret = prefix;
}

/* ---- when the line was written ---- */

#define WHEN_BYTES 64 /* the beginning of a line, in which a date stands */
#define LETTERS "abcdefghijklmnopqrstuvwxyz"

/* "kern  :warn  : " */
static const char *kernel_skip_level(const char *text)
{
    const char *at = text;

    for (int i = 0; i < 2; i++) {
        at += strspn(at, LETTERS " ");
        if (*at++ != ':')
            return text;
    }
    return at + strspn(at, " ");
}

bool kernel_when_read(const char *line, size_t bytes, int64_t near_real_ns, struct kernel_when *ret)
{
    char begin[WHEN_BYTES + 1];
    const char *at = begin;
    struct kernel_when when = { 0 };

    bytes = MIN(bytes, (size_t)WHEN_BYTES);
    memcpy(begin, line, bytes);
    begin[bytes] = '\0';
    if (*at == '<') { /* the level, as `dmesg -r` has it */
        at += strcspn(at, ">");
        at += *at == '>';
    } else if (isalpha((unsigned char)*at) && at[strspn(at, LETTERS " ")] == ':') {
        at = kernel_skip_level(at); /* as `dmesg -x` has it */
    }
    if (!date_read(at, near_real_ns, &when.real_ns, &when.boot_ns))
        return false;
    *ret = when;
    return true;
}
