/* fuzz-policy.c - tables of actions as anyone might write them.
 *
 * A table that was read must be one that can be sent: written as a fact and read again, it is the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "act/table/policy_file.h"
#include "core/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_table table, again;
    struct buf first = { 0 }, second = { 0 };
    struct conf conf = { 0 };
    struct err err = { "" };
    int result = conf_parse("f", data, size, &conf, &err);

    if (result == 0)
        result = policy_file_take(&conf, &table, &err);
    conf_fini(&conf);
    if (result < 0) {
        if (strncmp(err.text, "f:", 2) != 0)
            abort();
        return 0;
    }
    policy_table_put(&first, &table);
    if (policy_table_get(reader_of(first.data, first.size), &again) < 0)
        abort();
    policy_table_put(&second, &again);
    if (first.failed || first.size != second.size ||
        memcmp(first.data, second.data, first.size) != 0)
        abort();
    buf_fini(&first);
    buf_fini(&second);
    return 0;
}
