/* order_fetch.h - the launcher's child that waits for orders and appends them to RUN/orders.lsf.
 *
 * A process of its own: the launcher has one thread and must never wait for the network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ORDER_FETCH_H
#define LOCKSTEP_ACT_ORDERS_ORDER_FETCH_H

#include "base/net/client.h"
#include "core/err.h"

#define ORDER_FILE "orders.lsf"

struct order_fetch_settings {
    const char *run_dir, *run;
    struct client_settings
        control; /* url NULL: the controller of the run, which RUN/control.url names */
};

/* Until a signal comes or the parent is gone. */
int order_fetch_run(const struct order_fetch_settings *settings, struct err *err);

#endif
