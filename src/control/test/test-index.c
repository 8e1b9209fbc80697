/* test-index.c - whatever happens to the index, it says what the log says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/index/index.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "control/log/runlog.h"
#include "control/log/spools.h"
#include "control/matrix/matrix.h"
#include "control/test/lab_frames.h"
#include "control/test/runlog_whole.h"
#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/spool.h"

struct place {
    char base[64], run[128], index[128], matrix[160];
    struct rundir dir;
};

/* Two attempts; rank 5 is slow from step 15 on, rank 3 is killed. */
static void write_log(const struct place *place, int steps)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct lab_config config = lab_plain;
    struct lab *lab;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    uint64_t number = 0;
    int64_t now;

    config.dp = 8;
    config.per_node = 2;
    lab = lab_create(&config);
    lab_frames_begin(&frames, lab);
    for (int i = 0; i < steps; i++) {
        lab->fault.stretch[5] = i >= 15 ? 0.3 : 0;
        lab_step(lab);
        lab_frames_step(&frames, lab);
    }
    now = lab->rank[0].begin_ns + lab->rank[0].duration_ns;
    lab_frames_exit(&frames, lab, 3, now, 9, false);
    lab_frames_run(&frames, lab, RUN_ATTEMPT_END, now + 100000000, 1);
    lab_restart(lab, 30, 2 * NS_PER_S);
    lab_frames_begin(&frames, lab);
    for (int i = 0; i < 20; i++) {
        lab_step(lab);
        lab_frames_step(&frames, lab);
    }
    lab_destroy(lab);
    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    for (size_t i = 0; i < frames.count; i++) {
        struct frame frame = { .type = frames.frame[i].type,
                               .version = FRAME_VERSION,
                               .sender = 77 + frames.frame[i].sender,
                               .boot = 1,
                               .number = number++,
                               .payload = frames.frame[i].payload,
                               .payload_bytes = frames.frame[i].bytes };

        assert_int_equal(runlog_take(log, &frame, 1, NULL), 0);
        if (i % 16 == 15)
            assert_int_equal(runlog_tick(log, 0, NULL), 0);
    }
    assert_int_equal(runlog_tick(log, TICK_LAST, NULL), 0);
    runlog_close(log);
    seen_fini(&seen);
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    log_quiet(1);
    strcpy(place->base, "/tmp/lockstep-index-XXXXXX");
    if (!mkdtemp(place->base))
        return -1;
    snprintf(place->run, sizeof(place->run), "%s/r1", place->base);
    snprintf(place->index, sizeof(place->index), "%s/index.sqlite", place->base);
    snprintf(place->matrix, sizeof(place->matrix), "%s/matrix.lsm", place->run);
    if (mkdir(place->run, 0700) < 0 || rundir_open(&place->dir, place->run, NULL) < 0)
        return -1;
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;

    tree_remove(place->base);
    free(place);
    return 0;
}

/* ---- all that an index says, as text ---- */

static int put_run(void *arg, const struct index_run *row)
{
    fprintf(arg, "run %s %s %u %u %d %d %d %llu %llu %llu %llu %u %u %d %.6f\n", row->run,
            row->command, row->ranks, row->attempts, row->ended, row->closed, row->status,
            (unsigned long long)row->steps, (unsigned long long)row->frames,
            (unsigned long long)row->log_bytes, (unsigned long long)row->damaged_bytes,
            row->verdicts, row->verdicts_open, row->has_ledger, row->ledger.wall_seconds);
    return 0;
}

static int put_rank(void *arg, const struct index_rank *row)
{
    fprintf(arg, "rank %u %u %u %s %d %llu %d %d %s\n", row->rank, row->attempt, row->pid,
            row->node, row->has_layout, (unsigned long long)row->step, row->ended, row->status,
            row->end_text);
    return 0;
}

static int put_step(void *arg, const struct index_step *row)
{
    fprintf(arg, "step %llu %u %llu %u %lld %lld %lld %u\n", (unsigned long long)row->column,
            row->attempt, (unsigned long long)row->step, row->ranks, (long long)row->duration_ns,
            (long long)row->median_ns, (long long)row->excess_ns, row->worst);
    return 0;
}

static int put_shape(void *arg, const struct index_shape *row)
{
    fprintf(arg, "shape %llx %llx %u %x\n", (unsigned long long)row->hash,
            (unsigned long long)row->class, row->items, row->dtypes);
    return 0;
}

static int put_verdict(void *arg, uint64_t cursor, const struct verdict *row)
{
    (void)cursor;
    fprintf(arg, "verdict %s %u %u %u %llu %.6f %d\n", row->id, row->kind, row->layer, row->rank[0],
            (unsigned long long)row->since_step, row->gpu_seconds, row->until_real_ns != 0);
    return 0;
}

static int put_ledger(void *arg, const struct index_ledger *row)
{
    fprintf(arg, "ledger %.6f\n", row->ledger.wall_seconds);
    return 0;
}

static char *dump(struct index *index)
{
    struct index_query query = { .run = "r1", .limit = 10000 };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_true(index_runs(index, &query, put_run, out, NULL) >= 0);
    assert_true(index_ranks(index, &query, put_rank, out, NULL) >= 0);
    assert_true(index_steps(index, &query, put_step, out, NULL) >= 0);
    assert_true(index_shapes(index, &query, put_shape, out, NULL) >= 0);
    assert_true(index_verdicts(index, &query, put_verdict, out, NULL) >= 0);
    assert_true(index_ledgers(index, &query, put_ledger, out, NULL) >= 0);
    fclose(out);
    return text;
}

static void follow_all(struct index *index, const char *run_dir)
{
    struct err err = { "" };
    int64_t more;

    while ((more = index_follow(index, run_dir, 1000, &err)) > 0)
        ;
    if (more < 0)
        fail_msg("%s", err.text);
}

/* Opens, follows to the end, closes. */
static char *dump_of(const struct place *place)
{
    struct index *index;
    char *text;

    assert_int_equal(index_open(place->index, &index, NULL), 0);
    follow_all(index, place->run);
    text = dump(index);
    index_close(index);
    return text;
}

static int count_row(void *arg, const struct index_step *row)
{
    struct index_step *last = arg;

    *last = *row;
    return 0;
}

static int count_verdict(void *arg, uint64_t cursor, const struct verdict *row)
{
    (void)arg;
    (void)cursor;
    assert_int_equal(row->rank[0], 5);
    return 0;
}

static void it_says_what_the_log_says(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *text = NULL;
    struct index *index;
    struct matrix *matrix;
    struct index_step last;
    struct index_query of_5 = { .run = "r1", .rank = 6, .kind = VERDICT_STRAGGLER };
    struct index_query page = { .run = "r1", .limit = 7 };
    struct index_query bad_steps = { .run = "r1", .step_from = 20, .step_to = 25 };
    int64_t got, all = 0;

    write_log(place, 40);
    text = dump_of(place);
    assert_non_null(strstr(text, "run r1 "));
    assert_non_null(strstr(text, "\nstep 59 1 49 8 "));
    assert_non_null(strstr(text, "rank 3 1 "));
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    assert_null(index_was_rebuilt(index));
    assert_int_equal(index_verdicts(index, &of_5, count_verdict, NULL, NULL), 1);
    of_5.rank = 7;
    assert_int_equal(index_verdicts(index, &of_5, count_verdict, NULL, NULL), 0);
    assert_int_equal(index_steps(index, &bad_steps, count_row, &last, NULL), 6);
    assert_int_equal(last.worst, 5);
    assert_true(last.excess_ns > last.median_ns / 10);
    while ((got = index_steps(index, &page, count_row, &last, NULL)) > 0) {
        page.after = last.cursor;
        all += got;
    }
    assert_int_equal(all, 60);
    page.after = 0;
    page.newest_first = true;
    assert_int_equal(index_steps(index, &page, count_row, &last, NULL), 7);
    assert_int_equal(last.column, 53);
    assert_int_equal(index_steps(index, &(struct index_query){ .run = "" }, count_row, &last, NULL),
                     -EINVAL);
    index_close(index);
    assert_int_equal(matrix_open(place->matrix, &matrix, NULL), 0);
    assert_int_equal(matrix_columns(matrix), 60);
    assert_int_equal(matrix_ranks(matrix), 8);
    matrix_close(matrix);
}

/* The state of ranks is written now and then only, so a life that is cut short may miss a beat. */
#define MANY_RANKS 2000
#define FEW_STEPS 80 /* more than wait for ranks */

static void many_write(struct runlog *log, uint64_t *number, uint16_t type, struct buf *payload)
{
    struct frame frame = { .type = type,
                           .version = FRAME_VERSION,
                           .sender = 77,
                           .boot = 1,
                           .number = (*number)++,
                           .payload = payload->data,
                           .payload_bytes = payload->size };

    assert_int_equal(runlog_take(log, &frame, 1, NULL), 0);
    buf_fini(payload);
}

static void many_step(struct runlog *log, uint64_t *number, uint32_t rank, uint64_t step)
{
    struct fact_shape shape = { .hash = 1 };
    struct fact_step fact = { .shape = 1,
                              .rank = rank,
                              .step = step,
                              .begin_ns = (int64_t)step * NS_PER_S,
                              .duration_ns = rank == MANY_RANKS - 1 ? NS_PER_S : NS_PER_MS };
    struct buf payload = { 0 };

    fact_step_put(&payload, &fact, &shape);
    many_write(log, number, FRAME_STEP, &payload);
}

/* A node whose spool waited sends many steps before the others send their rings. */
static void write_one_node_first(const struct place *place)
{
    struct seen seen = { 0 };
    struct buf payload = { 0 };
    struct runlog *log = NULL;
    uint64_t number = 0;

    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    fact_shape_put(&payload, &(struct fact_shape){ .hash = 1 });
    many_write(log, &number, FRAME_SHAPE, &payload);
    for (uint32_t rank = 0; rank < MANY_RANKS; rank++) {
        payload = (struct buf){ 0 };
        fact_ring_put(&payload,
                      &(struct fact_ring){ .rank = rank, .world = MANY_RANKS, .node = "n" });
        many_write(log, &number, FRAME_RING, &payload);
        for (uint64_t step = 0; rank == 7 && step < FEW_STEPS; step++) {
            for (uint32_t early = 0; early < 8; early++)
                many_step(log, &number, early, step);
        }
    }
    for (uint64_t step = FEW_STEPS; step < FEW_STEPS + 4; step++) {
        for (uint32_t rank = 0; rank < MANY_RANKS; rank++)
            many_step(log, &number, rank, step);
    }
    assert_int_equal(runlog_tick(log, TICK_LAST, NULL), 0);
    runlog_close(log);
    seen_fini(&seen);
}

static void ranks_that_are_heard_late_are_in_the_matrix(void **state)
{
    static unsigned char tile[MATRIX_TILE_BYTES];
    struct place *place = *state;
    struct matrix *matrix;

    write_one_node_first(place);
    free(dump_of(place));
    assert_int_equal(matrix_open(place->matrix, &matrix, NULL), 0);
    assert_int_equal(matrix_ranks(matrix), MANY_RANKS);
    assert_int_equal(matrix_columns(matrix), FEW_STEPS + 4);
    assert_int_equal(matrix_tile(matrix, 0, 0, (MANY_RANKS - 1) / MATRIX_TILE, tile, NULL), 0);
    assert_true(tile[(MANY_RANKS - 1) % MATRIX_TILE * MATRIX_TILE + FEW_STEPS + 3] >
                matrix_code(NS_PER_S / 2));
    assert_int_equal(matrix_tile(matrix, 0, 0, 0, tile, NULL), 0);
    assert_true(tile[7 * MATRIX_TILE] > 0); /* what was there before is still there */
    matrix_close(matrix);
}

#define LARGE_NODES 1024
#define LARGE_RANKS 8 /* of each */
#define ASKED_NS (200 * NS_PER_MS)

static void write_many_nodes(const struct place *place)
{
    struct seen seen = { 0 };
    struct runlog *log = NULL;

    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    for (uint32_t node = 0; node < LARGE_NODES; node++) {
        struct fact_hello hello = { .kind = SENDER_AGENT, .real_ns = NS_PER_S };
        struct buf payload = { 0 };
        uint64_t number = 0;

        snprintf(hello.node, sizeof(hello.node), "gpu-node-%u", node);
        snprintf(hello.run, sizeof(hello.run), "r1");
        fact_hello_put(&payload, &hello);
        for (uint32_t i = 0; i <= LARGE_RANKS; i++) {
            struct fact_ring ring = { .rank = node * LARGE_RANKS + i,
                                      .world = LARGE_NODES * LARGE_RANKS };
            struct frame frame = { .type = i ? FRAME_RING : FRAME_HELLO,
                                   .version = FRAME_VERSION,
                                   .sender = 100 + node,
                                   .boot = 1,
                                   .number = number++ };

            if (i) {
                ring.rank--;
                memcpy(ring.node, hello.node, sizeof(ring.node));
                payload = (struct buf){ 0 };
                fact_ring_put(&payload, &ring);
            }
            frame.payload = payload.data;
            frame.payload_bytes = payload.size;
            assert_int_equal(runlog_take(log, &frame, 1, NULL), 0);
            buf_fini(&payload);
        }
    }
    assert_int_equal(runlog_tick(log, TICK_LAST, NULL), 0);
    runlog_close(log);
    seen_fini(&seen);
}

static int count_node(void *arg, const struct index_node *row)
{
    uint32_t *count = arg;

    assert_int_equal(row->ranks, LARGE_RANKS);
    assert_string_equal(row->run, "r1");
    (*count)++;
    return 0;
}

/* The controller has one thread, and an open page asks for the nodes over and over. */
static void nodes_of_a_large_job_are_counted_at_once(void **state)
{
    struct index_query query = { .run = "r1", .limit = 10000 };
    struct place *place = *state;
    struct index *index;
    uint32_t count = 0;
    int64_t began_ns;

    write_many_nodes(place);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    follow_all(index, place->run);
    began_ns = time_ns(CLOCK_THREAD_CPUTIME_ID);
    assert_int_equal(index_nodes(index, &query, count_node, &count, NULL), LARGE_NODES);
    assert_true(time_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns < ASKED_NS);
    query.node = "gpu-node-7";
    assert_int_equal(index_nodes(index, &query, count_node, &count, NULL), 1);
    query.run = NULL;
    assert_int_equal(index_nodes(index, &query, count_node, &count, NULL), 1);
    assert_int_equal(count, LARGE_NODES + 2);
    index_close(index);
}

static void in_many_lives_it_says_the_same(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *job_step = NULL, *pieces = NULL;
    struct rand rand = { 4 };
    int64_t more = 1;

    write_log(place, 40);
    job_step = dump_of(place);
    unlink(place->index);
    unlink(place->matrix);
    while (more > 0) {
        struct index *index;

        assert_int_equal(index_open(place->index, &index, NULL), 0);
        for (int i = 0; i < 3 && more > 0; i++)
            more = index_follow(index, place->run, 1 + rand_below(&rand, 60), NULL);
        assert_true(more >= 0);
        index_close(index);
    }
    pieces = dump_of(place);
    assert_string_equal(job_step, pieces);
}

static void what_happens_to_the_file_costs_nothing(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *job_step = NULL;
    char wal[160];

    write_log(place, 40);
    job_step = dump_of(place);
    snprintf(wal, sizeof(wal), "%s-wal", place->index);
    for (int i = 0; i < 5; i++) {
        CLEAN(free_clean) char *again = NULL;
        int fd = open(place->index, O_RDWR);
        struct stat st;

        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        if (i == 0)
            unlink(place->index);
        else if (i == 1)
            assert_int_equal(ftruncate(fd, 100), 0);
        else if (i == 2)
            assert_true(pwrite(fd, "this is no database at all", 26, 0) == 26);
        else if (i == 3)
            unlink(place->matrix);
        else
            unlink(wal);
        close(fd);
        again = dump_of(place);
        if (strcmp(job_step, again) != 0)
            fail_msg("case %d: %s\n--- not\n%s", i, again, job_step);
        assert_int_equal(access(place->matrix, F_OK), 0); /* it comes back with the rows */
    }
}

static void a_damaged_page_is_made_anew(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *job_step = NULL, *again = NULL;
    unsigned char junk[4096];
    struct index *index;
    struct stat st;
    int64_t more = -1;
    int fd;

    write_log(place, 40);
    job_step = dump_of(place);
    fd = open(place->index, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    memset(junk, 0x5a, sizeof(junk));
    for (off_t at = 4096; at < st.st_size; at += 4096)
        assert_true(pwrite(fd, junk, sizeof(junk), at) == sizeof(junk));
    close(fd);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    for (int i = 0; i < 10 && more != 0; i++) /* the first may say that it is damaged */
        more = index_follow(index, place->run, 100000, NULL);
    assert_int_equal(more, 0);
    assert_non_null(index_was_rebuilt(index));
    again = dump(index);
    assert_string_equal(job_step, again);
    index_close(index);
}

static void another_version_is_made_anew(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *job_step = NULL, *again = NULL;
    struct index *index;
    sqlite3 *db;

    write_log(place, 20);
    job_step = dump_of(place);
    assert_int_equal(sqlite3_open(place->index, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    assert_non_null(strstr(index_was_rebuilt(index), "version 99"));
    follow_all(index, place->run);
    again = dump(index);
    assert_string_equal(job_step, again);
    index_close(index);
}

static void another_log_in_its_place_is_read_anew(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *first = NULL, *second = NULL;

    write_log(place, 40);
    first = dump_of(place);
    unlink(place->dir.log.text);
    write_log(place, 25);
    second = dump_of(place);
    assert_non_null(strstr(first, "\nstep 59 "));
    assert_null(strstr(second, "\nstep 59 "));
    assert_non_null(strstr(second, "\nstep 44 "));
}

/* Frames so large that fewer of them are read at once than may be. */
static void write_large(const struct place *place, const char *sender, int count)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    static const char bytes[256 << 10];
    struct spool_writer *writer;

    buf_put(&payload, bytes, sizeof(bytes));
    assert_int_equal(spool_writer_open(place->dir.log.text, sender, &writer, NULL), 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(spool_put(writer, FRAME_STACK, &payload, NULL), 0);
    spool_writer_close(writer);
}

static void it_is_rebuilding_until_the_end_of_the_log(void **state)
{
    struct place *place = *state;
    struct index *index;
    int64_t all = 0, count;

    write_large(place, "first", 2);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    follow_all(index, place->run);
    assert_false(index_is_rebuilding(index, "r1"));
    index_leave(index, "r1");
    unlink(place->dir.log.text);
    write_large(place, "second", 40);
    while ((count = index_follow(index, place->run, 1000, NULL)) > 0) {
        assert_true(count < 40); /* 4 MiB at once */
        assert_true(index_is_rebuilding(index, "r1"));
        all += count;
    }
    assert_int_equal(count, 0);
    assert_int_equal(all, 40);
    assert_false(index_is_rebuilding(index, "r1"));
    index_close(index);
}

static void a_log_that_is_damaged_is_read_around_it(void **state)
{
    struct place *place = *state;
    CLEAN(free_clean) char *text = NULL;
    struct index *index;
    struct err err = { "" };
    int fd;

    assert_int_equal(index_open(place->index, &index, NULL), 0);
    assert_int_equal(index_follow(index, place->run, 10, &err), -ENOENT);
    index_close(index);
    write_log(place, 40);
    fd = open(place->dir.log.text, O_RDWR);
    assert_true(fd >= 0 && pwrite(fd, "damage", 6, 20000) == 6);
    close(fd);
    text = dump_of(place);
    assert_non_null(strstr(text, "\nstep 59 1 49 8 "));
}

/* ---- findings, decisions, outcomes, checks ---- */

static int put_record(void *arg, const struct index_record *row)
{
    struct finding finding;
    struct decision decision;

    if (finding_get(row->payload, &finding) == 0)
        fprintf(arg, "%s %d %s %u;", row->run, row->root, finding.node, finding.count);
    else if (decision_get(row->payload, &decision) == 0)
        fprintf(arg, "%s %s;", action_name(decision.action), decision_state_name(decision.state));
    else
        fprintf(arg, "other;");
    return 0;
}

static const char *records(struct index *index, uint16_t type, const struct index_query *query)
{
    static char text[512];
    FILE *out = fmemopen(text, sizeof(text), "w");

    text[0] = '\0';
    assert_true(index_records(index, type, query, put_record, out, NULL) >= 0);
    fclose(out);
    return text;
}

static void record_write(struct spool_writer *log, uint64_t sender, uint64_t number, uint16_t type,
                         struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = sender,
                                 .boot = 1,
                                 .number = number,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    assert_int_equal(spool_put_frames(log, &frame, 1, NULL), 0);
    buf_fini(payload);
}

static void finding_write(struct spool_writer *log, uint64_t sender, uint64_t number,
                          const char *node, uint32_t count)
{
    struct finding finding = { .mono_ns = 7,
                               .real_ns = 1700000000000000000,
                               .kind = FINDING_XID,
                               .class = FINDING_CLASS_HARDWARE,
                               .severity = FINDING_FATAL,
                               .origin = FINDING_FROM_KERNEL,
                               .count = count,
                               .rank_count = 1,
                               .rank = { 3 } };
    struct buf payload = { 0 };

    strcpy(finding.node, node);
    finding_identify(&finding);
    finding_put(&payload, &finding);
    record_write(log, sender, number, FRAME_FINDING, &payload);
}

static void decision_write(struct spool_writer *log, uint64_t sender, uint64_t number,
                           unsigned state)
{
    struct decision decision = { .action = ACTION_RESTART,
                                 .state = (uint8_t)state,
                                 .target = TARGET_RUN,
                                 .decided_real_ns = 5 };
    struct buf payload = { 0 };

    decision_identify(&decision, "r1");
    decision_put(&payload, &decision);
    record_write(log, sender, number, FRAME_DECISION, &payload);
}

/* The last frame of an id counts.  What a user's process sends is neither root's finding nor a decision. */
static void records_are_told_apart_by_who_sent_them(void **state)
{
    const struct place *place = *state;
    struct spool_writer *log;
    struct index *index;

    assert_int_equal(spool_writer_open(place->dir.log.text, CONTROL_SENDER, &log, NULL), 0);
    finding_write(log, site_sender(), 0, "n1", 1);
    finding_write(log, 4711, 0, "n1", 9);
    finding_write(log, site_sender(), 1, "n2", 1);
    finding_write(log, site_sender(), 2, "n1", 2);
    decision_write(log, control_sender(), 0, DECISION_DRY_RUN);
    decision_write(log, control_sender(), 1, DECISION_ORDERED);
    decision_write(log, 4711, 1, DECISION_EXPIRED);
    spool_writer_close(log);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    assert_true(index_follow(index, place->run, 100, NULL) > 0);
    assert_string_equal(records(index, FRAME_FINDING, &(struct index_query){ .run = "r1" }),
                        "r1 0 n1 9;r1 1 n2 1;r1 1 n1 2;");
    assert_string_equal(records(index, FRAME_FINDING, &(struct index_query){ .node = "n2" }),
                        "r1 1 n2 1;");
    assert_string_equal(
        records(index, FRAME_FINDING, &(struct index_query){ .rank = 4, .limit = 1 }),
        "r1 0 n1 9;");
    assert_string_equal(records(index, FRAME_FINDING, &(struct index_query){ .rank = 5 }), "");
    assert_string_equal(records(index, FRAME_FINDING, &(struct index_query){ .kind = FINDING_OOM }),
                        "");
    assert_string_equal(records(index, FRAME_DECISION, &(struct index_query){ .run = "r1" }),
                        "restart ordered;");
    assert_int_equal(index_forget(index, "r1", NULL), 0);
    assert_string_equal(records(index, FRAME_FINDING, &(struct index_query){ .limit = 9 }), "");
    index_close(index);
}

struct ledgers { /* as many seconds of wall time as its number */
    double first, last;
    unsigned gap;
};

static int take_ledger(void *arg, const struct index_ledger *row)
{
    struct ledgers *seen = arg;

    if (seen->last > 0)
        seen->gap = MAX(seen->gap, (unsigned)(row->ledger.wall_seconds - seen->last));
    else
        seen->first = row->ledger.wall_seconds;
    seen->last = row->ledger.wall_seconds;
    return 0;
}

/* The page shows a run of weeks by a few hundred of its ledgers. */
static void ledgers_of_a_long_run_are_spread_over_it(void **state)
{
    const struct place *place = *state;
    struct spool_writer *log;
    struct index *index;

    assert_int_equal(spool_writer_open(place->dir.log.text, CONTROL_SENDER, &log, NULL), 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        struct ledger ledger = { .ranks = 1, .wall_seconds = (double)i };
        struct buf payload = { 0 };

        ledger_put(&payload, &ledger);
        record_write(log, control_sender(), i - 1, FRAME_LEDGER, &payload);
    }
    spool_writer_close(log);
    assert_int_equal(index_open(place->index, &index, NULL), 0);
    follow_all(index, place->run);
    for (uint32_t limit = 2; limit < 1500; limit = limit * 3 / 2) {
        const struct index_query query = { .run = "r1", .spread = true, .limit = limit };
        struct ledgers seen = { 0 };
        int64_t got = index_ledgers(index, &query, take_ledger, &seen, NULL);

        assert_in_range(got, MIN(limit / 2, 1000), MIN(limit, 1000));
        assert_true(seen.last == 1000);
        assert_true((unsigned)seen.first <= 1000 / limit * 2 + 2 || limit < 4);
        assert_true(seen.gap <= 1000 / limit * 2 + 2 || limit < 4);
    }
    index_close(index);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_says_what_the_log_says),
        TEST(ranks_that_are_heard_late_are_in_the_matrix),
        TEST(nodes_of_a_large_job_are_counted_at_once),
        TEST(ledgers_of_a_long_run_are_spread_over_it),
        TEST(in_many_lives_it_says_the_same),
        TEST(what_happens_to_the_file_costs_nothing),
        TEST(a_damaged_page_is_made_anew),
        TEST(another_version_is_made_anew),
        TEST(another_log_in_its_place_is_read_anew),
        TEST(it_is_rebuilding_until_the_end_of_the_log),
        TEST(a_log_that_is_damaged_is_read_around_it),
        TEST(records_are_told_apart_by_who_sent_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
