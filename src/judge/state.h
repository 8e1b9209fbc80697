/* state.h - everything the judges share, and the list of judges.
 *
 * Facts come in as they are (steps, exits, beats, attempts); each whole step is split,
 * compared, replayed and laid before every judge in judges.c.  What they find goes
 * into the verdict table, where one fault is one verdict over its life.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STATE_H
#define LOCKSTEP_JUDGE_STATE_H

#include "judge/detect/detect.h"
#include "judge/replay/program.h"
#include "judge/step/history.h"
#include "judge/step/model.h"
#include "judge/step/split.h"
#include "judge/thresholds.h"
#include "wire/verdict.h"

#define VERDICT_TABLE_MAX 256
#define STRAGGLER_MIGRATES "no rank in particular" /* group of a straggler that moves */

struct tracked_verdict { /* one verdict over its life */
    struct verdict verdict;
    const struct judge *by; /* who found it last; NULL: none of the list */
    bool open, changed;
    bool recurs;           /* a straggler that is not steady: it comes and goes, or forms */
    uint64_t seen_step;    /* newest step in which it was found again */
    uint64_t steps;        /* it was open in */
    double step_seconds;   /* what the newest step lost to it */
    double cost_seconds;   /* ... summed over all its steps */
    double period_seconds; /* these steps took */
    uint32_t attempt;      /* of a crash or hang: the one that ended with it */
    int status;            /* of a crash: how its culprit ended */
    bool restarted;        /* of a crash: workers were begun again since, within the attempt */
    int64_t began_real_ns; /* of a hang: this time, where since_real_ns is the first time */
    uint32_t reopened;     /* how often it came back: the oftener, the longer it is waited for */
    char explained[20];    /* the finding that set layer and cause; "": none (cause.h) */
    uint8_t explained_layer, judged_layer; /* that it set, and that the judge had named */
};

struct verdict_table {
    struct tracked_verdict *tracked[VERDICT_TABLE_MAX];
    uint32_t count;
    uint64_t refused; /* more faults at once than fit */
};

/* The heaviest stage, while it stays the same one: means over the newest steps, since jitter decides anew
 * in each which path is critical, and one step's answer says little.
 */
struct stage_looks {
    uint32_t stage, count;
    double as_others_ms; /* shorter, were it no heavier than the others */
    double even_ms;      /* shorter, were all work split evenly */
};

#define LATE_STEPS_MAX 64

struct late_look { /* who came last to the collectives of a step */
    uint64_t step;
    uint32_t rank;
    double own_ms, waited_ms, step_ms; /* waited: the others' median */
};

struct late_looks {
    uint32_t count; /* the newest is look[(count - 1) % LATE_STEPS_MAX] */
    struct late_look look[LATE_STEPS_MAX];
};

/* Of what is known of a step.  A device that tells its collectives alone does not tell what a rank's own work was; a
 * host that is ahead of its device not even how long the step took.
 */
enum evidence_level {
    EVIDENCE_WORK,
    EVIDENCE_TIMES,
    EVIDENCE_NONE,
};

struct ledger_book;  /* ledger.h */
struct corrupt_book; /* corrupt.h */
struct regress;      /* regress.h */
struct hang;         /* hang.h */
struct stall;        /* stall.h */
struct signals;      /* signals.h */
struct sync;         /* sync.h */

#define POINT_NAMED 8 /* ranks of a side that are known by number */

struct point_side { /* the ranks that saved a checkpoint in the same step */
    uint64_t saved_in;
    uint32_t ranks, rank[POINT_NAMED];
};

struct judge_point { /* crash_point.c: a checkpoint that ranks have verified */
    uint64_t step;
    uint32_t ranks, attempt;   /* ranks 0: none */
    struct point_side side[2]; /* the second one has all that differ from the first */
};

struct judge_state {
    struct thresholds limits;
    struct model model;
    struct splitter *splitter;
    struct program *program;
    struct history history;
    struct verdict_table verdicts;
    struct stage_looks stage_looks;
    struct late_looks late_looks;
    struct ledger_book *book;
    struct corrupt_book *corrupt;
    struct regress *regress;
    struct hang *hang;
    struct signals *signals;
    struct stall *stall;
    struct sync *sync;
    const struct job_step *job_step; /* the newest step, while the judges look at it; else NULL */
    const struct judge *looks;       /* who looks at it; NULL: nobody */
    enum evidence_level known; /* of the newest step: judges that need more do not look at it */
    bool program_ready;        /* the newest step is loaded and fits */
    uint64_t unfit_steps;      /* replay did not reproduce them: nothing was priced from them */
    int64_t mono_to_real_ns;   /* from the newest tick */
    struct fact_exit exit[64]; /* bad ones of this attempt */
    uint32_t exits;
    struct fact_exit
        launcher_exit[64]; /* of ranks that the launcher ended: bad, but no fault of their own */
    uint32_t launcher_exits;
    struct fact_note note[16]; /* the newest of this attempt, by number % 16 */
    uint32_t notes;
    struct judge_point point[4]; /* the newest checkpoints, of all attempts */
    struct {
        bool known;
        uint32_t attempt;
        uint64_t step;
    } restored; /* the point from which a rank of that attempt went on */
    struct fact_note raised, raised_thread; /* crash_private.h; text "": none */
    struct fact_note uncaught[64];          /* the first of a rank; for want of its status */
    uint32_t uncaught_count;
    uint32_t
        failing; /* a rank, plus one, that has failed and does not end, as a hang showed; 0: none */
    struct fact_exit left[64]; /* crash_left.c: faults, should the attempt have failed */
    uint32_t left_count;
    bool failed;         /* the attempt has ended, and not well */
    bool crash_reported; /* of this attempt */
    bool stepped;        /* a whole step has been seen, in any attempt */
    uint64_t last_step;  /* newest whole step of all attempts */
};

int judge_state_init(struct judge_state *judge, const char *run);
void judge_state_fini(struct judge_state *judge);
/* Of memory: a sum over the arrays of the judges, without the allocator's own part and what one step needs only while it is
 * judged.  A controller of many runs compares it with what each may have.
 */
size_t judge_state_bytes(const struct judge_state *judge);
/* Within an attempt workers were ended and new ones begun, as elastic launchers do when members come or go: a world of
 * this size now.  Ranks whose process is gone are unseen until they open a ring again.
 */
void judge_state_workers_restarted(struct judge_state *judge, uint32_t world, int64_t mono_ns);
void judge_state_attempt(struct judge_state *judge, uint32_t attempt,
                         int64_t mono_ns); /* a new one begins */
/* A step of which only numbers are left: whether these are right is judged, and nothing else. */
void judge_state_numbers(struct judge_state *judge, struct job_step *job_step);
int judge_state_step(struct judge_state *judge,
                     struct job_step *job_step); /* steps come in order */
void judge_state_end(struct judge_state *judge,
                     int64_t mono_ns); /* the run is over: close everything */

/* A judge looks at the newest step.  It finds through judge_state_find(). */
struct judge {
    const char *name;
    void (*step)(struct judge_state *judge);
    enum evidence_level evidence;
    /* Changes the trial of the newest step (replay/program.h) as if the fault were not there; false, NULL: no replay can
     * tell what that gives.
     */
    bool (*remedy)(struct judge_state *judge, const struct tracked_verdict *tracked);
};
extern const struct judge *const judges[]; /* judges.c; NULL ends the list */

/* Brings a verdict in: opens it, or marks the open one as seen again.  `draft` has kind, layer, ranks,
 * group set; returns the entry, with *fresh set when the draft's evidence is now in it; NULL: verdict table full, or a
 * slowness that is less likely than not.
 */
struct tracked_verdict *judge_state_find(struct judge_state *judge, struct verdict *draft,
                                         bool *fresh);
/* This one was the other all along: it is over, and both say so. */
void judge_state_merge(struct judge_state *judge, struct tracked_verdict *tracked,
                       struct tracked_verdict *into);
/* The open one about such a group; NULL: there is none. */
struct tracked_verdict *judge_state_group_verdict(struct judge_state *judge, unsigned kind,
                                                  const char *group);
struct tracked_verdict *judge_state_open_verdict(struct judge_state *judge, unsigned kind,
                                                 unsigned layer, uint32_t rank);
/* What is learnt later goes into the verdict that stands: one fault is one verdict.  Its id, its begin and its cost
 * stay as they are.
 */
void judge_state_renew(struct tracked_verdict *tracked, const struct verdict *draft);
void judge_state_add_rank(const struct judge_state *judge, struct verdict *draft,
                          uint32_t rank); /* and its node */
/* Its process ended, and nobody saw with what status. */
bool judge_state_left_unseen(const struct judge_state *judge, uint32_t rank);
/* The note of an uncaught exception begins so. */
#define STATE_UNCAUGHT "uncaught "
bool judge_state_note_ends(const struct fact_note *note); /* it is one by which a rank fails */
/* What the rank noted of that; NULL: nothing. */
const struct fact_note *judge_state_uncaught(const struct judge_state *judge, uint32_t rank);
int64_t judge_state_step_real_ns(const struct judge_state *judge,
                                 uint64_t step); /* when it began; 0: not in the window */
/* A time of a rank's node on the run's clock. */
int64_t judge_state_run_ns(const struct judge_state *judge, uint32_t rank, int64_t mono_ns);
/* From when on one of so many series has risen: by `share` of a step at least, and as rarely by chance as the site asks. */
struct detect_rule judge_state_rule(const struct judge_state *judge, double series, double share);

#endif
