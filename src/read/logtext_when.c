/* logtext_when.c - the time of a kernel message.
 *
 * The format depends on the tool: seconds since boot in brackets (dmesg), a date in brackets (dmesg -T), a date
 * without a year (syslog, journalctl), an ISO date (journalctl, dmesg), microseconds since boot after a level and a
 * number (/dev/kmsg).  Dates without a zone are local times of this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"
#include "read/logtext_private.h"

#define BEGIN 64          /* characters in which a time stands */
#define EARLIEST_S 400000 /* more than any zone takes away */
#define LONGEST_S 9e9     /* nearly three hundred years: what is more is no time */
#define HALF_YEAR_NS (183 * 86400 * NS_PER_S)

static int64_t local_ns(struct tm *tm)
{
    time_t seconds;

    tm->tm_isdst = -1;
    seconds = mktime(tm);
    return seconds <= 0 || (double)seconds > LONGEST_S ? 0 : (int64_t)seconds * NS_PER_S;
}

/* "[98712.345678] " */
static bool boot_seconds(const char *text, struct log_event *note)
{
    char *end;
    double seconds;

    if (*text != '[')
        return false;
    text += 1 + strspn(text + 1, " ");
    if (!isdigit((unsigned char)*text) || strspn(text, "0123456789.") != strcspn(text, "]"))
        return false;
    seconds = strtod(text, &end);
    if (*end != ']' || seconds > LONGEST_S / 2)
        return false;
    note->boot_ns = MAX(1, (int64_t)(seconds * 1e9));
    return true;
}

/* "6,1234,987654,-;" */
static bool boot_microseconds(const char *text, struct log_event *note)
{
    const char *at = text;
    char *end;
    unsigned long long us;

    for (int commas = 0; commas < 2; commas++) {
        size_t digits = strspn(at, "0123456789");

        if (!digits || at[digits] != ',')
            return false;
        at += digits + 1;
    }
    if (!isdigit((unsigned char)*at))
        return false;
    us = strtoull(at, &end, 10);
    if (*end != ',' || (double)us > LONGEST_S / 2 * 1e6)
        return false;
    note->boot_ns = MAX(1, (int64_t)us * 1000);
    return true;
}

/* "Sun Nov 15 15:41:03 2026", in brackets */
static bool bracketed_date(const char *text, struct log_event *note)
{
    struct tm tm = { 0 };
    const char *rest = *text == '[' ? strptime(text + 1, "%a %b %d %H:%M:%S %Y", &tm) : NULL;

    if (!rest || *rest != ']')
        return false;
    note->real_ns = local_ns(&tm);
    return note->real_ns != 0;
}

/* "+02:00", "+0200", "Z"; false: none. */
static bool zone_read(const char *text, int64_t *ret_ns)
{
    unsigned digit[4];
    int count = 0;

    if (*text == 'Z') {
        *ret_ns = 0;
        return true;
    }
    if (*text != '+' && *text != '-')
        return false;
    for (const char *at = text + 1; count < 4 && (isdigit((unsigned char)*at) || *at == ':');
         at++) {
        if (*at != ':')
            digit[count++] = (unsigned)(*at - '0');
    }
    if (count < 4)
        return false;
    *ret_ns = (int64_t)((digit[0] * 10 + digit[1]) * 60 + digit[2] * 10 + digit[3]) * 60 * NS_PER_S;
    if (*text == '-')
        *ret_ns = -*ret_ns;
    return true;
}

/* "2026-11-15T15:41:03.123456+00:00", also with a blank or a comma, and without fraction or zone */
static bool iso_date(const char *text, struct log_event *note)
{
    struct tm tm = { 0 };
    const char *rest = isdigit((unsigned char)*text) ? strptime(text, "%Y-%m-%d", &tm) : NULL;
    int64_t fraction_ns = 0, unit_ns = NS_PER_S / 10, zone_ns;

    if (!rest || (*rest != 'T' && *rest != ' ') || !(rest = strptime(rest + 1, "%H:%M:%S", &tm)))
        return false;
    if (*rest == '.' || *rest == ',') {
        for (rest++; isdigit((unsigned char)*rest); rest++, unit_ns /= 10)
            fraction_ns += unit_ns * (*rest - '0');
    }
    if (zone_read(rest, &zone_ns)) {
        time_t seconds = timegm(&tm);

        if (seconds < EARLIEST_S || (double)seconds > LONGEST_S / 2)
            return false;
        note->real_ns = (int64_t)seconds * NS_PER_S - zone_ns + fraction_ns;
        return true;
    }
    note->real_ns = local_ns(&tm);
    if (!note->real_ns)
        return false;
    note->real_ns += fraction_ns;
    return true;
}

/* "Nov 15 15:41:03 host kernel: " */
static bool yearless_date(const char *text, int64_t near_real_ns, struct log_event *note)
{
    time_t near_s = (time_t)(near_real_ns / NS_PER_S);
    struct tm tm = { 0 }, now;
    int64_t best_ns = 0;

    if (!isalpha((unsigned char)*text) || !strptime(text, "%b %d %H:%M:%S", &tm) ||
        !localtime_r(&near_s, &now))
        return false;
    for (int year = now.tm_year - 1; year <= now.tm_year + 1; year++) {
        struct tm at = tm;
        int64_t ns;

        at.tm_year = year;
        ns = local_ns(&at);
        if (ns && llabs(ns - near_real_ns) <= HALF_YEAR_NS)
            best_ns = ns;
    }
    note->real_ns = best_ns;
    return best_ns != 0;
}

bool log_when(const struct log_line *line, int64_t near_real_ns, struct log_event *note)
{
    char begin[BEGIN + 1];
    const char *at = begin;
    size_t bytes = MIN((size_t)(line->end - line->text), (size_t)BEGIN);

    memcpy(begin, line->text, bytes);
    begin[bytes] = '\0';
    if (*at == '<') { /* the level, as `dmesg -r` has it */
        at += strcspn(at, ">");
        at += *at == '>';
    }
    return boot_seconds(at, note) || bracketed_date(at, note) || boot_microseconds(at, note) ||
           iso_date(at, note) || yearless_date(at, near_real_ns, note);
}
