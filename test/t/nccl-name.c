/* nccl-name.c - loads the profiler plugin 'lockstep' as NCCL does, in a program that has liblockstep.so already.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/probe.h"
#include "probe/nccl_abi.h"

static int same(void *library, const char *name, const void *ours)
{
    const void *theirs = dlsym(library, name);

    printf("%s: %s\n", name, !theirs ? "not there" : theirs == ours ? "the same" : "another");
    return theirs == ours;
}

/* All begin with the name. */
static int found(void *library, const char *name)
{
    const struct nccl_profiler_v4 *table = dlsym(library, name);

    printf("%s: %s\n", name, table ? table->name : "not there");
    return table && strcmp(table->name, "lockstep") == 0;
}

int main(void)
{
    void *library = dlopen("libnccl-profiler-lockstep.so", RTLD_NOW | RTLD_LOCAL);
    uint64_t (*clock_ns)(void) = lockstep_clock_ns;
    const void *clock_address;
    int good;

    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    memcpy(&clock_address, &clock_ns, sizeof(clock_address)); /* ISO C has no cast for that */
    good = same(library, "lockstep_clock_ns", clock_address);
    good &= found(library, "ncclProfiler_v4");
    good &= found(library, "ncclProfiler_v5");
    good &= found(library, "ncclProfiler_v6");
    return good ? 0 : 1;
}
