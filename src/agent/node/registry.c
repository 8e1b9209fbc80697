/* registry.c - registers runs with the site's controller; only the daemon has the token that may create runs.
 *
 * One client for all, with few calls at a time.  Users take turns, so a user with many runs delays another user's
 * run only by the calls in progress.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/node_private.h"
#include "agent/send/enlist.h"
#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"

#define CALLS_AT_ONCE 4
#define PAUSE_MIN_NS (300 * NS_PER_MS)
#define PAUSE_MAX_NS (30 * NS_PER_S)

void registry_give(struct node_run *run)
{
    if (!run->token.text[0] || run->token_fd < 0)
        return;
    if (write(run->token_fd, run->token.text, TOKEN_SIZE) != TOKEN_SIZE)
        log_error("run %s: cannot pass the token to its agent: %m", run->id);
}

void registry_forget(struct node_run *run)
{
    explicit_bzero(&run->token, sizeof(run->token));
}

static void registry_call_failed(struct node_run *run, const struct err *err)
{
    struct node *node = run->node;

    if (strcmp(node->trouble.text, err->text) != 0)
        log_error("cannot register run %s: %s; will retry", run->id, err->text);
    node->trouble = *err;
    run->call_pause_ns = MIN(MAX(run->call_pause_ns * 2, PAUSE_MIN_NS), PAUSE_MAX_NS);
    run->call_at_ns = time_mono_ns() + run->call_pause_ns;
}

static void registry_on_answer(void *arg, const struct client_answer *answer)
{
    struct node_run *run = arg;
    struct node *node = run->node;
    struct err err = { "" };

    run->calling = false;
    node->calls--;
    loop_timer_set(node->loop, &node->timer, 0); /* others wait for their turn */
    if (enlist_token(answer, run->id, &run->token, &err) < 0) {
        registry_call_failed(run, &err);
        return;
    }
    node->trouble.text[0] = '\0';
    run->call_pause_ns = 0;
    registry_give(run);
}

static void registry_call(struct node_run *run)
{
    struct node *node = run->node;
    struct err err = { "" };

    if (enlist_call(node->client, node->settings->launch_file, run->id, registry_on_answer, run,
                    &err) < 0) {
        registry_call_failed(run, &err);
        return;
    }
    run->calling = true;
    node->calls++;
}

static bool registry_needs_call(const struct node_run *run, int64_t now_ns)
{
    return run->begun && !run->over && !run->token.text[0] && !run->calling &&
           (!run->asleep || !run->there) && now_ns >= run->call_at_ns;
}

void registry_turn(struct node *node, int64_t now_ns)
{
    while (node->calls < CALLS_AT_ONCE) {
        struct node_user *first = NULL;
        struct node_run *next = NULL;

        for (size_t i = 0; i < node->runs; i++) {
            struct node_user *user;

            if (!registry_needs_call(node->run[i], now_ns))
                continue;
            user = node_user(node, node->run[i]->uid);
            if (first && user->called >= first->called)
                continue;
            first = user;
            next = node->run[i];
        }
        if (!next)
            return;
        first->called = ++node->turns;
        registry_call(next);
    }
}
