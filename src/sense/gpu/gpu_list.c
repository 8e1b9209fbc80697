/* gpu_list.c - GPUs that come and go: the numbers of the others change, and one that is gone is a finding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "sense/gpu/gpu_look.h"
#include "wire/decision.h"

bool gpu_list_take(struct gpu_list *list, unsigned index, const char *device)
{
    bool other = strcmp(list->at[index], device) != 0 && list->at[index][0];
    unsigned i = 0;

    snprintf(list->at[index], FACT_NAME, "%s", device);
    while (i < list->count && strcmp(list->known[i].name, device) != 0)
        i++;
    if (i == GPUS_MAX)
        return other;
    if (i == list->count)
        snprintf(list->known[list->count++].name, FACT_NAME, "%s", device);
    list->known[i].seen = true;
    return other;
}

void gpu_list_judge(struct gpu_list *list, const struct sense_now *now, struct sense_report *report)
{
    for (unsigned i = 0; i < list->count; i++) {
        struct finding finding;

        if (list->known[i].seen) {
            list->known[i].seen = false;
            continue;
        }
        finding = sense_finding(now, FINDING_NVRM, FINDING_CLASS_DRIVER, FINDING_ERROR,
                                list->known[i].name, "the driver does not list GPU %s any more",
                                list->known[i].name);
        finding.action = ACTION_INSPECT;
        sense_hold(report, &finding);
    }
}
