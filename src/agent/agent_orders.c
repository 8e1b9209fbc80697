/* agent_orders.c - from the long poll to the rings of this node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/agent_orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/orders/order_poll.h"
#include "act/orders/orders.h"
#include "base/log.h"
#include "base/net/token.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define LOOK_NS (200 * NS_PER_MS)
#define TOKEN_NS NS_PER_S
#define RESUME_NS                                                                                  \
    (30 * NS_PER_S) /* by then the controller has given an order again that is still to be done */

struct agent_orders {
    struct agent_orders_settings settings;
    struct path token_file;
    struct token token; /* of that file */
    struct orders *orders;
    struct order_poll *poll;
    int rings_fd;
    uint32_t attempt;
    int64_t look_at_ns, token_at_ns, resume_at_ns;
    bool resumed;
};

static struct orders_now agent_now_of(const struct agent_orders *mine)
{
    return (struct orders_now){ .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns(),
                                .attempt = mine->attempt,
                                .rings_fd = mine->rings_fd };
}

static int agent_write_outcome(void *arg, const struct outcome *outcome)
{
    struct agent_orders *mine = arg;

    return outbox_outcome(mine->settings.outbox, outcome);
}

/* A restart is for a launcher. */
static int take_order(void *arg, const struct decision *order)
{
    struct agent_orders *mine = arg;
    struct orders_now now = agent_now_of(mine);
    int result;

    if (order->action != ACTION_CHECKPOINT && order->action != ACTION_DEPTH)
        return 0;
    result = orders_ask_ranks(mine->orders, order, &now);
    if (result == 1)
        log_info("order %s: %s at the end of step %llu", order->id, action_name(order->action),
                 (unsigned long long)order->step);
    return result;
}

static void agent_orders_clean(struct agent_orders **mine)
{
    agent_orders_destroy(*mine);
}

int agent_orders_create(const struct agent_orders_settings *settings, struct agent_orders **ret)
{
    CLEAN(agent_orders_clean) struct agent_orders *mine = calloc(1, sizeof(*mine));
    char part[FACT_NAME + 8];
    int result;

    if (!mine)
        return -ENOMEM;
    mine->settings = *settings;
    mine->rings_fd = -1;
    mine->resume_at_ns = time_mono_ns() + RESUME_NS;
    snprintf(mine->token_file.text, sizeof(mine->token_file.text), "%s", settings->token_file);
    snprintf(part, sizeof(part), "node %s", settings->node);
    result = orders_create(part, agent_write_outcome, mine, &mine->orders);
    for (size_t i = 0; result == 0 && i < settings->resume->outcomes; i++)
        result = orders_replay(mine->orders, &settings->resume->outcome[i]);
    if (result == 0)
        result = order_poll_create(&(struct order_poll_settings){ .loop = settings->loop,
                                                                  .client = settings->client,
                                                                  .run = settings->run,
                                                                  .token = settings->token
                                                                               ? settings->token
                                                                               : &mine->token,
                                                                  .take = take_order,
                                                                  .arg = mine },
                                   &mine->poll);
    if (result == 0)
        *ret = TAKE(mine);
    return result;
}

void agent_orders_destroy(struct agent_orders *mine)
{
    if (!mine)
        return;
    order_poll_destroy(mine->poll);
    orders_destroy(mine->orders);
    free(mine);
}

/* The file may come later, and change when the run is registered again. */
static void agent_token_look(struct agent_orders *mine, int64_t now_ns)
{
    struct token token;

    if (mine->settings.token || now_ns < mine->token_at_ns ||
        (mine->token.text[0] && !order_poll_trouble(mine->poll)->text[0]))
        return;
    mine->token_at_ns = now_ns + TOKEN_NS;
    if (token_read(mine->token_file.text, &token, NULL) == 0)
        mine->token = token;
}

void agent_orders_tick(struct agent_orders *mine, int rings_fd, uint32_t attempt, int64_t now_ns)
{
    struct orders_now now;

    if (!mine)
        return;
    mine->rings_fd = rings_fd;
    mine->attempt = attempt;
    agent_token_look(mine, now_ns);
    if (now_ns < mine->look_at_ns)
        return;
    mine->look_at_ns = now_ns + LOOK_NS;
    now = agent_now_of(mine);
    if (!mine->resumed && now_ns >= mine->resume_at_ns)
        mine->resumed = orders_resume(mine->orders, &now) == 0;
    if (orders_wait(mine->orders))
        orders_look(mine->orders, &now);
}
