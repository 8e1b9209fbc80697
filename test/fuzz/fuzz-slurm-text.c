/* fuzz-slurm-text.c - what scontrol prints, with names and comments that any user chose; lists of hosts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "slurm/slurm_config.h"
#include "slurm/slurm_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool count_name(void *arg, const char *name)
{
    int *count = arg;

    if (!slurm_is_node_name(name))
        abort();
    (*count)++;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct slurm_job job;
    struct slurm_wanted wanted;
    struct slurm_node node;
    int count = 0, names;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (slurm_job_parse(text, size, &job, NULL) == 0)
        slurm_hosts_each(job.hosts, NULL, NULL);
    if (slurm_node_parse(text, size, &node, NULL) == 0 && !slurm_is_node_name(node.name))
        abort();
    for (size_t i = 0; i < slurm_want_count; i++)
        slurm_config_compare(text, size, "/d", &slurm_wants[i], &wanted, NULL);
    names = slurm_hosts_each(text, count_name, &count);
    if (names >= 0 && names != count)
        abort();
    return 0;
}
