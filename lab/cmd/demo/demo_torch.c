/* demo_torch.c - finds a Python with torch, and the demo's script.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/cmd/demo/demo_torch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/attach.h"
#include "core/clean.h"

/* Looks for torch without importing it, which takes seconds. */
static const char has_torch[] =
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";

static bool python_has_torch(const char *python)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp(python, python, "-c", has_torch, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int demo_torch_find(struct demo_torch *ret, struct err *err)
{
    static const char *const usual[] = { "python3", "/usr/bin/python3" };
    const char *given = getenv("LOCKSTEP_PYTHON");

    if (attach_package_file("demo/train.py", &ret->script) < 0)
        return err_set(err, -ENOENT, "the Python package is not installed beside this program");
    if (given && given[0]) {
        snprintf(ret->python, sizeof(ret->python), "%s", given);
        if (python_has_torch(given))
            return 0;
        return err_set(err, -ENOENT, "LOCKSTEP_PYTHON: %s has no torch", given);
    }
    for (size_t i = 0; i < COUNT(usual); i++) {
        snprintf(ret->python, sizeof(ret->python), "%s", usual[i]);
        if (python_has_torch(usual[i]))
            return 0;
    }
    return err_set(
        err, -ENOENT,
        "no python3 with torch found: install torch (apt install python3-torch, or pip install "
        "torch), or set LOCKSTEP_PYTHON to an interpreter that has it");
}

int demo_torch_check(struct fault *fault, struct err *err)
{
    static const struct {
        enum fault_id id;
        const char *why;
    } not_made[] = {
        { FAULT_HEAVY_STAGE, "its training is data parallel and has no stages" },
        { FAULT_SLOW_FABRIC, "its ranks use the loopback of one host, so there is no fabric" },
        { FAULT_SLOW_NIC, "its ranks use the loopback of one host, so there is no network card" },
        { FAULT_FEW_CHANNELS, "its communication library, gloo, reports no channels" },
        { FAULT_GPU_HANG, "its training uses the CPU; use stuck-code to stop a rank's own work" },
        { FAULT_COMPILE, "its training compiles nothing" },
        { FAULT_ELASTIC, "its ranks have no elastic agents" },
    };

    for (size_t i = 0; i < COUNT(not_made); i++) {
        if (fault->kind->id == not_made[i].id)
            return err_set(err, -ENOTSUP, "--torch does not support fault %s: %s",
                           fault->kind->name, not_made[i].why);
    }
    if (fault->kind->id == FAULT_STUCK_CHECKPOINT && !(fault->set & FAULT_RANK)) {
        fault->rank = 0;
        fault->set |= FAULT_RANK;
    }
    if ((fault->kind->id == FAULT_SLOW_CHECKPOINT || fault->kind->id == FAULT_SLOW_STORAGE ||
         fault->kind->id == FAULT_STUCK_CHECKPOINT) &&
        (fault->set & FAULT_RANK) && fault->rank != 0)
        return err_set(err, -ENOTSUP, "--torch: %s: only rank 0 writes checkpoints",
                       fault->kind->name);
    return 0;
}
