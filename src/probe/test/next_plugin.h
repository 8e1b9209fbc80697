/* next_plugin.h - the calls that a second profiler plugin got: the test and the plugin share it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_TEST_NEXT_PLUGIN_H
#define LOCKSTEP_PROBE_TEST_NEXT_PLUGIN_H

#include <stdint.h>

struct next_told {
    int version; /* of the table that was called; 0: none */
    int inits, finalizes, starts, stops, records;
    int ranks, rank;
    uint64_t id;
    uint64_t types;     /* of events, all or-ed */
    const void *parent; /* of the newest event */
    int refuse;         /* its init fails */
    int want;           /* its mask; 0: as it is */
    int *mask;          /* as it was given */
};

/* A handle of this plugin: its own numbers, so that nobody else's can be taken for one. */
#define NEXT_HANDLE(number) ((void *)(uintptr_t)(0x7ea0000000000000 + (uint64_t)(number)))

#endif
