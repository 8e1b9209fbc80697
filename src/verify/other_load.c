/* other_load.c - /proc/stat without our own times, and the counters of the disk under a directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/other_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/times.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/tree.h"

#define SECTOR 512
#define CPU_SHARE 0.05 /* of all processors, and half a processor */
#define CPU_LEAST 0.5
#define DISK_SHARE 0.1
#define DISK_LEAST (UINT64_C(4) << 20) /* a journal and a log are always written */

static bool other_load_times(const char *root, uint64_t *busy, uint64_t *own)
{
    const struct tree tree = { .root = root };
    uint64_t user, nice, system, irq, softirq;
    char text[256];
    struct tms mine;

    if (tree_read(&tree, text, sizeof(text), "/proc/stat") < 0 ||
        sscanf(text, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64 " %" SCNu64, &user,
               &nice, &system, &irq, &softirq) != 5 ||
        times(&mine) == (clock_t)-1)
        return false;
    *busy = user + nice + system + irq + softirq;
    *own = (uint64_t)(mine.tms_utime + mine.tms_stime);
    return true;
}

/* The whole disk, also of a partition. */
static void other_load_find_disk(const char *root, const char *dir, char *ret, size_t room)
{
    const struct tree tree = { .root = root };
    struct stat st;
    int64_t partition;
    bool part;

    ret[0] = '\0';
    if (stat(dir, &st) < 0 || major(st.st_dev) == 0)
        return;
    part = tree_number(&tree, &partition, "/sys/dev/block/%u:%u/partition", major(st.st_dev),
                       minor(st.st_dev));
    snprintf(ret, room, "/sys/dev/block/%u:%u%s/stat", major(st.st_dev), minor(st.st_dev),
             part ? "/.." : "");
}

/* "reads merged SECTORS ms writes merged SECTORS ..." */
static uint64_t other_load_moved(const char *root, const char *disk)
{
    const struct tree tree = { .root = root };
    uint64_t read, written;
    char text[256];

    if (!disk[0] || tree_read(&tree, text, sizeof(text), "%s", disk) < 0 ||
        sscanf(text, "%*u %*u %" SCNu64 " %*u %*u %*u %" SCNu64, &read, &written) != 2)
        return 0;
    return (read + written) * SECTOR;
}

void other_load_begin(struct other_load *load, const char *root, const char *dir)
{
    *load = (struct other_load){ .root = root, .began_ns = time_mono_ns() };
    load->has_times = other_load_times(root, &load->busy, &load->own);
    if (dir)
        other_load_find_disk(root, dir, load->disk, sizeof(load->disk));
    load->moved = other_load_moved(root, load->disk);
}

static bool other_load_use_cpus(const struct other_load *load, char *why, size_t room)
{
    double seconds = (double)(time_mono_ns() - load->began_ns) / 1e9, cpus;
    double most = CPU_LEAST + CPU_SHARE * (double)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t busy, own;

    if (!load->has_times || !other_load_times(load->root, &busy, &own) || seconds <= 0)
        return false;
    busy -= load->busy;
    own -= load->own;
    cpus = busy > own ? (double)(busy - own) / (double)sysconf(_SC_CLK_TCK) / seconds : 0;
    snprintf(why, room, "; other programs used %.1f processors meanwhile", cpus);
    return cpus > most;
}

static bool other_load_use_disk(const struct other_load *load, uint64_t bytes, char *why,
                                size_t room)
{
    uint64_t moved = other_load_moved(load->root, load->disk);
    uint64_t theirs = moved > load->moved + bytes ? moved - load->moved - bytes : 0;

    snprintf(why, room, "; other programs moved %.0f MB on the disk meanwhile",
             (double)theirs / 1e6);
    return (double)theirs > MAX(DISK_SHARE * (double)bytes, (double)DISK_LEAST);
}

void other_load_judge(const struct other_load *load, uint64_t bytes, struct verify_report *report,
                      size_t first)
{
    char why[80];
    bool used = bytes ? other_load_use_disk(load, bytes, why, sizeof(why))
                      : other_load_use_cpus(load, why, sizeof(why));

    for (size_t i = first; i < report->count && used; i++) {
        struct check *result = &report->result[i];
        size_t size = strlen(result->why);

        if (!result->has_value || !result->has_expected || result->state == CHECK_OK)
            continue;
        result->state = CHECK_UNKNOWN;
        snprintf(result->why + size, sizeof(result->why) - size, "%s", why);
    }
}
