/* doctor_gpu.c - asks NVML in a child, which is killed after three seconds: a failing GPU can block a call for ever.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/doctor/doctor_gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/nvml.h"

#define LOOK_NS (3 * NS_PER_S)

struct doctor_gpu_answer { /* what the child writes, at once */
    int result;
    struct doctor_gpus gpus;
    struct err err;
};

static void gpu_look_all(const struct nvml *nvml, struct doctor_gpu_answer *answer)
{
    struct doctor_gpus *gpus = &answer->gpus;
    struct nvml_identity identity;
    struct nvml_sample sample;
    struct err err;

    for (unsigned i = 0; i < gpus->count; i++) {
        int result = nvml_identify(nvml, i, &identity, &err);

        if (result == 0 && i == 0)
            snprintf(gpus->name, sizeof(gpus->name), "%s", identity.name);
        if (result == 0)
            result = nvml_read(nvml, i, &sample, &err);
        if (result == 0 && nvml_has(&sample, NVML_RECOVERY_ACTION) &&
            sample.value[NVML_RECOVERY_ACTION] > 0)
            result = err_set(&err, -EIO, "its driver asks for recovery action %lld",
                             (long long)sample.value[NVML_RECOVERY_ACTION]);
        if (result < 0 && gpus->bad++ == 0) {
            gpus->first_bad = i;
            snprintf(gpus->why, sizeof(gpus->why), "%.159s", err.text);
        }
    }
}

static void gpu_child(int fd)
{
    struct doctor_gpu_answer answer = { 0 };
    struct nvml *nvml = NULL;

    answer.result = nvml_open(NULL, &nvml, &answer.err);
    if (answer.result == 0)
        answer.result =
            nvml_driver_version(nvml, answer.gpus.driver, sizeof(answer.gpus.driver), &answer.err);
    if (answer.result == 0)
        answer.result = nvml_count(nvml, &answer.gpus.count, &answer.err);
    if (answer.result == 0)
        gpu_look_all(nvml, &answer);
    _Static_assert(sizeof(answer) <= PIPE_BUF, "written at once");
    _exit(write(fd, &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
}

static int gpu_read(int fd, int64_t until_ns, struct doctor_gpu_answer *ret, struct err *err)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    ssize_t size;

    if (poll(&ready, 1, time_poll_ms(until_ns, time_mono_ns())) <= 0)
        return err_set(err, -ETIMEDOUT, "NVML does not answer");
    size = read(fd, ret, sizeof(*ret));
    if (size != sizeof(*ret))
        return err_set(err, -EIO, "NVML ended the process that asked it");
    return 0;
}

int doctor_gpus_look(struct doctor_gpus *ret, struct err *err)
{
    struct doctor_gpu_answer answer;
    int fd[2], result;
    pid_t pid;

    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "no pipe: %m");
    pid = fork();
    if (pid == 0)
        gpu_child(fd[1]);
    close(fd[1]);
    if (pid < 0) {
        result = err_set(err, -errno, "no process: %m");
        close(fd[0]);
        return result;
    }
    result = gpu_read(fd[0], time_mono_ns() + LOOK_NS, &answer, err);
    close(fd[0]);
    kill(pid, SIGKILL);
    if (result != -ETIMEDOUT) /* one that hangs in the driver cannot be waited for */
        waitpid(pid, NULL, 0);
    if (result < 0)
        return result;
    if (answer.result < 0)
        return err_set(err, answer.result, "%s", answer.err.text);
    *ret = answer.gpus;
    return 0;
}
