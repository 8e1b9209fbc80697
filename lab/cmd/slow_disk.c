/* slow_disk.c - `lockstep slow-disk`: the disk of one node, which a signal makes slow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/lab/drill_options.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/lab.h"
#include "lab/faults/slowfs.h"

static void slow_disk_set(struct slowfs *fs, int64_t delay_ns)
{
    atomic_store(&fs->order[0].rank, SLOWFS_ANY);
    atomic_store(&fs->order[0].part, SLOWFS_IN_DATA);
    atomic_store(&fs->order[0].delay_ns, delay_ns);
}

int slow_disk_main(int argc, char **argv)
{
    struct slow_disk_settings settings = { .delay_ms = 60 };
    CLEAN(slowfs_end) struct slowfs fs = { 0 };
    struct err err = { "" };
    int parsed = opt_parse_all(&command_slow_disk, argc, argv, &settings), signal = 0;
    sigset_t set;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (!settings.at || !settings.backing) {
        log_error("--at and --backing are needed");
        return 2;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (slowfs_mount(settings.backing, settings.at, &fs, &err) < 0) {
        log_error("%s", err.text);
        return 3;
    }
    puts("mounted");
    fflush(stdout);
    while (sigwait(&set, &signal) == 0 && signal != SIGTERM)
        slow_disk_set(&fs,
                      signal == SIGUSR1 ? (int64_t)(settings.delay_ms * (double)NS_PER_MS) : 0);
    return 0;
}
