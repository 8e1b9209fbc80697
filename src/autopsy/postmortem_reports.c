/* postmortem_reports.c - findings from what other tools report: NCCL's RAS, torchfrtrace, stacks, nvidia-smi.
 *
 * In a hang most main threads wait in a collective or for the device.  Those few that are somewhere else are what the
 * others wait for.  Where no such majority is seen, the stacks name nobody.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

#define STACKS_LEAST 3  /* ranks with a stack; with two nobody is the majority */
#define DEVICES_MOST 8  /* verdicts about devices */
#define UNSURE 0.45     /* confidence in what may be over in a moment */
#define UNANSWERED 0.6  /* ... in a rank that does not answer */
#define EVIDENCE_MOST 8 /* lines of one verdict */

/* A hang or desync that was found in the dumps; NULL. */
static struct verdict *reports_known_hang(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct verdict *verdict = &findings->verdict[i];

        if (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC)
            return verdict;
    }
    return NULL;
}

static void report_because(struct verdict *verdict, const struct report *report)
{
    char node[80] = "";

    if (*report->node)
        snprintf(node, sizeof(node), " on node %s", report->node);
    if (verdict->because_count >= EVIDENCE_MOST)
        return;
    if (report->rank == REPORT_NO_RANK)
        verdict_because(verdict, "report", "%s%s (%s line %u)", report->what, node, report->file,
                        report->line);
    else
        verdict_because(verdict, "report", "rank %u%s: %s (%s line %u)", report->rank, node,
                        report->what, report->file, report->line);
}

static void report_weigh(const struct report *report, const char *cause, struct verdict *verdict)
{
    bool answers = report->kind != REPORT_ELSEWHERE || report->layer != LAYER_UNKNOWN;

    snprintf(verdict->cause, sizeof(verdict->cause), "%s",
             answers ? cause : "does not answer while the others wait in a collective");
    verdict->confidence = report->unsure ? UNSURE : answers ? 0.8 : UNANSWERED;
    if (report->unsure)
        verdict->would_decide = "the same report again after ten seconds: counts that do not "
                                "rise are a hang";
}

/* Names the ranks of one kind of report, or adds the reports as evidence to a verdict that names these ranks: what
 * dumps show says more.
 */
static int name_reported(const struct reports *reports, enum report_kind kind, const char *cause,
                         const char *run, struct findings *findings)
{
    struct verdict *verdict = reports_known_hang(findings), *known = verdict;
    bool named = known && known->rank_count;

    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];

        if (report->kind != kind)
            continue;
        if (named && !verdict_names_rank(known, report->rank))
            continue;
        if (!verdict)
            verdict = findings_add(findings, run, VERDICT_HANG, report->layer);
        if (!verdict)
            return -ENOMEM;
        if (report->rank != REPORT_NO_RANK && !verdict_names_rank(verdict, report->rank))
            postmortem_name_rank(verdict, report->rank);
        if (*report->node)
            postmortem_name_node(verdict, report->node);
        if (verdict->layer == LAYER_UNKNOWN)
            verdict->layer = report->layer;
        report_because(verdict, report);
        if (!known)
            report_weigh(report, cause, verdict);
    }
    if (verdict)
        verdict_identify(verdict);
    return 0;
}

static bool reports_have(const struct reports *reports, enum report_kind kind)
{
    for (size_t i = 0; i < reports->count; i++) {
        if (reports->list[i].kind == kind)
            return true;
    }
    return false;
}

/* Of the stacks: do at least three quarters of the ranks wait, and the rest not? */
static bool reports_stacks_have_a_majority(const struct reports *reports)
{
    size_t waiting = 0, elsewhere = 0;

    for (size_t i = 0; i < reports->count; i++) {
        waiting += reports->list[i].kind == REPORT_WAITING;
        elsewhere += reports->list[i].kind == REPORT_ELSEWHERE;
    }
    return waiting + elsewhere >= STACKS_LEAST && elsewhere && 3 * elsewhere <= waiting;
}

static int report_devices(const struct reports *reports, const char *run, struct findings *findings)
{
    struct verdict *last = NULL;
    size_t reported = 0;

    for (size_t i = 0; i < reports->count && reported < DEVICES_MOST; i++) {
        const struct report *report = &reports->list[i];

        if (report->kind != REPORT_DEVICE)
            continue;
        if (reported && strcmp(last->device, report->device) == 0) { /* one more fault of it */
            report_because(last, report);
            continue;
        }
        last = findings_add(findings, run, VERDICT_NODE_FAULT, report->layer);
        if (!last)
            return -ENOMEM;
        snprintf(last->cause, sizeof(last->cause), "%s", report->what);
        snprintf(last->device, sizeof(last->device), "%s", report->device);
        report_because(last, report);
        last->confidence = 0.8;
        verdict_identify(last);
        reported++;
    }
    return 0;
}

int postmortem_reports(const struct reports *reports, const char *run, struct findings *findings)
{
    int result = name_reported(reports, REPORT_DEAD, "cannot be reached by the other processes",
                               run, findings);

    /* Beside a dead process, ranks that are behind may only wait for it. */
    if (result == 0 && !reports_have(reports, REPORT_DEAD))
        result =
            name_reported(reports, REPORT_BEHIND,
                          "has not entered a collective that other ranks entered", run, findings);
    if (result == 0 && reports_stacks_have_a_majority(reports))
        result = name_reported(reports, REPORT_ELSEWHERE,
                               "its main thread is elsewhere while the others wait for it", run,
                               findings);
    return result == 0 ? report_devices(reports, run, findings) : result;
}
