/* launch_orders.c - carries out what the controller orders.
 *
 * A child process waits for orders and appends them to RUN/orders.lsf (orders/order_fetch.h); the launcher looks there from
 * time to time, as it does for verdicts.  The outcomes in its spool are its journal: an order is carried out at most
 * once, also if the launcher was killed and the run goes on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "act/launch/launch_private.h"
#include "act/orders/order_fetch.h"
#include "act/orders/orders.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

struct launch_orders {
    struct orders *orders;
    struct spool_reader *reader; /* NULL while there is no file */
    struct decision next;        /* read, and not begun yet; id "": none */
    char restart[DECISION_ID];   /* the order that ended this attempt; "": none did */
    char part[FACT_NAME];        /* who we are in outcomes */
    int rings_fd;
};

static void orders_free(struct launch_orders *mine)
{
    orders_destroy(mine->orders);
    spool_reader_close(mine->reader);
    fd_clean(&mine->rings_fd);
    free(mine);
}

static void orders_clean(struct launch_orders **mine)
{
    if (*mine)
        orders_free(*mine);
}

void launch_orders_close(struct launch *launch)
{
    orders_clean(&launch->orders);
    launch->orders = NULL;
}

static struct orders_now orders_now(const struct launch *launch)
{
    return (struct orders_now){ .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns(),
                                .attempt = launch->run_dir.file.attempt,
                                .ranks = launch->plan->ranks,
                                .rings_fd = launch->orders->rings_fd };
}

static int launch_outcome_write(void *arg, const struct outcome *outcome)
{
    struct launch *launch = arg;

    launch_save_outcome(launch, outcome);
    return launcher_log_outcome(launch->log, outcome, NULL);
}

/* What a former start of this run has done. */
static int launch_journal_read(struct launch *launch, struct launch_orders *mine)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct outcome outcome;
    struct frame frame;
    struct path path;
    int result = path_join(&path, launch->run_dir.spool.text, "launcher.lsf", NULL);

    if (result == 0)
        result = spool_reader_open(path.text, &reader, NULL);
    while (result == 0 && spool_next(reader, &frame, NULL) == 1) {
        if (frame.type == FRAME_OUTCOME &&
            outcome_get(reader_of(frame.payload, frame.payload_bytes), &outcome) == 0)
            result = orders_replay(mine->orders, &outcome);
    }
    return result;
}

/* Without a journal nothing is carried out: it might be done twice. */
void launch_orders_open(struct launch *launch)
{
    CLEAN(orders_clean) struct launch_orders *mine = NULL;
    struct orders_now now;

    if (!launch->log || !launch->daemons)
        return;
    mine = calloc(1, sizeof(*mine));
    if (!mine)
        return;
    mine->rings_fd = open(launch->run_dir.file.rings, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(mine->part, sizeof(mine->part),
             launch->plan->nodes_max ? "launcher %.54s" : "launcher",
             launch->run_dir.file.layout.host);
    if (orders_create(mine->part, launch_outcome_write, launch, &mine->orders) < 0 ||
        (launch->run_dir.goes_on && launch_journal_read(launch, mine) < 0)) {
        output_message(launch->output,
                       "orders of the controller are ignored: the outcomes of earlier "
                       "ones cannot be read");
        return;
    }
    launch->orders = TAKE(mine);
    now = orders_now(launch);
    orders_resume(launch->orders->orders, &now);
}

void launch_orders_begin(struct launch *launch)
{
    const struct launch_plan *plan = launch->plan;
    struct request consent = { .mono_ns = time_mono_ns(),
                               .real_ns = time_real_ns(),
                               .kind = REQUEST_RESTART_ON_HANG,
                               .argument = launch->run_dir.file.restarts < plan->max_restarts,
                               .who = "launcher" };

    if (!launch->orders)
        return;
    launch->orders->restart[0] = '\0';
    if (!launch_crew_leads(launch))
        return;
    launch_policy_means(launch);
    if (!plan->restart_hangs)
        return;
    request_identify(&consent);
    launcher_log_request(launch->log, &consent, NULL);
}

/* ---- orders ---- */

static bool launch_may_restart(const struct launch *launch)
{
    return (launch->plan->restart_hangs || launch->plan->act) &&
           launch->run_dir.file.restarts < launch->plan->max_restarts && !launch->failed;
}

/* Begins it whatever its attempt was: 1 if it is to be done now. */
static int order_begin_late(struct launch *launch, const struct decision *decision,
                            const struct orders_now *now)
{
    struct orders_now then = *now;

    then.attempt = decision->attempt;
    return orders_begin(launch->orders->orders, decision, &then);
}

/* The attempt that it is about has failed: the launcher has not waited for the order. */
static int order_restart_done(struct launch *launch, const struct decision *decision,
                              const struct orders_now *now)
{
    int result = order_begin_late(launch, decision, now);

    return result != 1 ? result
                       : orders_finish(launch->orders->orders, decision->id, OUTCOME_DONE,
                                       "the launcher restarted all ranks when one had failed", now);
}

static int order_restart(struct launch *launch, const struct decision *decision,
                         const struct orders_now *now)
{
    struct launch_orders *mine = launch->orders;
    char why[160];
    int result;

    if (decision->attempt < now->attempt)
        return order_restart_done(launch, decision, now);
    result = orders_begin(mine->orders, decision, now);
    if (result != 1)
        return result;
    if (!launch_may_restart(launch))
        return orders_finish(mine->orders, decision->id, OUTCOME_REFUSED,
                             "no restart is left, or neither --on-hang restart nor --act was given",
                             now);
    if (!launch_policy_allows(launch, why, sizeof(why)))
        return orders_finish(mine->orders, decision->id, OUTCOME_REFUSED, why, now);
    memcpy(mine->restart, decision->id, sizeof(mine->restart));
    attempt_restart(launch, decision);
    return 1;
}

/* Also between two attempts. */
static int order_give_up(struct launch *launch, const struct decision *decision,
                         const struct orders_now *now)
{
    struct launch_orders *mine = launch->orders;
    char why[160] = "--act was not given";
    int result = order_begin_late(launch, decision, now);

    if (result != 1)
        return result;
    if (!launch->plan->act || !launch_policy_allows(launch, why, sizeof(why)))
        return orders_finish(mine->orders, decision->id, OUTCOME_REFUSED, why, now);
    attempt_give_up(launch, decision);
    return orders_finish(mine->orders, decision->id, OUTCOME_DONE, "there is no further attempt",
                         now);
}

static int order_refuse(struct launch *launch, const struct decision *decision,
                        const struct orders_now *now)
{
    int result = orders_begin(launch->orders->orders, decision, now);

    return result != 1 ? result
                       : orders_finish(launch->orders->orders, decision->id, OUTCOME_REFUSED,
                                       "this launcher cannot do that", now);
}

void launch_orders_answer(struct launch *launch, const struct decision *decision,
                          enum outcome_result result, const char *text)
{
    struct orders_now now = orders_now(launch);

    orders_finish(launch->orders->orders, decision->id, result, text, &now);
}

/* One of several: it starts and stops its ranks as the controller says, which has decided about the others, too. */
static int order_crew(struct launch *launch, const struct decision *decision,
                      const struct orders_now *now)
{
    struct launch_orders *mine = launch->orders;
    int result;

    launch_crew_fence(launch, decision);
    result = launch_crew_is_meant(launch, decision) ? order_begin_late(launch, decision, now) : 0;
    if (result != 1)
        return result;
    if (launch_crew_refuses(launch, decision))
        return orders_finish(mine->orders, decision->id, OUTCOME_REFUSED,
                             "the launcher had no contact to the controller", now);
    launch_crew_order(launch, decision);
    if (decision->action == ACTION_START)
        return 1; /* answered when the ranks were started */
    return orders_finish(mine->orders, decision->id, OUTCOME_DONE, "", now);
}

/* The controller stops and starts all launchers; the first one says so. */
static int order_crew_noted(struct launch *launch, const struct decision *decision,
                            const struct orders_now *now)
{
    int result = launch_crew_leads(launch) ? order_begin_late(launch, decision, now) : 0;

    return result != 1
               ? result
               : orders_finish(launch->orders->orders, decision->id, OUTCOME_DONE,
                               "the controller stops and starts the ranks of all nodes", now);
}

static int order_do_crew(struct launch *launch, const struct decision *decision,
                         const struct orders_now *now)
{
    switch (decision->action) {
    case ACTION_START:
    case ACTION_STOP:
    case ACTION_END:
        return order_crew(launch, decision, now);
    case ACTION_RESTART:
    case ACTION_RESTART_WITHOUT:
    case ACTION_SWAP:
    case ACTION_GIVE_UP:
        return order_crew_noted(launch, decision, now);
    case ACTION_CHECKPOINT:
    case ACTION_DEPTH:
        return launch->running ? orders_ask_ranks(launch->orders->orders, decision, now) : 0;
    default:
        return 0;
    }
}

static int order_do(struct launch *launch, const struct decision *decision)
{
    struct orders_now now = orders_now(launch);

    launch_save_order(launch, decision);
    if (launch->crew)
        return order_do_crew(launch, decision, &now);

    switch (decision->action) {
    case ACTION_RESTART:
        return order_restart(launch, decision, &now);
    case ACTION_ALERT: /* cmd/run/alert.c finds it in the log */
        return 0;
    case ACTION_GIVE_UP:
        return order_give_up(launch, decision, &now);
    case ACTION_CHECKPOINT:
    case ACTION_DEPTH:
        return orders_ask_ranks(launch->orders->orders, decision, &now);
    default:
        return order_refuse(launch, decision, &now);
    }
}

/* False: that is all for now. */
static bool order_next(struct launch *launch)
{
    struct launch_orders *mine = launch->orders;
    struct frame frame;
    struct path path;

    if (mine->next.id[0])
        return true;
    if (!mine->reader && (path_join(&path, launch->run_dir.directory.text, ORDER_FILE, NULL) < 0 ||
                          spool_reader_open(path.text, &mine->reader, NULL) < 0))
        return false;
    while (spool_next(mine->reader, &frame, NULL) == 1) {
        if (frame.type == FRAME_DECISION &&
            decision_get(reader_of(frame.payload, frame.payload_bytes), &mine->next) == 0)
            return true;
    }
    return false;
}

void launch_orders_turn(struct launch *launch)
{
    struct launch_orders *mine = launch->orders;
    struct orders_now now;

    if (!mine)
        return;
    if (launch_crew_leads(launch))
        launch_policy_means(launch);
    while ((!launch->failed || launch_crew_waits(launch)) && order_next(launch) &&
           order_do(launch, &mine->next) >= 0) {
        mine->next.id[0] = '\0';
        if (launch->crew && !launch->running && !launch_crew_waits(launch))
            break; /* it starts, or ends */
    }
    if (!orders_wait(mine->orders))
        return;
    now = orders_now(launch);
    orders_look(mine->orders, &now);
}

/* Between two attempts a restart is under way, and only the end of the run matters; orders for ranks wait until there are some
 * again.
 */
static int order_do_between(struct launch *launch, const struct decision *decision)
{
    struct orders_now now = orders_now(launch);

    switch (decision->action) {
    case ACTION_RESTART:
        return order_restart_done(launch, decision, &now);
    case ACTION_GIVE_UP:
    case ACTION_ALERT:
        return order_do(launch, decision);
    default:
        return -EAGAIN;
    }
}

void launch_orders_between(struct launch *launch)
{
    struct launch_orders *mine = launch->orders;

    if (!mine)
        return;
    while (!launch->given_up && order_next(launch)) {
        if (order_do_between(launch, &mine->next) < 0)
            return;
        mine->next.id[0] = '\0';
    }
}

void launch_orders_end(struct launch *launch)
{
    struct launch_orders *mine = launch->orders;
    struct orders_now now;

    if (!mine)
        return;
    now = orders_now(launch);
    orders_ranks_ended(mine->orders, &now);
    if (mine->restart[0])
        orders_finish(mine->orders, mine->restart, OUTCOME_DONE, "all ranks were ended", &now);
    mine->restart[0] = '\0';
}
