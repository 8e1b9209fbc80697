/* trace.c - the text of torchfrtrace (fr_trace): collectives that not all ranks joined.
 *
 * "Not all ranks joining collective: sequence number: 31117", then one line each: "group info: 0:default_pg",
 * "collective: nccl:all_reduce", "missing ranks: {3, 4}", "expected ranks: {0, 1, 2, 3, 4, 5, 6, 7}".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "read/report/report_private.h"
#include "wire/verdict.h"

#define TRACE_RANKS 4096

static void trace_word(const char *text, const char *key, char *out, size_t room)
{
    const char *at = strstr(text, key);

    if (!at)
        return;
    at += strlen(key);
    at += strspn(at, " ");
    snprintf(out, room, "%.*s", (int)strcspn(at, ","), at);
}

/* Where at least half are missing, the others may be the odd ones: nobody is named. */
static int trace_missing(struct report_reader *reader, const char *what, const char *missing,
                         const char *expected)
{
    static const char blank[] = "";
    uint32_t rank[64];
    size_t count = report_numbers(missing, rank, COUNT(rank)), all = 0;
    int result = 0;

    for (const char *at = expected ? expected : blank; *at; at++)
        all += *at == ',';
    all += all > 0;
    if (!count || count == COUNT(rank) || 2 * count >= all)
        return 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        struct report report = { .kind = REPORT_BEHIND,
                                 .rank = rank[i],
                                 .others = (uint32_t)(all - count) };

        snprintf(report.what, sizeof(report.what), "%s", what);
        result = report_put(reader, report);
    }
    return result;
}

int report_trace(struct report_reader *reader)
{
    char number[32] = "", group[64] = "", op[48] = "", missing[REPORT_LINE] = "", what[120];
    bool inside = false;
    int result = 0;

    while (result == 0 && report_next(reader)) {
        const char *line = reader->line;

        if (strstr(line, "Not all ranks joining collective")) {
            inside = true;
            *missing = *group = *op = *number = '\0';
        }
        if (!inside)
            continue;
        trace_word(line, "sequence number:", number, sizeof(number));
        trace_word(line, "group info:", group, sizeof(group));
        if (strncmp(report_text(reader), "collective:", 11) == 0)
            trace_word(line, "collective:", op, sizeof(op));
        if (strstr(line, "missing ranks:"))
            snprintf(missing, sizeof(missing), "%s", strstr(line, "missing ranks:") + 14);
        if (strstr(line, "expected ranks:")) {
            snprintf(what, sizeof(what), "did not join %s %s of group %s", op, number, group);
            result = trace_missing(reader, what, missing, strstr(line, "expected ranks:") + 15);
            inside = false;
        }
    }
    return result;
}
