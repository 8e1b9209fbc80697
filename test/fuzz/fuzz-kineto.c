/* fuzz-kineto.c - a profiler's trace that anybody may have written, of two ranks, replayed and judged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem.h"
#include "core/clean.h"
#include "read/jsontext.h"
#include "read/kineto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(value_fini) struct value_tree tree = { .root = VALUE_NIL };
    CLEAN(lanes_fini) struct lanes lanes = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct err err;

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (jsontext_read(text, size, &tree, &err) < 0 || !kineto_is(&tree) ||
        kineto_add(&lanes, 0, &tree, &err) < 0 || kineto_add(&lanes, 1, &tree, &err) < 0)
        return 0;
    for (size_t i = lanes.count / 2; i < lanes.count; i++)
        lanes.op[i].duration_ns *= 2;
    if (lanes.count < 4096)
        postmortem_lanes(&lanes, "fuzz", &findings);
    return 0;
}
