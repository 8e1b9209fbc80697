/* run_summary.h - all that is known of one run, as `lockstep why` tells it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_RUN_SUMMARY_H
#define LOCKSTEP_SHOW_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "show/environment_view.h"
#include "show/record_view.h"
#include "show/style.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/save_note.h"
#include "wire/verdict.h"

#define RUN_SUMMARY_UNSEEN 16
#define RUN_SUMMARY_RESTARTS 32

enum run_summary_source {
    RUN_SUMMARY_LOG,        /* what the controller said */
    RUN_SUMMARY_SPOOLS,     /* no controller ever wrote: judged now from the spools */
    RUN_SUMMARY_LOG_SPOOLS, /* its log ends early: judged now from the log and the rest of the spools */
};

struct run_summary_parts { /* of a restart: from the fault to the end of the first new step */
    bool known;            /* a step was made after it; else only the first parts are known */
    double detect_s, decide_s, stop_s, start_s, init_s, first_step_s;
};

struct run_summary_restart {
    uint32_t attempt; /* that ended */
    int32_t culprit, status;
    char text[160];
    struct run_summary_parts parts;
};

#define RUN_SUMMARY_DECISIONS 32

struct run_summary_decision { /* the newest state of one */
    char id[DECISION_ID], of[DECISION_ID];
    uint8_t action, state;
    struct outcome_tally done;
    int64_t decided_real_ns;
    double saves_gpu_seconds, costs_gpu_seconds;
    char why[200];
};

/* Of a run that had no launcher to tell how it ended. */
#define RUN_SUMMARY_LEFT "ended, exit status not known"

/* Of a run whose launcher was killed before it could record how it ended. */
#define RUN_SUMMARY_KILLED "ended, its launcher was killed"

/* Of a run in which no process has the probe, and what to do about it. */
#define RUN_SUMMARY_UNOBSERVED                                                                     \
    "steps: no process loaded the lockstep probe; only crashes and exits are known\n"              \
    "  to do: train with torch (python3 without -I, -E and -S), or call the probe in your "        \
    "program\n"                                                                                    \
    "  (lockstep/probe.h)"

/* A checkpoint, from the notes of its ranks (wire/save_note.h). */
struct run_summary_save {
    uint64_t step;
    uint32_t ranks;                                                  /* whose notes came */
    uint64_t bytes, arena_bytes, skipped, failed;                    /* of all ranks */
    uint64_t snapshot_us, write_us, digest_us, commit_us, verify_us; /* of the slowest rank each */
};

struct run_summary {
    char run[64];
    enum run_summary_source source;
    bool compacted; /* its steps were merged: they are counted, and cannot be judged again */
    bool alive;     /* somebody still writes */
    bool launched;  /* by a launcher, which records the end */
    bool ended;     /* the launcher said so */
    bool closed;    /* the books are; without that word: all of its ranks are gone */
    bool stopped;   /* ... because somebody asked for it, by a signal to the launcher */
    int32_t status;
    char
        reason[160]; /* of an end for which the policy found one, such as too few nodes; "": none */
    struct verdict *verdict; /* open ones first */
    size_t verdicts;
    int64_t
        still_ns; /* for how long no rank had advanced at its end, or now; 0: less than a hang */
    struct ledger ledger;
    bool has_ledger;
    struct run_summary_save save; /* the newest one that all ranks noted; ranks 0: none */
    uint64_t saves;               /* notes of saves */
    struct copy_note copied; /* the newest checkpoint of which a copy was noted; no times: none */
    uint64_t frames, steps, beats, notes, exits, ticks;
    uint64_t malformed, damaged_bytes;
    uint64_t lost_frames; /* numbers missing between the frames of a sender */
    uint64_t gap_records, gap_steps, unfinished_steps, torn_steps;
    uint64_t untimed_steps; /* with operations of which only the launch is known */
    uint64_t merged_steps;  /* of `steps`: only known together with others, so not judged */
    uint64_t bare_steps;    /* of which only numbers came, and only these were judged */
    uint64_t old_steps;     /* with a number that was over already */
    uint32_t ranks, ranks_seen, unseen; /* unseen: of those expected */
    uint32_t unseen_rank[RUN_SUMMARY_UNSEEN];
    uint32_t attempts, restarts; /* restarts: all; the array holds the first ones */
    struct run_summary_restart restart[RUN_SUMMARY_RESTARTS];
    uint32_t decisions; /* of the policy, all; the array holds the first ones */
    struct run_summary_decision decision[RUN_SUMMARY_DECISIONS];
    struct environment_differences rank_environments;    /* of the newest attempt */
    struct environment_differences attempt_environments; /* of it and the one before */
};

/* It ended badly, nobody asked for that, and no verdict says why: that is not well, whatever else is. */
bool run_summary_unexplained(const struct run_summary *summary);
/* {run, source, alive, state, status, reason, unexplained, standstill_seconds, lost_share, checkpoint, verdicts, ledger, restarts, decisions, environment, counts} */
struct json_object *run_summary_json(const struct run_summary *summary);
void run_summary_text(const struct run_summary *summary, const struct show_style *style, FILE *out);
/* Its last part, for whoever has told the verdicts as they came: an end that they do not explain, restarts, ledger, what
 * was not seen.
 */
void run_summary_end_text(const struct run_summary *summary, const struct show_style *style,
                          FILE *out);

/* 0 nothing wrong, 1 a verdict or a reason for its end, 3 cannot tell: no step was seen, or an end, a standstill or a loss of time that
 * nothing explains.
 */
int run_summary_exit(const struct run_summary *summary);

#endif
