/* perftest.c - finds the columns of a perftest table by their names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/perftest.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/text.h"

#define LINE_MAX_BYTES 512
#define COLUMNS_MAX 16
#define VALUE_MAX 1e9 /* no rate and no latency in any unit of perftest */

struct perftest_columns {
    int gbps, latency; /* places; -1: none */
    double scale;      /* of the rate, to Gbit/s */
};

/* "#bytes" and "#iterations" have no unit; every column behind them ends with one. */
static int perftest_place(const char *header, const char *name)
{
    const char *found = strstr(header, name);
    int place = 2;

    if (!found)
        return -1;
    for (const char *at = header; at < found; at++)
        place += *at == ']';
    return place < COLUMNS_MAX ? place : -1;
}

static void perftest_header(const char *header, struct perftest_columns *ret)
{
    static const struct {
        const char *name;
        double scale;
    } rates[] = {
        { "BW average[Gb/sec]", 1 },
        { "BW average[MB/sec]", 1048576 * 8 / 1e9 }, /* perftest's MB is 2^20 bytes */
        { "BW average[MiB/sec]", 1048576 * 8 / 1e9 },
    };

    *ret = (struct perftest_columns){ .gbps = -1, .latency = -1 };
    for (size_t i = 0; i < COUNT(rates) && ret->gbps < 0; i++) {
        ret->gbps = perftest_place(header, rates[i].name);
        ret->scale = rates[i].scale;
    }
    ret->latency = perftest_place(header, "t_typical[usec]");
    if (ret->latency < 0)
        ret->latency = perftest_place(header, "t_avg[usec]");
}

/* The numbers of a line; 0: it is none. */
static int perftest_numbers(const char *line, double *value)
{
    int count = 0;

    for (const char *at = line; count < COLUMNS_MAX;) {
        char *end;

        at += strspn(at, " \t\r");
        if (!*at)
            return count;
        value[count] = strtod(at, &end);
        if (end == at || (*end && !isspace((unsigned char)*end)) || !isfinite(value[count]) ||
            value[count] < 0)
            return 0;
        count++;
        at = end;
    }
    return count;
}

static bool perftest_row(const struct perftest_columns *columns, const char *line,
                         struct perftest *ret)
{
    double value[COLUMNS_MAX];
    int count = perftest_numbers(line, value);

    if (count < 3 || count <= MAX(columns->gbps, columns->latency) || value[0] > 1e15 ||
        value[1] > 1e15)
        return false;
    if (value[MAX(columns->gbps, columns->latency)] > VALUE_MAX)
        return false;
    *ret = (struct perftest){ .bytes = (uint64_t)value[0], .iterations = (uint64_t)value[1] };
    if (columns->gbps >= 0)
        ret->gbps = value[columns->gbps] * columns->scale;
    else
        ret->latency_us = value[columns->latency];
    return true;
}

int perftest_parse(const char *text, size_t size, struct perftest *ret, struct err *err)
{
    struct perftest_columns columns = { .gbps = -1, .latency = -1 };
    char line[LINE_MAX_BYTES], said[LINE_MAX_BYTES] = "";
    const char *end = text + size;
    bool found = false;

    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);

        length = MIN(length, sizeof(line) - 1);
        memcpy(line, at, length);
        line[length] = '\0';
        at = stop ? stop + 1 : end;
        if (strncmp(line + strspn(line, " "), "#bytes", 6) == 0)
            perftest_header(line, &columns);
        else if (columns.gbps >= 0 || columns.latency >= 0)
            found |= perftest_row(&columns, line, ret);
        if (line[strspn(line, " \t\r-*#")] && !said[0])
            memcpy(said, line, sizeof(said));
    }
    if (found)
        return 0;
    said[text_clean(said, strlen(said), false)] = '\0';
    return err_set(err, -ENODATA, "no result of perftest%s%.120s", said[0] ? ": " : "", said);
}
