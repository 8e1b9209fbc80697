/* ras.c - the text of NCCL's RAS (ncclras): processes that are dead, and ranks whose counts differ.
 *
 * RAS lists the members of the smaller set.  If these have the higher count, they are ahead, and the others, whom it does
 * not list, are behind; then nobody is named.  Ranks are those of the communicator: they are ranks of the job only in the
 * communicator that has all of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/report/report_private.h"
#include "wire/verdict.h"

#define RAS_GROUPS 64

struct ras {
    struct report_reader *reader;
    unsigned long job_ranks; /* of the table; 0: not yet seen */
    enum {
        RAS_NOTHING,
        RAS_DEAD,
        RAS_MISSING,
        RAS_COUNTS
    } block;
    unsigned long
        ranks_of[RAS_GROUPS];  /* by row of the table of communicators: ranks of each; 0: no row */
    unsigned group;            /* the communicator's row */
    unsigned long most, usual; /* the largest set of ranks, and the op that it launched */
    unsigned long launched;    /* by the set that is being listed */
    char op[48];
};

/* "      4          8            1         32       32": the last number of the row below the heads is the GPUs of the
 * job.
 */
static void ras_total(struct ras *ras, const char *text)
{
    unsigned long number[8];
    size_t count = 0;
    char *end;

    for (; count < COUNT(number); text = end) {
        unsigned long value = strtoul(text, &end, 10);

        if (end == text)
            break;
        number[count++] = value;
    }
    if (!*text && count >= 3 && !ras->job_ranks)
        ras->job_ranks = number[count - 1];
}

/* "  30 ranks have launched up to operation 640", "  2 ranks have not launched any operations" */
static void ras_counts(struct ras *ras, unsigned long ranks, unsigned long operation)
{
    if (!ras->most) { /* RAS prints the largest set first */
        ras->most = ranks;
        ras->usual = operation;
    }
    ras->launched = operation;
}

/* "Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node n1", "Rank 7 -- GPU 3 ...", "GPU 0 (NVML 4)":
 * the rank; its own count, if it stands there.
 */
static bool ras_rank_of(struct ras *ras, const char *text, unsigned *rank, unsigned *pid,
                        char node[64])
{
    const char *process = strstr(text, "managed by process ");
    unsigned long launched;

    if (sscanf(text, "Rank %u ", rank) != 1 || !process ||
        sscanf(process, "managed by process %u on node %63s", pid, node) != 2)
        return false;
    if (sscanf(text, "Rank %*u has launched up to operation %lu", &launched) == 1)
        ras->launched = launched;
    else if (strstr(text, " has not launched any operations"))
        ras->launched = 0;
    return true;
}

/* Is it the communicator of all ranks?  Where the table was cut off, one in which most ranks of the job are. */
static bool ras_has_all(const struct ras *ras)
{
    unsigned long ranks = ras->group < RAS_GROUPS ? ras->ranks_of[ras->group] : 0;

    return ranks ? ranks == ras->job_ranks : 2 * ras->most > ras->job_ranks;
}

static int ras_rank(struct ras *ras, const char *text)
{
    struct report report = { .kind = REPORT_BEHIND, .rank = REPORT_NO_RANK };
    unsigned rank, pid;
    char node[64];

    if (ras->block != RAS_COUNTS || !ras_rank_of(ras, text, &rank, &pid, node))
        return 0;
    if (!*ras->op || !ras_has_all(ras) || ras->launched >= ras->usual)
        return 0;
    snprintf(report.node, sizeof(report.node), "%s", node);
    report.rank = rank;
    report.others = (uint32_t)ras->most;
    report.unsure = ras->usual - ras->launched == 1;
    snprintf(report.what, sizeof(report.what),
             "%s: launched up to operation %lu, %lu ranks up to %lu", ras->op, ras->launched,
             ras->most, ras->usual);
    return report_put(ras->reader, report);
}

/* "The missing rank: 21", "The missing ranks: 3,21": of a communicator; ranks of the job in the one that has all of them. */
static int ras_missing(struct ras *ras, const char *text)
{
    uint32_t rank[64];
    size_t count = report_numbers(text, rank, COUNT(rank));
    int result = 0;

    if (ras->block != RAS_MISSING || !ras_has_all(ras) || count == COUNT(rank))
        return 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        struct report report = { .kind = REPORT_DEAD, .rank = rank[i] };

        snprintf(report.what, sizeof(report.what), "sends no data to NCCL's RAS");
        result = report_put(ras->reader, report);
    }
    return result;
}

static int ras_process(struct ras *ras, const char *text)
{
    struct report report = { .kind = REPORT_DEAD, .rank = REPORT_NO_RANK };
    unsigned pid;
    char node[64];

    if (ras->block != RAS_DEAD || sscanf(text, "Process %u on node %63s", &pid, node) != 2)
        return 0;
    snprintf(report.node, sizeof(report.node), "%s", node);
    snprintf(report.what, sizeof(report.what), "process %u cannot be reached by NCCL's RAS", pid);
    return report_put(ras->reader, report);
}

static int ras_line(struct ras *ras)
{
    const char *text = report_text(ras->reader);
    unsigned long ranks, operation;
    unsigned group;

    if (sscanf(text, "#%u-", &group) == 1)
        ras->group = group;
    if (strstr(text, " MISMATCH") && *text == '#') {
        ras->block = RAS_COUNTS;
        ras->most = 0;
        *ras->op = '\0';
    } else if (strstr(text, " INCOMPLETE") && *text == '#') {
        ras->block = RAS_MISSING;
    } else if (strcmp(text, "DEAD") == 0 || strcmp(text, "INCOMPLETE") == 0) {
        ras->block = RAS_DEAD;
    } else if (!*text || *text == '#') {
        ras->block = RAS_NOTHING;
    } else if (sscanf(text, "Communicator ranks have different %47[A-Za-z ] operation", ras->op) ==
               1) {
        return 0;
    } else if (sscanf(text, "%lu ranks have launched up to operation %lu", &ranks, &operation) ==
               2) {
        ras_counts(ras, ranks, operation);
    } else if (strstr(text, " ranks have not launched any operations") &&
               sscanf(text, "%lu ranks", &ranks) == 1) {
        ras_counts(ras, ranks, 0);
    } else if (strncmp(text, "The missing rank", 16) == 0) {
        return ras_missing(ras, text + 16);
    } else if (strncmp(text, "Rank ", 5) == 0) {
        return ras_rank(ras, text);
    } else if (strncmp(text, "Process ", 8) == 0) {
        return ras_process(ras, text);
    } else if (sscanf(text, "%u %*u %*s %*s %lu %*u %*[A-Z] %*[A-Z]", &group, &ranks) == 2 &&
               (strstr(text, " RUNNING") || strstr(text, " INIT") || strstr(text, " FINALIZE") ||
                strstr(text, " ABORT"))) {
        if (group < RAS_GROUPS)
            ras->ranks_of[group] = ranks;
    } else {
        ras_total(ras, text);
    }
    return 0;
}

int report_ras(struct report_reader *reader)
{
    struct ras ras = { .reader = reader };
    int result = 0;

    while (result == 0 && report_next(reader))
        result = ras_line(&ras);
    return result;
}
