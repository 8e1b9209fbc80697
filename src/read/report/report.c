/* report.c - recognizes texts of other tools and gives each to its reader.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/report/report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/report/report_private.h"

#define LOOKED_AT (1u << 20) /* bytes in which a text shows what it is */
#define REPORTS_MOST 65536   /* of one job */

bool report_next(struct report_reader *reader)
{
    const char *end;
    size_t size;

    if (reader->at >= reader->end)
        return false;
    end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    if (!end)
        end = reader->end;
    size = MIN((size_t)(end - reader->at), sizeof(reader->line) - 1);
    memcpy(reader->line, reader->at, size);
    while (size && isspace((unsigned char)reader->line[size - 1]))
        size--;
    reader->line[size] = '\0';
    reader->blanks = strspn(reader->line, " \t");
    reader->at = end + 1;
    reader->number++;
    return true;
}

int report_put(struct report_reader *reader, struct report report)
{
    struct reports *reports = reader->reports;

    if (reports->count == REPORTS_MOST)
        return 0;
    if (budget_grow(reader->budget, &reports->list, &reports->room, reports->count,
                    sizeof(report)) < 0)
        return -ENOMEM;
    report.line = report.line ? report.line : reader->number;
    snprintf(report.file, sizeof(report.file), "%s", reader->file);
    reports->list[reports->count++] = report;
    return 0;
}

size_t report_numbers(const char *text, uint32_t *number, size_t most)
{
    size_t count = 0;

    while (*text && count < most) {
        unsigned long first, last;
        char *end;

        if (!isdigit((unsigned char)*text)) {
            text++;
            continue;
        }
        first = last = strtoul(text, &end, 10);
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < UINT32_MAX && count < most; first++)
            number[count++] = (uint32_t)first;
        text = end;
    }
    return count;
}

static bool report_text_has(const char *data, size_t size, const char *what)
{
    return memmem(data, MIN(size, LOOKED_AT), what, strlen(what)) != NULL;
}

static bool report_begins(const char *data, size_t size, const char *what)
{
    return size >= strlen(what) && memcmp(data, what, strlen(what)) == 0;
}

/* py-spy, faulthandler, and the files of torch.distributed.debug begin with a stack. */
static bool report_is_stacks(const char *data, size_t size)
{
    if (report_begins(data, size, "PARTIAL DATA: ") &&
        !report_text_has(data, size, "/handler/dump_traceback") &&
        !report_text_has(data, size, "/handler/pyspy_dump"))
        return false; /* of another handler */
    if (report_begins(data, size, "=== Rank ") || report_begins(data, size, "PARTIAL DATA: "))
        return report_text_has(data, size, "(most recent call first)") ||
               report_text_has(data, size, "Thread ");
    if (report_begins(data, size, "Process "))
        return report_text_has(data, size, "\nPython v") &&
               report_text_has(data, size, "\nThread ");
    return (report_begins(data, size, "Thread ") || report_begins(data, size, "Current thread ") ||
            report_begins(data, size, "Timeout (")) &&
           report_text_has(data, size, "(most recent call first)");
}

enum report_text report_text_of(const char *data, size_t size)
{
    while (size && isspace((unsigned char)*data)) {
        data++;
        size--;
    }
    if (report_is_stacks(data, size))
        return REPORT_TEXT_STACKS;
    if (report_text_has(data, size, "NVSMI LOG") && report_text_has(data, size, "\nGPU 0"))
        return REPORT_TEXT_DEVICE;
    if (report_text_has(data, size, "Communicators...") &&
        report_text_has(data, size, "Job summary"))
        return REPORT_TEXT_RAS;
    return report_text_has(data, size, "Not all ranks joining collective") ? REPORT_TEXT_TRACE
                                                                           : REPORT_TEXT_NONE;
}

int report_add(struct reports *reports, struct budget *budget, uint32_t rank, const char *file,
               const char *data, size_t size)
{
    static int (*const readers[])(struct report_reader *) = {
        [REPORT_TEXT_RAS] = report_ras,
        [REPORT_TEXT_TRACE] = report_trace,
        [REPORT_TEXT_STACKS] = report_stacks,
        [REPORT_TEXT_DEVICE] = report_device,
    };
    enum report_text text = report_text_of(data, size);
    CLEAN(free_clean) struct report_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return -ENOMEM;
    *reader = (struct report_reader){ .at = data,
                                      .end = data + size,
                                      .reports = reports,
                                      .budget = budget,
                                      .file = file,
                                      .rank = rank };
    return text == REPORT_TEXT_NONE ? 0 : readers[text](reader);
}
