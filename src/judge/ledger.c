/* ledger.c - moves every rank's account on, step by step.
 *
 * Within a step: what the replay says the step was longer than with everybody at their
 * peers' typical work is straggler-wait, once for each rank: as excess work on the slow one, as
 * waiting on the others, and as transfers that nothing hides any more, since the step is longer
 * for all by the same.  As far as lengths explain it, the work of who has more of it is
 * productive, and what the others wait is imbalance.  Waiting beyond that is structural (pipeline
 * bubbles, uneven stages) and so imbalance.
 *
 * Where cpus are scarce all ranks of a node are slow at random places, and no peer says what a
 * step should have been.  The steps before do: ledger_scarce.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/ledger_private.h"

struct ledger_book {
    struct ledger total;
    int64_t *until_ns; /* by rank */
    bool *stepped;     /* by rank: has made a step in this attempt */
    float *bubble;     /* by rank: seconds of structural waiting in the newest step that fits */
    uint32_t ranks;
    int64_t begin_ns;
    uint32_t attempt;
    int64_t end_before_ns; /* of the attempt before this one */
    int64_t end_ns;        /* of this one; 0: it goes on */
    bool failed;           /* this one did not end well */
    double crash_before;
    int64_t hang_ns; /* since when nothing moves in this attempt; 0: it does */
    int64_t hung_ns; /* since when the newest hang was, also where it is over */
    int64_t hang_now_ns,
        hang_over_ns; /* of it: how long it has lasted so far; until when it was, 0: not over */
    int64_t hang_before_ns;
    int64_t restarted_ns;      /* when all ranks began again within this attempt; 0: they did not */
    uint32_t world;            /* then; of more ranks the rest is spare */
    struct step_account *step; /* ring by step number */
    struct scarce_typical typical;
    struct places places; /* since its time; allocated 0: none are known beyond the ranks */
};

int ledger_book_create(struct ledger_book **ret)
{
    struct ledger_book *book = calloc(1, sizeof(*book));

    if (book)
        book->step = calloc(KEPT_STEPS, sizeof(*book->step));
    if (!book || !book->step) {
        free(book);
        return -ENOMEM;
    }
    *ret = book;
    return 0;
}

void ledger_book_destroy(struct ledger_book *book)
{
    if (!book)
        return;
    free(book->until_ns);
    free(book->stepped);
    free(book->bubble);
    free(book->step);
    free(book);
}

size_t ledger_book_bytes(const struct ledger_book *book)
{
    return sizeof(*book) + KEPT_STEPS * sizeof(*book->step) +
           book->ranks * (sizeof(*book->until_ns) + sizeof(*book->stepped) + sizeof(*book->bubble));
}

static bool ledger_array_fit(void *array, uint32_t ranks, size_t each)
{
    void **at = array, *grown = realloc(*at, (ranks + 1) * each);

    if (grown)
        *at = grown;
    return grown;
}

int ledger_grow(struct ledger_book *book, uint32_t ranks)
{
    if (ranks <= book->ranks)
        return 0;
    if (!ledger_array_fit(&book->until_ns, ranks, sizeof(*book->until_ns)) ||
        !ledger_array_fit(&book->stepped, ranks, sizeof(*book->stepped)) ||
        !ledger_array_fit(&book->bubble, ranks, sizeof(*book->bubble)))
        return -ENOMEM;
    for (uint32_t rank = book->ranks; rank < ranks; rank++) {
        book->until_ns[rank] = book->begin_ns;
        book->stepped[rank] = false;
        book->bubble[rank] = 0;
    }
    book->ranks = book->total.ranks = ranks;
    return 0;
}

void ledger_run(struct ledger_book *book, uint32_t ranks, int64_t mono_ns)
{
    if (book->ranks)
        return;
    book->begin_ns = mono_ns;
    ledger_grow(book, ranks); /* without memory: no ledger */
}

static double judge_ledger_crash_seconds(const struct ledger_book *book)
{
    const double *seconds = book->total.gpu_seconds;

    return seconds[LEDGER_RESTART] + seconds[LEDGER_LOST] + seconds[LEDGER_HANG];
}

double ledger_crash_seconds(const struct ledger_book *book)
{
    return judge_ledger_crash_seconds(book) - book->crash_before;
}

void ledger_attempt(struct ledger_book *book, uint32_t attempt, int64_t mono_ns)
{
    if (attempt <= book->attempt)
        return;
    if (!book->hang_ns)
        book->crash_before = judge_ledger_crash_seconds(book);
    book->end_before_ns = book->end_ns ? book->end_ns : mono_ns; /* or nobody said when */
    book->end_ns = 0;
    book->hang_before_ns = book->hang_ns;
    book->hang_ns = book->hang_over_ns = 0;
    book->failed = false;
    book->restarted_ns = 0;
    book->attempt = attempt;
    book->typical = (struct scarce_typical){ 0 };
    for (uint32_t rank = 0; rank < book->ranks; rank++)
        book->stepped[rank] = false;
}

void ledger_attempt_end(struct ledger_book *book, uint32_t attempt, int64_t mono_ns, bool well)
{
    if (attempt != book->attempt)
        return;
    book->end_ns = mono_ns;
    book->failed = !well;
}

/* Moves a rank's account to `to`, into one bucket. */
static void ledger_account(struct ledger_book *book, uint32_t rank, int64_t to_ns,
                           enum ledger_bucket bucket)
{
    if (to_ns <= book->until_ns[rank])
        return;
    book->total.gpu_seconds[bucket] += (double)(to_ns - book->until_ns[rank]) / 1e9;
    book->until_ns[rank] = to_ns;
}

void ledger_hang(struct ledger_book *book, int64_t since_ns)
{
    if (!book->hang_ns)
        book->crash_before = judge_ledger_crash_seconds(
            book); /* what it costs counts from here, not from the restart */
    book->hang_ns = book->hung_ns = book->hang_now_ns = since_ns;
}

void ledger_hang_lasts(struct ledger_book *book, int64_t now_ns)
{
    book->hang_now_ns = now_ns;
}

void ledger_hang_over(struct ledger_book *book, int64_t now_ns)
{
    book->hang_ns = 0;
    book->hang_over_ns = now_ns;
}

/* Of a step that went on after all: how much of it was hang. */
static int64_t ledger_hung_in(const struct ledger_book *book, const struct rank_split *split)
{
    int64_t from = MAX(book->hung_ns, split->begin_ns);

    return MAX(0, MIN(book->hang_over_ns, split->begin_ns + split->total_ns) - from);
}

bool ledger_was_hung(const struct ledger_book *book, const struct judge_state *judge,
                     const struct past_step *past)
{
    int64_t end_ns = past->begin_ns;

    if (!book->hung_ns)
        return false;
    for (uint32_t rank = 0; rank < judge->model.world; rank++)
        if (past->split[rank].present)
            end_ns = MAX(end_ns, past->split[rank].begin_ns + past->split[rank].total_ns);
    return end_ns > book->hung_ns && (book->hang_ns || past->begin_ns <= book->hung_ns);
}

static uint32_t ledger_places_beyond(const struct ledger_book *book) /* the ranks */
{
    return book->places.allocated - MIN(book->places.allocated, book->ranks);
}

/* Those who are in no world of late were spare until `to`, or down: as many as are not beyond the ranks. */
static void ledger_account_spare(struct ledger_book *book, int64_t to_ns)
{
    uint32_t down = book->places.down - MIN(book->places.down, ledger_places_beyond(book));

    for (uint32_t rank = book->restarted_ns ? book->world : book->ranks; rank < book->ranks;
         rank++) {
        enum ledger_bucket bucket = book->ranks - rank <= down ? LEDGER_DOWN : LEDGER_SPARE;

        ledger_account(book, rank, to_ns, book->stepped[rank] ? LEDGER_UNATTRIBUTED : bucket);
    }
}

/* What the places beyond the ranks have cost since they are as they are. */
static void ledger_places_account(const struct ledger_book *book, int64_t to_ns,
                                  double seconds[LEDGER_BUCKETS])
{
    const struct places *places = &book->places;
    uint32_t beyond = ledger_places_beyond(book);
    uint32_t down = MIN(places->down, beyond), spare = MIN(places->spare, beyond - down);
    double since = (double)MAX(0, to_ns - MAX(places->mono_ns, book->begin_ns)) / 1e9;

    seconds[LEDGER_DOWN] += since * down;
    seconds[LEDGER_SPARE] += since * spare;
}

void ledger_places(struct ledger_book *book, const struct places *places)
{
    ledger_account_spare(book, places->mono_ns);
    ledger_places_account(book, places->mono_ns, book->total.gpu_seconds);
    book->places = *places;
}

/* Up to the end of an attempt that did not end well: lost, and from some time on not even that. */
static void ledger_account_failed(struct ledger_book *book, uint32_t rank, int64_t end_ns,
                                  int64_t hang_ns)
{
    if (hang_ns) {
        ledger_account(book, rank, MIN(hang_ns, end_ns), LEDGER_LOST);
        ledger_account(book, rank, end_ns, LEDGER_HANG);
    }
    ledger_account(book, rank, end_ns, LEDGER_LOST);
}

static bool ledger_began_again(const struct ledger_book *book)
{
    return book->attempt > 0 || book->restarted_ns;
}

/* Everything before a rank's first step of an attempt. */
static void ledger_account_start(struct ledger_book *book, uint32_t rank, int64_t begin_ns)
{
    if (book->attempt == 0 || book->restarted_ns) {
        ledger_account(book, rank, begin_ns, book->restarted_ns ? LEDGER_RESTART : LEDGER_START_UP);
        return;
    }
    ledger_account_failed(book, rank, MIN(book->end_before_ns, begin_ns), book->hang_before_ns);
    ledger_account(book, rank, begin_ns, LEDGER_RESTART);
}

void ledger_workers_restarted(struct ledger_book *book, uint32_t world, int64_t mono_ns)
{
    ledger_account_spare(book, mono_ns);
    for (uint32_t rank = 0; rank < book->ranks; rank++) {
        if (!book->stepped[rank]) /* it was still starting, for the first time or after a crash */
            ledger_account_start(book, rank, mono_ns);
        book->stepped[rank] = false;
    }
    book->restarted_ns = mono_ns;
    book->world = world;
    book->typical = (struct scarce_typical){ 0 };
}

/* The job went back: what those steps had cost is lost. */
static void ledger_roll_back(struct ledger_book *book, uint64_t step)
{
    for (uint32_t i = 0; i < KEPT_STEPS; i++) {
        struct step_account *kept = &book->step[i];

        if (kept->step < step + 1) /* kept as number + 1; 0 is an empty place */
            continue;
        for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++) {
            book->total.gpu_seconds[bucket] -= kept->seconds[bucket];
            book->total.gpu_seconds[LEDGER_LOST] += kept->seconds[bucket];
        }
        *kept = (struct step_account){ 0 };
    }
}

struct parts {     /* of a step, for all ranks */
    double excess; /* seconds the step was longer than ideal */
    double data;   /* share of that which lengths explain */
    bool fits;
    bool host_view;        /* no device times: nothing shows that a host in no phase is idle */
    int64_t last_begin_ns; /* first step of an attempt: when the last rank began; else 0 */
    enum ledger_bucket starting; /* where waiting for that goes */
};

static struct parts step_parts(const struct judge_state *judge, const struct past_step *past)
{
    struct parts parts = { .fits = past->replayed_ns > 0, .host_view = judge->history.host_view };
    double most = 0;

    if (!parts.fits)
        return parts;
    parts.excess = MAX(0, (double)(past->replayed_ns - past->ideal_ns) / 1e9);
    for (uint32_t rank = 0; rank < judge->model.world; rank++)
        most = MAX(most, (double)past->length_ms[rank] / 1e3);
    if (judge->history.explained > judge->limits.verdict_explains && parts.excess > 0)
        parts.data = MIN(1, most / parts.excess);
    return parts;
}

struct against_peers { /* of one rank, seconds */
    double typical;    /* work of its peers */
    double lengths;    /* what its lengths explain over that */
    double input;      /* what it waits for input longer than they */
};

static struct against_peers against_peers(const struct past_step *past, uint32_t rank)
{
    return (struct against_peers){ .typical = (double)past->typical_ms[rank] / 1e3,
                                   .lengths = (double)past->length_ms[rank] / 1e3,
                                   .input = (double)past->input_ms[rank] / 1e3 };
}

/* `bubble`: what it waits by design, which a step that fits tells and one that does not is taken to have as well. */
/* NOLINTNEXTLINE(readability-function-size): MIN and MAX count as many statements */
static void rank_parts(const struct rank_split *split, struct against_peers against,
                       const struct parts *parts, float *bubble, double seconds[LEDGER_BUCKETS])
{
    double local = (double)split_local_ns(split) / 1e9, wait = (double)split->wait_ns / 1e9;
    double idle = (double)split->host_ns[0] / 1e9;
    double over = MIN(MAX(0, local - against.typical), parts->excess);
    /* Who waits for its input holds up the others, and does not wait for them meanwhile. */
    double late = MIN(against.input, parts->excess - over);
    /* In the first step, ranks wait for those that started later. */
    double started = MIN(wait, MAX(0, (double)(parts->last_begin_ns - split->begin_ns) / 1e9));
    double waited = MIN(wait - started, parts->excess - over - late);
    double transfer = (double)split->transfer_ns / 1e9;
    /* A late rank also brings to light transfers that are else hidden behind compute. */
    double bared = MIN(transfer, parts->excess - over - late - waited);
    double more = parts->data > 0 ? MIN(over, MAX(0, against.lengths)) : 0; /* of its own work */
    double lost = over - more + waited + bared, rest = wait - started - waited;

    idle = MIN(idle, local - over);
    seconds[LEDGER_PRODUCTIVE] =
        local - over + more - idle + (double)split->host_ns[LOCKSTEP_PHASE_EVAL] / 1e9;
    seconds[LEDGER_STRAGGLER_WAIT] = lost * (1 - parts->data);
    seconds[LEDGER_IMBALANCE] = lost * parts->data;
    seconds[parts->starting] += started;
    if (parts->fits)
        *bubble = (float)rest;
    seconds[LEDGER_IMBALANCE] += MIN(rest, (double)*bubble);
    seconds[LEDGER_UNATTRIBUTED] += MAX(0, rest - (double)*bubble);
    seconds[LEDGER_TRANSFER] = transfer - bared;
    seconds[LEDGER_INPUT] = (double)split->host_ns[LOCKSTEP_PHASE_DATA] / 1e9;
    seconds[LEDGER_CHECKPOINT] = (double)split->host_ns[LOCKSTEP_PHASE_CHECKPOINT] / 1e9;
    seconds[LEDGER_START_UP] +=
        (double)(split->host_ns[LOCKSTEP_PHASE_INIT] + split->host_ns[LOCKSTEP_PHASE_COMM_INIT] +
                 split->host_ns[LOCKSTEP_PHASE_COMPILE]) /
        1e9;
    seconds[parts->host_view ? LEDGER_PRODUCTIVE : LEDGER_UNATTRIBUTED] += idle;
}

/* One rank's step.  Where clocks are found to be elsewhere than before, a step may begin before the
 * last one ended: only what is new of it counts, so that the sum stays ranks × wall time.
 */
static void ledger_account_step(struct ledger_book *book, uint32_t rank,
                                const struct rank_split *split,
                                const double seconds[LEDGER_BUCKETS], struct step_account *kept)
{
    int64_t end = split->begin_ns + split->total_ns, fresh = end - book->until_ns[rank];
    int64_t hung = MIN(fresh, ledger_hung_in(book, split));
    double share;

    if (fresh <= 0 || split->total_ns <= 0)
        return;
    book->total.gpu_seconds[LEDGER_HANG] += (double)hung / 1e9;
    share = (double)(fresh - hung) / (double)split->total_ns;
    for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++) {
        book->total.gpu_seconds[bucket] += share * seconds[bucket];
        kept->seconds[bucket] += share * seconds[bucket];
    }
    kept->evaluated += share * (double)split->host_ns[LOCKSTEP_PHASE_EVAL] / 1e9;
    book->until_ns[rank] = end;
}

void ledger_step(struct ledger_book *book, const struct judge_state *judge,
                 const struct past_step *past)
{
    struct step_account *kept = &book->step[past->step % KEPT_STEPS];
    struct parts parts = step_parts(judge, past);
    bool first = true;

    for (uint32_t rank = 0; rank < MIN(book->ranks, judge->model.world); rank++)
        first = first && !book->stepped[rank];
    if (first && ledger_began_again(book))
        ledger_roll_back(book, past->step);
    parts.starting = ledger_began_again(book) ? LEDGER_RESTART : LEDGER_START_UP;
    for (uint32_t rank = 0; first && rank < judge->model.world; rank++) {
        if (past->split[rank].present)
            parts.last_begin_ns = MAX(parts.last_begin_ns, past->split[rank].begin_ns);
    }
    *kept = (struct step_account){ .step = past->step + 1 };
    for (uint32_t rank = 0; rank < MIN(book->ranks, judge->model.world); rank++) {
        const struct rank_split *split = &past->split[rank];
        double seconds[LEDGER_BUCKETS] = { 0 };

        if (!split->present)
            continue;
        if (!book->stepped[rank])
            ledger_account_start(book, rank, split->begin_ns);
        else
            ledger_account(book, rank, split->begin_ns,
                           LEDGER_UNATTRIBUTED); /* steps we did not see */
        book->stepped[rank] = true;
        if (book->hang_ns && split->begin_ns + split->total_ns > book->hang_ns) {
            ledger_account(book, rank, book->hang_ns,
                           LEDGER_LOST); /* the step that never got done */
            ledger_account(book, rank, split->begin_ns + split->total_ns, LEDGER_HANG);
            continue;
        }
        rank_parts(split, against_peers(past, rank), &parts, &book->bubble[rank], seconds);
        ledger_account_step(book, rank, split, seconds, kept);
    }
    scarce_rebook(&book->typical, judge, past->step, book->step, book->total.gpu_seconds);
    book->total.steps++;
    book->total.unfit_steps = judge->unfit_steps;
    book->total.host_view = judge->history.host_view;
}

/* It was trained, and nobody can say how. */
void ledger_bare(struct ledger_book *book, const struct judge_state *judge,
                 const struct job_step *job_step)
{
    bool first = true;

    for (uint32_t rank = 0; rank < MIN(book->ranks, judge->model.world); rank++)
        first = first && !book->stepped[rank];
    if (first && ledger_began_again(book))
        ledger_roll_back(book, job_step->step);
    for (uint32_t rank = 0; rank < MIN(book->ranks, judge->model.world); rank++) {
        int64_t begin_ns;

        if (!job_step->shape_of[rank])
            continue;
        begin_ns = job_step_begin(&judge->model, job_step, rank);
        if (!book->stepped[rank])
            ledger_account_start(book, rank, begin_ns);
        book->stepped[rank] = true;
        ledger_account(book, rank, begin_ns + job_step->step_of[rank].duration_ns,
                       LEDGER_UNATTRIBUTED);
    }
}

void ledger_end(struct ledger_book *book, int64_t mono_ns)
{
    int64_t end_ns = book->end_ns ? book->end_ns : mono_ns;

    ledger_account_spare(book, mono_ns);
    for (uint32_t rank = 0; rank < book->ranks; rank++) {
        if (!book->stepped[rank])
            ledger_account_start(book, rank, book->hang_ns ? MIN(book->hang_ns, end_ns) : end_ns);
        if (book->hang_ns || (book->stepped[rank] && book->failed))
            ledger_account_failed(book, rank, end_ns, book->hang_ns);
        ledger_account(book, rank, mono_ns, LEDGER_UNATTRIBUTED);
    }
}

int64_t ledger_began_ns(const struct ledger_book *book)
{
    if (book->restarted_ns)
        return book->restarted_ns;
    return book->attempt > 0 ? book->end_before_ns : book->begin_ns;
}

/* A hang that lasts, or that is over and whose step is not: none of it is accounted for yet.  What came of that step before it is
 * not known, and shows later: no bucket but those of steps that turn out to be lost ever shrinks.
 */
static double ledger_read_hang(const struct ledger_book *book, uint32_t rank)
{
    int64_t from_ns = MAX(book->until_ns[rank], book->hung_ns);
    int64_t to_ns = book->hang_ns ? book->hang_now_ns : book->hang_over_ns;
    bool spare = book->restarted_ns && rank >= book->world;

    return book->end_ns || spare ? 0 : (double)MAX(0, to_ns - from_ns) / 1e9;
}

void ledger_read(const struct ledger_book *book, struct ledger *ret)
{
    double sum = 0;

    *ret = book->total;
    for (uint32_t rank = 0; rank < book->ranks; rank++) {
        double hang = ledger_read_hang(book, rank);

        ret->gpu_seconds[LEDGER_HANG] += hang;
        sum += (double)(book->until_ns[rank] - book->begin_ns) / 1e9 + hang;
    }
    ret->wall_seconds = book->ranks ? sum / book->ranks : 0;
    /* As far as the ranks are accounted for, so that all of it is of the same time. */
    ledger_places_account(book, book->begin_ns + (int64_t)(ret->wall_seconds * 1e9),
                          ret->gpu_seconds);
}
