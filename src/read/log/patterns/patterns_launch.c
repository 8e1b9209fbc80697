/* patterns_launch.c - what launchers, schedulers, shells and signal handlers report.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/patterns/patterns.h"

#define EXIT(pattern, more)                                                                        \
    {                                                                                              \
        pattern, LOG_EVENT_EXIT, 0, 80, NULL, NULL, more                                           \
    }
#define DIED(pattern, cause)                                                                       \
    {                                                                                              \
        pattern, LOG_EVENT_EXIT, 0, 60, cause, NULL, read_died                                     \
    }
#define CONTAINER(pattern, layer, cause)                                                           \
    {                                                                                              \
        pattern, LOG_EVENT_ERROR, layer, 75, cause, BACKOFF, NULL                                  \
    }
#define SIGNAL(pattern, layer, confidence, cause, advice, more)                                    \
    {                                                                                              \
        pattern, LOG_EVENT_SIGNAL, layer, confidence, cause, advice, more                          \
    }

#define KUBE_NODE                                                                                  \
    "Check the node: kubectl describe node, its kubelet and kernel log; cordon it if it stays "    \
    "away, and start the job elsewhere."
#define BACKOFF                                                                                    \
    "Read how the container ended: kubectl logs --previous, and Last State in kubectl describe "   \
    "pod."
#define NOT_THERE                                                                                  \
    "Check the path of the program and its environment (module, conda, container) on that node, "  \
    "not where the job was submitted."
#define COMPLETED(pattern)                                                                         \
    {                                                                                              \
        pattern, LOG_EVENT_COMPLETED, 0, 90, NULL, NULL, read_completed                            \
    }

const struct log_pattern patterns_launch[] = {
    SIGNAL("Fatal Python error: Segmentation fault", LAYER_USER_CODE, 90, "segmentation fault",
           ADVICE_STACK, NULL),
    SIGNAL("Fatal Python error: Bus error", LAYER_HOST_MEMORY, 88, "bus error", ADVICE_BUS, NULL),
    SIGNAL("Fatal Python error: Floating point exception", LAYER_USER_CODE, 88,
           "floating point exception", ADVICE_STACK, NULL),
    SIGNAL("Fatal Python error: Illegal instruction", LAYER_FRAMEWORK, 85,
           "illegal instruction: the program was built for another CPU", ADVICE_CPU, NULL),
    SIGNAL("Segfault encountered", LAYER_USER_CODE, 90, "segmentation fault", ADVICE_STACK, NULL),
    SIGNAL("Caught signal 11 (Segmentation fault", LAYER_USER_CODE, 90, "segmentation fault",
           ADVICE_STACK, NULL),
    SIGNAL("Signal: Segmentation fault (11)", LAYER_USER_CODE, 88, "segmentation fault",
           ADVICE_STACK, NULL),
    SIGNAL("Caught signal 7 (Bus error", LAYER_HOST_MEMORY, 88, "bus error", ADVICE_BUS, NULL),
    SIGNAL("Signal: Bus error (7)", LAYER_HOST_MEMORY, 85, "bus error", ADVICE_BUS, NULL),
    SIGNAL("SIGSEGV received at time", LAYER_USER_CODE, 88, "segmentation fault", ADVICE_STACK,
           NULL),

    SIGNAL("*** SIGSEGV (@*received by PID", LAYER_USER_CODE, 88, "segmentation fault",
           ADVICE_STACK, NULL),
    SIGNAL("*** SIGBUS (@*received by PID", LAYER_HOST_MEMORY, 85, "bus error (SIGBUS)", ADVICE_BUS,
           NULL),
    SIGNAL("*** SIGFPE (@*received by PID", LAYER_USER_CODE, 85, "floating point exception",
           ADVICE_STACK, NULL),
    SIGNAL("*** SIGILL (@*received by PID", LAYER_FRAMEWORK, 85,
           "illegal instruction: the program was built for another CPU", ADVICE_CPU, NULL),

    EXIT("exits with return code = ", read_deepspeed),
    EXIT("terminated with signal SIG", read_spawned),
    EXIT("terminated with exit code #", read_spawned),
    EXIT("terminated with the following error", read_spawned),
    { " OUT_OF_ME* 0:125", LOG_EVENT_ERROR, LAYER_HOST_MEMORY, 90,
      "killed for lack of memory (job limit)", NULL, NULL },
    { "JobState=OUT_OF_MEMORY", LOG_EVENT_ERROR, LAYER_HOST_MEMORY, 92,
      "killed for lack of memory (job limit)", NULL, NULL },
    DIED("JobState=FAILED Reason=NonZeroExitCode",
         "the job's script ended with an error (NonZeroExitCode)"),
    { "An error occurred in MPI_", LOG_EVENT_ERROR, LAYER_UNKNOWN, 50, NULL,
      "Check that all ranks use the same MPI, and were started by its launcher (mpirun, srun "
      "--mpi=pmix).",
      NULL },
    { "execve(): *No such file or directory", LOG_EVENT_ERROR, LAYER_FRAMEWORK, 80,
      "a program is not there on a node: No such file or directory", NOT_THERE, NULL },
    EXIT("trainer process with rank=[#] was aborted", read_paddle),
    EXIT("exitCode: #", read_container),
    EXIT("exited with code #", read_container),
    CONTAINER("ContainerCannotRun", LAYER_UNKNOWN, "a container cannot be started"),
    CONTAINER("CreateContainerConfigError", LAYER_USER_CODE, "a container cannot be started"),
    CONTAINER("CreateContainerError", LAYER_UNKNOWN, "a container cannot be started"),
    CONTAINER("ImagePullBackOff", LAYER_FRAMEWORK, "the image of a container cannot be pulled"),
    CONTAINER("ErrImagePull", LAYER_FRAMEWORK, "the image of a container cannot be pulled"),
    CONTAINER("MountVolume.SetUp failed", LAYER_STORAGE, "a volume cannot be mounted"),
    CONTAINER("Insufficient nvidia.com/gpu", LAYER_UNKNOWN,
              "there are too few free GPUs for a pod"),
    EXIT("srun: error: *task*", read_srun),
    EXIT("_job_complete: JobId=* WTERMSIG #", read_slurmctld),
    EXIT("_job_complete: JobId=* WEXITSTATUS #", read_slurmctld),
    EXIT("exited on signal #", read_mpirun),
    EXIT("mpirun noticed that process rank #", read_mpirun),
    EXIT("mpiexec noticed that process rank #", read_mpirun),
    EXIT("prterun noticed that process rank #", read_mpirun),
    EXIT("KILLED BY SIGNAL: #", read_mpirun),
    EXIT("RANK # PID # RUNNING AT", read_mpirun),
    EXIT("Process name: [[#,#],#]", read_orte),
    EXIT("exited with non-zero status, thus causing", read_orte),
    DIED("run.pl: *failed, log is in ", "a job of run.pl failed"),
    DIED("A worker died or was killed while executing", "a worker of Ray died"),
    DIED("The actor died unexpectedly before finishing", "an actor of Ray died"),
    DIED("The actor died because of an error raised in its creation task",
         "an actor of Ray died while it was created"),
    DIED("The actor is dead because", "an actor of Ray died"),
    DIED("Worker unexpectedly exits with a connection error code", "a worker of Ray died"),
    DIED("The node*dead*heartbeats", "a node of Ray sends no heartbeats"),
    DIED("has been marked dead because*missed too many heartbeats",
         "a node of Ray sends no heartbeats"),

    SIGNAL("Segmentation fault (core dumped)", LAYER_USER_CODE, 85, "segmentation fault",
           ADVICE_CORE, read_own),
    SIGNAL("line #: # Segmentation fault", LAYER_USER_CODE, 80, "segmentation fault", ADVICE_CORE,
           NULL),
    SIGNAL("line #: # Bus error", LAYER_HOST_MEMORY, 80, "bus error", ADVICE_BUS, NULL),
    SIGNAL("line #: # Illegal instruction", LAYER_FRAMEWORK, 80,
           "illegal instruction: the program was built for another CPU", ADVICE_CPU, NULL),
    SIGNAL("line #: # Floating point exception", LAYER_USER_CODE, 80, "floating point exception",
           ADVICE_CORE, NULL),
    SIGNAL("Segmentation fault*python", LAYER_USER_CODE, 75, "segmentation fault", ADVICE_CORE,
           read_shell),
    SIGNAL("^Segmentation fault$", LAYER_USER_CODE, 75, "segmentation fault", ADVICE_CORE, NULL),
    SIGNAL("Bus error (core dumped)", LAYER_HOST_MEMORY, 85, "bus error", ADVICE_BUS, read_own),
    SIGNAL("^Bus error", LAYER_HOST_MEMORY, 75, "bus error", ADVICE_BUS, NULL),
    SIGNAL("Illegal instruction (core dumped)", LAYER_FRAMEWORK, 80,
           "illegal instruction: the program was built for another CPU", ADVICE_CPU, read_own),
    SIGNAL("Floating point exception (core dumped)", LAYER_USER_CODE, 80,
           "floating point exception", ADVICE_CORE, read_own),
    SIGNAL("line #: * Killed ", LAYER_UNKNOWN, 75, "killed (SIGKILL), mostly for lack of memory",
           ADVICE_KILLED, NULL),
    SIGNAL("line #: *Killed$", LAYER_UNKNOWN, 70, "killed (SIGKILL), mostly for lack of memory",
           ADVICE_KILLED, NULL),
    SIGNAL("^Killed$", LAYER_UNKNOWN, 70, "killed (SIGKILL), mostly for lack of memory",
           ADVICE_KILLED, NULL),
    SIGNAL("Process * killed by SIGKILL", LAYER_UNKNOWN, 70,
           "killed (SIGKILL), mostly for lack of memory", ADVICE_KILLED, NULL),
    SIGNAL("Exit Code:*137$", LAYER_UNKNOWN, 75,
           "killed (exit status 137: SIGKILL), mostly for lack of memory", ADVICE_KILLED, NULL),
    SIGNAL("exit code 137", LAYER_UNKNOWN, 65,
           "killed (exit status 137: SIGKILL), mostly for lack of memory", ADVICE_KILLED, NULL),
    SIGNAL("exitcode 137", LAYER_UNKNOWN, 65,
           "killed (exit status 137: SIGKILL), mostly for lack of memory", ADVICE_KILLED, NULL),
    SIGNAL("exit status 137", LAYER_UNKNOWN, 65,
           "killed (exit status 137: SIGKILL), mostly for lack of memory", ADVICE_KILLED, NULL),
    { "#/# NodeLost ", LOG_EVENT_ERROR, LAYER_UNKNOWN, 70, "Kubernetes lost the node of a pod",
      KUBE_NODE, NULL },
    { "which was running pod*is unresponsive", LOG_EVENT_ERROR, LAYER_UNKNOWN, 80,
      "Kubernetes lost the node of a pod", KUBE_NODE, NULL },
    { "Warning*NodeNotReady", LOG_EVENT_ERROR, LAYER_UNKNOWN, 70, "a node is not ready", KUBE_NODE,
      NULL },
    { " NotReady *v#.#.#", LOG_EVENT_ERROR, LAYER_UNKNOWN, 60, "a node is not ready", KUBE_NODE,
      NULL },
    { "TaintManagerEviction", LOG_EVENT_ERROR, LAYER_UNKNOWN, 60,
      "Kubernetes removed a pod from its node", KUBE_NODE, NULL },
    { "CrashLoopBackOff", LOG_EVENT_ERROR, LAYER_UNKNOWN, 35,
      "a container fails again and again (CrashLoopBackOff)", BACKOFF, NULL },
    { "Back-off restarting failed container", LOG_EVENT_ERROR, LAYER_UNKNOWN, 35,
      "a container fails again and again (CrashLoopBackOff)", BACKOFF, NULL },
    SIGNAL("exit code 139", LAYER_USER_CODE, 70, "segmentation fault (exit status 139)",
           ADVICE_CORE, NULL),
    SIGNAL("Exit Code:*139$", LAYER_USER_CODE, 70, "segmentation fault (exit status 139)",
           ADVICE_CORE, NULL),
    SIGNAL("exit code 135", LAYER_HOST_MEMORY, 70, "bus error (exit status 135)", ADVICE_BUS, NULL),

    /* Last, so that an error in the same line counts. */
    COMPLETED("training completed"),
    COMPLETED("training complete"),
    COMPLETED("training finished"),
    COMPLETED("training is done"),
    COMPLETED("finished training"),
    COMPLETED("Trainer.fit` stopped: `max_"),  /* Lightning */
    COMPLETED("'train_runtime': "),            /* Hugging Face */
    COMPLETED("exiting program at iteration"), /* Megatron-LM */
    { .pattern = NULL },
};
