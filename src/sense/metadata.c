/* metadata.c - storms of opens, lookups and stats at file servers.
 *
 * Loaders that open one small file for each sample, and imports of thousands of ranks, load the metadata server of a file
 * system.  No disk of the node is slow then, and the network is idle; only the counters of the mounts show it.  NFS has
 * them in /proc/PID/mountstats, as the process of the job sees its mounts; Lustre in the statistics of its clients.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/job/metadata_stats.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "wire/decision.h"

#define TEXT_BYTES (512 << 10)
#define MOUNTS_MAX 64
#define STORM_OPS 3000     /* a second: more than one client needs */
#define STORM_SLOW_OPS 200 /* ... or so many that the server answers slowly */
#define SLOW_MS 50
#define LASTS 2 /* reads in a row; short bursts of opens are normal */

struct metadata_mount {
    char name[METADATA_NAME];
    bool seen;
    int storms; /* reads in a row */
    int64_t last_ns;
    struct tree_counter ops, ms, data;
};

struct metadata {
    struct tree tree;
    const struct sense_jobs *jobs;
    struct metadata_mount mount[MOUNTS_MAX];
    size_t mounts;
    bool cut; /* there is more than is observed */
    char *text;
    const struct sense_now *now;
    struct sense_report *report;
};

static const char *const lustre_folders[] = { "/proc/fs/lustre/llite",
                                              "/sys/kernel/debug/lustre/llite" };

/* The mounts of a job, or those of the machine. */
static int metadata_read_mounts(struct metadata *metadata)
{
    int size = -ENOENT;

    if (metadata->jobs && metadata->jobs->count)
        size = tree_read(&metadata->tree, metadata->text, TEXT_BYTES, "/proc/%u/mountstats",
                         metadata->jobs->pid[0]);
    if (size < 0)
        size = tree_read(&metadata->tree, metadata->text, TEXT_BYTES, "/proc/1/mountstats");
    if (size < 0)
        size = tree_read(&metadata->tree, metadata->text, TEXT_BYTES, "/proc/self/mountstats");
    return size;
}

static void metadata_close(void *state)
{
    struct metadata *metadata = state;

    free(metadata->text);
    free(metadata);
}

static void metadata_nothing(void *user, const char *name)
{
    (void)user;
    (void)name;
}

static int metadata_open(const struct sense_place *place, void **state, struct err *err)
{
    struct metadata *metadata = calloc(1, sizeof(*metadata));
    bool lustre = false;
    int size;

    if (!metadata)
        return err_nomem(err);
    metadata->tree.root = place->root;
    metadata->jobs = place->jobs;
    metadata->text = malloc(TEXT_BYTES);
    if (!metadata->text) {
        metadata_close(metadata);
        return err_nomem(err);
    }
    for (size_t i = 0; i < COUNT(lustre_folders); i++)
        lustre |= tree_list(&metadata->tree, lustre_folders[i], metadata_nothing, NULL) > 0;
    size = metadata_read_mounts(metadata);
    if (size < 0 && !lustre) {
        metadata_close(metadata);
        return err_set(err, -ENODEV, "mountstats: not there");
    }
    *state = metadata;
    return 0;
}

static struct metadata_mount *metadata_find(struct metadata *metadata, const char *name)
{
    struct metadata_mount *mount = &metadata->mount[metadata->mounts];

    for (size_t i = 0; i < metadata->mounts; i++) {
        if (strcmp(metadata->mount[i].name, name) == 0)
            return &metadata->mount[i];
    }
    if (metadata->mounts == MOUNTS_MAX) {
        metadata->cut = true;
        return NULL;
    }
    *mount = (struct metadata_mount){ .last_ns = metadata->now->mono_ns };
    snprintf(mount->name, sizeof(mount->name), "%s", name);
    metadata->mounts++;
    return mount;
}

static void metadata_report(struct metadata *metadata, const struct metadata_mount *mount,
                            int64_t rate, int64_t ms_each, int64_t data)
{
    struct finding finding = sense_finding(
        metadata->now, FINDING_STORAGE, FINDING_CLASS_STORAGE, FINDING_WARN, mount->name,
        "metadata storm at %s: %lld opens, lookups and other metadata operations a "
        "second, %lld ms each; %lld reads and writes",
        mount->name, (long long)rate, (long long)ms_each, (long long)data);

    finding.code = 2;
    finding.action = ACTION_INSPECT;
    sense_hold(metadata->report, &finding);
}

static void metadata_take(void *user, const struct metadata_stats *stats)
{
    struct metadata *metadata = user;
    struct metadata_mount *mount = metadata_find(metadata, stats->name);
    int64_t ops, ms, data, elapsed_ms, rate, ms_each;

    if (!mount || mount->seen)
        return;
    mount->seen = true;
    ops = tree_counter_grown(&mount->ops, stats->ops);
    ms = tree_counter_grown(&mount->ms, stats->ms);
    data = tree_counter_grown(&mount->data, stats->data);
    elapsed_ms = (metadata->now->mono_ns - mount->last_ns) / NS_PER_MS;
    mount->last_ns = metadata->now->mono_ns;
    if (elapsed_ms <= 0)
        return;
    rate = (int64_t)((double)ops * 1000 / (double)elapsed_ms);
    ms_each = ops > 0 ? ms / ops : 0;
    if (rate < STORM_OPS && (rate < STORM_SLOW_OPS || ms_each < SLOW_MS)) {
        mount->storms = 0;
        return;
    }
    if (++mount->storms >= LASTS)
        metadata_report(metadata, mount, rate, ms_each,
                        (int64_t)((double)data * 1000 / (double)elapsed_ms));
}

/* "scratch-ffff8f2c": the name of the file system, and the address of its client */
static void metadata_lustre(void *user, const char *name)
{
    struct metadata *metadata = user;
    struct metadata_stats stats = { .ops = 0 };
    size_t bytes = strcspn(name, "-");

    for (size_t i = 0; i < COUNT(lustre_folders); i++) {
        if (tree_read(&metadata->tree, metadata->text, TEXT_BYTES, "%s/%s/stats", lustre_folders[i],
                      name) <= 0)
            continue;
        metadata_lustre_read(metadata->text, &stats);
        snprintf(stats.name, sizeof(stats.name), "lustre %.*s",
                 (int)MIN(bytes, sizeof(stats.name) - 8), name);
        metadata_take(metadata, &stats);
        return;
    }
}

static void metadata_not_observed(struct metadata *metadata)
{
    struct finding finding;

    if (!metadata->cut)
        return;
    finding =
        sense_finding(metadata->now, FINDING_SENSOR, FINDING_CLASS_HOST, FINDING_INFO, "metadata",
                      "only %d mounts of file servers are observed, and there "
                      "are more",
                      MOUNTS_MAX);
    sense_hold(metadata->report, &finding);
}

/* A mount that is gone makes room. */
static void metadata_drop_gone(struct metadata *metadata)
{
    size_t kept = 0;

    for (size_t i = 0; i < metadata->mounts; i++) {
        if (metadata->mount[i].seen)
            metadata->mount[kept++] = metadata->mount[i];
    }
    metadata->mounts = kept;
}

static int metadata_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct metadata *metadata = state;
    int size;

    metadata->now = now;
    metadata->report = report;
    metadata->cut = false;
    for (size_t i = 0; i < metadata->mounts; i++)
        metadata->mount[i].seen = false;
    size = metadata_read_mounts(metadata);
    metadata->cut |= size >= TEXT_BYTES - 1;
    if (size > 0)
        metadata_nfs_read(metadata->text, metadata_take, metadata);
    for (size_t i = 0; i < COUNT(lustre_folders); i++)
        tree_list(&metadata->tree, lustre_folders[i], metadata_lustre, metadata);
    metadata_drop_gone(metadata);
    metadata_not_observed(metadata);
    return 0;
}

const struct sensor sensor_metadata = {
    .name = "metadata",
    .summary = "storms of opens and lookups at file servers",
    .fix = "mount /proc; for Lustre run the node daemon as root, with debugfs",
    .period_ns = 5 * NS_PER_S,
    .open = metadata_open,
    .read = metadata_read,
    .close = metadata_close,
};
