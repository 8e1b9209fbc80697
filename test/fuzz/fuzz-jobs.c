/* fuzz-jobs.c - what /proc says about the files and the control groups of a job's processes.
 *
 * The first byte selects the parser.  Counters of file servers are among it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "sense/job/job_cgroups.h"
#include "sense/job/job_mounts.h"
#include "sense/job/metadata_stats.h"

#define UPPER 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_mount(const struct job_mount *mount)
{
    char upper[UPPER];

    if (strnlen(mount->point, sizeof(mount->point)) == sizeof(mount->point) ||
        strnlen(mount->type, sizeof(mount->type)) == sizeof(mount->type) ||
        strnlen(mount->source, sizeof(mount->source)) == sizeof(mount->source) || !mount->options)
        abort();
    if (job_mount_upper(mount, upper, sizeof(upper)) && (!upper[0] || strchr(upper, '\n')))
        abort();
    job_mount_is_elsewhere(mount->type);
}

static void mounts(const char *text)
{
    static struct job_mounts index; /* too large for the stack */
    struct job_mount mount;

    job_mounts_index(&index, text);
    if (job_mounts_find(&index, 29, 0, &mount))
        check_mount(&mount);
    if (job_mounts_find(&index, 0, 44, &mount)) {
        check_mount(&mount);
        if (mount.major)
            abort();
    }
    if (job_mounts_of_path(text, "/data/set/0", &mount))
        check_mount(&mount);
}

static void check_stats(void *user, const struct metadata_stats *stats)
{
    (void)user;
    if (stats->ops < 0 || stats->ms < 0 || stats->data < 0 ||
        strnlen(stats->name, sizeof(stats->name)) == sizeof(stats->name))
        abort();
}

static void servers(const char *text)
{
    struct metadata_stats stats = { .ops = 0 };

    metadata_nfs_read(text, check_stats, NULL);
    metadata_lustre_read(text, &stats);
    check_stats(NULL, &stats);
}

static void groups(char *text)
{
    struct job_cgroups *cgroups = job_cgroups_create();

    if (!cgroups)
        return;
    job_cgroups_take(cgroups, &(struct job_process){ .pid = 7, .uid = 1000, .now_ns = 1 }, text);
    if (job_cgroups_count(cgroups) > 64)
        abort();
    job_cgroups_destroy(cgroups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *text = malloc(size + 1);
    unsigned major, minor;

    if (!size || !text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'm')
        mounts(text);
    else if (data[0] == 'c')
        groups(text);
    else if (data[0] == 's')
        servers(text);
    else if (data[0] == 'f' && job_fdinfo_mount(text) < 0)
        abort();
    else
        job_map_read(text, &major, &minor);
    return 0;
}
