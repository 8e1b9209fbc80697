/* order_fetch.c - from the controller to RUN/orders.lsf.
 *
 * The controller of a single run listens on another port after each start, so its address and token are read again
 * while it cannot be reached.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/order_fetch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act/orders/order_poll.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/net/control_url.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "wire/spool.h"

#define LOOK_NS (200 * NS_PER_MS)

struct order_fetch {
    const struct order_fetch_settings *settings;
    struct path token_file;
    struct control_url local; /* url "": not known */
    struct token token;
    struct loop *loop;
    struct loop_timer look;
    struct client *client;
    struct order_poll *poll;
    struct spool_writer *file;
    struct map known; /* hash of a decision's id → 1 */
    struct err trouble;
    pid_t parent;
};

static void fetch_disconnect(struct order_fetch *fetch)
{
    order_poll_destroy(TAKE(fetch->poll));
    client_close(TAKE(fetch->client));
}

static void fetch_close(struct order_fetch *fetch)
{
    fetch_disconnect(fetch);
    loop_destroy(fetch->loop);
    spool_writer_close(fetch->file);
    map_fini(&fetch->known);
}

/* ---- orders ---- */

static uint64_t order_key(const struct decision *order)
{
    return hash64(0, order->id, strlen(order->id));
}

static int order_take(void *arg, const struct decision *order)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct order_fetch *fetch = arg;
    struct err err = { "" };
    int result;

    if (map_get(&fetch->known, order_key(order)))
        return 0;
    decision_put(&payload, order);
    result = payload.failed ? -ENOMEM : spool_put(fetch->file, FRAME_DECISION, &payload, &err);
    if (result == 0 && !map_put(&fetch->known, order_key(order), 1))
        result = -ENOMEM; /* it comes again; the launcher knows it by then */
    if (result < 0)
        log_error("cannot keep order %s: %s; will try again", order->id, err.text);
    return result;
}

static int orders_read(struct order_fetch *fetch, const char *path, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct decision order;
    struct frame frame;
    int result = spool_reader_open(path, &reader, err);

    while (result == 0 && spool_next(reader, &frame, NULL) == 1) {
        if (frame.type == FRAME_DECISION &&
            decision_get(reader_of(frame.payload, frame.payload_bytes), &order) == 0 &&
            !map_put(&fetch->known, order_key(&order), 1))
            result = err_nomem(err);
    }
    return result;
}

/* ---- the controller ---- */

static int fetch_connect(struct order_fetch *fetch, struct err *err)
{
    struct client_settings control = fetch->settings->control;
    int result = 0;

    if (!control.url) {
        result = control_url_read(fetch->settings->run_dir, &fetch->local, err);
        control.url = fetch->local.url;
    }
    if (result == 0)
        result = token_read(fetch->token_file.text, &fetch->token, err);
    if (result == 0)
        result = client_open(fetch->loop, &control, &fetch->client, err);
    if (result < 0)
        return result;
    result = order_poll_create(&(struct order_poll_settings){ .loop = fetch->loop,
                                                              .client = fetch->client,
                                                              .run = fetch->settings->run,
                                                              .token = &fetch->token,
                                                              .take = order_take,
                                                              .arg = fetch },
                               &fetch->poll);
    if (result == 0)
        return 0;
    fetch_disconnect(fetch);
    return err_set(err, result, "no requests can be fetched: %s", strerror(-result));
}

/* Whether another controller, or another token, is there than the one that cannot be reached. */
static bool fetch_is_stale(const struct order_fetch *fetch)
{
    struct control_url now;
    struct token token;

    if (token_read(fetch->token_file.text, &token, NULL) == 0 &&
        !token_equal(&token, &fetch->token))
        return true;
    return !fetch->settings->control.url &&
           control_url_read(fetch->settings->run_dir, &now, NULL) == 0 &&
           strcmp(now.url, fetch->local.url) != 0;
}

/* Once for each reason: the run goes on without orders. */
static void fetch_log(struct order_fetch *fetch, const struct err *trouble)
{
    if (trouble->text[0] && strcmp(fetch->trouble.text, trouble->text) != 0)
        log_error("no orders can be received: %s; will try again", trouble->text);
    fetch->trouble = *trouble;
}

static void fetch_on_look(void *arg, int64_t now_ns)
{
    struct order_fetch *fetch = arg;
    struct err err = { "" };

    if (getppid() != fetch->parent) {
        loop_stop(fetch->loop);
        return;
    }
    if (fetch->poll) {
        err = *order_poll_trouble(fetch->poll);
        if (err.text[0] && fetch_is_stale(fetch))
            fetch_disconnect(fetch);
    } else if (fetch_connect(fetch, &err) < 0 && fetch->settings->control.url == NULL) {
        err.text[0] = '\0'; /* that controller is about to start, or to start again */
    }
    fetch_log(fetch, &err);
    loop_timer_set(fetch->loop, &fetch->look, now_ns + LOOK_NS);
}

static void fetch_on_signal(void *arg, int number)
{
    struct order_fetch *fetch = arg;

    (void)number;
    loop_stop(fetch->loop);
}

static int fetch_open(struct order_fetch *fetch, struct err *err)
{
    static const int wanted[] = { SIGTERM, SIGINT, SIGHUP };
    const struct order_fetch_settings *settings = fetch->settings;
    struct path file;
    int result = path_join(&file, settings->run_dir, ORDER_FILE, err);

    signal(SIGPIPE, SIG_IGN);
    fetch->parent = getppid();
    if (result == 0)
        result = path_join(&fetch->token_file, settings->run_dir,
                           settings->control.url ? "agent.token" : "tokens/agent.token", err);
    if (result == 0)
        result = spool_writer_open(file.text, "orders", &fetch->file, err);
    if (result == 0)
        result = orders_read(fetch, file.text, err);
    if (result == 0)
        result = loop_create(&fetch->loop, err);
    if (result == 0)
        result = loop_signals(fetch->loop, wanted, COUNT(wanted), fetch_on_signal, fetch, err);
    if (result < 0)
        return result;
    fetch->look = (struct loop_timer){ .fn = fetch_on_look, .arg = fetch };
    loop_timer_set(fetch->loop, &fetch->look, 0);
    return 0;
}

int order_fetch_run(const struct order_fetch_settings *settings, struct err *err)
{
    CLEAN(fetch_close) struct order_fetch fetch = { .settings = settings };
    int result = fetch_open(&fetch, err);

    return result < 0 ? result : loop_run(fetch.loop, err);
}
