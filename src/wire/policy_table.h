/* policy_table.h - the policy of a run as facts: the table of actions, and the means to carry them out.
 *
 * The launcher reads the table from a file and sends it once; it sends the means at the start of each attempt and
 * whenever they change.  The policy reads nothing else, so a log replay takes the same decisions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_POLICY_TABLE_H
#define LOCKSTEP_WIRE_POLICY_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/verdict.h"

#define POLICY_ROWS 64
#define POLICY_ACTIONS 4
#define POLICY_EXITS 8
#define POLICY_REASON 160

struct policy_row {        /* the first row that fits a verdict counts */
    char name[FACT_NAME];  /* of the rule */
    uint32_t kinds;        /* bit 1 << kind of a verdict; 0: any */
    uint32_t layers;       /* bit 1 << layer; 0: any */
    uint8_t severity;      /* enum finding_severity: at least */
    double confidence;     /* at least, 0 to 1 */
    uint32_t action_count; /* 1 to POLICY_ACTIONS */
    /* The first that can be done is done.  ACTION_NONE: watch. */
    uint8_t action[POLICY_ACTIONS];
    char reason[POLICY_REASON];
};

struct policy_table {
    int64_t mono_ns, real_ns;
    char name[FACT_NAME];        /* of the file; "default" */
    uint32_t restarts_per_hour;  /* of a run, that the policy orders */
    uint32_t restarts_per_cause; /* because of one verdict */
    uint32_t drains_per_hour;    /* nodes taken from a run */
    double fleet_share;          /* of the nodes of a run, at most, in all */
    int64_t cool_down_ns;        /* between two actions because of one verdict */
    uint32_t breaker;            /* actions in a row that did not help */
    uint32_t crash_loop;         /* attempts in a row that got no further */
    uint32_t poison_step;        /* failures at one step, on different nodes */
    int64_t horizon_ns;          /* until the end, where nobody knows it */
    uint32_t exit_count;         /* exit statuses that mean: do not restart */
    uint8_t exit[POLICY_EXITS];
    uint8_t verdict_severity[VERDICT_KIND_COUNT]; /* 0: as it is */
    uint8_t finding_severity[FINDING_KIND_COUNT];
    uint32_t rows;
    struct policy_row row[POLICY_ROWS];
};

void policy_table_put(struct buf *out, const struct policy_table *table);
int policy_table_get(struct reader in,
                     struct policy_table *ret); /* -EPROTO; *ret is undefined then */

/* Of a verdict, before findings: a job that does not advance is fatal, one that is slow a warning. */
unsigned verdict_kind_severity(unsigned kind);

/* ---- what can be done, and until when it pays ---- */

enum policy_mode {
    POLICY_DRY_RUN = 1, /* decisions are written, and nothing is done */
    POLICY_ACT = 2,
    POLICY_OFF = 3, /* the kill switch is on */
    POLICY_MODE_COUNT
};

struct policy_means {
    int64_t mono_ns, real_ns;
    uint8_t mode;
    uint32_t actions;       /* bit 1 << action: whoever carries out orders can do it */
    uint32_t restarts_left; /* that the user agreed to */
    bool restart_hangs;     /* a run that hangs may be restarted, without POLICY_ACT too */
    uint32_t spares;        /* nodes that are free */
    int64_t end_real_ns;    /* when the run must end; 0: not known */
    uint64_t steps;         /* that it shall make; 0: not known */
    int64_t submit_real_ns, start_real_ns; /* of the scheduler's job; 0: not known */
};

void policy_means_put(struct buf *out, const struct policy_means *means);
int policy_means_get(struct reader in, struct policy_means *ret); /* -EPROTO */

#endif
