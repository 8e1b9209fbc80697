/* fuzz-fault.c - faults and plans as anyone might write them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "lab/faults/fault.h"
#include "lab/faults/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken says the same after it was written and read again. */
static void fault_again(const struct fault *fault)
{
    char text[FAULT_TEXT], text_again[FAULT_TEXT];
    struct fault again;

    fault_format(fault, text);
    if (fault_parse(text, &again, NULL) < 0)
        abort();
    fault_format(&again, text_again);
    if (strcmp(text, text_again) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *text = strndup((const char *)data, size);
    CLEAN(free_clean) struct fault_plan *plan = calloc(1, sizeof(*plan));
    struct plan_deed deed;
    struct fault fault;
    struct err err;

    if (!text || !plan)
        return 0;
    if (fault_parse(text, &fault, &err) == 0)
        fault_again(&fault);
    if (plan_parse((const char *)data, size, plan, &err) == 0)
        for (uint32_t i = 0; i < plan->count; i++)
            fault_again(&plan->fault[i]);
    (void)truth_parse(text, &deed);
    return 0;
}
