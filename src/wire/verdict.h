/* verdict.h - the verdict, shared by judge and show.
 *
 * A verdict without evidence is a bug: verdict_put() asserts that `because` is not empty.  Ids derive from content
 * (run, kind, ranks or group), so a fault that returns, even after a restart, has the same id.  The layer is not
 * part of it, because later steps may show another layer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_VERDICT_H
#define LOCKSTEP_WIRE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

enum verdict_kind { /* numbers are wire format */
    VERDICT_STRAGGLER = 1,
    VERDICT_IMBALANCE = 2,
    VERDICT_SYNC_STALL = 3,
    VERDICT_INPUT_STALL = 4,
    VERDICT_CHECKPOINT_STALL = 5,
    VERDICT_STARTUP_STALL = 6,
    VERDICT_HANG = 7,
    VERDICT_DESYNC = 8,
    VERDICT_CRASH = 9,
    VERDICT_CORRUPTION = 10,
    VERDICT_REGRESSION = 11,
    VERDICT_NODE_FAULT = 12,
    VERDICT_KIND_COUNT
};

enum verdict_layer {
    LAYER_UNKNOWN = 0,
    LAYER_GPU = 1,
    LAYER_GPU_MEMORY = 2,
    LAYER_THERMAL = 3,
    LAYER_POWER = 4,
    LAYER_PCIE = 5,
    LAYER_NVLINK = 6,
    LAYER_NIC = 7,
    LAYER_FABRIC = 8,
    LAYER_STORAGE = 9,
    LAYER_CPU = 10,
    LAYER_HOST_MEMORY = 11,
    LAYER_DATA = 12,
    LAYER_CHECKPOINT = 13,
    LAYER_FRAMEWORK = 14,
    LAYER_USER_CODE = 15,
    LAYER_COUNT
};

const char *verdict_kind_name(unsigned kind);   /* "straggler"; "unknown" out of range */
const char *verdict_layer_name(unsigned layer); /* "gpu" */
bool verdict_layer_is_device(unsigned layer);   /* a GPU, or what it is connected by */

#define VERDICT_STOPPED                                                                            \
    "stopped by a signal" /* in the cause of a hang, which then has advice of its own */

#define VERDICT_RANKS 64
#define VERDICT_NODES 16
#define VERDICT_LINES 12

struct verdict_line {
    char what[200];
    char source[24]; /* because: "ring", "schedstat", "launcher"; ruled_out: the layer's name */
    /* Of findings about files only, and not sent: where the line stands; "" and 0: nowhere. */
    char file[80];
    uint32_t line;
};

struct verdict {
    char id[20], run[64];
    uint8_t kind, layer;
    char cause[96];
    uint32_t rank_count, node_count; /* all; the arrays hold the first ones */
    uint32_t rank[VERDICT_RANKS];
    char node[VERDICT_NODES][64];
    char device[64], group[64]; /* "" : none */
    double confidence;
    uint64_t since_step, decided_step; /* decided: newest step that the decision rests on */
    int64_t since_real_ns, decided_real_ns, until_real_ns; /* until 0: still so */
    double seconds_per_step, gpu_seconds;
    /* Of a judge alone, and not sent: what its replay changed; the line about it follows the cost. */
    const char *shorter_if;
    uint32_t because_count, ruled_out_count, echo_count;
    struct verdict_line because[VERDICT_LINES], ruled_out[VERDICT_LINES], echo[VERDICT_LINES];
    char plan[160], plan_state[24]; /* "" : none */
    /* Of findings about files only, and not sent; NULL: none.  Texts of constant tables. */
    const char *advice;       /* instead of the one by kind and layer */
    const char *would_decide; /* what is missing to be sure */
};

void verdict_identify(struct verdict *verdict); /* sets id from the rest */
void verdict_because(struct verdict *verdict, const char *source, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void verdict_rule_out(struct verdict *verdict, unsigned layer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool verdict_names_rank(const struct verdict *verdict, uint32_t rank);
void verdict_put(struct buf *out, const struct verdict *verdict);
int verdict_get(struct reader in, struct verdict *ret); /* -EPROTO */

#endif
