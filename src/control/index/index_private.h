/* index_private.h - shared by the files of the index.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_INDEX_INDEX_PRIVATE_H
#define LOCKSTEP_CONTROL_INDEX_INDEX_PRIVATE_H

#include <sqlite3.h>

#include "base/paths.h"
#include "control/index/agent_traffic.h"
#include "control/index/index.h"
#include "control/matrix/columns.h"
#include "control/matrix/matrix.h"
#include "control/matrix/step_places.h"
#include "core/map.h"
#include "wire/frame.h"
#include "wire/spool.h"

struct rank_state { /* of a rank; beats come too often to be written one by one */
    struct index_rank row;
    bool dirty;
};

struct index_follower { /* one run whose log is read */
    struct index_follower *next;
    struct index *index;
    char run[FACT_NAME];
    struct path log, matrix_path, places_path;
    int64_t id; /* of the run's row */
    struct spool_reader *reader;
    uint64_t log_id; /* hash of the log's first frame: another one is another log */
    struct index_run row;
    struct map rank_place;   /* rank → */
    struct rank_state *rank; /* those that were heard */
    uint32_t ranks, rank_room;
    struct traffic traffic;
    struct map shape; /* hash → place in `shapes` */
    struct fact_shape *shapes;
    size_t shape_count, shape_room;
    struct map clock;     /* sender → real minus monotonic time, from its HELLO */
    int64_t clock_ns;     /* the controller's own */
    int64_t tick_real_ns; /* of the newest tick */
    uint64_t self;
    struct columns *columns;
    struct matrix_writer *matrix; /* NULL: not yet, or it cannot be written */
    struct step_places *places;   /* NULL: not yet, or it cannot be written */
    bool places_logged;
    bool matrix_behind; /* the file has fewer columns than the index says */
    bool matrix_logged;
    bool rebuilding;          /* what was there is gone, and is read again */
    struct log_mark frame_at; /* where the frame that is looked at begins */
    struct log_mark start;    /* where this life began to read */
    int64_t ranks_written_ns;
    bool urgent; /* a rank began or ended: not repeated */
    struct err *err;
};

struct index {
    sqlite3 *db;
    struct path path;
    char *rebuilt; /* why an earlier file was thrown away */
    struct index_follower *follower;
    bool broken;      /* the file is damaged: the next follow rebuilds it */
    uint64_t makings; /* of its tables */
};

/* Both: a prepared statement that is finalized by the caller (CLEAN(statement_clean)). */
int index_prepare(struct index *index, const char *sql, sqlite3_stmt **ret, struct err *err);
/* Binds by letters: i int64_t, d double, t text (NULL is fine), b pointer and size_t; then runs to the end. */
int index_execute(struct index *index, struct err *err, const char *sql, const char *types, ...);
int index_error(struct index *index, int code, struct err *err); /* -errno for SQLite's */
void statement_clean(sqlite3_stmt **statement);

/* index_fill.c */
int follower_open(struct index *index, const char *run_dir, struct index_follower **ret,
                  struct err *err);
void follower_close(struct index_follower *follower);
int64_t follower_read(struct index_follower *follower, size_t frames_max, struct err *err);
/* index_rows.c: what a frame changes. */
int follower_frame(struct index_follower *follower, const struct frame *frame, struct err *err);
int follower_write(struct index_follower *follower, bool ranks,
                   struct err *err); /* the run's row, and its ranks' */
int follower_load(struct index_follower *follower,
                  struct err *err); /* what an earlier life has written */
int follower_forget(struct index *index, const char *run, struct err *err);
struct rank_state *follower_rank(struct index_follower *follower,
                                 uint32_t rank);                               /* NULL: no memory */
int follower_shape(struct index_follower *follower, struct fact_shape *shape); /* takes its items */
column_call follower_column;
/* index_records.c: findings, decisions, outcomes and checks. */
int follower_record(struct index_follower *follower, const struct frame *frame);

#endif
