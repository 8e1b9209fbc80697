/* patterns_comm.c - communication libraries and the rendezvous: timeouts, lost peers, networks.
 *
 * "NCCL error" is never a cause.  Most of these lines only show that a rank waited for another, which is worth
 * knowing: whoever did not wait is the one to look at.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/patterns/patterns.h"

#define TIMEOUT(pattern, confidence, cause, more)                                                  \
    {                                                                                              \
        pattern, LOG_EVENT_TIMEOUT, 0, confidence, cause, NULL, more                               \
    }
#define LOST(pattern, cause)                                                                       \
    {                                                                                              \
        pattern, LOG_EVENT_LOST_PEER, 0, 60, cause, NULL, read_peer                                \
    }
#define STORE(pattern, cause)                                                                      \
    {                                                                                              \
        pattern, LOG_EVENT_LOST_PEER, 0, 60, cause, CHECK_STORE, read_peer                         \
    }
#define FABRIC(pattern, layer, confidence, cause, advice)                                          \
    {                                                                                              \
        pattern, LOG_EVENT_FABRIC, layer, confidence, cause, advice, read_peer                     \
    }
#define ERROR(pattern, layer, confidence, cause, advice)                                           \
    {                                                                                              \
        pattern, LOG_EVENT_ERROR, layer, confidence, cause, advice, NULL                           \
    }

#define FAILED(pattern)                                                                            \
    {                                                                                              \
        pattern, LOG_EVENT_FOLLOW, 0, 60, "a call of NCCL failed", NULL, NULL                      \
    }
#define NIC(pattern, confidence, cause)                                                            \
    {                                                                                              \
        pattern, LOG_EVENT_NODE, LAYER_NIC, confidence, cause, CHECK_IB, read_library              \
    }
#define MORE_SHM                                                                                   \
    "Give the container more shared memory (docker --shm-size, an emptyDir of medium Memory on "   \
    "/dev/shm), and remove old /dev/shm/nccl-* files."
#define CHECK_IB                                                                                   \
    "Check the ports on both sides (ibstat, ibdiagnet, perfquery): state, errors, cable and "      \
    "switch port; check that both adapters are on one subnet."
#define CHECK_ETH                                                                                  \
    "Check that the nodes reach each other on this interface (NCCL_SOCKET_IFNAME, "                \
    "GLOO_SOCKET_IFNAME), firewalls and routes."
#define CHECK_STORE                                                                                \
    "Check that the host and port of the rendezvous (MASTER_ADDR, MASTER_PORT, --rdzv-endpoint) "  \
    "are right, reachable from every node, and that rank 0 runs."
#define CHECK_OFI                                                                                  \
    "Check the versions of aws-ofi-nccl, libfabric and the driver, and the security group of the " \
    "EFA interfaces."
#define CHECK_EFA                                                                                  \
    "Check that the other node is alive, and the security group (EFA needs all traffic from and "  \
    "to itself)."
#define CHECK_PROVIDER                                                                             \
    "Check that the EFA or verbs provider is installed and its devices are in the container "      \
    "(fi_info -p efa)."
#define SAME_VERSION "Use one version of NCCL, torch and their plugins on all nodes."
#define MEMLOCK                                                                                    \
    "Raise the limit of locked memory (ulimit -l unlimited, LimitMEMLOCK of slurmd or the "        \
    "container)."

const struct log_pattern patterns_comm[] = {
    /* Different collectives. */
    { "Detected mismatch between collectives on ranks", LOG_EVENT_DESYNC, LAYER_USER_CODE, 95,
      "ranks entered different collectives", NULL, read_mismatch },
    { "Mismatch between collective operation types", LOG_EVENT_DESYNC, LAYER_USER_CODE, 95,
      "ranks entered different collectives", NULL, NULL },
    { "collectives differ in the following aspects", LOG_EVENT_DESYNC, LAYER_USER_CODE, 95,
      "ranks entered different collectives", NULL, read_mismatch },
    { "Mismatched data types: One rank", LOG_EVENT_DESYNC, LAYER_USER_CODE, 90,
      "ranks entered a collective with different types", NULL, NULL },
    { "Mismatched collective detected", LOG_EVENT_DESYNC, LAYER_USER_CODE, 90,
      "ranks entered different collectives: mismatch", NULL, NULL },
    { "Mismatched MPI operations", LOG_EVENT_DESYNC, LAYER_USER_CODE, 90,
      "ranks entered different collectives", NULL, NULL },
    { "Mismatched allreduce tensor shapes", LOG_EVENT_DESYNC, LAYER_USER_CODE, 90,
      "ranks entered a collective with different sizes", NULL, NULL },
    { "verify_params_across_processes", LOG_EVENT_DESYNC, LAYER_USER_CODE, 80,
      "ranks have different parameters", NULL, NULL },
    { "appears not to match sizes of the same param in process", LOG_EVENT_DESYNC, LAYER_USER_CODE,
      92, "ranks have parameters of different sizes", NULL, read_rank_in_text },
    { "DDP expects same model across all ranks", LOG_EVENT_DESYNC, LAYER_USER_CODE, 92,
      "ranks have different models", NULL, read_rank_in_text },
    { "Message truncated : received * bytes instead of", LOG_EVENT_DESYNC, LAYER_USER_CODE, 80,
      "ranks entered a collective with different sizes", NULL, NULL },
    { "op.preamble.length <= op.nbytes", LOG_EVENT_DESYNC, LAYER_USER_CODE, 80,
      "ranks entered a collective with different sizes", NULL, NULL },
    { "Expected to have finished reduction in the prior iteration", LOG_EVENT_ERROR,
      LAYER_USER_CODE, 90, "parameters were not used in the loss",
      "Set find_unused_parameters=True, or make every parameter take part in the loss on every "
      "rank.",
      NULL },
    { "Expected to mark a variable ready only once", LOG_EVENT_ERROR, LAYER_USER_CODE, 90,
      "a parameter was used twice in one backward pass",
      "Set static_graph, or use use_reentrant=False in activation checkpointing.", NULL },
    { "An attempt has been made to start a new process before the", LOG_EVENT_ERROR,
      LAYER_USER_CODE, 88, "a new process was started during bootstrapping: no main guard",
      "Put the start of the processes under if __name__ == '__main__'.", NULL },
    { "Tensors must be contiguous", LOG_EVENT_ERROR, LAYER_USER_CODE, 88,
      "a tensor of a collective is not contiguous", NULL, NULL },
    { "No backend type associated with device type", LOG_EVENT_ERROR, LAYER_USER_CODE, 88,
      "a collective of a device that its group has no backend for", NULL, NULL },
    { "Default process group has not been initialized", LOG_EVENT_ERROR, LAYER_USER_CODE, 90,
      "a collective before init_process_group", NULL, NULL },
    { "Bootstrap Root : rank * has already checked in", LOG_EVENT_ERROR, LAYER_USER_CODE, 85,
      "two processes have the same rank: already checked in",
      "Give every process a rank of its own: check RANK, NODE_RANK and the number of nodes that "
      "the launcher was given, on each node.",
      NULL },
    { "Duplicate GPU detected", LOG_EVENT_ERROR, LAYER_USER_CODE, 92, "two ranks use one GPU",
      "Set the device of each rank from its local rank (torch.cuda.set_device), before the first "
      "collective.",
      NULL },

    /* Who did not come. */
    { "failed to pass monitoredBarrier", LOG_EVENT_ABSENT, 0, 92, "did not enter a barrier", NULL,
      read_absent },
    { "monitoredBarrier*rank*did not", LOG_EVENT_ABSENT, 0, 88, "did not enter a barrier", NULL,
      read_absent },
    { "^/job:*/replica:#/task:#$", LOG_EVENT_ABSENT, 0, 75, "did not come to a barrier", NULL,
      read_task }, /* of the list behind "Timed out task names:" */
    { "[missing ranks: ", LOG_EVENT_ABSENT, 0, 78, "did not submit a collective", NULL,
      read_missing },
    { "the following ranks are missing", LOG_EVENT_ABSENT, 0, 85, "did not join", NULL,
      read_absent },

    /* Timeouts. */
    TIMEOUT("Watchdog caught collective operation timeout", 92, "a collective timed out",
            read_timeout),
    TIMEOUT("last enqueued*work:*last completed", 88, "a collective timed out", read_progress),
    TIMEOUT("ProcessGroupNCCL's watchdog got stuck for", 75, "the watchdog of NCCL got stuck",
            read_stuck),
    TIMEOUT("watchdog thread has been stuck for", 75, "the watchdog of NCCL got stuck", read_stuck),
    TIMEOUT("Heartbeat monitor timed out", 75, "the watchdog of NCCL got stuck", read_stuck),
    TIMEOUT("NCCL watchdog thread got stuck", 75, "the watchdog of NCCL got stuck", read_stuck),
    TIMEOUT("Some NCCL operations have failed or timed out", 65, "a collective timed out", NULL),
    TIMEOUT("collective operation timeout: Work", 90, "a collective timed out", read_timeout),
    TIMEOUT("ollective operation timeout", 85, "a collective timed out", read_timeout),
    TIMEOUT("Received a timeout signal from this local rank", 75, "a collective timed out", NULL),
    TIMEOUT("Received a dump signal due to a collective timeout", 75, "a collective timed out",
            read_notified),
    TIMEOUT("received a global timeout from another rank", 75, "a collective timed out",
            read_notified),
    TIMEOUT("Observed flight recorder dump signal", 70, "a collective timed out", read_notified),
    TIMEOUT("Timed out waiting #ms for", 85, "a collective timed out", NULL),
    TIMEOUT("Timed out after # seconds waiting for clients", 75, "not all ranks joined in time",
            NULL),
    TIMEOUT("wait timeout after #ms", 70, "the rendezvous timed out", NULL),
    TIMEOUT("waitForInput*timed out after #ms", 60, "the rendezvous timed out", NULL),
    TIMEOUT("Socket Timeout", 60, "the rendezvous timed out", NULL),
    TIMEOUT("RendezvousTimeoutError", 75, "not all nodes joined the rendezvous in time", NULL),
    TIMEOUT("ran for # milliseconds before timing out", 85, "a collective timed out", read_timeout),
    TIMEOUT("monitoredBarrier", 70, "a barrier timed out", NULL),
    TIMEOUT("Stalled ranks:", 80, "ranks did not submit a collective", read_absent),
    TIMEOUT("One or more tensors were submitted to be reduced*by subset of ranks", 80,
            "ranks did not submit a collective", NULL),
    TIMEOUT("DEADLINE_EXCEEDED*Barrier timed out", 85, "a barrier of JAX timed out", NULL),
    TIMEOUT("Barrier timed out", 80, "a barrier timed out", NULL),
    TIMEOUT("DEADLINE_EXCEEDED", 60, "a call to the coordinator timed out", NULL),
    TIMEOUT("RPC: Deadline Exceeded", 60, "a call to the coordinator timed out", NULL),
    TIMEOUT("The wait execution of the Notify register times out", 80,
            "a collective of HCCL timed out: no Notify of another rank", NULL),
    TIMEOUT("Getting socket times out", 75, "HCCL waited for a socket of another rank: timed out",
            NULL),
    TIMEOUT("reason=[*timeout]", 60, "an NPU did not complete its work: timed out", NULL),
    TIMEOUT("task timeout occurred during task execution", 70,
            "an NPU did not complete its work: a task timed out", NULL),
    TIMEOUT("This thread has been waiting for*and may be stuck", 65,
            "a collective does not complete", NULL),
    TIMEOUT("hanging or stuck rendezvous", 70, "a collective does not complete", NULL),

    /* Shared memory, limits. */
    ERROR("Error while creating shared memory segment", LAYER_HOST_MEMORY, 90,
          "/dev/shm is too small for NCCL", MORE_SHM),
    ERROR("failed to extend /dev/shm", LAYER_HOST_MEMORY, 92, "/dev/shm is too small for NCCL",
          MORE_SHM),
    ERROR("Call to posix_fallocate failed: No space left on device", LAYER_HOST_MEMORY, 90,
          "/dev/shm is too small for NCCL", MORE_SHM),
    ERROR("NCCL WARN*/dev/shm*No space left", LAYER_HOST_MEMORY, 90,
          "/dev/shm is too small for NCCL", MORE_SHM),
    ERROR("Call to ibv_create_cq failed*Cannot allocate memory", LAYER_NIC, 85,
          "locked memory is limited: the network adapter cannot be used", MEMLOCK),
    ERROR("ibv_create_qp failed*Cannot allocate memory", LAYER_NIC, 85,
          "locked memory is limited: the network adapter cannot be used", MEMLOCK),
    ERROR("ibv_reg_mr*failed*Cannot allocate memory", LAYER_NIC, 85,
          "locked memory is limited: the network adapter cannot be used", MEMLOCK),
    ERROR("Please check that ulimit memlock", LAYER_NIC, 85,
          "locked memory is limited: the network adapter cannot be used", MEMLOCK),
    ERROR("RLIMIT_MEMLOCK", LAYER_NIC, 70,
          "locked memory is limited: the network adapter cannot be used", MEMLOCK),
    ERROR("Mismatched NCCL version detected", LAYER_FRAMEWORK, 92,
          "nodes have different versions of NCCL", SAME_VERSION),
    ERROR("NCCL WARN*Mismatch*version", LAYER_FRAMEWORK, 80,
          "nodes have different versions of NCCL", SAME_VERSION),
    ERROR("No socket interface found", LAYER_NIC, 88, "NCCL finds no network interface", CHECK_ETH),
    ERROR("Bootstrap : no socket interface found", LAYER_NIC, 90, "NCCL finds no network interface",
          CHECK_ETH),
    ERROR("Unable to find address for", LAYER_NIC, 80, "a network interface has no address",
          CHECK_ETH),
    ERROR("Unable to resolve hostname to a (local) address", LAYER_NIC, 85,
          "the host's name does not resolve to a local address", CHECK_ETH),
    ERROR("NCCL WARN Invalid config", LAYER_USER_CODE, 75, "NCCL has an invalid configuration",
          NULL),
    ERROR("The client socket has failed to connect*hostname cannot be retrieved", LAYER_FABRIC, 60,
          "a host name cannot be resolved", CHECK_STORE),

    /* The network. */
    FABRIC("IBV_WC_RETRY_EXC_ERR", LAYER_FABRIC, 75,
           "InfiniBand transfers fail: no answer from the other side", CHECK_IB),
    FABRIC("transport retry counter exceeded", LAYER_FABRIC, 75,
           "InfiniBand transfers fail: no answer from the other side", CHECK_IB),
    FABRIC("Transport retry count exceeded", LAYER_FABRIC, 75,
           "InfiniBand transfers of UCX fail: no answer from the other side", CHECK_IB),
    FABRIC("RNR retry counter exceeded", LAYER_FABRIC, 75,
           "InfiniBand transfers fail: the other side is not ready", CHECK_IB),
    FABRIC("NET/IB*Got completion*error 12", LAYER_FABRIC, 75,
           "InfiniBand transfers fail: no answer from the other side", CHECK_IB),
    FABRIC("NET/IB*Got completion*status=12", LAYER_FABRIC, 75,
           "InfiniBand transfers fail: no answer from the other side", CHECK_IB),
    FABRIC("Got completion from peer * with*error", LAYER_FABRIC, 70, "InfiniBand transfers fail",
           CHECK_IB),
    FABRIC("NET/IB*Got completion", LAYER_FABRIC, 70, "InfiniBand transfers fail", CHECK_IB),
    /* Ports come back, and transfers wait for them: alone, these are no end of a job. */
    NIC("NET/IB*Got async event : port error", 60, "a port of a network adapter went down"),
    NIC("NET/IB*Got async event : * error", 55, "a network adapter reported an error"),
    NIC("Got async error event", 60, "a network adapter reported an error"),
    FABRIC("NET/IB*Got async fatal event", LAYER_NIC, 88, "a network adapter failed", CHECK_IB),
    FABRIC("IBV_EVENT_DEVICE_FATAL", LAYER_NIC, 88, "a network adapter failed", CHECK_IB),
    FABRIC("local catastrophic error", LAYER_NIC, 88, "a network adapter failed", CHECK_IB),
    NIC("IBV_EVENT_PORT_ERR", 60, "a port of a network adapter went down"),
    FABRIC("ibv_modify_qp failed with", LAYER_FABRIC, 75, "InfiniBand connections cannot be made",
           CHECK_IB),
    FABRIC("Call to ibv_", LAYER_NIC, 65, "a call to the network adapter failed", CHECK_IB),
    FABRIC("No route to host", LAYER_FABRIC, 80, "nodes cannot reach each other: no route to host",
           CHECK_ETH),
    FABRIC("Network is unreachable", LAYER_FABRIC, 80,
           "nodes cannot reach each other: network is unreachable", CHECK_ETH),
    FABRIC("Network is down", LAYER_NIC, 80, "a network interface is down", CHECK_ETH),
    FABRIC("socketProgressOpt*Connection timed out", LAYER_FABRIC, 65,
           "connections between nodes time out", CHECK_ETH),
    FABRIC("Call to connect*failed*Connection timed out", LAYER_FABRIC, 70,
           "connections between nodes time out", CHECK_ETH),
    FABRIC("connect*failed : Connection timed out", LAYER_FABRIC, 70,
           "connections between nodes time out", CHECK_ETH),
    FABRIC("connectFullMesh failed with", LAYER_FABRIC, 65, "Gloo cannot connect the nodes",
           CHECK_ETH),
    FABRIC("Gloo connectFullMesh failed", LAYER_FABRIC, 65, "Gloo cannot connect the nodes",
           CHECK_ETH),
    FABRIC("NET/OFI*Unable to register memory", LAYER_NIC, 70, "libfabric cannot register memory",
           MEMLOCK),
    FABRIC("NET/OFI*Failed to initialize", LAYER_NIC, 70, "libfabric (OFI) cannot be used",
           CHECK_OFI),
    FABRIC("NET/OFI*completion*error", LAYER_FABRIC, 75, "transfers of libfabric (OFI) fail",
           CHECK_EFA),
    FABRIC("NET/OFI Request*completed with error", LAYER_FABRIC, 75,
           "transfers of libfabric (OFI) fail", CHECK_EFA),
    FABRIC("Unreachable remote", LAYER_FABRIC, 75,
           "transfers of libfabric (OFI) fail: the other side is not reachable", CHECK_EFA),
    FABRIC("fi_getinfo*No data available", LAYER_NIC, 70, "libfabric finds no network adapter",
           CHECK_PROVIDER),
    FABRIC("NET/OFI Couldn't find any*provider", LAYER_NIC, 65,
           "libfabric (OFI) finds no provider: no network adapter, or its library is missing",
           CHECK_PROVIDER),
    FABRIC("NET/OFI OFI NCCL failure", LAYER_NIC, 55, "libfabric (OFI) cannot be used", CHECK_OFI),
    FABRIC("WARN NET/OFI *failed", LAYER_NIC, 50, "a call to libfabric (OFI) failed", CHECK_OFI),
    FABRIC("UCX  ERROR*Endpoint timeout", LAYER_FABRIC, 75,
           "transfers of UCX fail: no answer from the other side", CHECK_IB),
    FABRIC("UCX  ERROR*Transport retry", LAYER_FABRIC, 75,
           "transfers of UCX fail: no answer from the other side", CHECK_IB),
    FABRIC("UCX  ERROR*no active messages transport", LAYER_NIC, 75, "UCX finds no usable network",
           "Check UCX_TLS and UCX_NET_DEVICES, and the devices in the container (ucx_info -d)."),
    FABRIC("UCX  ERROR*Destination is unreachable", LAYER_FABRIC, 75,
           "UCX cannot reach the other side", CHECK_IB),
    FABRIC("UCX  ERROR", LAYER_FABRIC, 55, "UCX failed", CHECK_IB),
    FABRIC("Destination is unreachable", LAYER_FABRIC, 70, "UCX cannot reach the other side",
           CHECK_IB),
    FABRIC("ORTE has lost communication with a remote daemon", LAYER_UNKNOWN, 65,
           "mpirun lost communication with the daemon of a node",
           "Check that the node is alive, and its kernel log; then the network between the nodes."),
    FABRIC("PRTE has lost communication with a remote daemon", LAYER_UNKNOWN, 65,
           "mpirun lost communication with the daemon of a node",
           "Check that the node is alive, and its kernel log; then the network between the nodes."),
    FABRIC("Address family not supported by protocol", LAYER_NIC, 80,
           "no usable network: a socket cannot be created", CHECK_ETH),
    FABRIC("Socket creation failed", LAYER_NIC, 75, "no usable network: a socket cannot be created",
           CHECK_ETH),
    FABRIC("Name or service not known", LAYER_FABRIC, 75, "a host name cannot be resolved",
           CHECK_STORE),
    FABRIC("Temporary failure in name resolution", LAYER_FABRIC, 75,
           "a host name cannot be resolved", CHECK_STORE),
    FABRIC("nodename nor servname provided", LAYER_FABRIC, 75, "a host name cannot be resolved",
           CHECK_STORE),
    ERROR("Address already in use", LAYER_FRAMEWORK, 88, "a port is already in use",
          "End the processes that an earlier job left, or use another MASTER_PORT or "
          "--rdzv-endpoint."),
    ERROR("EADDRINUSE", LAYER_FRAMEWORK, 88, "a port is already in use",
          "End the processes that an earlier job left, or use another MASTER_PORT or "
          "--rdzv-endpoint."),

    /* A peer is gone. */
    LOST("NCCL WARN NET/Socket*closed by remote peer", "a peer is gone"),
    LOST("connection closed by remote peer", "a peer is gone"),
    LOST("connection closed by peer", "a peer is gone"),
    LOST("Connection reset by peer", "a peer is gone"),
    LOST("remote process exited or there was a network error", "a peer is gone"),
    LOST("ncclRemoteError", "a peer is gone"),
    LOST("Broken pipe", "a peer is gone"),
    LOST("socketProgress*Connection", "a peer is gone"),
    LOST("Connection refused", "a peer is not reachable"),
    LOST("communicator was aborted", "its communicator was aborted"),
    LOST("NCCL Abort", "its communicator was aborted"),
    LOST("Failed to recv, got 0 bytes", "the rendezvous is gone"),
    STORE("The client socket has failed to connect", "the rendezvous is not reachable"),
    STORE("The client socket has timed out", "the rendezvous is not reachable"),
    STORE("The IPv# network addresses of*cannot be retrieved", "a host name cannot be resolved"),
    STORE("RendezvousConnectionError", "the rendezvous is not reachable"),
    STORE("The server socket has failed to listen", "the rendezvous cannot listen"),
    LOST("TCPStore*sendBytes failed", "the rendezvous is gone"),
    LOST("recvValue failed", "the rendezvous is gone"),
    LOST("Failed to check the \"should dump\" flag on TCPStore", "the rendezvous is gone"),
    LOST("Broken rendezvous", "the rendezvous is gone"),
    LOST("DistStoreError", "the rendezvous is gone"),
    LOST("DistNetworkError", "communication failed"),
    LOST("Processing failed for rank", "communication failed"),
    LOST("Application timeout caused pair closure", "a peer is gone"),
    LOST("Socket closed", "a peer is gone"),
    LOST("Connection closed by localRank", "a peer is gone"),
    { "Task /job:*/task:# heartbeat timeout", LOG_EVENT_EXIT, 0, 60, "sends no heartbeats any more",
      NULL, read_task },
    LOST("coordination service*heartbeat timeout", "a task stopped sending heartbeats"),
    LOST("The tasks have crashed", "a task has crashed"),
    LOST("heartbeat timeout. This indicates that the remote task has failed", "a task has crashed"),
    LOST("Coordination service agent*error", "communication with the coordinator failed"),
    LOST("Terminating process because the JAX distributed service detected fatal errors",
         "another task failed"),
    LOST("UNAVAILABLE: failed to connect to all addresses", "a peer is not reachable"),
    LOST("UNAVAILABLE: Task", "another task failed"),
    LOST("RDMA*connection*lost", "a peer is gone"),
    LOST("unhandled system error", "communication failed: system error"),
    LOST("ncclSystemError", "communication failed: system error"),
    LOST("unhandled cuda error", "communication failed: CUDA error"),
    LOST("ncclUnhandledCudaError", "communication failed: CUDA error"),
    LOST("ncclInternalError", "communication failed"),
    LOST("ncclInvalidUsage", "communication failed: invalid usage"),
    LOST("DistBackendError", "communication failed"),
    LOST("NCCL communicator", "communication failed"),
    LOST("NCCL error", "communication failed"),
    LOST("gloo/transport", "communication failed"),
    LOST("HorovodInternalError", "communication failed"),

    /* NCCL's errors, from the innermost function outwards: that something failed, and perhaps why. */
    FAILED("init.cc:# -> #"),
    FAILED("init.cu:# -> #"),
    FAILED("group.cc:# -> #"),
    FAILED("proxy.cc:# -> #"),
    FAILED("transport.cc:# -> #"),
    FAILED("enqueue.cc:# -> #"),
    { " NCCL WARN ", LOG_EVENT_ERROR, LAYER_UNKNOWN, 25, NULL,
      "Look the warning up in the documentation of NCCL; run with NCCL_DEBUG=INFO for the lines "
      "around it.",
      read_warning },

    /* Facts. */
    { "NCCL INFO comm ", LOG_EVENT_IDENTITY, 0, 90, NULL, NULL, read_identity },
    { "ncclCommInitRank comm ", LOG_EVENT_IDENTITY, 0, 90, NULL, NULL, read_identity },
    { " coll channels, ", LOG_EVENT_CHANNELS, LAYER_FABRIC, 90, NULL, NULL, read_channels },
    { "--nnodes", LOG_EVENT_NODES, 0, 90, NULL, NULL, read_nodes },
    { "min_nodes", LOG_EVENT_NODES, 0, 90, NULL, NULL, read_nodes },
    { .pattern = NULL },
};
