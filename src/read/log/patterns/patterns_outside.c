/* patterns_outside.c - jobs that a person, a scheduler or a machine ended; errors that only follow from others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/patterns/patterns.h"

#define OUTSIDE(pattern, cause, advice)                                                            \
    {                                                                                              \
        pattern, LOG_EVENT_OUTSIDE, 0, 95, cause, advice, NULL                                     \
    }
#define SIGNALLED(pattern, cause, advice)                                                          \
    {                                                                                              \
        pattern, LOG_EVENT_OUTSIDE, 0, 55, cause, advice, NULL                                     \
    }
/* Not even that this log is about a failure of its own. */
#define CLEANUP(pattern)                                                                           \
    {                                                                                              \
        pattern, LOG_EVENT_FOLLOW, 0, 50, NULL, NULL, NULL                                         \
    }
#define FOLLOW(pattern)                                                                            \
    {                                                                                              \
        pattern, LOG_EVENT_FOLLOW, 0, 90, NULL, NULL, NULL                                         \
    }

#define MORE_TIME                                                                                  \
    "Ask for a longer time limit, or save checkpoints often enough and restart from the newest "   \
    "one."
#define ASK_WHO                                                                                    \
    "Find out who or what ended the job (sacct, kubectl get events, the scheduler's log); "        \
    "restart it from its newest checkpoint."

#define PREEMPTED                                                                                  \
    "The scheduler took the resources for another job: restart from the newest checkpoint "        \
    "(sbatch "                                                                                     \
    "--requeue does so by itself), save often enough, or ask for a queue that is not preempted."

#define NODE_FAILED                                                                                \
    "Check why the node failed (sinfo -R, its console and kernel log); exclude it and restart "    \
    "the job."

const struct log_pattern patterns_outside[] = {
    OUTSIDE("CANCELLED*DUE TO TIME LIMIT", "ended from outside: the job reached its time limit",
            MORE_TIME),
    OUTSIDE("CANCELLED*DUE TO PREEMPTION", "ended from outside: the job was preempted", PREEMPTED),
    OUTSIDE("CANCELLED*DUE TO NODE FAILURE", "ended from outside: a node of the job failed",
            NODE_FAILED),
    { ": error: Node failure on ", LOG_EVENT_OUTSIDE, 0, 95,
      "ended from outside: a node of the job failed", NODE_FAILED, read_failed_node },
    OUTSIDE("CANCELLED*DUE to SIGNAL", "ended from outside: the job was cancelled", ASK_WHO),
    OUTSIDE("JOB # ON * CANCELLED AT ", "ended from outside: the job was cancelled", ASK_WHO),
    /* srun cancels the step when one of its tasks has failed, too. */
    SIGNALLED("STEP #.# ON * CANCELLED AT ", "ended from outside: the step was cancelled", ASK_WHO),
    SIGNALLED("slurmstepd: error: *CANCELLED AT ", "ended from outside: the job was cancelled",
              ASK_WHO),
    OUTSIDE("scancel: Terminating job", "ended from outside: the job was cancelled", ASK_WHO),
    SIGNALLED("srun: Force Terminated", "ended from outside: the job was cancelled", ASK_WHO),
    SIGNALLED("srun: forcing job termination", "ended from outside: the job was cancelled",
              ASK_WHO),
    OUTSIDE("task/cgroup: unable to add", "ended from outside: the job was cancelled", ASK_WHO),
    OUTSIDE("due to wall clock limit", "ended from outside: the job reached its time limit",
            MORE_TIME),
    OUTSIDE("exceeded its walltime limit", "ended from outside: the job reached its time limit",
            MORE_TIME),
    OUTSIDE("PBS: job killed: walltime", "ended from outside: the job reached its time limit",
            MORE_TIME),
    OUTSIDE("job preempted (", "ended from outside: the job was preempted", PREEMPTED),
    OUTSIDE("Job deleted at request of", "ended from outside: the job was cancelled", ASK_WHO),
    OUTSIDE("DUE TO JOB REQUEUE", "ended from outside: the job was requeued", ASK_WHO),
    OUTSIDE("JobState=TIMEOUT", "ended from outside: the job reached its time limit", MORE_TIME),
    OUTSIDE("JobState=PREEMPTED", "ended from outside: the job was preempted", PREEMPTED),
    OUTSIDE("JobState=CANCELLED", "ended from outside: the job was cancelled", ASK_WHO),
    OUTSIDE("JobState=NODE_FAIL", "ended from outside: a node of the job failed", NODE_FAILED),
    OUTSIDE("TERM_RUNLIMIT", "ended from outside: the job reached its time limit", MORE_TIME),
    OUTSIDE("TERM_OWNER", "ended from outside: the job was cancelled", ASK_WHO),
    OUTSIDE("DeadlineExceeded*active longer than",
            "ended from outside: the job reached its time limit", MORE_TIME),
    OUTSIDE("Preempted*by*pod", "ended from outside: the job was preempted", PREEMPTED),
    OUTSIDE("preempted by a higher priority", "ended from outside: the job was preempted",
            PREEMPTED),
    OUTSIDE("spot instance*interrupt", "ended from outside: the machine was taken away", PREEMPTED),
    OUTSIDE("instance-action*terminate", "ended from outside: the machine was taken away",
            PREEMPTED),
    OUTSIDE("TerminationNotice", "ended from outside: the machine was taken away", PREEMPTED),
    OUTSIDE("preemption signal received", "ended from outside: the job was preempted", PREEMPTED),
    SIGNALLED("^KeyboardInterrupt",
              "ended from outside: interrupted from the keyboard or by SIGINT",
              "If no person interrupted it, look for a launcher that sent SIGINT because another "
              "process had ended."),
    SIGNALLED("Received 15 death signal", "ended from outside: the launcher received SIGTERM",
              ASK_WHO),
    SIGNALLED("Received # death signal", "ended from outside: the launcher received a signal",
              ASK_WHO),
    SIGNALLED("SignalException: Process # got signal: 15",
              "ended from outside: the launcher received SIGTERM", ASK_WHO),
    SIGNALLED("SignalException: Process # got signal",
              "ended from outside: the launcher received a signal", ASK_WHO),
    SIGNALLED("mpirun: Forwarding signal 15", "ended from outside: the launcher received SIGTERM",
              ASK_WHO),
    { .pattern = NULL },
};

/* Wrappers and clean-up: they come after the cause, whatever it was. */
const struct log_pattern patterns_follow[] = {
    { "died with <Signals.SIG", LOG_EVENT_EXIT, 0, 80, NULL, NULL, read_called },
    /* Here, because terminals join lines: "... closing signal SIGTERM   ERROR:...:failed (exitcode: -9) ...". */
    { "exitcode: #) local_rank: #", LOG_EVENT_EXIT, 0, 80, NULL, NULL, read_torchrun },
    { "exitcode: -#) local_rank: #", LOG_EVENT_EXIT, 0, 80, NULL, NULL, read_torchrun },
    { "Command 'ssh *returned non-zero exit status 255", LOG_EVENT_ERROR, LAYER_UNKNOWN, 75,
      "a node cannot be reached by ssh",
      "Log in to the node by hand, as this user and without a password (ssh -o BatchMode=yes); "
      "check "
      "its name or address in the list of hosts.",
      NULL },
    FOLLOW("ChildFailedError"),
    FOLLOW("CalledProcessError"),
    FOLLOW("returned non-zero exit status"),
    FOLLOW("ProcessRaisedException"),
    FOLLOW("RayTaskError"),
    FOLLOW("TrainingFailedError"),
    FOLLOW("TuneError"),
    FOLLOW("WorkerGroupError"),
    FOLLOW("RayActorError"),
    FOLLOW("RayGetError"),
    FOLLOW("ActorDiedError"),
    FOLLOW("ActorUnavailableError"),
    FOLLOW("EngineDeadError"),
    FOLLOW("CheckpointException"),
    FOLLOW("BrokenProcessPool"),
    CLEANUP("Error in atexit._run_exitfuncs"),
    CLEANUP("Exception ignored in"),
    CLEANUP("_run_finalizers"),
    CLEANUP("resource_tracker"),
    CLEANUP("destroy_process_group() was not called"),
    CLEANUP("has NOT been destroyed before we destruct"),
    FOLLOW("terminate called after throwing an instance of 'c10::"),
    FOLLOW("terminate called after throwing an instance of 'torch"),
    FOLLOW("terminate called recursively"),
    FOLLOW("to avoid data inconsistency, we are taking the entire process down"),
    FOLLOW("Sending process # closing signal"),
    CLEANUP("Unable to shutdown process"),
    FOLLOW("Killing subprocess #"),
    FOLLOW("Fatal Python error: Aborted"),
    FOLLOW("Aborted (core dumped)"),
    FOLLOW("srun: error: *: Aborted"),
    FOLLOW("Aborted! Aborting"),
    FOLLOW("srun: Job step aborted"),
    FOLLOW("srun: Terminating StepId"),
    FOLLOW("slurmstepd: error: *STEPD TERMINATED"),
    FOLLOW("Primary job  terminated normally, but"),
    { "MPI_ABORT was invoked on rank #", LOG_EVENT_ROOT, 0, 60, NULL, NULL, read_mpi_abort },
    { "application called MPI_Abort(*) - process #", LOG_EVENT_ROOT, 0, 60, NULL, NULL,
      read_mpi_abort },
    FOLLOW("MPI_ABORT was invoked"),
    FOLLOW("application called MPI_Abort"),
    FOLLOW("BAD TERMINATION OF ONE OF YOUR APPLICATION"),
    CLEANUP("Horovod has been shut down"),
    CLEANUP("OP_REQUIRES failed at mpi_ops.cc"),
    CLEANUP("should see the exception in the log before"),
    CLEANUP("caused by an exception on one of the ranks"),
    CLEANUP("root error(s) found"),
    FOLLOW("The following operation failed in the TorchScript interpreter"),
    FOLLOW("WorkerSpec exit"),
    FOLLOW("RendezvousClosedError"),
    FOLLOW("RendezvousGracefulExitError"),
    FOLLOW("Exit code: # ; stdout"),
    { .pattern = NULL },
};
