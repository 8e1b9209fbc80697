/* node_tree.h - the files that sensors read on a node with 8 GPUs and 9 network adapters, below a directory.
 *
 * Made, not captured: the names and forms are those of Linux 6.8 and mlx5, the values those of a healthy node.  Tests change
 * single files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_NODE_TREE_H
#define LOCKSTEP_LAB_BENCH_NODE_TREE_H

#include "core/err.h"

#define NODE_TREE_GPUS 8
#define NODE_TREE_ADAPTERS 9

/* `nvml`: the library that stands for the driver's in the tree; NULL: the node has no driver. */
int node_tree_make(const char *directory, const char *nvml, struct err *err);

#endif
