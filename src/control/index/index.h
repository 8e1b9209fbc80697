/* index.h - the contents of the logs in SQLite, for paged queries.
 *
 *     index_open("STATE/index.sqlite", &index, &err);
 *     while ((more = index_follow(index, run_dir, 4096, &err)) > 0)
 *         ;
 *     index_verdicts(index, &(struct index_query){ .run = "r1", .limit = 50 }, each, arg, &err);
 *
 * Derived from the logs alone: a file that is lost, damaged or of another version is created again and filled by the
 * next index_follow() of each run.  The rows of a run and the position in its log change in one transaction, so a kill
 * at any time loses nothing.  One writer; any number of readers, also in other processes (WAL).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_INDEX_INDEX_H
#define LOCKSTEP_CONTROL_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "wire/facts.h"
#include "wire/verdict.h"

struct index;

/* Creates what is missing, mode 0600.  `index_was_rebuilt` says whether an earlier file was thrown
 * away, and why (NULL: it was not).
 */
int index_open(const char *path, struct index **ret, struct err *err);
void index_close(struct index *index); /* NULL is fine */
const char *index_was_rebuilt(const struct index *index);
/* Damage is found when something is asked or written.  The next index_follow() makes the file again, or index_repair() does;
 * then index_makings() changes, and the rows of every run are gone until it is followed to its end.
 */
bool index_is_broken(const struct index *index);
int index_repair(struct index *index, struct err *err);
uint64_t index_makings(const struct index *index); /* how often its tables were created */
/* Rows or matrix of this run were damaged or missing and were dropped; the log has not been read to its end since. */
bool index_is_rebuilding(const struct index *index, const char *run);

/* Reads on in the log of a run, at most so many frames, and commits.  Returns how many it read; 0: the
 * index says all that the log does; -ENOENT: no log there (yet).  The reader stays open between
 * calls; index_leave() closes it.
 */
int64_t index_follow(struct index *index, const char *run_dir, size_t frames_max, struct err *err);
void index_leave(struct index *index, const char *run);
/* The log of a run was compacted while it was followed: what was at `old_from` and after it is at `new_from` now.  Rows
 * stay as they are, so that whoever pages through them is not disturbed; if that cannot be they are made anew.
 */
int index_shift(struct index *index, const char *run_dir, uint64_t old_from, uint64_t new_from,
                struct err *err);
/* Removes all rows of a run: the next index_follow() begins at its log's first byte. */
int index_forget(struct index *index, const char *run, struct err *err);

/* What to give out.  All fields are filters; 0, NULL and "" mean any.  Rows come in the order of
 * their `cursor`; to go on, ask again with `after` = the last one's.
 */
struct index_query {
    const char *run;    /* ranks, steps, shapes and ledgers need it */
    const char *node;   /* ranks, nodes, verdicts, evidence and records */
    const char *id;     /* verdicts, records: this one; evidence: of this one */
    const char *source; /* evidence: "ring", "schedstat", "launcher" ... */
    uint32_t kind;  /* verdicts: enum verdict_kind; records: of a finding, action, result, state */
    int32_t layer;  /* verdicts: enum verdict_layer plus one */
    int64_t rank;   /* verdicts that name it, and that rank: plus one */
    bool open_only; /* verdicts that are not over; runs that go on */
    bool newest_first;
    bool spread; /* ledgers: evenly over the whole run, the newest among them, at most limit */
    uint64_t step_from, step_to;      /* steps: inclusive; verdicts: since_step; to 0: no end */
    int64_t real_from_ns, real_to_ns; /* since_real_ns or begin_real_ns; to 0: no end */
    uint64_t after;                   /* cursor of the last row that is known */
    uint32_t limit;                   /* 0: 100; at most 10000 */
};

struct index_run {
    uint64_t cursor;
    char run[FACT_NAME], command[160];
    uint32_t ranks, attempts; /* attempts: of which it knows */
    bool ended, closed;       /* the launcher's word; the books */
    int32_t status;           /* when it ended */
    int64_t begin_real_ns, end_real_ns;
    uint64_t steps, frames, log_bytes, damaged_bytes;
    uint32_t verdicts, verdicts_open;
    bool has_ledger;
    struct ledger ledger; /* the newest */
};

struct index_rank {
    uint64_t cursor;
    uint32_t rank, attempt, ring, pid;
    char node[FACT_NAME];
    bool has_layout;
    uint16_t layout[10];
    uint64_t step;        /* newest step in a beat or step */
    int64_t beat_real_ns; /* newest beat; 0: none */
    char state;           /* of that beat; 0: none */
    uint8_t phase;
    bool ended, ended_by_launcher;
    int32_t status; /* as waitpid() gives it */
    char end_text[160];
};

struct index_node {
    uint64_t cursor;
    char run[FACT_NAME], node[FACT_NAME], version[FACT_NAME];
    uint32_t ranks;
    int64_t hello_real_ns;
    int64_t newest_real_ns;      /* its newest fact, to within five seconds; 0: not known */
    bool has_traffic;            /* its agent has spoken of what it sends: */
    struct fact_traffic traffic; /* its newest report */
    double bytes_per_second;     /* since the one before */
};

/* One step of all ranks.  `column` is its place in the matrix (matrix.h): steps in the order in which
 * they were trained, those of later attempts after those of earlier ones.
 */
struct index_step {
    uint64_t cursor, column, step;
    uint32_t attempt, ranks; /* ranks: that sent it */
    int64_t begin_real_ns;   /* the first rank's; 0: not known */
    int64_t duration_ns;     /* of the rank that took longest */
    int64_t median_ns;       /* of the ranks' own work: neither in an op with others nor waiting */
    int64_t excess_ns;       /* of the rank that is most above it */
    uint32_t worst;          /* that rank */
    uint64_t shape;          /* of the worst rank */
    double loss, tokens;     /* means of the ranks that reported them; NAN: none did */
};

struct index_shape {
    uint64_t cursor, hash, class;
    uint32_t items;
    uint32_t dtypes; /* bit i: some op's elements are of type i */
};

/* One line of a verdict: evidence, a layer that was ruled out, or a follow-on error. */
enum evidence_role {
    EVIDENCE_BECAUSE,
    EVIDENCE_RULED_OUT, /* the source is the layer that it is not */
    EVIDENCE_ECHO,
};
struct index_evidence {
    uint64_t cursor;
    enum evidence_role role;
    const struct verdict_line *line;
    const struct verdict *verdict; /* whose evidence it is, as it stands */
};

/* A finding, decision, outcome or check as it stands; its cursor grows when it changes. */
struct index_record {
    uint64_t cursor;
    char run[FACT_NAME];
    bool root;             /* a finding: a node's root daemon sent it */
    struct reader payload; /* of the frame */
};

struct index_ledger { /* as it stood at that time */
    uint64_t cursor;
    int64_t real_ns;
    struct ledger ledger;
};

/* Called once a row; not 0: enough, and that is what the query returns. */
typedef int index_run_call(void *arg, const struct index_run *row);
typedef int index_rank_call(void *arg, const struct index_rank *row);
typedef int index_node_call(void *arg, const struct index_node *row);
typedef int index_step_call(void *arg, const struct index_step *row);
typedef int index_shape_call(void *arg, const struct index_shape *row);
/* The last state of a verdict; its cursor grows when it changes, so that `after` also finds news. */
typedef int index_verdict_call(void *arg, uint64_t cursor, const struct verdict *row);
typedef int index_evidence_call(void *arg, const struct index_evidence *row);
typedef int index_record_call(void *arg, const struct index_record *row);
typedef int index_ledger_call(void *arg, const struct index_ledger *row);

/* Each returns how many rows it gave, or -errno. */
int64_t index_runs(struct index *index, const struct index_query *query, index_run_call *call,
                   void *arg, struct err *err);
int64_t index_ranks(struct index *index, const struct index_query *query, index_rank_call *call,
                    void *arg, struct err *err);
int64_t index_nodes(struct index *index, const struct index_query *query, index_node_call *call,
                    void *arg, struct err *err);
int64_t index_steps(struct index *index, const struct index_query *query, index_step_call *call,
                    void *arg, struct err *err);
int64_t index_shapes(struct index *index, const struct index_query *query, index_shape_call *call,
                     void *arg, struct err *err);
/* Of one shape, with its items; the caller frees them.  -ENOENT: the index does not have it. */
int index_shape_read(struct index *index, const char *run, uint64_t hash, struct fact_shape *ret,
                     struct err *err);
int64_t index_verdicts(struct index *index, const struct index_query *query,
                       index_verdict_call *call, void *arg, struct err *err);
int64_t index_evidence(struct index *index, const struct index_query *query,
                       index_evidence_call *call, void *arg, struct err *err);
int64_t index_records(struct index *index, uint16_t type, const struct index_query *query,
                      index_record_call *call, void *arg, struct err *err);
int64_t index_ledgers(struct index *index, const struct index_query *query, index_ledger_call *call,
                      void *arg, struct err *err);

#endif
