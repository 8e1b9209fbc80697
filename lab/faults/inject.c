/* inject.c - selects when the injector acts, and on which ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/inject.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/inject_private.h"
#include "wire/ring.h"

#define INJECT_WATCH_STEPS 5 /* seen before a fault is made, to know what the hosts use */
#define INJECT_TUNE_STEPS 8  /* after which its strength is brought nearer to what was asked for */
#define INJECT_SLICE_NS                                                                            \
    2.5e6 /* what one busy process costs each host thread a step, to begin with */
#define INJECT_HOGS_LEAST 0.05
#define INJECT_TAIL 0.1 /* of a step: what the device still does after the last launch */

struct inject_rank {
    struct ring_reader *ring;
    uint32_t pid; /* 0: not seen */
    uint64_t step;
    int64_t cpu_ns; /* of its host thread */
};

struct inject_fault {
    struct inject_report report;
    const struct inject_way *way; /* NULL: not ours */
    void *made;
    struct inject_target target;
};

struct inject_mark { /* a moment in the job */
    int64_t time_ns, cpu_ns;
    uint64_t step;
};

struct inject {
    const struct fault_plan *plan;
    struct inject_config config;
    char ring_dir[PLAN_PATH]; /* a copy: what the caller read it from may be gone */
    struct inject_rank *rank;
    struct inject_fault fault[PLAN_FAULTS];
    struct inject_mark first[PLAN_FAULTS]; /* since when we watch the fault's node */
    struct inject_mark tuned[PLAN_FAULTS]; /* when it was made or last tuned */
    double healthy_ns[PLAN_FAULTS];        /* a step before it was made */
};

static void inject_clean(struct inject **inject)
{
    inject_destroy(*inject);
}

static const struct inject_way *inject_way_of(const struct fault *fault)
{
    switch (fault->kind->id) {
    case FAULT_CPU_QUOTA:
        return &inject_quota;
    case FAULT_NEIGHBOURS:
        return &inject_neighbours;
    case FAULT_SLOW_STORAGE:
    case FAULT_SLOW_DATASET:
    case FAULT_STUCK_STORAGE:
    case FAULT_STUCK_CHECKPOINT:
        return &inject_storage;
    case FAULT_SLOW_LINK:
    case FAULT_LINK_DOWN:
        return &inject_net;
    default:
        return NULL;
    }
}

int inject_create(const struct fault_plan *plan, const struct inject_config *config,
                  struct inject **ret, struct err *err)
{
    CLEAN(inject_clean) struct inject *inject = calloc(1, sizeof(*inject));

    if (!inject)
        return err_nomem(err);
    inject->plan = plan;
    inject->config = *config;
    snprintf(inject->ring_dir, sizeof(inject->ring_dir), "%s", config->ring_dir);
    inject->config.ring_dir = inject->ring_dir;
    inject->rank = calloc(config->world, sizeof(*inject->rank));
    if (!inject->rank)
        return err_set(err, -ENOMEM, "no memory for %u ranks", config->world);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct inject_fault *fault = &inject->fault[i];

        fault->way = inject_way_of(&plan->fault[i]);
        fault->report.node = plan->fault[i].node;
        fault->target.hogs = plan->fault[i].count;
        fault->target.config = &inject->config;
        fault->target.fault = &plan->fault[i];
        fault->target.number = i;
        fault->target.method = fault->report.method;
        fault->target.method_room = sizeof(fault->report.method);
    }
    *ret = TAKE(inject);
    return 0;
}

static void inject_undo(struct inject_fault *fault, int64_t now_ns)
{
    if (fault->report.state != INJECT_ACTIVE)
        return;
    fault->way->undo(fault->made, &fault->target);
    fault->made = NULL;
    fault->report.state = INJECT_OVER;
    fault->report.until_ns = now_ns;
}

void inject_destroy(struct inject *inject)
{
    if (!inject)
        return;
    for (uint32_t i = 0; i < PLAN_FAULTS; i++)
        inject_undo(&inject->fault[i], time_mono_ns());
    for (uint32_t i = 0; inject->rank && i < inject->config.world; i++)
        ring_reader_close(inject->rank[i].ring);
    free(inject->rank);
    free(inject);
}

static int64_t inject_thread_cpu_ns(uint32_t pid)
{
    char path[64];
    long long ns = -1;

    snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", pid, pid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");

    return file && fscanf(file, "%lld", &ns) == 1 ? ns : -1;
}

static bool inject_ring_lives(struct ring_reader *ring)
{
    struct ring_info info;

    return ring_reader_info(ring, &info, NULL) == 0 && !info.closed &&
           inject_thread_cpu_ns(info.pid) >= 0;
}

/* Opens the ring of each rank whose process is there: a restarted rank has a new one.  Its number says nothing:
 * agents remove the rings of the dead when they have read them, and the first free one is taken again.
 */
static void inject_open_rings(struct inject *inject)
{
    DIR *dir = opendir(inject->config.ring_dir);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        unsigned rank, number;
        char path[PLAN_PATH], name[64];
        struct inject_rank *place;
        struct ring_reader *ring;

        if (sscanf(entry->d_name, RING_NAME_FORMAT, &rank, &number) != 2 ||
            rank >= inject->config.world)
            continue;
        place = &inject->rank[rank];
        snprintf(name, sizeof(name), RING_NAME_FORMAT, rank, number);
        if (strcmp(name, entry->d_name) != 0 || place->pid)
            continue;
        snprintf(path, sizeof(path), "%s/%s", inject->config.ring_dir, entry->d_name);
        if (ring_reader_open(path, &ring, NULL) < 0)
            continue; /* still being made: the next tick */
        if (!inject_ring_lives(ring)) {
            ring_reader_close(ring);
            continue;
        }
        ring_reader_close(place->ring);
        *place = (struct inject_rank){ .ring = ring };
    }
    if (dir)
        closedir(dir);
}

static void inject_read_ranks(struct inject *inject)
{
    inject_open_rings(inject);
    for (uint32_t i = 0; i < inject->config.world; i++) {
        struct inject_rank *rank = &inject->rank[i];
        struct ring_info info;

        rank->pid = 0;
        if (!rank->ring || ring_reader_info(rank->ring, &info, NULL) < 0 || info.closed)
            continue;
        rank->cpu_ns = inject_thread_cpu_ns(info.pid);
        if (rank->cpu_ns < 0)
            continue;
        rank->pid = info.pid;
        rank->step = info.step == RING_NO_STEP ? 0 : info.step;
    }
}

/* The node's host threads as they are now, and the moment.  0: not all ranks are there. */
static uint32_t inject_look(const struct inject *inject, uint32_t node, int64_t now_ns,
                            struct inject_target *target, struct inject_mark *mark)
{
    *mark = (struct inject_mark){ .time_ns = now_ns };
    target->count = target->foreign_load = 0;
    for (uint32_t i = 0; i < inject->config.world; i++) {
        const struct inject_rank *rank = &inject->rank[i];

        if (!rank->pid)
            return target->count = 0;
        mark->step = MAX(mark->step, rank->step);
        if (fault_node_of_rank(i, inject->config.world, inject->config.nodes) != node) {
            if (target->foreign_load < INJECT_THREADS)
                target->other[target->foreign_load++] = (pid_t)rank->pid;
            continue;
        }
        if (target->count == INJECT_THREADS)
            continue;
        target->tid[target->count++] = (pid_t)rank->pid;
        mark->cpu_ns += rank->cpu_ns;
    }
    return target->count;
}

static double mark_step_ns(const struct inject_mark *from, const struct inject_mark *to)
{
    return (double)(to->time_ns - from->time_ns) / (double)MAX(to->step - from->step, 1u);
}

static void inject_skip(struct inject_fault *fault, const struct err *err)
{
    fault->report.state = INJECT_SKIPPED;
    snprintf(fault->report.method, sizeof(fault->report.method), "%s", err->text);
}

static uint64_t inject_step(const struct inject *inject)
{
    uint64_t step = 0;

    for (uint32_t i = 0; i < inject->config.world; i++)
        step = MAX(step, inject->rank[i].step);
    return step;
}

static void inject_struck(struct inject_fault *fault, uint64_t step)
{
    if (fault->report.time_ns != 0)
        return;
    fault->report.time_ns = fault->way->struck ? fault->way->struck(fault->made) : time_mono_ns();
    fault->report.step = step;
}

static void inject_make(struct inject *inject, uint32_t number, const struct inject_mark *mark)
{
    const struct fault *plan = &inject->plan->fault[number];
    struct inject_fault *fault = &inject->fault[number];
    const struct inject_mark *first = &inject->first[number];
    double used = (double)(mark->cpu_ns - first->cpu_ns) / (double)(mark->time_ns - first->time_ns);
    double step_ns = mark_step_ns(first, mark);
    struct err err = { "" };

    fault->target.share = MAX(used, 1e-4) / MAX(plan->factor - INJECT_TAIL, 0.5);
    fault->target.step_ns = step_ns;
    fault->target.step = mark->step;
    fault->target.hogs = plan->count;
    if (!plan->count)
        fault->target.hogs =
            (plan->factor - 1) * step_ns / (INJECT_SLICE_NS * MAX(fault->target.count, 1u));
    if (fault->way->make(&fault->target, &fault->made, &err) < 0) {
        inject_skip(fault, &err);
        return;
    }
    fault->report.state = INJECT_ACTIVE;
    inject->healthy_ns[number] = step_ns;
    inject->tuned[number] = *mark;
    inject_struck(fault, mark->step);
}

/* The strength we began with was a guess: schedulers differ. */
/* NOLINTNEXTLINE(readability-function-size): MIN and MAX count as many statements */
static void inject_tune(struct inject *inject, uint32_t number, const struct inject_mark *mark)
{
    const struct fault *plan = &inject->plan->fault[number];
    struct inject_fault *fault = &inject->fault[number];
    double healthy = inject->healthy_ns[number], now = mark_step_ns(&inject->tuned[number], mark);
    double wanted = healthy * plan->factor;
    double more = (wanted - healthy) / MAX(now - healthy, 0.02 * healthy);
    struct err err = { "" };

    inject->tuned[number] = *mark;
    if (plan->count || (now > 0.95 * wanted && now < 1.05 * wanted))
        return;
    fault->target.share *= MIN(MAX(now / wanted, 0.8), 1.25);
    fault->target.hogs = MAX(fault->target.hogs * MIN(MAX(more, 0.5), 1.5), INJECT_HOGS_LEAST);
    if (fault->way->tune(fault->made, &fault->target, &err) < 0) {
        inject_undo(fault, mark->time_ns);
        inject_skip(fault, &err);
    }
}

/* Ranks were restarted: watch the new ones, then act on them. */
static bool inject_moved(const struct inject_target *before, const struct inject_target *now)
{
    return before->count != now->count ||
           memcmp(before->tid, now->tid, now->count * sizeof(*now->tid)) != 0;
}

static void inject_tick_fault(struct inject *inject, uint32_t number, int64_t now_ns)
{
    const struct fault *plan = &inject->plan->fault[number];
    struct inject_fault *fault = &inject->fault[number];
    struct inject_mark *first = &inject->first[number], mark;
    struct inject_target now = fault->target;

    if (fault->report.state == INJECT_ACTIVE) /* also when a rank is gone by now */
        inject_struck(fault, inject_step(inject));
    if (!inject_look(inject, plan->node, now_ns, &now, &mark))
        return;
    if (inject_moved(&fault->target, &now)) {
        if (fault->report.state == INJECT_ACTIVE) {
            fault->way->undo(fault->made, &fault->target);
            fault->made = NULL;
            /* Faults that end an attempt are made in one only: the next shall get through. */
            fault->report.state = fault_ends_attempt(plan) ? INJECT_OVER : INJECT_WAITING;
        }
        fault->target = now;
        *first = mark;
    }
    if (mark.step < 1 || first->step < 1) /* start-up is no measure */
        *first = mark;
    if (fault->report.state == INJECT_ACTIVE && !fault_active(plan, mark.step))
        inject_undo(fault, now_ns);
    if (fault->report.state == INJECT_ACTIVE && fault->way->tune &&
        mark.step >= inject->tuned[number].step + INJECT_TUNE_STEPS)
        inject_tune(inject, number, &mark);
    if (fault->report.state == INJECT_WAITING && fault_active(plan, mark.step) &&
        mark.step >= first->step + INJECT_WATCH_STEPS)
        inject_make(inject, number, &mark);
}

void inject_tick(struct inject *inject, int64_t now_ns)
{
    bool wanted = false;

    for (uint32_t i = 0; i < inject->plan->count; i++)
        wanted |= inject->fault[i].way && inject->fault[i].report.state <= INJECT_ACTIVE;
    if (!wanted)
        return;
    inject_read_ranks(inject);
    for (uint32_t i = 0; i < inject->plan->count; i++)
        if (inject->fault[i].way && inject->fault[i].report.state <= INJECT_ACTIVE)
            inject_tick_fault(inject, i, now_ns);
}

int inject_read(const struct inject *inject, uint32_t fault, struct inject_report *ret)
{
    if (fault >= inject->plan->count || !inject->fault[fault].way)
        return -ENOENT;
    *ret = inject->fault[fault].report;
    return 0;
}
