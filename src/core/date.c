/* date.c - tries one notation after the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/date.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"

#define EARLIEST_S 400000 /* more than any zone takes away */
#define LONGEST_S 9e9     /* nearly three hundred years: what is more is no time */
#define HALF_YEAR_NS (183 * 86400 * NS_PER_S)

/* "[98712.345678] " */
static size_t date_boot_seconds(const char *text, int64_t *ret_ns)
{
    const char *at = text + (*text == '[');
    char *end;
    double seconds;

    at += strspn(at, " ");
    if (*text != '[' || !isdigit((unsigned char)*at) ||
        strspn(at, "0123456789.") != strcspn(at, "]") || !memchr(at, '.', strcspn(at, "]")))
        return 0;
    seconds = strtod(at, &end);
    if (*end != ']' || seconds > LONGEST_S / 2)
        return 0;
    *ret_ns = MAX(1, (int64_t)(seconds * 1e9));
    return (size_t)(end + 1 - text);
}

/* "6,1234,987654,-;" */
static size_t date_boot_microseconds(const char *text, int64_t *ret_ns)
{
    const char *at = text;
    char *end;
    unsigned long long us;

    for (int commas = 0; commas < 2; commas++) {
        size_t digits = strspn(at, "0123456789");

        if (!digits || at[digits] != ',')
            return 0;
        at += digits + 1;
    }
    if (!isdigit((unsigned char)*at))
        return 0;
    us = strtoull(at, &end, 10);
    if (*end != ',' || (double)us > LONGEST_S / 2 * 1e6)
        return 0;
    *ret_ns = MAX(1, (int64_t)us * 1000);
    end += strcspn(end, "; ");
    return (size_t)(end + (*end == ';') - text);
}

/* "+02:00", "+0200", "Z", " UTC"; 0: none. */
static size_t date_zone(const char *text, int64_t *ret_ns)
{
    const char *at = text + 1;
    unsigned digit[4];
    int count = 0;

    *ret_ns = 0;
    if (*text == 'Z')
        return 1;
    if (strncmp(text, " UTC", 4) == 0)
        return 4;
    if (*text != '+' && *text != '-')
        return 0;
    for (; count < 4 && (isdigit((unsigned char)*at) || *at == ':'); at++) {
        if (*at != ':')
            digit[count++] = (unsigned)(*at - '0');
    }
    if (count < 4)
        return 0;
    *ret_ns = (int64_t)((digit[0] * 10 + digit[1]) * 60 + digit[2] * 10 + digit[3]) * 60 * NS_PER_S;
    if (*text == '-')
        *ret_ns = -*ret_ns;
    return (size_t)(at - text);
}

/* ".123456", ",123" */
static size_t date_fraction(const char *text, int64_t *ret_ns)
{
    const char *at = text;
    int64_t unit_ns = NS_PER_S / 10;

    *ret_ns = 0;
    if ((*at != '.' && *at != ',') || !isdigit((unsigned char)at[1]))
        return 0;
    for (at++; isdigit((unsigned char)*at); at++, unit_ns /= 10)
        *ret_ns += unit_ns * (*at - '0');
    return (size_t)(at - text);
}

/* A date with its year; fraction and zone may follow. */
static size_t date_with_zone(const char *text, const char *rest, struct tm *tm, int64_t *ret_ns)
{
    int64_t fraction_ns, zone_ns;
    size_t zone;

    rest += date_fraction(rest, &fraction_ns);
    zone = date_zone(rest, &zone_ns);
    if (zone) {
        time_t seconds = timegm(tm);

        if (seconds < EARLIEST_S || (double)seconds > LONGEST_S / 2)
            return 0;
        *ret_ns = (int64_t)seconds * NS_PER_S - zone_ns + fraction_ns;
        return (size_t)(rest + zone - text);
    }
    *ret_ns = time_local_ns(tm);
    if (!*ret_ns)
        return 0;
    *ret_ns += fraction_ns;
    return (size_t)(rest - text);
}

static size_t date_with_year(const char *text, int64_t *ret_ns)
{
    static const char *const formats[] = { "%Y-%m-%d", "%Y/%m/%d", "%Y-%b-%d",
                                           "%Y:%m:%d", "%m/%d/%Y", "%d/%b/%Y" };

    if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]))
        return 0;
    for (size_t i = 0; i < COUNT(formats); i++) {
        struct tm tm = { 0 };
        const char *rest;

        if ((i < 4) != !!isdigit((unsigned char)text[2]))
            continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        rest = strptime(text, formats[i], &tm);
#pragma GCC diagnostic pop
        if (rest && strchr("T _:-", *rest) && *rest && (rest = strptime(rest + 1, "%H:%M:%S", &tm)))
            return date_with_zone(text, rest, &tm, ret_ns);
    }
    return 0;
}

/* "Sun Nov 15 15:41:03 2026" */
static size_t date_in_words(const char *text, int64_t *ret_ns)
{
    struct tm tm = { 0 };
    const char *rest =
        isupper((unsigned char)*text) ? strptime(text, "%a %b %d %H:%M:%S %Y", &tm) : NULL;

    return rest ? date_with_zone(text, rest, &tm, ret_ns) : 0;
}

/* The year that is nearest to `near_real_ns`. */
static int64_t date_nearest_ns(const struct tm *tm, int64_t near_real_ns)
{
    time_t near_s = (time_t)(near_real_ns / NS_PER_S);
    int64_t best_ns = 0;
    struct tm now;

    if (!localtime_r(&near_s, &now))
        return 0;
    for (int year = now.tm_year - 1; year <= now.tm_year + 1; year++) {
        struct tm at = *tm;
        int64_t ns;

        at.tm_year = year;
        ns = time_local_ns(&at);
        if (ns && llabs(ns - near_real_ns) <= HALF_YEAR_NS)
            best_ns = ns;
    }
    return best_ns;
}

/* "1115 15:41:03", "909 15:41:03": month and day */
static const char *date_glog(const char *text, size_t digits, struct tm *tm)
{
    int number = atoi(text);

    if (number / 100 < 1 || number / 100 > 12 || number % 100 < 1 || number % 100 > 31)
        return NULL;
    tm->tm_mon = number / 100 - 1;
    tm->tm_mday = number % 100;
    return strptime(text + digits + 1, "%H:%M:%S", tm);
}

/* "Nov 15 15:41:03", "E1115 15:41:03.123456" of glog, as much without its first letter */
static size_t date_yearless(const char *text, int64_t near_real_ns, int64_t *ret_ns)
{
    struct tm tm = { 0 };
    int64_t fraction_ns;
    const char *rest = NULL;
    size_t digits = strspn(text, "0123456789");

    if (isupper((unsigned char)*text) && isalpha((unsigned char)text[1]))
        rest = strptime(text, "%b %d %H:%M:%S", &tm);
    else if ((digits == 3 || digits == 4) && text[digits] == ' ' && text[digits + 3] == ':')
        rest = date_glog(text, digits, &tm);
    if (!rest)
        return 0;
    rest += date_fraction(rest, &fraction_ns);
    *ret_ns = date_nearest_ns(&tm, near_real_ns);
    if (!*ret_ns)
        return 0;
    *ret_ns += fraction_ns;
    return (size_t)(rest - text);
}

size_t date_read(const char *text, int64_t near_real_ns, int64_t *real_ns, int64_t *boot_ns)
{
    size_t bracket = *text == '[', bytes = date_boot_seconds(text, boot_ns);
    int64_t found_ns = 0;

    if (!bytes)
        bytes = date_boot_microseconds(text, boot_ns);
    if (bytes)
        return bytes;
    bytes = date_with_year(text + bracket, &found_ns);
    if (!bytes)
        bytes = date_in_words(text + bracket, &found_ns);
    if (!bytes)
        bytes = date_yearless(text + bracket, near_real_ns, &found_ns);
    if (!bytes || (bracket && text[bytes + bracket] != ']'))
        return 0;
    *real_ns = found_ns;
    return bytes + 2 * bracket;
}
