/* fuzz-proc.c - the texts of /proc and of control groups through their parsers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/proc.h"
#include "core/clean.h"
#include "lab/score/foreign_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct proc_stat stat;
    struct proc_cgroup cgroup;
    int64_t first, second;
    uint32_t pid, uid[4];
    uint64_t kills, stolen;
    struct procs_one proc;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    proc_parse_stat(text, &stat);
    if (proc_parse_schedstat(text, &first, &second) == 0 && (first < 0 || second < 0))
        abort();
    if (proc_parse_cgroup(text, &cgroup) == 0 && cgroup.path[0] != '/')
        abort();
    if (proc_parse_cpu_stat(text, &first) == 0 && first < 0)
        abort();
    if (proc_parse_cgroup_of(text, "memory", &cgroup) == 0 && cgroup.path[0] != '/')
        abort();
    proc_parse_oom_kill(text, &kills);
    if (proc_parse(text, &proc) == 0 && proc.pid <= 0)
        abort();
    foreign_load_parse_stolen(text, &stolen);
    proc_parse_uids(text, uid);
    if (proc_parse_nspid(text, &pid) == 0 && pid == 0)
        abort();
    return 0;
}
