/* storage.c - local disks: state of NVMe controllers, latency and stalls of block devices.
 *
 * What is slow and holds no file of a job is noted and no fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/job/job_disks.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "wire/decision.h"

#define DISKS_MAX 128
#define REQUESTS_LEAST 10 /* completed in one read; fewer say nothing about latency */
#define SLOW_MS 100       /* for each request, on average, of a disk without moving parts */
#define SLOW_SPINNING_MS 500
#define STUCK_READS 3 /* reads without a completed request while some wait */

struct disk {
    char name[32];
    bool spinning, seen;
    int stuck;
    struct tree_counter done, ms;
};

struct disk_controller { /* of NVMe, in this node */
    char name[16];
    bool seen;
};

struct storage {
    struct tree tree;
    struct disk disk[DISKS_MAX];
    size_t disks;
    struct disk_controller controller[DISKS_MAX];
    size_t controllers;
    bool cut; /* there are more than are observed */
    const struct sense_jobs *jobs;
    struct job_disks *used;
    const struct sense_now *now;
    struct sense_report *report;
};

static int storage_open(const struct sense_place *place, void **state, struct err *err)
{
    struct storage *storage = calloc(1, sizeof(*storage));
    char text[64];

    if (!storage)
        return err_nomem(err);
    storage->tree.root = place->root;
    storage->jobs = place->jobs;
    if (tree_read(&storage->tree, text, sizeof(text), "/proc/diskstats") < 0) {
        free(storage);
        return err_set(err, -ENODEV, "/proc/diskstats: not there");
    }
    storage->used = job_disks_create();
    if (!storage->used) {
        free(storage);
        return err_nomem(err);
    }
    *state = storage;
    return 0;
}

/* Whole disks: partitions, loop devices and stacked devices repeat what these say. */
static struct disk *disk_find(struct storage *storage, const char *name)
{
    struct disk *disk = &storage->disk[storage->disks];
    int64_t spinning;

    for (size_t i = 0; i < storage->disks; i++) {
        if (strcmp(storage->disk[i].name, name) == 0)
            return &storage->disk[i];
    }
    if (strlen(name) >= sizeof(disk->name) || strncmp(name, "loop", 4) == 0 ||
        strncmp(name, "ram", 3) == 0 || strncmp(name, "dm-", 3) == 0 ||
        strncmp(name, "md", 2) == 0 ||
        !tree_number(&storage->tree, &spinning, "/sys/block/%s/queue/rotational", name))
        return NULL;
    if (storage->disks == DISKS_MAX) {
        storage->cut = true;
        return NULL;
    }
    *disk = (struct disk){ .spinning = spinning != 0 };
    snprintf(disk->name, sizeof(disk->name), "%s", name);
    storage->disks++;
    return disk;
}

static const char *disk_unused(const struct storage *storage, const struct disk *disk)
{
    return job_disks_has(storage->used, disk->name, storage->now->mono_ns)
               ? ""
               : ", which holds no file of a job";
}

static unsigned disk_severity(const struct storage *storage, const struct disk *disk, unsigned used)
{
    return disk_unused(storage, disk)[0] ? FINDING_INFO : used;
}

static void disk_slow(struct storage *storage, struct disk *disk, int64_t done, int64_t ms)
{
    int64_t limit_ms = disk->spinning ? SLOW_SPINNING_MS : SLOW_MS;
    struct finding finding;

    if (done < REQUESTS_LEAST || ms / done < limit_ms)
        return;
    finding = sense_finding(storage->now, FINDING_STORAGE, FINDING_CLASS_STORAGE,
                            disk_severity(storage, disk, FINDING_WARN), disk->name,
                            "disk %s takes %lld ms for each request%s", disk->name,
                            (long long)(ms / done), disk_unused(storage, disk));
    finding.action = ACTION_INSPECT;
    sense_hold(storage->report, &finding);
}

static void disk_stuck(struct storage *storage, struct disk *disk, int64_t done, int64_t waiting)
{
    struct finding finding;

    disk->stuck = done == 0 && waiting > 0 ? disk->stuck + 1 : 0;
    if (disk->stuck < STUCK_READS)
        return;
    finding = sense_finding(storage->now, FINDING_STORAGE, FINDING_CLASS_STORAGE,
                            disk_severity(storage, disk, FINDING_ERROR), disk->name,
                            "disk %s completes no request, %lld wait%s", disk->name,
                            (long long)waiting, disk_unused(storage, disk));
    finding.code = 1;
    finding.action = ACTION_INSPECT;
    sense_hold(storage->report, &finding);
}

/* " 259 0 nvme0n1 reads merged sectors ms writes merged sectors ms waiting ..." */
static void disk_line(struct storage *storage, const char *line)
{
    long long reads, read_ms, writes, write_ms, waiting;
    char name[32];
    struct disk *disk;
    int64_t done, ms;

    if (sscanf(line, "%*d %*d %31s %lld %*d %*d %lld %lld %*d %*d %lld %lld", name, &reads,
               &read_ms, &writes, &write_ms, &waiting) != 6)
        return;
    disk = disk_find(storage, name);
    if (!disk)
        return;
    done = tree_counter_grown(&disk->done, reads + writes);
    ms = tree_counter_grown(&disk->ms, read_ms + write_ms);
    disk_slow(storage, disk, done, ms);
    disk_stuck(storage, disk, done, waiting);
}

/* One behind a network comes and goes as somebody likes. */
static void storage_nvme_seen(struct storage *storage, const char *name)
{
    char text[16];

    for (size_t i = 0; i < storage->controllers; i++) {
        if (strcmp(storage->controller[i].name, name) == 0) {
            storage->controller[i].seen = true;
            return;
        }
    }
    if (storage->controllers == DISKS_MAX) {
        storage->cut = true;
        return;
    }
    if (strlen(name) >= sizeof(storage->controller[0].name) ||
        tree_read(&storage->tree, text, sizeof(text), "/sys/class/nvme/%s/transport", name) <= 0 ||
        strcmp(text, "pcie") != 0)
        return;
    snprintf(storage->controller[storage->controllers].name, sizeof(storage->controller[0].name),
             "%s", name);
    storage->controller[storage->controllers++].seen = true;
}

static void storage_nvme_gone(struct storage *storage)
{
    for (size_t i = 0; i < storage->controllers; i++) {
        const char *name = storage->controller[i].name;
        struct finding finding;

        if (storage->controller[i].seen) {
            storage->controller[i].seen = false;
            continue;
        }
        finding = sense_finding(storage->now, FINDING_NVME, FINDING_CLASS_STORAGE, FINDING_ERROR,
                                name, "disk controller %s is gone", name);
        finding.code = 1;
        finding.action = ACTION_INSPECT;
        sense_hold(storage->report, &finding);
    }
}

static void storage_nvme_state(void *user, const char *name)
{
    struct storage *storage = user;
    char text[32];
    struct finding finding;

    storage_nvme_seen(storage, name);
    if (tree_read(&storage->tree, text, sizeof(text), "/sys/class/nvme/%s/state", name) <= 0 ||
        strcmp(text, "live") == 0 || strcmp(text, "new") == 0)
        return;
    finding = sense_finding(storage->now, FINDING_NVME, FINDING_CLASS_STORAGE,
                            strcmp(text, "dead") == 0 ? FINDING_FATAL : FINDING_ERROR, name,
                            "disk controller %s is in state '%s'", name, text);
    finding.action = ACTION_INSPECT;
    sense_hold(storage->report, &finding);
}

static void storage_disks(struct storage *storage)
{
    char text[65536];
    int size = tree_read(&storage->tree, text, sizeof(text), "/proc/diskstats");

    for (char *line = text, *end; size > 0 && *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        disk_line(storage, line);
    }
    storage->cut |= size >= (int)sizeof(text) - 1;
}

/* A disk that nobody looks at is not healthy for that. */
static void storage_not_observed(struct storage *storage)
{
    struct finding finding;

    if (!storage->cut)
        return;
    finding = sense_finding(storage->now, FINDING_SENSOR, FINDING_CLASS_HOST, FINDING_INFO,
                            "storage", "only %d disks are observed, and there are more", DISKS_MAX);
    sense_hold(storage->report, &finding);
}

static int storage_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct storage *storage = state;

    storage->now = now;
    storage->report = report;
    storage->cut = false;
    job_disks_look(storage->used, &storage->tree, storage->jobs, now->mono_ns);
    storage_disks(storage);
    tree_list(&storage->tree, "/sys/class/nvme", storage_nvme_state, storage);
    storage_nvme_gone(storage);
    storage_not_observed(storage);
    return 0;
}

static void storage_close(void *state)
{
    struct storage *storage = state;

    job_disks_destroy(storage->used);
    free(storage);
}

const struct sensor sensor_storage = {
    .name = "storage",
    .summary = "NVMe controllers, latency and stalls of disks",
    .fix = "mount /proc and /sys; in a container, the host's",
    .period_ns = 2 * NS_PER_S,
    .open = storage_open,
    .read = storage_read,
    .close = storage_close,
};
