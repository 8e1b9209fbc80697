/* orders.c - a journal of orders, and requests to ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/orders/rank_requests.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"

#define ASKED_MAX RING_REQUESTS /* one of each kind */

enum {
    ORDER_NEW,
    ORDER_BEGUN,
    ORDER_ENDED
};

struct asked_ranks {
    struct decision decision;
    struct rank_requests *requests; /* NULL: this place is free */
    int64_t began_real_ns;
};

struct orders {
    char part[FACT_NAME];
    orders_write *write;
    void *arg;
    struct map known; /* hash of a decision's id → ORDER_BEGUN … */
    struct asked_ranks asked[ASKED_MAX];
    char begun[ASKED_MAX][DECISION_ID]; /* of a former life, without an end; "": none */
};

int orders_create(const char *part, orders_write *write, void *arg, struct orders **ret)
{
    struct orders *orders = calloc(1, sizeof(*orders));

    if (!orders)
        return -ENOMEM;
    snprintf(orders->part, sizeof(orders->part), "%s", part);
    orders->write = write;
    orders->arg = arg;
    *ret = orders;
    return 0;
}

void orders_destroy(struct orders *orders)
{
    if (!orders)
        return;
    for (size_t i = 0; i < COUNT(orders->asked); i++)
        rank_requests_destroy(orders->asked[i].requests);
    map_fini(&orders->known);
    free(orders);
}

static uint64_t orders_id_key(const char *id)
{
    return hash64(0, id, strlen(id));
}

static int orders_know(struct orders *orders, const char *id, uint64_t state)
{
    uint64_t *known = map_put(&orders->known, orders_id_key(id), state);

    if (!known)
        return -ENOMEM;
    *known = state;
    return 0;
}

/* ---- outcomes ---- */

static struct outcome orders_outcome_of(const struct orders *orders, const char *id,
                                        const struct orders_now *now)
{
    struct outcome outcome = { .mono_ns = now->mono_ns,
                               .result = OUTCOME_UNKNOWN,
                               .step = DECISION_NO_STEP };

    snprintf(outcome.decision, sizeof(outcome.decision), "%s", id);
    snprintf(outcome.part, sizeof(outcome.part), "%s", orders->part);
    return outcome;
}

int orders_finish(struct orders *orders, const char *id, enum outcome_result result,
                  const char *text, const struct orders_now *now)
{
    struct outcome outcome = orders_outcome_of(orders, id, now);
    int r;

    outcome.result = (uint8_t)result;
    outcome.ended_real_ns = now->real_ns;
    snprintf(outcome.text, sizeof(outcome.text), "%s", text);
    r = orders->write(orders->arg, &outcome);
    return r < 0 ? r : orders_know(orders, id, ORDER_ENDED);
}

static char *orders_begun_find(struct orders *orders, const char *id)
{
    for (size_t i = 0; i < COUNT(orders->begun); i++) {
        if (strcmp(orders->begun[i], id) == 0)
            return orders->begun[i];
    }
    return NULL;
}

int orders_replay(struct orders *orders, const struct outcome *outcome)
{
    bool ended = outcome->ended_real_ns != 0;
    char *place;

    if (strcmp(outcome->part, orders->part) != 0)
        return 0;
    place = orders_begun_find(orders, ended ? outcome->decision : "");
    if (place && ended)
        place[0] = '\0';
    else if (place)
        memcpy(place, outcome->decision, DECISION_ID);
    return orders_know(orders, outcome->decision, ended ? ORDER_ENDED : ORDER_BEGUN);
}

int orders_resume(struct orders *orders, const struct orders_now *now)
{
    char part[FACT_NAME + 48];
    int result = 0;

    snprintf(part, sizeof(part), "%s was restarted before it saw the end", orders->part);
    for (size_t i = 0; i < COUNT(orders->begun) && result == 0; i++) {
        if (!orders->begun[i][0])
            continue;
        result = orders_finish(orders, orders->begun[i], OUTCOME_UNKNOWN, part, now);
        if (result == 0)
            orders->begun[i][0] = '\0';
    }
    return result;
}

/* ---- an order begins ---- */

/* Why not; "": it is. */
static void orders_not_now(const struct decision *decision, const struct orders_now *now, char *ret,
                           size_t room)
{
    ret[0] = '\0';
    if (decision->attempt != now->attempt)
        snprintf(ret, room, "it is for attempt %u, this is attempt %u", decision->attempt,
                 now->attempt);
    else if (decision->deadline_real_ns && now->real_ns > decision->deadline_real_ns)
        snprintf(ret, room, "the order came after its deadline");
}

int orders_begin(struct orders *orders, const struct decision *decision,
                 const struct orders_now *now)
{
    struct outcome outcome = orders_outcome_of(orders, decision->id, now);
    const uint64_t *known = map_get(&orders->known, orders_id_key(decision->id));
    char why[120];
    int result;

    if (known && *known != ORDER_NEW)
        return 0;
    orders_not_now(decision, now, why, sizeof(why));
    if (why[0])
        return orders_finish(orders, decision->id, OUTCOME_NOT_EXECUTED, why, now);
    outcome.began_real_ns = now->real_ns;
    result = orders_know(orders, decision->id, ORDER_NEW); /* there is memory for it */
    if (result == 0)
        result = orders->write(orders->arg, &outcome);
    if (result == 0)
        result = orders_know(orders, decision->id, ORDER_BEGUN);
    return result < 0 ? result : 1;
}

/* ---- ranks ---- */

static uint64_t orders_request_id(const struct decision *decision)
{
    uint64_t id = orders_id_key(decision->id);

    return id ? id : 1;
}

static unsigned orders_ring_kind(unsigned action)
{
    return action == ACTION_DEPTH ? RING_REQUEST_DEPTH : RING_REQUEST_CHECKPOINT;
}

/* A former life began it in this attempt.  The ranks have one request with this id, and do it once: it can be written
 * again, and its answers be waited for.
 */
static bool orders_takes_over(struct orders *orders, const struct decision *decision,
                              const struct orders_now *now)
{
    char *begun = orders_begun_find(orders, decision->id);

    if (!begun || decision->attempt != now->attempt)
        return false;
    begun[0] = '\0';
    return true;
}

/* A newer request of a kind replaces the one in the rings. */
static int asked_replace(struct orders *orders, struct asked_ranks *asked,
                         const struct orders_now *now)
{
    if (!asked->requests)
        return 0;
    rank_requests_destroy(TAKE(asked->requests));
    return orders_finish(orders, asked->decision.id, OUTCOME_NOT_EXECUTED,
                         "another order of the same kind replaced it", now);
}

int orders_ask_ranks(struct orders *orders, const struct decision *decision,
                     const struct orders_now *now)
{
    const struct ring_request request = { .id = orders_request_id(decision),
                                          .step = decision->step,
                                          .argument = (uint64_t)decision->argument,
                                          .kind = orders_ring_kind(decision->action) };
    struct asked_ranks *asked = &orders->asked[request.kind - 1];
    struct err err = { "" };
    int result = orders_takes_over(orders, decision, now) ? 1 : orders_begin(orders, decision, now);

    if (result == 1 && asked_replace(orders, asked, now) < 0)
        result = -EIO;
    if (result != 1)
        return result;
    if (now->rings_fd < 0 ||
        rank_requests_begin(now->rings_fd, now->attempt, &request, &asked->requests, &err) < 0)
        return orders_finish(orders, decision->id, OUTCOME_FAILED,
                             err.text[0] ? err.text : "there is no ring directory", now);
    asked->decision = *decision;
    asked->began_real_ns = now->real_ns;
    return 1;
}

static enum outcome_result orders_result_of(enum rank_request_state state)
{
    switch (state) {
    case RANK_REQUEST_DONE:
        return OUTCOME_DONE;
    case RANK_REQUEST_PAST:
        return OUTCOME_PAST;
    case RANK_REQUEST_REFUSED:
    case RANK_REQUEST_UNABLE:
        return OUTCOME_REFUSED;
    case RANK_REQUEST_NOT_ASKED:
        return OUTCOME_NOT_EXECUTED;
    default:
        return OUTCOME_UNKNOWN;
    }
}

static int rank_report(struct orders *orders, const struct asked_ranks *asked,
                       const struct rank_request *rank, const struct orders_now *now)
{
    static const char *const texts[] = {
        [RANK_REQUEST_WAITS] = "no answer",
        [RANK_REQUEST_REFUSED] = "the program cannot do it",
        [RANK_REQUEST_NOT_ASKED] = "another rank was past the step",
        [RANK_REQUEST_UNABLE] = "its ring cannot be written, or its probe is too old",
        [RANK_REQUEST_ENDED] = "it ended without an answer",
    };
    struct outcome outcome = orders_outcome_of(orders, asked->decision.id, now);
    const char *text = rank->state < COUNT(texts) ? texts[rank->state] : NULL;

    snprintf(outcome.part, sizeof(outcome.part), "rank %u", rank->rank);
    outcome.result = (uint8_t)orders_result_of(rank->state);
    outcome.step = rank->step;
    outcome.began_real_ns = asked->began_real_ns;
    outcome.ended_real_ns = now->real_ns;
    snprintf(outcome.text, sizeof(outcome.text), "%s", text ? text : "");
    return orders->write(orders->arg, &outcome);
}

struct tally {
    size_t done, past, refused, silent;
};

static struct tally tally_of(const struct rank_requests *requests)
{
    struct tally tally = { 0 };

    for (size_t i = 0; i < rank_requests_count(requests); i++) {
        switch (orders_result_of(rank_requests_get(requests, i)->state)) {
        case OUTCOME_DONE:
            tally.done++;
            break;
        case OUTCOME_PAST:
        case OUTCOME_NOT_EXECUTED: /* another one is past */
            tally.past++;
            break;
        case OUTCOME_REFUSED:
            tally.refused++;
            break;
        default:
            tally.silent++;
        }
    }
    return tally;
}

/* Of all ranks here together: as of the worst. */
static enum outcome_result asked_result(const struct asked_ranks *asked,
                                        const struct orders_now *now, bool ended, char *ret,
                                        size_t room)
{
    size_t count = rank_requests_count(asked->requests);
    struct tally tally = tally_of(asked->requests);

    snprintf(ret, room,
             "%zu of %zu ranks did it, %zu were past step %llu, %zu refused, %zu gave no answer",
             tally.done, MAX(count, (size_t)now->ranks), tally.past,
             (unsigned long long)asked->decision.step, tally.refused,
             tally.silent + (now->ranks > count ? now->ranks - count : 0));
    if (tally.past)
        return OUTCOME_PAST;
    if (tally.refused)
        return OUTCOME_REFUSED;
    if (tally.silent)
        return ended ? OUTCOME_NOT_EXECUTED : OUTCOME_UNKNOWN;
    return count < now->ranks ? OUTCOME_FAILED : OUTCOME_DONE;
}

/* The requests go first: after a failed write the rest stays unreported, and the decision unknown. */
static int asked_end(struct orders *orders, struct asked_ranks *asked, const struct orders_now *now,
                     bool ended)
{
    struct rank_requests *requests = asked->requests;
    char text[200];
    enum outcome_result result_of_all = asked_result(asked, now, ended, text, sizeof(text));
    int result = 0;

    for (size_t i = 0; i < rank_requests_count(requests) && result == 0; i++)
        result = rank_report(orders, asked, rank_requests_get(requests, i), now);
    if (result == 0)
        result = orders_finish(orders, asked->decision.id, result_of_all, text, now);
    rank_requests_destroy(TAKE(asked->requests));
    return result;
}

int orders_look(struct orders *orders, const struct orders_now *now)
{
    int result = 0;

    for (size_t i = 0; i < COUNT(orders->asked); i++) {
        struct asked_ranks *asked = &orders->asked[i];
        int r;

        if (!asked->requests)
            continue;
        rank_requests_look(asked->requests);
        if (!rank_requests_are_over(asked->requests) &&
            now->real_ns <= asked->decision.deadline_real_ns)
            continue;
        r = asked_end(orders, asked, now, false);
        result = r < 0 ? r : (result < 0 ? result : 1);
    }
    return result;
}

int orders_ranks_ended(struct orders *orders, const struct orders_now *now)
{
    int result = 0;

    for (size_t i = 0; i < COUNT(orders->asked); i++) {
        int r;

        if (!orders->asked[i].requests)
            continue;
        rank_requests_look(orders->asked[i].requests);
        r = asked_end(orders, &orders->asked[i], now, true);
        result = MIN(result, r);
    }
    return result;
}

bool orders_wait(const struct orders *orders)
{
    for (size_t i = 0; i < COUNT(orders->asked); i++) {
        if (orders->asked[i].requests)
            return true;
    }
    return false;
}
