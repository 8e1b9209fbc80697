/* node_repair.c - resets a GPU or reboots this node: the process that root's daemon starts for such an order.
 *
 * Right before it changes anything it looks whether the kill switch is on, whether Slurm has the node drained by lockstep and without a
 * job, and, for a reset, whether some process holds a GPU.  The tool is one of root's, at a fixed place.
 * It prints one line: a result and a sentence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/node/node_repair.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/table/kill_switch.h"
#include "agent/node/gpu_held.h"
#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "slurm/slurm_site.h"
#include "wire/decision.h"

#define REPAIR_DEVICE_MAX ((int64_t)0xffffff << 16 | 0xffff)

int repair_bits(const struct opt_list *names, uint32_t *ret, struct err *err)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < names->count; i++) {
        unsigned action = action_of(names->item[i]);

        if (action != ACTION_RESET_GPU && action != ACTION_REBOOT)
            return err_set(err, -EINVAL, "--repair %s: expected reset-gpu or reboot",
                           names->item[i]);
        bits |= 1u << action;
    }
    *ret = bits;
    return 0;
}

struct node_repair_options {
    const char *action, *node, *device;
};

static const struct opt node_repair_opts[] = {
    { "action", 0, OPT_TEXT, offsetof(struct node_repair_options, action), "ACTION",
      "reset-gpu or reboot", NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct node_repair_options, node), "NODE",
      "this node, as Slurm calls it", NULL, false },
    { "device", 0, OPT_TEXT, offsetof(struct node_repair_options, device), "NUMBER",
      "of reset-gpu: domain, bus and slot as one number", NULL, false },
    { .name = NULL },
};

/* ---- the tool ---- */

/* A program of the system's that only root can change; what was installed beside it below /usr/local is not asked. */
static bool repair_tool_find(const char *name, char *ret, size_t room)
{
    static const char *const places[] = { "/usr/sbin", "/usr/bin" };

    for (size_t i = 0; i < COUNT(places); i++) {
        struct stat st;

        snprintf(ret, room, "%s/%s", places[i], name);
        if (stat(ret, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
            !(st.st_mode & (S_IWGRP | S_IWOTH)) && access(ret, X_OK) == 0)
            return true;
    }
    return false;
}

static _Noreturn void repair_tool_exec(char *const argv[], int out)
{
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    static char *const environment[] = { path, NULL };

    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv[0], argv, environment);
    _exit(127);
}

/* Its exit status, and the last line that it printed. */
static int repair_tool_run(char *const argv[], char *said, size_t room)
{
    CLEAN(file_clean) FILE *out = NULL;
    char line[256];
    int fd[2], status = -1;
    pid_t pid;

    said[0] = '\0';
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        repair_tool_exec(argv, fd[1]);
    close(fd[1]);
    out = fdopen(fd[0], "re");
    while (pid > 0 && out && fgets(line, sizeof(line), out)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0])
            snprintf(said, room, "%.120s", line);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static enum outcome_result repair_do(unsigned action, const char *gpu, char *ret, size_t room)
{
    const char *name = action == ACTION_REBOOT ? "systemctl" : "nvidia-smi";
    char tool[64], reset[] = "--gpu-reset", id[] = "-i", reboot[] = "reboot", device[24], said[128];
    char *const reset_argv[] = { tool, reset, id, device, NULL };
    char *const reboot_argv[] = { tool, reboot, NULL };
    int status;

    snprintf(device, sizeof(device), "%s", gpu);
    if (!repair_tool_find(name, tool, sizeof(tool))) {
        snprintf(ret, room, "%s is not installed, or others than root may change it", name);
        return OUTCOME_FAILED;
    }
    status =
        repair_tool_run(action == ACTION_REBOOT ? reboot_argv : reset_argv, said, sizeof(said));
    if (status != 0)
        snprintf(ret, room, "%s exited with %d%s%s", tool, status, said[0] ? ": " : "", said);
    else if (action == ACTION_REBOOT)
        snprintf(ret, room, "the reboot has begun");
    else
        snprintf(ret, room, "GPU %s was reset%s%s", gpu, said[0] ? ": " : "", said);
    return status == 0 ? OUTCOME_DONE : OUTCOME_FAILED;
}

/* ---- may it be done now? ---- */

static enum outcome_result repair_check(unsigned action, const char *node, char *why, size_t room)
{
    char path[PATH_MAX];
    enum slurm_did is_free;

    if (kill_switch_is_on(path, sizeof(path))) {
        snprintf(why, room, "the kill switch is on: %.80s", path);
        return OUTCOME_REFUSED;
    }
    is_free = slurm_site_is_free(node, why, room);
    if (is_free != SLURM_DID)
        return is_free == SLURM_FAILED ? OUTCOME_FAILED : OUTCOME_NOT_EXECUTED;
    if (action == ACTION_RESET_GPU && gpu_held(&gpu_files_nvidia, why, room))
        return OUTCOME_NOT_EXECUTED;
    return OUTCOME_DONE;
}

static bool repair_device(const char *text, char ret[static 24])
{
    char *end;
    long long number = strtoll(text, &end, 10);

    if (*end || end == text || number < 0 || number > REPAIR_DEVICE_MAX)
        return false;
    snprintf(ret, 24, "%08llx:%02llx:%02llx.0", (unsigned long long)number >> 16,
             (unsigned long long)number >> 8 & 0xff, (unsigned long long)number & 0xff);
    return true;
}

static int node_repair_run(int argc, char **argv)
{
    struct node_repair_options options = { .action = "" };
    int first = opt_parse(&command_node_repair, argc, argv, &options);
    unsigned action = first < 0 ? 0 : action_of(options.action);
    enum outcome_result result;
    char gpu[24] = "", text[200] = "";

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc || !options.node || geteuid() != 0 ||
        (action != ACTION_REBOOT && action != ACTION_RESET_GPU) ||
        (action == ACTION_RESET_GPU && (!options.device || !repair_device(options.device, gpu)))) {
        log_error("this is started by root's 'lockstep agent --every-run' alone");
        return 2;
    }
    result = repair_check(action, options.node, text, sizeof(text));
    if (result == OUTCOME_DONE)
        result = repair_do(action, gpu, text, sizeof(text));
    printf("%s %s\n", outcome_result_name(result), text);
    return 0;
}

const struct command command_node_repair = {
    .name = "node-repair",
    .operands = "",
    .summary = "resets a GPU or reboots this node, started by 'lockstep agent --every-run'",
    .opt = node_repair_opts,
    .run = node_repair_run,
    .hidden = true,
};
