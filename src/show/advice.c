/* advice.c - what to do about a verdict.
 *
 * One table for people (`lockstep run`, `lockstep why`) and programs (field "advice").  A layer without a text of its
 * own gets the text of LAYER_UNKNOWN of its kind.  A text about "the named rank" is not for verdicts that name none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/advice.h"

#include <string.h>

#include "core/clean.h"

static const char *const advice[VERDICT_KIND_COUNT][LAYER_COUNT] = {
    [VERDICT_STRAGGLER] = {
        [LAYER_UNKNOWN] = "Compare the node of the named rank with its peers: GPU clocks, CPU load, input. If it "
                          "stays slow elsewhere, look at its share of the work.",
        [LAYER_GPU] = "Check clocks, power and temperature of the named GPU (nvidia-smi -q -d PERFORMANCE); move "
                      "the rank to another GPU if it stays slow.",
        [LAYER_GPU_MEMORY] = "Check the named GPU for ECC errors (nvidia-smi -q -d ECC); replace it if they "
                             "continue.",
        [LAYER_THERMAL] = "Check cooling and temperature of the named GPU; move the rank to another GPU until it "
                          "is fixed.",
        [LAYER_POWER] = "Check the power limit and power supply of the named node.",
        [LAYER_CPU] = "Find what else runs on the node (top), and check CPU affinity and the CPU "
                      "quota of the job's cgroup.",
        [LAYER_HOST_MEMORY] = "Check memory use and swapping on the node; lower the number of loader workers.",
        [LAYER_DATA] = "Check the data loader of the named rank: its workers, and the storage it reads from.",
        [LAYER_STORAGE] = "Check the storage that the named rank reads from.",
        [LAYER_NIC] = "Check the network adapter, cable and switch port of the named node.",
        [LAYER_USER_CODE] = "Look at the code that only the named rank runs, such as logging or evaluation.",
    },
    [VERDICT_IMBALANCE] = {
        [LAYER_UNKNOWN] = "Split the work evenly: pack sequences by length, or move layers between pipeline "
                          "stages. 'lockstep whatif' tells what a stage costs.",
        [LAYER_DATA] = "Pack or bucket sequences by length, so that each rank gets the same number of tokens.",
    },
    [VERDICT_SYNC_STALL] = {
        [LAYER_UNKNOWN] = "Check links, version and settings of the communication library since the named step; "
                          "run with NCCL_DEBUG=INFO to see channels and algorithm.",
        [LAYER_NIC] = "Check the network adapter, cable and switch port of the named node; drain the node if "
                      "errors continue.",
        [LAYER_FABRIC] = "Check the switches, other jobs that use them, and routing since the named step.",
        [LAYER_NVLINK] = "Check the NVLinks of the named node (nvidia-smi nvlink -e); drain the node if errors "
                         "continue.",
        [LAYER_PCIE] = "Check PCIe link width and speed of the named GPU (nvidia-smi -q).",
        [LAYER_CPU] = "Check CPU load on the node: the communication library has too little CPU time.",
    },
    [VERDICT_INPUT_STALL] = {
        [LAYER_UNKNOWN] = "Use more data loader workers and prefetching.",
        [LAYER_STORAGE] = "Check load and latency of the storage; use faster or local storage, or fewer and "
                          "larger files.",
        [LAYER_CPU] = "Give the data loader more CPUs, or use fewer workers than CPUs.",
        [LAYER_USER_CODE] = "Run the evaluation less often, or on other devices.",
    },
    [VERDICT_CHECKPOINT_STALL] = {
        [LAYER_UNKNOWN] = "Check the storage that checkpoints are written to and who else writes there; save "
                          "less often, or asynchronously.",
    },
    [VERDICT_STARTUP_STALL] = {
        [LAYER_UNKNOWN] = "Read the log of the rank that started last: image pulls, cold caches, a slow file "
                          "system.",
        [LAYER_STORAGE] = "Check the file system that the program, data and checkpoint are loaded from; copy "
                          "them to local storage first.",
        [LAYER_DATA] = "Check how the data set is opened: list or index its files once, not on each rank.",
        [LAYER_CHECKPOINT] = "Check the storage that the checkpoint is loaded from.",
        [LAYER_FRAMEWORK] = "Keep the compile cache between runs (TORCHINDUCTOR_CACHE_DIR, CUDA_CACHE_PATH).",
        [LAYER_USER_CODE] = "Look at what the program does before its first step.",
    },
    [VERDICT_HANG] = {
        [LAYER_UNKNOWN] = "Look at the stack of the named rank, its log and the kernel log of its node; then "
                          "restart the job (lockstep run --on-hang restart).",
        [LAYER_GPU] = "Check the kernel log of the node for Xid errors; reset the GPU or drain the node, then "
                      "restart the job.",
        [LAYER_NIC] = "Check the network adapter, cable and switch port of the named node, then restart the job.",
        [LAYER_FABRIC] = "Check the links between the members of the named group, then restart the job.",
        [LAYER_NVLINK] = "Check the NVLinks of the named node (nvidia-smi nvlink -e), then restart the job.",
        [LAYER_STORAGE] = "Check the file system that the named rank waits for, then restart the job.",
        [LAYER_DATA] = "Check the data loader of the named rank and its storage, then restart the job.",
        [LAYER_CHECKPOINT] = "Check the storage that the checkpoint is written to, then restart the job.",
        [LAYER_USER_CODE] = "Look at the stack of the named rank: a lock, a loop, or a branch that its peers do "
                            "not take.",
    },
    [VERDICT_DESYNC] = {
        [LAYER_UNKNOWN] = "Fix the program: a branch that not all ranks take, a loop of different length, or "
                          "parameters that only some ranks use.",
    },
    [VERDICT_CRASH] = {
        [LAYER_UNKNOWN] = "Read the end of the log of the named rank and the kernel log of its node; errors of other "
                          "ranks followed from it.",
        [LAYER_GPU] = "Check the kernel log of the node for Xid errors; reset the GPU or drain the node.",
        [LAYER_PCIE] = "Drain the node and reboot it; if the error comes back, have the GPU and its slot checked.",
        [LAYER_NVLINK] = "Drain the node and reset its GPUs; check the NVLinks (nvidia-smi nvlink -e) before it is "
                         "used again.",
        [LAYER_THERMAL] = "Check cooling and temperature of the node before it is used again.",
        [LAYER_POWER] = "Check the power supply of the node before it is used again.",
        [LAYER_GPU_MEMORY] = "If it ran out of memory: smaller batches, activation checkpointing, or less fragmentation "
                             "(PYTORCH_CUDA_ALLOC_CONF). After an ECC error: reset the GPU, and replace it if errors "
                             "continue.",
        [LAYER_HOST_MEMORY] = "Raise the memory limit of the job, or use fewer loader workers and less cached data.",
        [LAYER_STORAGE] = "Check free space, quota and health of the file system that is named.",
        [LAYER_DATA] = "Check the input that the traceback names.",
        [LAYER_CHECKPOINT] = "Check that the checkpoint is complete, and the storage that it is on.",
        [LAYER_NIC] = "Check the network adapter, cable and switch port of the named node.",
        [LAYER_FABRIC] = "Check the network between the named nodes.",
        [LAYER_FRAMEWORK] = "Check the versions of torch, CUDA and NCCL on the named node against the other nodes.",
        [LAYER_USER_CODE] = "Read the end of the log of the named rank (out/rank-N.log in the run's directory) and fix the "
                            "error. If it has no message, get a core dump and open it with gdb.",
    },
    [VERDICT_CORRUPTION] = {
        [LAYER_UNKNOWN] = "Restart from a checkpoint before the named step, and test the GPU of the named rank "
                          "(dcgmi diag -r 3).",
        [LAYER_DATA] = "Check the input of the named step, and restart from a checkpoint before it.",
        [LAYER_USER_CODE] = "Check optimizer and loss of the program at the named step, and restart from a checkpoint "
                            "before it.",
    },
    [VERDICT_REGRESSION] = {
        [LAYER_UNKNOWN] = "Find what changed at the named step: clocks and power of all nodes, other jobs, a restart. "
                          "'lockstep diff' compares two runs.",
    },
    [VERDICT_NODE_FAULT] = {
        [LAYER_UNKNOWN] = "Drain the node and read its kernel log.",
        [LAYER_GPU] = "Reset the GPU or reboot the node; drain the node if the error comes back.",
        [LAYER_PCIE] = "Drain the node and reboot it; if the error comes back, have the GPU and its slot checked.",
        [LAYER_GPU_MEMORY] = "Reset the GPU; replace it if row remapping failed.",
        [LAYER_NVLINK] = "Check cables and switches of the NVLinks; drain the node if errors continue.",
        [LAYER_NIC] = "Check the network adapter, cable and switch port of the node.",
        [LAYER_FABRIC] = "Check the switches that the node is connected to.",
        [LAYER_STORAGE] = "Check the disk or file server that the line names.",
        [LAYER_HOST_MEMORY] = "Raise the memory limit or use less memory; replace the memory module if the line "
                              "says ECC.",
        [LAYER_USER_CODE] = "Look for the error in the program (compute-sanitizer, CUDA_LAUNCH_BLOCKING=1); test the "
                            "GPU (dcgmi diag -r 3) if other programs get the same error on it.",
    },
};

/* Of verdicts that name no rank, instead of the text of LAYER_UNKNOWN. */
static const char *const advice_nobody[VERDICT_KIND_COUNT] = {
    [VERDICT_HANG] = "Run the job with 'lockstep run --on-hang restart': it names the rank that "
                     "the others wait for, "
                     "shows its stack and restarts the job.",
    [VERDICT_CRASH] = "Read the ends of the logs of all ranks and the kernel logs of their nodes; "
                      "most errors follow "
                      "from the rank that failed first.",
    [VERDICT_CORRUPTION] = "Restart from a checkpoint before the first bad step; check learning "
                           "rate, loss scaling and "
                           "the input of that step.",
};

static const char advice_stopped[] =
    "Let the process go on ('kill -CONT' with the number above), or find out who suspends it: a "
    "terminal, a batch system, a paused container. If the other ranks have given up meanwhile, "
    "restart the job.";

const char *verdict_advice(const struct verdict *verdict)
{
    unsigned kind = verdict->kind < VERDICT_KIND_COUNT ? verdict->kind : 0;
    unsigned layer = verdict->layer < LAYER_COUNT ? verdict->layer : LAYER_UNKNOWN;
    const char *text = advice[kind][layer] ? advice[kind][layer] : advice[kind][LAYER_UNKNOWN];

    if (verdict->advice)
        return verdict->advice;
    if (verdict->kind == VERDICT_HANG && strstr(verdict->cause, VERDICT_STOPPED))
        return advice_stopped;
    if (!verdict->rank_count && !verdict->node_count && advice_nobody[kind] &&
        text == advice[kind][LAYER_UNKNOWN])
        return advice_nobody[kind];
    return text ? text : "Update lockstep: this version does not know this kind of verdict.";
}
