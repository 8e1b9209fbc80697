/* patterns_host.c - memory, storage and data of the host, versions of software, wrong results.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/patterns/patterns.h"

#define ERROR(pattern, layer, confidence, cause, advice)                                           \
    {                                                                                              \
        pattern, LOG_EVENT_ERROR, layer, confidence, cause, advice, NULL                           \
    }
#define OOM(pattern, confidence, cause)                                                            \
    {                                                                                              \
        pattern, LOG_EVENT_ERROR, LAYER_HOST_MEMORY, confidence, cause, MORE_MEMORY, NULL          \
    }
#define WRONG(pattern, confidence, cause)                                                          \
    {                                                                                              \
        pattern, LOG_EVENT_WRONG, LAYER_UNKNOWN, confidence, cause, LOSS, read_rank_in_text        \
    }

/* A value that is printed beside others in every step. */
#define NAN_VALUE(pattern, confidence, cause)                                                      \
    {                                                                                              \
        pattern, LOG_EVENT_WRONG, LAYER_UNKNOWN, confidence, cause, LOSS, read_value_end           \
    }

#define MORE_MEMORY                                                                                \
    "Raise the memory limit of the job (--mem, limits.memory), or use fewer loader workers, less " \
    "prefetching and less cached data."
#define MORE_SHM                                                                                   \
    "Give the container more shared memory (docker --shm-size, --ipc=host, an emptyDir of medium " \
    "Memory on /dev/shm), or use num_workers=0."
#define FREE_SPACE                                                                                 \
    "Free space on the file system (df -h, df -i), or write elsewhere (TMPDIR, checkpoint "        \
    "directory)."
#define QUOTA "Free space, or ask for a larger quota (quota -s, lfs quota)."
#define NFS "Check the file server and its mounts on the node; remount, then restart the job."
#define DISK                                                                                       \
    "Check the kernel log of the node for disk errors (dmesg -T); drain the node if the disk "     \
    "fails."
#define READ_IT "Check the input file or sample that the traceback names."
#define BAD_CKPT                                                                                   \
    "Load an older checkpoint; check that this one was written completely, and free space of its " \
    "file system."
#define INSTALL                                                                                    \
    "Install the missing package, or activate the right environment or image, on every node."
#define VERSIONS                                                                                   \
    "Use versions that belong together (torch, CUDA, the named package), the same on every node."
#define LOSS                                                                                       \
    "Restart from a checkpoint before the first bad step; check the learning rate, loss scaling "  \
    "and the batch of that step. If one rank differs from its replicas, test its GPU (dcgmi diag " \
    "-r 3)."
#define AUTH "Check the token, the name of the repository and access to the network from the node."

const struct log_pattern patterns_host[] = {
    /* Memory. */
    OOM("oom_kill event", 95, "killed for lack of memory (cgroup limit)"),
    OOM("oom-kill event", 95, "killed for lack of memory (cgroup limit)"),
    OOM("Some of your processes may have been killed by the cgroup out-of-memory handler", 95,
        "killed for lack of memory (cgroup limit)"),
    OOM("Detected #* oom", 92, "killed for lack of memory (cgroup limit)"),
    OOM("OOM Killed", 92, "killed for lack of memory"),
    OOM("OOMKilled", 95, "killed for lack of memory (container limit)"),
    OOM("OUT_OF_MEMORY", 80, "killed for lack of memory"),
    OOM("Exceeded job memory limit", 95, "killed for lack of memory (job limit)"),
    OOM("Exceeded step memory limit", 95, "killed for lack of memory (job limit)"),
    OOM("Task was killed due to the node running low on memory", 92,
        "killed by Ray because the node is short of memory"),
    OOM("ray.exceptions.OutOfMemoryError", 92, "killed by Ray because the node is short of memory"),
    OOM("System memory low at node with IP", 90,
        "killed by Ray because the node is short of memory"),
    OOM("killed due to memory pressure", 92, "killed by Ray because the node is short of memory"),
    OOM("Workers (tasks / actors) killed due to memory", 92,
        "killed by Ray because the node is short of memory"),
    OOM("TERM_MEMLIMIT", 92, "killed for lack of memory (job limit)"),
    OOM("low on resource: memory", 92, "evicted by Kubernetes: the node's memory is full"),
    ERROR("low on resource: ephemeral-storage", LAYER_STORAGE, 92,
          "evicted by Kubernetes: the node's disk is full", FREE_SPACE),
    ERROR("usage of EmptyDir volume*exceeds the limit", LAYER_STORAGE, 90,
          "evicted by Kubernetes: a volume is full", FREE_SPACE),
    ERROR("ephemeral local storage usage exceeds", LAYER_STORAGE, 90,
          "evicted by Kubernetes: local storage is full", FREE_SPACE),
    OOM("std::bad_alloc", 85, "host memory is exhausted"),
    OOM("DefaultCPUAllocator: *allocate memory", 90, "host memory is exhausted"),
    OOM("DefaultCPUAllocator: not enough memory", 90, "host memory is exhausted"),
    OOM("_ArrayMemoryError", 88, "host memory is exhausted"),
    OOM("numpy.core._exceptions.MemoryError", 88, "host memory is exhausted"),
    OOM("Unable to allocate * for an array", 85, "host memory is exhausted"),
    OOM("^MemoryError", 85, "host memory is exhausted"),
    OOM("Cannot allocate memory", 80, "host memory is exhausted"),
    OOM("std::system_error*Resource temporarily unavailable", 60,
        "no more threads or processes can be started"),
    ERROR("pthread_create failed", LAYER_CPU, 70, "no more threads can be started",
          "Raise the limit of processes (ulimit -u, pids.max of the cgroup), or start fewer "
          "threads and workers."),
    ERROR("BlockingIOError: [Errno 11] Resource temporarily unavailable", LAYER_CPU, 75,
          "no more processes can be started",
          "Raise the limit of processes (ulimit -u, pids.max of the cgroup), or start fewer "
          "workers."),
    ERROR("Too many open files", LAYER_USER_CODE, 85, "too many open files",
          "Raise the limit of open files (ulimit -n), or call "
          "torch.multiprocessing.set_sharing_strategy('file_system')."),

    /* Data loaders and shared memory. */
    ERROR("DataLoader*killed by signal: Bus error", LAYER_HOST_MEMORY, 92,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("might be caused by insufficient shared memory", LAYER_HOST_MEMORY, 92,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("insufficient shared memory (shm)", LAYER_HOST_MEMORY, 92,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("unable to write to file </torch_", LAYER_HOST_MEMORY, 90,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("unable to allocate shared memory(shm)", LAYER_HOST_MEMORY, 92,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("unable to mmap * bytes from file </torch_", LAYER_HOST_MEMORY, 88,
          "shared memory cannot be mapped", MORE_SHM),
    ERROR("unable to open shared memory object </torch_", LAYER_HOST_MEMORY, 75,
          "shared memory of a data loader cannot be opened", MORE_SHM),
    ERROR("DataLoader*killed by signal: Killed", LAYER_HOST_MEMORY, 75,
          "a worker of the data loader was killed, probably for lack of memory", MORE_MEMORY),
    ERROR("DataLoader*killed by signal: Segmentation fault", LAYER_DATA, 85,
          "a worker of the data loader crashed", READ_IT),
    ERROR("Unexpected segmentation fault encountered in worker", LAYER_DATA, 85,
          "a worker of the data loader had a segmentation fault", READ_IT),
    ERROR("Unexpected bus error encountered in worker", LAYER_HOST_MEMORY, 92,
          "/dev/shm is too small for the data loader", MORE_SHM),
    ERROR("DataLoader*killed by signal", LAYER_DATA, 80, "a worker of the data loader died",
          READ_IT),
    ERROR("DataLoader worker*exited unexpectedly", LAYER_DATA, 80,
          "a worker of the data loader died", READ_IT),
    ERROR("DataLoader timed out after", LAYER_DATA, 85, "the data loader timed out",
          "Check the storage that it reads from and its workers; raise its timeout if reading is "
          "known to be slow."),
    /* The error itself stands below it. */
    ERROR("in DataLoader worker process", LAYER_DATA, 40, "an error in a worker of the data loader",
          READ_IT),
    ERROR("Pin memory thread exited unexpectedly", LAYER_DATA, 60,
          "the pin-memory thread of the data loader ended", READ_IT),
    ERROR("UnidentifiedImageError", LAYER_DATA, 90, "an input file is damaged or not an image",
          READ_IT),
    ERROR("image file is truncated", LAYER_DATA, 90, "an input file is damaged", READ_IT),
    ERROR("broken data stream when reading image", LAYER_DATA, 90, "an input file is damaged",
          READ_IT),
    ERROR("Truncated File Read", LAYER_DATA, 80, "an input file is damaged", READ_IT),
    ERROR("BadZipFile", LAYER_DATA, 75, "a file is damaged", READ_IT),
    ERROR("BadGzipFile", LAYER_DATA, 80, "an input file is damaged", READ_IT),
    ERROR("ArrowInvalid", LAYER_DATA, 80, "an input file is damaged or has another format",
          READ_IT),
    ERROR("DatasetGenerationError", LAYER_DATA, 80, "the data set cannot be built", READ_IT),
    ERROR("DatasetNotFoundError", LAYER_DATA, 85, "a data set was not found", AUTH),
    ERROR("tarfile.ReadError", LAYER_DATA, 80, "an input archive is damaged", READ_IT),

    /* Storage. */
    ERROR("No space left on device", LAYER_STORAGE, 92, "the file system is full", FREE_SPACE),
    ERROR("Errno 28]", LAYER_STORAGE, 92, "the file system is full", FREE_SPACE),
    ERROR("Disk quota exceeded", LAYER_STORAGE, 92, "the disk quota is exceeded", QUOTA),
    ERROR("Errno 122]", LAYER_STORAGE, 92, "the disk quota is exceeded", QUOTA),
    ERROR("Stale file handle", LAYER_STORAGE, 92,
          "a network file system lost a file: stale file handle", NFS),
    ERROR("Stale NFS file handle", LAYER_STORAGE, 92,
          "a network file system lost a file: stale file handle", NFS),
    ERROR("Errno 116]", LAYER_STORAGE, 92, "a network file system lost a file: stale file handle",
          NFS),
    ERROR("Read-only file system", LAYER_STORAGE, 92, "the file system is read-only", DISK),
    ERROR("Input/output error", LAYER_STORAGE, 90, "storage failed: input/output error", DISK),
    ERROR("Transport endpoint is not connected", LAYER_STORAGE, 85, "a network file system is gone",
          NFS),
    ERROR("Cannot send after transport endpoint shutdown", LAYER_STORAGE, 85,
          "a network file system is gone", NFS),
    ERROR("Remote I/O error", LAYER_STORAGE, 85, "a network file system failed", NFS),
    ERROR("File too large", LAYER_STORAGE, 75, "a file is too large for its file system or limit",
          "Check ulimit -f and the limits of the file system."),
    ERROR("PytorchStreamWriter failed writing file", LAYER_STORAGE, 85,
          "a checkpoint cannot be written", FREE_SPACE),
    ERROR("enforce fail at inline_container.cc*PytorchStreamWriter", LAYER_STORAGE, 85,
          "a checkpoint cannot be written", FREE_SPACE),
    ERROR("inline_container.cc*unexpected pos", LAYER_STORAGE, 88, "a checkpoint cannot be written",
          FREE_SPACE),
    ERROR("file write failed", LAYER_STORAGE, 75, "a file cannot be written", FREE_SPACE),
    ERROR("Unable to synchronously create file*errno = 28", LAYER_STORAGE, 90,
          "the file system is full", FREE_SPACE),
    ERROR("SlowDown*Please reduce your request rate", LAYER_STORAGE, 80,
          "the object store limits the request rate",
          "Send fewer requests at a time, or spread them over more prefixes."),
    ERROR("AWS Error ", LAYER_STORAGE, 75, "the object store cannot be used", AUTH),
    ERROR("Curl returned error code", LAYER_STORAGE, 45, "requests to the object store fail", AUTH),
    ERROR("botocore.exceptions", LAYER_STORAGE, 75, "the object store cannot be used", AUTH),
    ERROR("EndpointConnectionError", LAYER_STORAGE, 75, "the object store is not reachable", AUTH),

    /* Checkpoints. */
    ERROR("failed finding central directory", LAYER_CHECKPOINT, 92,
          "a checkpoint is damaged or incomplete", BAD_CKPT),
    ERROR("PytorchStreamReader failed", LAYER_CHECKPOINT, 90,
          "a checkpoint is damaged or incomplete", BAD_CKPT),
    ERROR("UnpicklingError", LAYER_CHECKPOINT, 80,
          "a checkpoint is damaged, or not what is expected", BAD_CKPT),
    ERROR("Weights only load failed", LAYER_CHECKPOINT, 85,
          "a checkpoint holds objects that torch.load refuses",
          "Load with weights_only=False if you trust the file, or allow the classes with "
          "torch.serialization.add_safe_globals."),
    ERROR("Error while deserializing header", LAYER_CHECKPOINT, 90,
          "a checkpoint is damaged or incomplete", BAD_CKPT),
    ERROR("SafetensorError", LAYER_CHECKPOINT, 85, "a checkpoint is damaged or incomplete",
          BAD_CKPT),
    ERROR("MetadataIncompleteBuffer", LAYER_CHECKPOINT, 90, "a checkpoint is damaged or incomplete",
          BAD_CKPT),
    ERROR("InvalidHeaderDeserialization", LAYER_CHECKPOINT, 90,
          "a checkpoint is damaged or incomplete", BAD_CKPT),
    ERROR("Error(s) in loading state_dict", LAYER_CHECKPOINT, 88,
          "a checkpoint does not fit the model",
          "Check the configuration of the model against that of the checkpoint."),
    ERROR("Missing key(s) in state_dict", LAYER_CHECKPOINT, 88,
          "a checkpoint does not fit the model",
          "Check the configuration of the model against that of the checkpoint."),
    ERROR("Unexpected key(s) in state_dict", LAYER_CHECKPOINT, 80,
          "a checkpoint does not fit the model",
          "Check the configuration of the model against that of the checkpoint."),
    ERROR("size mismatch for *copying a param", LAYER_CHECKPOINT, 88,
          "a checkpoint does not fit the model",
          "Check the configuration of the model against that of the checkpoint."),
    ERROR("EOFError: Ran out of input", LAYER_CHECKPOINT, 75, "a file is empty or incomplete",
          BAD_CKPT),
    ERROR("unexpected EOF, expected", LAYER_CHECKPOINT, 85, "a checkpoint is incomplete", BAD_CKPT),
    ERROR("invalid load key", LAYER_CHECKPOINT, 80,
          "a checkpoint is damaged, or not what is expected", BAD_CKPT),
    ERROR("zero checkpoint*world size", LAYER_CHECKPOINT, 85,
          "a checkpoint was written with another number of ranks",
          "Load it with the same number of ranks, or convert it."),
    ERROR("checkpoint*different*world size", LAYER_CHECKPOINT, 80,
          "a checkpoint was written with another number of ranks",
          "Load it with the same number of ranks, or convert it."),

    /* Versions. */
    ERROR("ModuleNotFoundError", LAYER_FRAMEWORK, 90, NULL, INSTALL),
    ERROR("ImportError: *cannot open shared object file", LAYER_FRAMEWORK, 92,
          "a shared library is missing", INSTALL),
    ERROR("ImportError: *undefined symbol", LAYER_FRAMEWORK, 92, "libraries of different versions",
          VERSIONS),
    ERROR("undefined symbol: ", LAYER_FRAMEWORK, 88, "libraries of different versions", VERSIONS),
    ERROR("error while loading shared libraries", LAYER_FRAMEWORK, 90,
          "a shared library is missing", INSTALL),
    ERROR("cannot open shared object file: No such file", LAYER_FRAMEWORK, 70,
          "a shared library is missing", INSTALL),
    ERROR("ImportError: *GLIBC", LAYER_FRAMEWORK, 90, "the C library is too old", VERSIONS),
    ERROR("version `GLIBC*' not found", LAYER_FRAMEWORK, 90, "a C library is too old", VERSIONS),
    ERROR("ImportError: cannot import name", LAYER_FRAMEWORK, 88, "packages of different versions",
          VERSIONS),
    ERROR("^ImportError:", LAYER_FRAMEWORK, 80, NULL, VERSIONS),
    ERROR("numpy.dtype size changed, may indicate binary incompatibility", LAYER_FRAMEWORK, 92,
          "packages of different versions (numpy)", VERSIONS),
    ERROR("compiled using NumPy 1.x cannot be run in", LAYER_FRAMEWORK, 85,
          "packages of different versions (numpy)", VERSIONS),
    ERROR("requires GLIBC", LAYER_FRAMEWORK, 70, "a C library is too old", VERSIONS),
    ERROR("operator torchvision::nms does not exist", LAYER_FRAMEWORK, 92,
          "torch and torchvision have different versions", VERSIONS),
    ERROR("VersionConflict", LAYER_FRAMEWORK, 85, "packages of different versions", VERSIONS),
    ERROR("DistributionNotFound", LAYER_FRAMEWORK, 85, "a package is missing", INSTALL),
    ERROR("PackageNotFoundError", LAYER_FRAMEWORK, 85, "a package is missing", INSTALL),
    ERROR("is required * but found * Try: pip install", LAYER_FRAMEWORK, 90,
          "packages of different versions", VERSIONS),
    ERROR("FlashAttention only support", LAYER_FRAMEWORK, 88,
          "FlashAttention does not support this GPU or type",
          "Use another attention implementation, type or GPU."),
    ERROR("FlashAttention2 has been toggled on, but it cannot be used", LAYER_FRAMEWORK, 90,
          "FlashAttention is not installed", INSTALL),
    ERROR("flash_attn*seems to be not installed", LAYER_FRAMEWORK, 88,
          "FlashAttention is not installed", INSTALL),
    ERROR("Error building extension", LAYER_FRAMEWORK, 85,
          "a C++ or CUDA extension cannot be built",
          "Check the compiler and CUDA toolkit (CUDA_HOME, nvcc --version) on the node, and free "
          "space in ~/.cache/torch_extensions."),
    ERROR("CUDA_HOME environment variable is not set", LAYER_FRAMEWORK, 88,
          "no CUDA toolkit was found", "Set CUDA_HOME, or install a CUDA toolkit that fits torch."),
    ERROR("Ninja is required to load C++ extensions", LAYER_FRAMEWORK, 90, "ninja is missing",
          INSTALL),
    ERROR("Failed to find C compiler", LAYER_FRAMEWORK, 88, "no C compiler was found", INSTALL),
    ERROR("cannot find -lcuda", LAYER_FRAMEWORK, 85, "the CUDA library was not found", VERSIONS),
    ERROR("BackendCompilerFailed", LAYER_FRAMEWORK, 80, "torch.compile failed",
          "Run without torch.compile, and report the error with TORCH_LOGS=dynamo."),
    ERROR("InductorError", LAYER_FRAMEWORK, 80, "torch.compile failed",
          "Run without torch.compile, and report the error with TORCH_LOGS=inductor."),
    ERROR(
        "Assertion `*' failed", LAYER_UNKNOWN, 70, "an assertion of a C or C++ library failed",
        "Read the file and the condition in the line; look it up in the reports of that library."),
    ERROR("command not found", LAYER_USER_CODE, 45, "a command was not found", INSTALL),
    ERROR("can't open file*No such file or directory", LAYER_USER_CODE, 88,
          "the program was not found",
          "Check the path of the program and the working directory on every node."),
    ERROR("slurmstepd: error: execve()*No such file", LAYER_USER_CODE, 85,
          "the program was not found", "Check the path of the program on every node."),
    ERROR("unrecognized arguments", LAYER_USER_CODE, 88,
          "the program was started with an unknown argument",
          "Check the arguments of the program."),
    ERROR("the following arguments are required", LAYER_USER_CODE, 88,
          "the program was started without an argument that it needs",
          "Check the arguments of the program."),
    ERROR("GatedRepoError", LAYER_DATA, 88, "no access to a model or data set", AUTH),
    ERROR("RepositoryNotFoundError", LAYER_DATA, 85, "a model or data set was not found", AUTH),
    ERROR("LocalEntryNotFoundError", LAYER_DATA, 85,
          "a model or data set is not in the cache, and the network is not reachable", AUTH),
    ERROR("couldn't connect to 'https://huggingface.co'", LAYER_DATA, 85,
          "a model or data set cannot be downloaded", AUTH),
    ERROR("host='huggingface.co'", LAYER_DATA, 85, "a model or data set cannot be downloaded",
          AUTH),
    ERROR("Distributed package doesn't have NCCL", LAYER_FRAMEWORK, 88,
          "this build of torch has no NCCL",
          "Install a build of torch with CUDA for Linux, or use the backend gloo."),
    OOM("failed due to oom", 60, "a task of Ray lacked memory"),
    OOM("ran out of memory, killing worker", 75, "a node of Ray has no memory left"),
    ERROR("does not appear to have a file named", LAYER_DATA, 85, "a file of a model was not found",
          AUTH),
    ERROR("HFValidationError", LAYER_USER_CODE, 80, "a model's path is wrong", NULL),
    ERROR("CommError*wandb", LAYER_FRAMEWORK, 70, "Weights & Biases cannot be reached",
          "Set WANDB_MODE=offline, or check the network."),
    ERROR("wandb.errors", LAYER_FRAMEWORK, 75, "Weights & Biases failed",
          "Set WANDB_MODE=offline, or check the key and the network."),
    ERROR("Permission denied", LAYER_USER_CODE, 50, "permission denied",
          "Check owner and mode of the file that the line names, on every node."),

    /* Results. */
    WRONG("Loss is nan, stopping", 92, "the loss is NaN"),
    WRONG("Loss is inf, stopping", 92, "the loss is infinite"),
    WRONG("loss is nan or inf", 88, "the loss is NaN or infinite"),
    WRONG("found NaN in local grad norm", 92, "gradients are NaN"),
    WRONG("found Inf in local grad norm", 92, "gradients are infinite"),
    WRONG("found NaN in local forward loss", 92, "the loss is NaN"),
    WRONG("FloatingPointError: Minimum loss scale reached", 92,
          "the loss overflows at every scale"),
    WRONG("Minimum loss scale reached", 90, "the loss overflows at every scale"),
    WRONG("Current loss scale already at minimum", 90, "the loss overflows at every scale"),
    WRONG("Reached the minimum loss scale", 88, "the loss overflows at every scale"),
    WRONG("Nan loss encountered", 90, "the loss is NaN"),
    WRONG("NaN detected in output", 80, "results are NaN"),
    WRONG("Inf detected in output", 78, "results are infinite"),
    WRONG("NaN or Inf found in input tensor", 75, "results are NaN or infinite"),
    WRONG("Gradients are Nan/Inf", 88, "gradients are NaN or infinite"),
    WRONG("FloatingPointError: invalid value", 85, "results are NaN"),
    WRONG("FloatingPointError: gradients are Nan", 90, "gradients are NaN"),
    WRONG("Function * returned nan values in its * output", 90, "gradients are NaN"),
    WRONG("probability tensor contains either", 85, "results are NaN or infinite"),
    WRONG("tensor contains NaN", 80, "results are NaN"),
    WRONG("loss became NaN", 90, "the loss is NaN"),
    WRONG("loss is not finite", 88, "the loss is NaN or infinite"),
    WRONG("non-finite loss", 88, "the loss is NaN or infinite"),
    WRONG("nan loss detected", 90, "the loss is NaN"),
    NAN_VALUE("loss: nan", 70, "the loss is NaN"),
    NAN_VALUE("loss nan", 65, "the loss is NaN"),
    NAN_VALUE("loss=nan", 70, "the loss is NaN"),
    NAN_VALUE("loss': nan", 70, "the loss is NaN"),
    NAN_VALUE("grad_norm': nan", 70, "gradients are NaN"),
    NAN_VALUE("grad norm: nan", 70, "gradients are NaN"),
    NAN_VALUE("grad_norm=nan", 75, "gradients are NaN"),
    NAN_VALUE("grad_norm: nan", 75, "gradients are NaN"),
    WRONG("gradient norm is nan", 85, "gradients are NaN"),
    NAN_VALUE("loss = nan", 70, "the loss is NaN"),
    { "loss*: nan ", LOG_EVENT_WRONG, LAYER_UNKNOWN, 70, "the loss is NaN", LOSS, read_nan_loss },
    { "loss*: nan,", LOG_EVENT_WRONG, LAYER_UNKNOWN, 70, "the loss is NaN", LOSS, read_nan_loss },
    NAN_VALUE("loss: inf", 65, "the loss is infinite"),
    WRONG("loss spike detected", 85, "the loss rose suddenly"),
    WRONG("Rerun diff detected", 85, "a step gave another result when it was run again"),
    { "nfs: server * OK", LOG_EVENT_PASSED, LAYER_STORAGE, 90, "a file server responds again", NULL,
      read_restored },
    { " Link is Up", LOG_EVENT_PASSED, LAYER_NIC, 90, "a network link is up again", NULL,
      read_restored },
    { ": Link up", LOG_EVENT_PASSED, LAYER_NIC, 90, "a network link is up again", NULL,
      read_restored },
    { .pattern = NULL },
};
