/* gpu_look.h - parts of the GPU sensor: clocks, Xids, NVLinks, and the processes that hold memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_GPU_GPU_LOOK_H
#define LOCKSTEP_SENSE_GPU_GPU_LOOK_H

#include "device/nvml.h"
#include "sense/gpu/gpu_child.h"
#include "sense/sensor.h"
#include "sense/tree.h"

struct gpu_look { /* one GPU in one read */
    const struct sense_now *now;
    struct sense_report *report;
    const struct nvml_sample *sample;
    int64_t read_ns; /* when the child took it */
    char device[FACT_NAME];
};

static inline int64_t gpu_look_value(const struct gpu_look *look, enum nvml_value value)
{
    return nvml_has(look->sample, value) ? look->sample->value[value] : -1;
}

/* ---- gpu_clocks.c ---- */
struct gpu_clocks { /* of a GPU, between reads */
    struct tree_counter heat;
    int64_t read_ns;      /* of the last answer */
    int64_t hot_ns;       /* when clocks were last lowered by heat; 0: never */
    int64_t sm_active;    /* percent, in the last answer that has it; -1: not reported */
    int64_t heat_percent; /* of the time between two answers */
};

/* Clocks that are lower than they could be, and why. */
void gpu_clocks_judge(struct gpu_clocks *clocks, const struct gpu_look *look);

/* ---- gpu_list.c ---- */
struct gpu_list { /* GPUs that have been there */
    struct {
        char name[FACT_NAME];
        bool seen; /* in this answer */
    } known[GPUS_MAX];
    unsigned count;
    char at[GPUS_MAX][FACT_NAME]; /* by number */
};

/* true: the number was another one's before. */
bool gpu_list_take(struct gpu_list *list, unsigned index, const char *device);
void gpu_list_judge(struct gpu_list *list, const struct sense_now *now,
                    struct sense_report *report);

/* ---- gpu_links.c ---- */
struct gpu_links { /* of a GPU, between reads */
    unsigned count;
    struct gpu_link {
        struct nvml_link now;
        bool was_up;
        int64_t best_mbps;
        int64_t replays, recoveries, crc_errors; /* new ones, not reported yet */
        struct tree_counter replays_seen, recoveries_seen, crc_seen;
    } link[NVML_LINKS];
};

void gpu_links_take(struct gpu_links *links, const struct nvml_link *link, unsigned count);
void gpu_links_judge(struct gpu_links *links, const struct gpu_look *look);
/* Whether the GPU joined the switches between GPUs, and is well connected to them. */
void gpu_fabric_judge(const struct gpu_look *look);

/* ---- gpu_processes.c ---- */
struct gpu_processes { /* of a GPU, between reads */
    unsigned gone;
    uint32_t gone_pid[NVML_PROCESSES]; /* in the last read */
};

/* Memory that processes hold which ended, or that belong to different users. */
void gpu_processes_judge(struct gpu_processes *processes, const struct tree *tree,
                         const struct nvml_process *process, unsigned count,
                         const struct gpu_look *look);

/* ---- gpu_xids.c ---- */
struct gpu_xids {    /* of a GPU, between reads */
    unsigned before; /* processes in the last read */
    uint32_t before_pid[NVML_PROCESSES];
    struct finding open; /* an Xid whose process is not known yet; code 0: none */
    unsigned candidates;
    uint32_t candidate[NVML_PROCESSES];
};

/* An Xid among NVML's events, which name no process. */
void gpu_xids_event(struct gpu_xids *xids, uint32_t code, const struct nvml_process *process,
                    unsigned count, const struct gpu_look *look);
/* To be called for each read: whose Xid it was may be known now. */
void gpu_xids_judge(struct gpu_xids *xids, const struct nvml_process *process, unsigned count,
                    const struct gpu_look *look);

#endif
