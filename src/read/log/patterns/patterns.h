/* patterns.h - what lines of logs mean: one table, in the order in which meanings are preferred.
 *
 * A row has a pattern (matcher.h), what it means, the layer, how surely, and what to do.  Patterns use the words of a
 * message that every version of the program prints.  The rows lie in several files by who writes the lines.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOG_PATTERNS_PATTERNS_H
#define LOCKSTEP_READ_LOG_PATTERNS_PATTERNS_H

#include "read/log/line.h"
#include "wire/kernel/kernel_line.h"
#include "wire/log_event.h"
#include "wire/verdict.h"

struct log_pattern {
    const char *pattern; /* NULL ends a list */
    uint8_t kind, layer, confidence;
    const char *cause;  /* NULL: the line's own words */
    const char *advice; /* NULL: by kind and layer of the verdict */
    /* Reads more from the line; false: it is not what it seems. */
    bool (*more)(const struct log_line *line, struct log_event *event);
};

extern const struct log_pattern patterns_outside[]; /* ended from outside */
extern const struct log_pattern patterns_follow[];  /* wrappers and clean-up */
extern const struct log_pattern patterns_device[];  /* CUDA, cuBLAS, cuDNN, HIP, XLA */
extern const struct log_pattern patterns_comm[];    /* NCCL, Gloo, UCX, libfabric, rendezvous */
extern const struct log_pattern patterns_host[];    /* memory, storage, data, versions, results */
extern const struct log_pattern patterns_launch[];  /* torchrun, srun, mpirun, Ray, shells */

struct log_patterns { /* all rows in the order of their tables */
    const struct log_pattern **row;
    const char **text; /* their patterns, and behind them the words of kernel messages */
    uint32_t rows, texts;
};
int patterns_init(struct log_patterns *patterns); /* -ENOMEM */
void patterns_fini(struct log_patterns *patterns);

/* patterns_kernel.c: the n-th text to search for, NULL; the event of a line, if it is one that matters to a job. */
const char *pattern_of_kernel(size_t n);
bool pattern_kernel_event(struct kernel_reader *reader, const struct log_line *line,
                          struct log_event *event);
/* patterns_layer.c: the layer that the words of an error name, LAYER_UNKNOWN where they name several; else `otherwise`. */
unsigned pattern_layer(const char *text, const char *end, unsigned otherwise);
/* The meaning of a Python exception whose text no row knows. */
void pattern_of_exception(const char *name, size_t bytes, struct log_event *event);

/* What to do, in several tables. */
#define ADVICE_CORE                                                                                \
    "Run with PYTHONFAULTHANDLER=1 and core dumps on (ulimit -c unlimited) to get the stack; "     \
    "check extensions that were built for other versions."
#define ADVICE_STACK                                                                               \
    "Read the stack that the log shows around this line: its innermost frames name the extension " \
    "or library that crashed; check that it was built for this version of torch and CUDA."
#define ADVICE_BUS                                                                                 \
    "Check the size of /dev/shm (df -h /dev/shm) and files that were truncated while they were "   \
    "mapped; read the kernel log for memory errors."
#define ADVICE_KILLED                                                                              \
    "Read the kernel log of the node (dmesg -T | grep -i oom) and the memory limit of the job: "   \
    "SIGKILL mostly means that memory ran out."
#define ADVICE_CPU "Use a build for the CPU of this node."

/* patterns_values.c: cause, layer and advice by the exit status or signal of an event. */
void patterns_end_text(struct log_event *event);
/* The others: for `more`. */
bool read_timeout(const struct log_line *line, struct log_event *event);
bool read_stuck(const struct log_line *line, struct log_event *event);
bool read_notified(const struct log_line *line, struct log_event *event);
bool read_library(const struct log_line *line, struct log_event *event);
bool read_value_end(const struct log_line *line, struct log_event *event);
bool read_nan_loss(const struct log_line *line, struct log_event *event);
bool read_progress(const struct log_line *line, struct log_event *event);
bool read_absent(const struct log_line *line, struct log_event *event);
bool read_missing(const struct log_line *line, struct log_event *event);
bool read_mpi_abort(const struct log_line *line, struct log_event *event);
bool read_mismatch(const struct log_line *line, struct log_event *event);
bool read_task(const struct log_line *line, struct log_event *event);
bool read_warning(const struct log_line *line, struct log_event *event);
bool read_peer(const struct log_line *line, struct log_event *event);
bool read_torchrun(const struct log_line *line, struct log_event *event);
bool read_deepspeed(const struct log_line *line, struct log_event *event);
bool read_srun(const struct log_line *line, struct log_event *event);
bool read_exhausted(const struct log_line *line, struct log_event *event);
bool read_paddle(const struct log_line *line, struct log_event *event);
bool read_container(const struct log_line *line, struct log_event *event);
bool read_slurmctld(const struct log_line *line, struct log_event *event);
bool read_failed_node(const struct log_line *line, struct log_event *event);
bool read_mpirun(const struct log_line *line, struct log_event *event);
bool read_spawned(const struct log_line *line, struct log_event *event);
bool read_died(const struct log_line *line, struct log_event *event);
bool read_called(const struct log_line *line, struct log_event *event);
bool read_orte(const struct log_line *line, struct log_event *event);
bool read_shell(const struct log_line *line, struct log_event *event);
bool read_identity(const struct log_line *line, struct log_event *event);
bool read_channels(const struct log_line *line, struct log_event *event);
bool read_nodes(const struct log_line *line, struct log_event *event);
bool read_completed(const struct log_line *line, struct log_event *event);
bool read_restored(const struct log_line *line, struct log_event *event);
bool read_own(const struct log_line *line, struct log_event *event);
bool read_rank_in_text(const struct log_line *line, struct log_event *event);

#endif
