/* fuzz-orders.c - the answer of GET /api/v1/orders: refused, or orders that can be kept and read again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "act/orders/order_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void order_check(const struct decision *order)
{
    struct buf kept = { 0 };
    struct decision again;

    must(order->id[0] && order->state == DECISION_ORDERED && order->action > ACTION_NONE &&
         order->action < ACTION_COUNT);
    decision_put(&kept, order);
    must(!kept.failed && decision_get(reader_of(kept.data, kept.size), &again) == 0);
    must(strcmp(again.id, order->id) == 0 && again.step == order->step &&
         again.argument == order->argument && again.attempt == order->attempt);
    buf_fini(&kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct order_list *list = calloc(1, sizeof(*list));
    struct err err = { "" };

    must(list != NULL);
    list->count = ORDERS_MAX + 1;
    if (order_list_parse(data, size, list, &err) == 0) {
        must(list->count <= ORDERS_MAX);
        for (size_t i = 0; i < list->count; i++)
            order_check(&list->order[i]);
    } else {
        must(err.text[0] != '\0');
        must(list->count == ORDERS_MAX + 1); /* set only on success */
    }
    free(list);
    return 0;
}
