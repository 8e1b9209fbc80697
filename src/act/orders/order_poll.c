/* order_poll.c - GET /api/v1/orders again and again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/order_poll.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "act/orders/order_json.h"
#include "core/clean.h"
#include "core/time.h"

#define AGAIN_MIN_NS (300 * NS_PER_MS)
#define AGAIN_MAX_NS (10 * NS_PER_S)
#define FRESH_NS NS_PER_S       /* an answer to start ranks is asked for again if it is older */
#define ENDED_NS (5 * NS_PER_S) /* a run that is over has no orders; another attempt may begin */

struct order_poll {
    struct order_poll_settings settings;
    struct loop_timer timer;
    bool asked;    /* a call is open */
    bool confirms; /* it asks again, because the answer to the one before may be an old one */
    int64_t asked_boot_ns;
    uint64_t after;
    int64_t again_ns;
    struct err trouble;
    struct order_list list;
};

static void poll_later(struct order_poll *poll, int64_t pause_ns)
{
    loop_timer_set(poll->settings.loop, &poll->timer, time_mono_ns() + pause_ns);
}

static void poll_failed(struct order_poll *poll)
{
    poll_later(poll, poll->again_ns);
    poll->again_ns = MIN(poll->again_ns * 2, AGAIN_MAX_NS);
}

/* The next question follows at once; if an order could not be taken, it is asked for again. */
static void poll_take(struct order_poll *poll)
{
    if (poll->settings.site_faults)
        poll->settings.site_faults(poll->settings.arg,
                                   (const char(*)[FACT_NAME])poll->list.site_fault,
                                   poll->list.site_faults);
    for (size_t i = 0; i < poll->list.count; i++) {
        if (poll->settings.take(poll->settings.arg, &poll->list.order[i]) < 0) {
            poll_failed(poll);
            return;
        }
    }
    poll->after = poll->list.next;
    poll->again_ns = AGAIN_MIN_NS;
    poll->trouble.text[0] = '\0';
    poll_later(poll, poll->list.ended ? ENDED_NS : 0);
}

/* What the controller knows when it answers may be outdated when we read it: this process may have been stopped meanwhile.
 * Certain is only that it knew so after it was asked.
 */
static bool poll_may_be_old(struct order_poll *poll)
{
    for (size_t i = 0; i < poll->list.count; i++) {
        struct decision *order = &poll->list.order[i];

        if (order->action != ACTION_START)
            continue;
        if (!poll->confirms && time_boot_ns() - poll->asked_boot_ns > FRESH_NS)
            return true;
        order->decided_real_ns = poll->asked_boot_ns;
    }
    return false;
}

static void poll_answered(struct order_poll *poll)
{
    bool old = poll_may_be_old(poll);

    poll->confirms = old;
    if (old)
        poll_later(poll, 0);
    else
        poll_take(poll);
}

static void order_on_answer(void *arg, const struct client_answer *answer)
{
    struct order_poll *poll = arg;

    poll->asked = false;
    if (answer->status == 0)
        err_set(&poll->trouble, 0, "%s", answer->why);
    else if (answer->status != 200)
        err_set(&poll->trouble, 0, "the controller responded with status %u", answer->status);
    else if (order_list_parse(answer->body->data, answer->body->size, &poll->list,
                              &poll->trouble) == 0) {
        poll_answered(poll);
        return;
    }
    poll_failed(poll);
}

static void order_on_timer(void *arg, int64_t now_ns)
{
    struct order_poll *poll = arg;
    char path[192];

    (void)now_ns;
    if (poll->asked)
        return;
    snprintf(path, sizeof(path), "/api/v1/orders?%s=%s&after=%" PRIu64,
             poll->settings.node ? "node" : "run",
             poll->settings.node ? poll->settings.node : poll->settings.run, poll->after);
    poll->asked_boot_ns = time_boot_ns();
    poll->asked = poll->settings.token->text[0] &&
                  client_call(poll->settings.client, path, poll->settings.token, NULL,
                              order_on_answer, poll) == 0;
    if (!poll->asked)
        poll_failed(poll);
}

int order_poll_create(const struct order_poll_settings *settings, struct order_poll **ret)
{
    struct order_poll *poll = calloc(1, sizeof(*poll));

    if (!poll)
        return -ENOMEM;
    poll->settings = *settings;
    poll->again_ns = AGAIN_MIN_NS;
    poll->timer = (struct loop_timer){ .fn = order_on_timer, .arg = poll };
    loop_timer_set(settings->loop, &poll->timer, 0);
    *ret = poll;
    return 0;
}

void order_poll_destroy(struct order_poll *poll)
{
    if (!poll)
        return;
    loop_timer_drop(poll->settings.loop, &poll->timer);
    free(poll);
}

const struct err *order_poll_trouble(const struct order_poll *poll)
{
    return &poll->trouble;
}
