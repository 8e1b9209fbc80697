/* bench_options.h - the options of 'lockstep bench ...', which is in lockstep-lab.
 *
 * Data only, in both programs: lockstep needs it for help, completions and settings files.  What they do is in
 * lab/cmd.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_LAB_BENCH_OPTIONS_H
#define LOCKSTEP_CMD_LAB_BENCH_OPTIONS_H

#include "base/opt.h"

struct bench_control_settings {
    bool json;
    uint32_t ranks, seconds, step_ms, ops, readers, processes;
    const char *directory;
};

struct bench_probe_settings {
    bool json;
    uint32_t batches, cold;
};

struct bench_dumps_settings {
    bool json;
    uint32_t ranks, ops;
};

struct bench_autopsy_settings {
    bool json, show;
    uint32_t size_mb;
    const char *half;
};

struct bench_noise_settings {
    bool json, print, detect;
    uint32_t ranks, cases;
    uint64_t steps, seed;
    double step_seconds, seconds, often;
    const char *from;
};

struct bench_replay_settings {
    bool json;
    uint32_t repeats;
};

struct bench_verdicts_settings {
    uint32_t cases, healthy, jobs, retry;
    uint64_t seed;
    int64_t healthy_ns;
    const char *only, *keep, *results, *write, *part;
    bool all, json, sum;
};

struct bench_page_settings {
    bool json;
    uint32_t ranks, steps, keys;
    const char *browser;
};

struct bench_matrix_settings {
    bool json;
    uint32_t ranks, tiles;
    uint64_t steps;
    const char *dir;
};

struct bench_kmsg_settings {
    bool json;
    double seconds;
};

struct bench_recover_settings {
    bool json;
    const char *slurm; /* NULL: torchrun is the rival */
    uint32_t rounds, ranks;
};

struct bench_agent_settings {
    bool json, rank; /* rank: be one of the job */
    double seconds;
    uint32_t ranks, ops, step_ms;
    const char *nvml, *tree;
};

struct bench_fabric_settings {
    bool json;
    uint32_t cases, nodes;
    uint64_t seed;
    const char *only, *with;
};

struct bench_ckpt_settings {
    bool json;
    uint64_t bytes;
    uint32_t rounds;
    const char *dir;
};

extern const struct command command_bench_agent;
extern const struct command command_bench_ckpt;
extern const struct command command_bench_control;
extern const struct command command_bench_probe;
extern const struct command command_bench_dumps;
extern const struct command command_bench_autopsy;
extern const struct command command_bench_noise;
extern const struct command command_bench_replay;
extern const struct command command_bench_verdicts;
extern const struct command command_bench_matrix;
extern const struct command command_bench_page;
extern const struct command command_bench_fabric;
extern const struct command command_bench_kmsg;
extern const struct command command_bench_recover;

#endif
