/* live_run.c - follows a log, frame by frame.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/live_run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "show/verdict_view.h"
#include "wire/finding.h"

#define DECODE_BYTES (16u << 20) /* at the end of a log that is there already */
#define LIVE_VERDICTS 4096
#define BATCH 256 /* frames between two looks at the clock */

static void live_forget(struct live_run *live)
{
    struct rundir dir = live->dir;
    uint64_t resets = live->resets, self = live->self;

    spool_reader_close(live->reader);
    shape_book_fini(&live->book);
    map_fini(&live->clock);
    map_fini(&live->rank_place);
    map_fini(&live->node_place);
    map_fini(&live->verdict_place);
    for (size_t i = 0; i < live->ranks; i++)
        free(live->rank[i]);
    free(live->rank);
    free(live->node);
    free(live->verdict);
    *live = (struct live_run){ .dir = dir, .resets = resets, .self = self, .stride = 1 };
}

int live_run_open(const char *run_dir, struct live_run **ret, struct err *err)
{
    struct live_run *live = calloc(1, sizeof(*live));
    int result;

    if (!live)
        return err_nomem(err);
    live->self = control_sender();
    live->stride = 1;
    result = rundir_open(&live->dir, run_dir, err);
    if (result < 0)
        free(live);
    else
        *ret = live;
    return result;
}

void live_run_close(struct live_run *live)
{
    if (!live)
        return;
    live_forget(live);
    free(live);
}

/* ---- facts ---- */

static uint32_t live_node_of(struct live_run *live, const char *name)
{
    uint64_t *at = map_put(&live->node_place, hash64(0, name, strlen(name)), UINT64_MAX);

    if (!at)
        return UINT32_MAX;
    if (*at == UINT64_MAX) {
        if (!ARRAY_FIT(live->node, live->node_room, live->nodes + 1))
            return UINT32_MAX;
        *at = live->nodes++;
        live->node[*at] = (struct live_node){ 0 };
        snprintf(live->node[*at].name, sizeof(live->node[*at].name), "%s", name);
    }
    return (uint32_t)*at;
}

static struct live_rank *live_rank_of(struct live_run *live, uint32_t rank)
{
    uint64_t *at = map_get(&live->rank_place, rank);

    return at ? live->rank[*at] : NULL;
}

static int live_take_ring(struct live_run *live, const struct fact_ring *ring)
{
    uint64_t *at = map_put(&live->rank_place, ring->rank, UINT64_MAX);
    uint32_t node = live_node_of(live, ring->node);
    struct live_rank *rank;

    if (!at || node == UINT32_MAX)
        return -ENOMEM;
    live->ranks_wanted = MAX(live->ranks_wanted, ring->world);
    if (*at == UINT64_MAX) {
        rank = calloc(1, sizeof(*rank));
        if (!rank || !ARRAY_FIT(live->rank, live->rank_room, live->ranks + 1)) {
            free(rank);
            return -ENOMEM;
        }
        *at = live->ranks;
        live->rank[live->ranks++] = rank;
        rank->rank = ring->rank;
    } else {
        rank = live->rank[*at];
        live->node[rank->node].ranks--;
    }
    live->node[node].ranks++;
    rank->node = node;
    rank->attempt = ring->attempt;
    rank->ended = false;
    live->attempt = MAX(live->attempt, ring->attempt);
    return 0;
}

/* Steps of a restart begin again at a lower number: what is kept of the old attempt makes room. */
static struct live_step *live_step_of(struct live_run *live, const struct fact_step *fact)
{
    struct live_step *step = &live->step[fact->step % LIVE_STEPS];

    if (step->step != fact->step + 1 || step->attempt != fact->attempt)
        *step = (struct live_step){ .step = fact->step + 1,
                                    .attempt = fact->attempt,
                                    .begin_real_ns = INT64_MAX,
                                    .loss = NAN };
    return step;
}

static int live_take_step(struct live_run *live, uint64_t sender, struct reader in)
{
    CLEAN(fact_step_fini) struct fact_step fact = { 0 };
    const struct fact_shape *shape = NULL;
    const uint64_t *clock = map_get(&live->clock, sender);
    struct fact_step head;
    struct live_rank *rank;
    struct live_step *step;
    int result;

    if (fact_step_head_get(in, &head) < 0 || !(rank = live_rank_of(live, head.rank)) ||
        head.attempt != rank->attempt)
        return 0;
    rank->step = head.step;
    if (head.step % live->stride)
        return 0;
    result = shape_book_step(&live->book, in, &fact, &shape);
    if (result == -ENOMEM)
        return result;
    if (result < 0 || fact.flags & (STEP_TORN | STEP_UNFINISHED))
        return 0;
    step = live_step_of(live, &fact);
    live->newest = fact.attempt == live->attempt ? fact.step + 1 : live->newest;
    step->ranks++;
    if (clock)
        step->begin_real_ns = MIN(step->begin_real_ns, fact.begin_ns + (int64_t)*clock);
    step->duration_ns = MAX(step->duration_ns, fact.duration_ns + fact.tail_ns);
    if (fact.metric_set & 1u << LOCKSTEP_METRIC_LOSS) {
        step->loss_sum += fact.metric[LOCKSTEP_METRIC_LOSS];
        step->loss = step->loss_sum / ++step->losses;
    }
    rank->cell[fact.step % LIVE_STEPS] = (struct live_cell){
        fact.step + 1, fact.flags & STEP_BARE ? fact.own_ns : fact_step_local_ns(&fact, shape)
    };
    return 0;
}

static void live_take_beat(struct live_run *live, uint64_t sender, const struct fact_beat *beat)
{
    const uint64_t *clock = map_get(&live->clock, sender);
    struct live_rank *rank = live_rank_of(live, beat->rank);

    if (!rank || beat->attempt != rank->attempt)
        return;
    rank->state = beat->state;
    rank->phase = beat->phase;
    if (clock)
        rank->beat_real_ns = beat->mono_ns + (int64_t)*clock;
    live->node[rank->node].newest_real_ns =
        MAX(live->node[rank->node].newest_real_ns, rank->beat_real_ns);
}

static void live_take_exit(struct live_run *live, const struct fact_exit *fact)
{
    struct live_rank *rank = live_rank_of(live, fact->rank);

    if (!rank || fact->attempt != rank->attempt)
        return;
    rank->ended = true;
    snprintf(rank->end_text, sizeof(rank->end_text), "%s", fact->text);
}

static void live_take_run(struct live_run *live, const struct fact_run *run)
{
    live->ranks_wanted = MAX(live->ranks_wanted, run->ranks);
    live->ended = run->event == RUN_END;
    live->stopped = live->ended && fact_run_stopped(run);
    live->status = run->status;
    if (run->event == RUN_ATTEMPT_BEGIN) {
        live->attempts++;
        live->attempt = MAX(live->attempt, run->attempt);
        live->newest = 0;
    }
}

static int live_take_verdict(struct live_run *live, const struct verdict *verdict)
{
    uint64_t *at =
        map_put(&live->verdict_place, hash64(0, verdict->id, strlen(verdict->id)), UINT64_MAX);

    if (!at)
        return -ENOMEM;
    if (*at == UINT64_MAX) {
        if (live->verdicts == LIVE_VERDICTS)
            return 0;
        if (!ARRAY_FIT(live->verdict, live->verdict_room, live->verdicts + 1))
            return -ENOMEM;
        *at = live->verdicts++;
    }
    live->verdict[*at] = *verdict;
    return 0;
}

static int live_take_finding(struct live_run *live, const struct finding *finding)
{
    uint32_t node = live_node_of(live, finding->node);

    if (node == UINT32_MAX)
        return -ENOMEM;
    live->node[node].findings++;
    snprintf(live->node[node].finding, sizeof(live->node[node].finding), "%s", finding->text);
    return 0;
}

static int live_take_output(struct live_run *live, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct verdict verdict;
    struct ledger ledger;
    struct fact_tick tick;

    if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0) {
        live->last = tick.flags & TICK_LAST;
        live->newest_real_ns = tick.real_ns;
    } else if (frame->type == FRAME_LEDGER && ledger_get(in, &ledger) == 0) {
        live->ledger = ledger;
        live->has_ledger = true;
    } else if (frame->type == FRAME_VERDICT && verdict_get(in, &verdict) == 0) {
        return live_take_verdict(live, &verdict);
    }
    return 0;
}

static int live_take_fact(struct live_run *live, const struct frame *frame, bool decode)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct finding finding;
    struct fact_hello hello;
    struct fact_ring ring;
    struct fact_beat beat;
    struct fact_exit leave;
    struct fact_run run;
    struct fact_gap gap;

    switch (frame->type) {
    case FRAME_HELLO:
        return fact_hello_get(in, &hello) < 0 || map_put(&live->clock, frame->sender,
                                                         (uint64_t)(hello.real_ns - hello.mono_ns))
                   ? 0
                   : -ENOMEM;
    case FRAME_RING:
        return fact_ring_get(in, &ring) == 0 ? live_take_ring(live, &ring) : 0;
    case FRAME_SHAPE:
        return shape_book_add(&live->book, in);
    case FRAME_STEP:
        return decode ? live_take_step(live, frame->sender, in) : 0;
    case FRAME_BEAT:
        if (decode && fact_beat_get(in, &beat) == 0)
            live_take_beat(live, frame->sender, &beat);
        return 0;
    case FRAME_EXIT:
        if (fact_exit_get(in, &leave) == 0)
            live_take_exit(live, &leave);
        return 0;
    case FRAME_RUN:
        if (fact_run_get(in, &run) == 0)
            live_take_run(live, &run);
        return 0;
    case FRAME_GAP:
        if (fact_gap_get(in, &gap) == 0 && gap.step_from != UINT64_MAX)
            live->gap_steps += gap.step_to - gap.step_from + 1;
        return 0;
    case FRAME_FINDING:
        return finding_get(in, &finding) == 0 ? live_take_finding(live, &finding) : 0;
    default:
        return 0;
    }
}

/* ---- the log ---- */

static int live_follow(struct live_run *live, struct err *err)
{
    struct stat now;
    int result;

    if (stat(live->dir.log.text, &now) < 0)
        return 0; /* not yet, or just being replaced */
    if (live->reader && (uint64_t)now.st_ino == live->inode &&
        (uint64_t)now.st_size >= spool_reader_offset(live->reader)) {
        live->log_bytes = (uint64_t)now.st_size;
        return 0;
    }
    if (live->reader) {
        live_forget(live);
        live->resets++;
    }
    result = spool_reader_open(live->dir.log.text, &live->reader, err);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    live->inode = (uint64_t)now.st_ino;
    live->log_bytes = live->old_bytes = (uint64_t)now.st_size;
    live->decode_from = live->log_bytes > DECODE_BYTES ? live->log_bytes - DECODE_BYTES : 0;
    return 0;
}

int live_run_read(struct live_run *live, int64_t budget_ns, struct err *err)
{
    int64_t began_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID), used_ns = 0;
    struct frame frame;
    int result = live_follow(live, err), count = 0;

    if (result < 0 || !live->reader)
        return result;
    while (used_ns < budget_ns && (result = spool_next(live->reader, &frame, err)) == 1) {
        bool decode = spool_reader_offset(live->reader) >= live->decode_from;

        result = frame.sender == live->self ? live_take_output(live, &frame)
                                            : live_take_fact(live, &frame, decode);
        if (result < 0)
            return err_nomem(err);
        result = 1;
        if (++count % BATCH == 0)
            used_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns;
    }
    /* More than a slice of new facts at once is too much to look at each step; what was there before somebody looked is not new. */
    if (result == 1 && spool_reader_offset(live->reader) > live->old_bytes &&
        live->stride < LIVE_STEPS / 2)
        live->stride *= 2;
    return result;
}

unsigned live_run_read_pct(const struct live_run *live)
{
    return live->reader && live->log_bytes
               ? (unsigned)(100 * spool_reader_offset(live->reader) / live->log_bytes)
               : 100;
}

/* ---- what is shown ---- */

static int live_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return left < right ? -1 : left > right;
}

/* Once for each number of ranks that a step has: not at each look. */
static void live_median(struct live_run *live, struct live_step *step)
{
    CLEAN(free_clean) int64_t *own = calloc(live->ranks + 1, sizeof(*own));
    size_t count = 0;

    if (!own)
        return;
    for (size_t i = 0; i < live->ranks; i++) {
        const struct live_cell *cell = &live->rank[i]->cell[(step->step - 1) % LIVE_STEPS];

        if (cell->step == step->step)
            own[count++] = cell->own_ns;
    }
    qsort(own, count, sizeof(*own), live_compare);
    step->median_ns = count ? own[(count - 1) / 2] : 0;
    step->median_of = step->ranks;
}

void live_run_verdicts_moved(struct live_run *live)
{
    for (size_t i = 0; i < live->verdicts; i++) {
        const char *id = live->verdict[i].id;
        uint64_t *at = map_get(&live->verdict_place, hash64(0, id, strlen(id)));

        if (at)
            *at = i;
    }
}

struct live_step *live_run_step(struct live_run *live, uint64_t back)
{
    uint64_t number = back * live->stride;
    struct live_step *step;

    if (!live->newest || number >= live->newest || back >= LIVE_STEPS)
        return NULL;
    number = live->newest - 1 - number;
    step = &live->step[number % LIVE_STEPS];
    if (step->step != number + 1)
        return NULL;
    if (step->median_of != step->ranks)
        live_median(live, step);
    return step;
}

bool live_run_excess(const struct live_rank *rank, const struct live_step *step, int64_t *excess_ns)
{
    const struct live_cell *cell = &rank->cell[(step->step - 1) % LIVE_STEPS];

    if (cell->step != step->step)
        return false;
    *excess_ns = cell->own_ns - step->median_ns;
    return true;
}
