/* doctor_checks.c - the list of what lockstep wants to see, and how each is looked for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "act/attach.h"
#include "base/paths.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/doctor_gpu.h"
#include "cmd/doctor/doctor_trial.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/ring.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void __attribute__((format(printf, 3, 4)))
doctor_found(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
{
    va_list args;

    finding->state = state;
    va_start(args, format);
    vsnprintf(finding->found, sizeof(finding->found), format, args);
    va_end(args);
}

static void __attribute__((format(printf, 2, 3)))
doctor_fix(struct doctor_finding *finding, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(finding->fix, sizeof(finding->fix), format, args);
    va_end(args);
}

/* The beginning of root/path as text without the last newline.  -errno. */
static int doctor_look_read(const char *root, const char *path, char *out, size_t room)
{
    struct path full;
    CLEAN(fd_clean) int fd = -1;
    ssize_t size;

    snprintf(full.text, sizeof(full.text), "%s%s", root, path);
    fd = open(full.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    size = read(fd, out, room - 1);
    if (size < 0)
        return -errno;
    if (size > 0 && out[size - 1] == '\n')
        size--;
    out[size] = '\0';
    return 0;
}

static void doctor_show_bytes(uint64_t bytes, char out[static 32])
{
    if (bytes >= 10 * GIB)
        snprintf(out, 32, "%" PRIu64 " GiB", bytes / GIB);
    else
        snprintf(out, 32, "%" PRIu64 " MiB", bytes / MIB);
}

static uint64_t doctor_free_bytes(const char *directory)
{
    struct path path;
    struct statvfs fs;

    snprintf(path.text, sizeof(path.text), "%s", directory);
    doctor_trial_existing(&path);
    return statvfs(path.text, &fs) < 0 ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void doctor_look_state_directory(const char *root, struct doctor_finding *finding)
{
    struct doctor_trial trial = { { "" }, { "" }, { "" }, { "" } };
    struct path state;
    struct err err = { "" };
    char room[32];
    uint64_t left;

    (void)root;
    if (doctor_trial_run(&trial, &err) < 0)
        return doctor_found(finding, DOCTOR_UNKNOWN, "%s", err.text);
    if (trial.directory_trouble.text[0] || paths_state(&state, &err) < 0) {
        bool elsewhere = trial.directory.text[0] != '\0';

        doctor_found(finding, elsewhere ? DOCTOR_LIMITED : DOCTOR_MISSING, "%.200s",
                     trial.directory_trouble.text);
        doctor_fix(
            finding, "set LOCKSTEP_STATE to a directory that you can write to; until then %s",
            elsewhere ? "each run is recorded in a temporary directory, which 'lockstep run' names"
                      : "'lockstep run' starts jobs, but watches and records nothing");
        return;
    }
    left = doctor_free_bytes(state.text);
    doctor_show_bytes(left, room);
    doctor_found(finding, left < 256 * MIB ? DOCTOR_LIMITED : DOCTOR_OK, "%.160s, %s free",
                 state.text, room);
    if (left < 256 * MIB)
        doctor_fix(finding,
                   "free some space, or set LOCKSTEP_STATE to a directory on a larger disk");
}

/* Ranks of other launchers have LOCKSTEP_DIR from whoever set it; 'lockstep run' sets it itself. */
static bool doctor_look_given_rings(struct doctor_finding *finding)
{
    const char *given = getenv("LOCKSTEP_DIR");
    struct err err = { "" };

    if (!given || !given[0] || doctor_trial_directory(given, &err) == 0)
        return false;
    doctor_found(finding, DOCTOR_LIMITED, "LOCKSTEP_DIR: %.180s", err.text);
    doctor_fix(finding,
               "unset LOCKSTEP_DIR or make it writable; 'lockstep run' does not use it, other "
               "launchers pass it to their ranks");
    return true;
}

static void doctor_look_rings(const char *root, struct doctor_finding *finding)
{
    uint64_t one = ring_file_bytes(RING_LANES_DEFAULT, RING_RECORDS_DEFAULT, RING_STAMPS_DEFAULT),
             left;
    struct doctor_trial trial = { { "" }, { "" }, { "" }, { "" } };
    struct err err = { "" };
    char room[32];

    (void)root;
    if (doctor_look_given_rings(finding))
        return;
    if (doctor_trial_run(&trial, &err) < 0)
        return doctor_found(finding, DOCTOR_UNKNOWN, "%s", err.text);
    if (!trial.rings.text[0]) {
        doctor_found(finding, DOCTOR_MISSING, "%.200s",
                     trial.rings_trouble.text[0] ? trial.rings_trouble.text
                                                 : "no directory for rings can be made");
        doctor_fix(finding, "make /dev/shm or /tmp writable for this user");
        return;
    }
    left = doctor_free_bytes(trial.rings.text);
    doctor_show_bytes(left, room);
    doctor_found(finding, DOCTOR_OK, "%.120s, %s free: enough for %" PRIu64 " ranks",
                 trial.rings.text, room, left / one);
    if (trial.rings_trouble.text[0])
        doctor_found(finding, DOCTOR_LIMITED, "%.100s; rings go to %.80s", trial.rings_trouble.text,
                     trial.rings.text);
    else if (left / one < 8)
        finding->state = DOCTOR_LIMITED;
    if (finding->state == DOCTOR_LIMITED)
        doctor_fix(finding,
                   "make /dev/shm larger: mount -o remount,size=1G /dev/shm (in a container: "
                   "--shm-size=1g)");
}

static void doctor_look_processes(const char *root, struct doctor_finding *finding)
{
    char stat[512];
    int r = doctor_look_read(root, "/proc/self/stat", stat, sizeof(stat));

    if (r < 0) {
        doctor_found(finding, DOCTOR_MISSING, "/proc/self/stat: %s", strerror(-r));
        doctor_fix(finding, "mount it: mount -t proc proc /proc");
        return;
    }
    doctor_found(finding, DOCTOR_OK, "/proc is mounted");
}

static void doctor_look_run_delay(const char *root, struct doctor_finding *finding)
{
    char text[128];
    uint64_t cpu = 0, delay = 0;
    int r = doctor_look_read(root, "/proc/self/schedstat", text, sizeof(text));

    doctor_fix(
        finding,
        "use a kernel with CONFIG_SCHED_INFO; until then a rank that waits for a core looks slow");
    if (r < 0)
        return doctor_found(finding, DOCTOR_MISSING, "/proc/self/schedstat: %s", strerror(-r));
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &cpu, &delay) != 2 || cpu == 0)
        return doctor_found(finding, DOCTOR_MISSING, "/proc/self/schedstat contains no times");
    doctor_fix(finding, "%s", "");
    doctor_found(finding, DOCTOR_OK,
                 "/proc/PID/schedstat has the time on a core and the time waiting for one");
    if (doctor_look_read(root, "/proc/sys/kernel/sched_schedstats", text, sizeof(text)) == 0 &&
        text[0] == '0')
        doctor_found(finding, DOCTOR_OK,
                     "/proc/PID/schedstat has both times; kernel.sched_schedstats may stay 0");
}

/* cpu.stat of this process's own control group, version 2 or 1.  Inside a container the path in
 * /proc/self/cgroup may be the host's; then the mount's top is the container's group.
 */
static int doctor_read_cgroup_stat(const char *root, char *shown, size_t shown_room, char *out,
                                   size_t room)
{
    static const char *const tops[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/cpu,cpuacct",
                                        "/sys/fs/cgroup/cpu" };
    char groups[4096];
    const char *line;
    int r = doctor_look_read(root, "/proc/self/cgroup", groups, sizeof(groups));

    if (r < 0)
        groups[0] = '\0';
    for (line = groups; line && *line; line = strchr(line, '\n')) {
        const char *path;

        line += *line == '\n';
        path = strchr(line, ':');
        path = path ? strchr(path + 1, ':') : NULL;
        for (size_t i = 0; path && i < COUNT(tops); i++) {
            int size = (int)strcspn(path + 1, "\n");

            size -= size == 1; /* the top is "/" */
            snprintf(shown, shown_room, "%s%.*s/cpu.stat", tops[i], size, path + 1);
            if (doctor_look_read(root, shown, out, room) == 0 && strstr(out, "nr_throttled"))
                return 0;
        }
    }
    for (size_t i = 0; i < COUNT(tops); i++) {
        snprintf(shown, shown_room, "%s/cpu.stat", tops[i]);
        if (doctor_look_read(root, shown, out, room) == 0 && strstr(out, "nr_throttled"))
            return 0;
    }
    return -ENOENT;
}

static void doctor_look_throttling(const char *root, struct doctor_finding *finding)
{
    char stat[2048], shown[1024];
    const char *count;

    if (doctor_read_cgroup_stat(root, shown, sizeof(shown), stat, sizeof(stat)) < 0) {
        doctor_found(finding, DOCTOR_MISSING, "no cpu.stat with nr_throttled in /sys/fs/cgroup");
        doctor_fix(finding, "mount /sys/fs/cgroup with the cpu controller enabled for this group");
        return;
    }
    count = strstr(stat, "nr_throttled");
    doctor_found(finding, DOCTOR_OK, "%.160s: throttled %llu times so far", shown,
                 strtoull(count + strlen("nr_throttled"), NULL, 10));
}

static void doctor_look_pressure(const char *root, struct doctor_finding *finding)
{
    char text[256];
    int r = doctor_look_read(root, "/proc/pressure/cpu", text, sizeof(text));

    if (r < 0) {
        doctor_found(finding, DOCTOR_MISSING, "/proc/pressure/cpu: %s", strerror(-r));
        doctor_fix(finding,
                   "nothing needs it; a kernel with CONFIG_PSI, started with psi=1, has it");
        return;
    }
    doctor_found(finding, DOCTOR_OK, "/proc/pressure: %.*s", (int)strcspn(text, "\n"), text);
}

static void doctor_look_orphans(const char *root, struct doctor_finding *finding)
{
    int is = 0, fd;

    (void)root;
    if (prctl(PR_GET_CHILD_SUBREAPER, &is) < 0) {
        doctor_found(finding, DOCTOR_MISSING, "PR_GET_CHILD_SUBREAPER: %m");
        doctor_fix(finding, "use Linux 3.4 or later, or a sandbox that permits prctl");
        return;
    }
    fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0) {
        doctor_found(finding, DOCTOR_LIMITED, "child subreaper works, pidfd_open fails: %m");
        doctor_fix(finding,
                   "use Linux 5.3 or later, or a sandbox that permits pidfd_open; until then a "
                   "reused pid may get a signal");
        return;
    }
    close(fd);
    doctor_found(finding, DOCTOR_OK, "child subreaper and pidfd work");
}

static void doctor_look_pid_namespace(const char *root, struct doctor_finding *finding)
{
    char status[4096], *line;
    unsigned levels = 0;

    if (doctor_look_read(root, "/proc/self/status", status, sizeof(status)) < 0 ||
        !(line = strstr(status, "\nNSpid:"))) {
        doctor_fix(finding, "run lockstep and the job in the same container");
        return doctor_found(finding, DOCTOR_UNKNOWN, "/proc/self/status has no line NSpid");
    }
    for (line += strlen("\nNSpid:"); *line && *line != '\n'; line++)
        levels += isdigit((unsigned char)line[0]) && !isdigit((unsigned char)line[1]);
    if (levels == 1)
        return doctor_found(finding, DOCTOR_OK, "processes have one pid");
    doctor_found(finding, DOCTOR_OK, "processes have %u pids: this is an inner pid namespace",
                 levels);
}

static void doctor_look_cores(const char *root, struct doctor_finding *finding)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t mask;
    int mine;

    (void)root;
    if (sched_getaffinity(0, sizeof(mask), &mask) < 0)
        return doctor_found(finding, DOCTOR_UNKNOWN, "sched_getaffinity: %m");
    mine = CPU_COUNT(&mask);
    doctor_found(finding, mine > 1 ? DOCTOR_OK : DOCTOR_LIMITED, "%d of %ld cores may be used",
                 mine, online);
    if (mine <= 1)
        doctor_fix(finding, "give this process more cores: ranks and agent share one");
}

/* What a clock read costs decides what an event costs; so it is measured, not guessed from a name. */
static int64_t doctor_clock_read_ns(void)
{
    int64_t best = INT64_MAX;

    for (int batch = 0; batch < 20; batch++) {
        int64_t begin = time_mono_ns();

        for (int i = 0; i < 98; i++)
            time_mono_ns();
        best = MIN(best, (time_mono_ns() - begin) / 99);
    }
    return best;
}

static void doctor_look_clock(const char *root, struct doctor_finding *finding)
{
    char name[64];
    int64_t cost = doctor_clock_read_ns();

    if (doctor_look_read(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                         name, sizeof(name)) < 0)
        snprintf(name, sizeof(name), "unnamed");
    doctor_found(finding, cost <= 200 ? DOCTOR_OK : DOCTOR_LIMITED,
                 "clock source %s, one read takes %" PRId64 " ns", name, cost);
    if (cost > 200)
        doctor_fix(
            finding,
            "select a clock source that needs no system call, such as tsc, if the host has it");
}

/* CAP_SYS_PTRACE, by the mask of /proc/self/status. */
static bool doctor_may_trace_all(const char *root)
{
    char status[4096];
    const char *line;

    if (doctor_look_read(root, "/proc/self/status", status, sizeof(status)) < 0)
        return false;
    line = strstr(status, "\nCapEff:");
    return line && (strtoull(line + strlen("\nCapEff:"), NULL, 16) >> 19 & 1);
}

static void doctor_look_stacks(const char *root, struct doctor_finding *finding)
{
    static const char *const words[] = { "the processes of this user can be read",
                                         "only own children can be read",
                                         "only root can read processes",
                                         "no process can read another one" };
    char text[16];
    int r = doctor_look_read(root, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
    unsigned scope = r == 0 ? (unsigned)(text[0] - '0') : 0;

    if (r == -ENOENT)
        return doctor_found(finding, DOCTOR_OK, "no Yama: %s", words[0]);
    if (r < 0 || scope >= COUNT(words)) {
        doctor_fix(finding, "try 'lockstep stacks' on a run of your own");
        return doctor_found(finding, DOCTOR_UNKNOWN, "kernel.yama.ptrace_scope cannot be read");
    }
    if (scope < 3 && doctor_may_trace_all(root))
        return doctor_found(finding, DOCTOR_OK, "ptrace_scope %u, but this user has CAP_SYS_PTRACE",
                            scope);
    doctor_found(finding, scope == 0 ? DOCTOR_OK : DOCTOR_LIMITED, "ptrace_scope %u: %s", scope,
                 words[scope]);
    if (scope > 0)
        doctor_fix(finding, "sysctl kernel.yama.ptrace_scope=0, or run 'lockstep stacks' as root");
}

static void doctor_look_kernel_log(const char *root, struct doctor_finding *finding)
{
    char text[1024];
    int r = doctor_look_read(root, "/dev/kmsg", text, sizeof(text));

    if (r == 0 || r == -EAGAIN || r == -EPIPE) /* EPIPE: overwritten while we read */
        return doctor_found(finding, DOCTOR_OK, "/dev/kmsg can be read");
    doctor_found(finding, r == -ENOENT ? DOCTOR_MISSING : DOCTOR_LIMITED, "/dev/kmsg: %s",
                 strerror(-r));
    doctor_fix(finding,
               "nothing while a job runs; after a failure ask root for the output of 'dmesg -T' "
               "and store it "
               "in the run's directory");
}

static void doctor_look_locked_memory(const char *root, struct doctor_finding *finding)
{
    struct rlimit limit;
    char room[32];

    (void)root;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return doctor_found(finding, DOCTOR_UNKNOWN, "RLIMIT_MEMLOCK cannot be read: %m");
    if (limit.rlim_cur == RLIM_INFINITY)
        return doctor_found(finding, DOCTOR_OK, "no limit");
    doctor_show_bytes(limit.rlim_cur, room);
    doctor_found(finding, DOCTOR_LIMITED, "at most %s for a process", room);
    doctor_fix(finding,
               "for jobs on GPUs or InfiniBand: ulimit -l unlimited, or LimitMEMLOCK=infinity in "
               "the service "
               "that starts the job");
}

static void doctor_look_nvml_missing(const char *root, struct doctor_finding *finding)
{
    char version[256];

    if (doctor_look_read(root, "/proc/driver/nvidia/version", version, sizeof(version)) == 0) {
        doctor_found(finding, DOCTOR_MISSING,
                     "an NVIDIA driver is loaded, but libnvidia-ml.so.1 is not installed");
        doctor_fix(
            finding,
            "install libnvidia-ml1 (in a container: the capability 'utility' of the runtime)");
        return;
    }
    doctor_found(finding, DOCTOR_MISSING, "no NVIDIA driver");
    doctor_fix(finding, "nothing to do on a machine without GPUs");
}

static void doctor_look_nvml(const char *root, struct doctor_finding *finding)
{
    struct doctor_gpus gpus;
    struct err err = { "" };
    int result = doctor_gpus_look(&gpus, &err);

    if (result == -ENOENT)
        return doctor_look_nvml_missing(root, finding);
    if (result < 0) {
        doctor_found(finding, DOCTOR_UNKNOWN, "%s", err.text);
        doctor_fix(finding,
                   "nvidia-smi shows more; a GPU that does not answer needs a reset or a reboot");
        return;
    }
    doctor_found(finding, gpus.bad ? DOCTOR_LIMITED : DOCTOR_OK, "driver %s, %u GPU%s%s%s",
                 gpus.driver, gpus.count, gpus.count == 1 ? "" : "s", gpus.name[0] ? ", " : "",
                 gpus.name);
    if (!gpus.bad)
        return;
    doctor_found(finding, DOCTOR_LIMITED, "%u of %u GPUs not healthy, first GPU %u: %s", gpus.bad,
                 gpus.count, gpus.first_bad, gpus.why);
    doctor_fix(finding, "run no job on it; nvidia-smi -q -i %u shows more", gpus.first_bad);
}

/* The first python3 on PATH, without running it. */
static int doctor_find_python(struct path *ret)
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t size = strcspn(at, ":");

        snprintf(ret->text, sizeof(ret->text), "%.*s/python3", (int)size, at);
        if (access(ret->text, X_OK) == 0)
            return 0;
        at += size + (at[size] == ':');
    }
    return -ENOENT;
}

/* Where that python3 looks for packages, as patterns below its prefix. */
static int doctor_find_torch(const struct path *python, char *version, size_t room)
{
    static const char *const places[] = {
        "lib/python3*/site-packages",   "lib/python3*/dist-packages",
        "lib/python3/dist-packages",    "local/lib/python3*/dist-packages",
        "lib64/python3*/site-packages",
    };
    int size = (int)(strlen(python->text) - strlen("/bin/python3"));

    for (size_t i = 0; size >= 0 && i < COUNT(places); i++) {
        struct path pattern;
        glob_t match = { 0 };
        const char *name;
        bool is;

        snprintf(pattern.text, sizeof(pattern.text), "%.*s/%s/torch-*-info", size, python->text,
                 places[i]);
        is = glob(pattern.text, GLOB_NOSORT, NULL, &match) == 0;
        if (is) {
            name = strrchr(match.gl_pathv[0], '/') + strlen("/torch-");
            snprintf(version, room, "%.*s", (int)strcspn(name, "-"), name);
            if (strstr(version, ".dist"))
                *strstr(version, ".dist") = '\0';
        }
        globfree(&match);
        if (is)
            return 0;
    }
    return -ENOENT;
}

static void doctor_look_torch(const char *root, struct doctor_finding *finding)
{
    struct path python;
    char version[64];

    (void)root;
    doctor_fix(
        finding,
        "for PyTorch jobs: put the python3 that has torch first on PATH, then run this again");
    if (doctor_find_python(&python) < 0)
        return doctor_found(finding, DOCTOR_MISSING, "no python3 on PATH");
    if (doctor_find_torch(&python, version, sizeof(version)) < 0)
        return doctor_found(finding, DOCTOR_MISSING, "%.120s has no torch", python.text);
    doctor_fix(finding, "%s", "");
    doctor_found(finding, DOCTOR_OK, "torch %s of %.120s", version, python.text);
}

static void doctor_look_nccl(const char *root, struct doctor_finding *finding)
{
    const char *other = getenv("NCCL_PROFILER_PLUGIN"), *mode = getenv("LOCKSTEP_NCCL");
    struct attach attach;

    (void)root;
    attach_find(&attach);
    if (other && strcmp(other, "none") == 0) {
        doctor_found(finding, DOCTOR_MISSING, "NCCL_PROFILER_PLUGIN is none: NCCL loads no plugin");
        doctor_fix(
            finding,
            "unset NCCL_PROFILER_PLUGIN; 'lockstep run' then sets it to the one of lockstep");
    } else if (attach.nccl_next) {
        doctor_found(finding, DOCTOR_OK, "%.120s, for NCCL 2.26 and later; it calls %.60s as well",
                     attach.nccl_plugin, attach.nccl_next);
    } else if (attach.nccl_plugin[0] == '\0') {
        bool off = mode && strcmp(mode, "off") == 0;

        doctor_found(finding, DOCTOR_MISSING, "%s",
                     off ? "LOCKSTEP_NCCL is off"
                         : "liblockstep.so.0 is not beside this program, or LOCKSTEP_ATTACH is 0");
        doctor_fix(
            finding, "%s",
            off ? "unset LOCKSTEP_NCCL"
                : "install lockstep with its library ('make install'), and unset LOCKSTEP_ATTACH");
    } else {
        doctor_found(finding, DOCTOR_OK, "%.160s, for NCCL 2.26 and later", attach.nccl_plugin);
    }
}

static void doctor_look_open_files(const char *root, struct doctor_finding *finding)
{
    struct rlimit limit;

    (void)root;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return doctor_found(finding, DOCTOR_UNKNOWN, "RLIMIT_NOFILE cannot be read: %m");
    doctor_found(finding, limit.rlim_cur >= 256 ? DOCTOR_OK : DOCTOR_LIMITED,
                 "at most %llu for a process", (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur < 256)
        doctor_fix(finding, "ulimit -n 1024");
}

const struct doctor_check doctor_checks[] = {
    { "state directory", "runs, their logs and verdicts are stored there", true,
      doctor_look_state_directory },
    { "rings", "each rank writes its events into a file there", true, doctor_look_rings },
    { "process state", "shows which ranks run, are stopped or have ended", true,
      doctor_look_processes },
    { "orphans", "ends processes that a job leaves behind", true, doctor_look_orphans },
    { "run delay", "distinguishes a rank that waits for a core from a slow one", false,
      doctor_look_run_delay },
    { "CPU throttling", "distinguishes a CPU quota from slow code", false, doctor_look_throttling },
    { "pressure", "shows that processes of the node wait for CPU, memory or disks", false,
      doctor_look_pressure },
    { "pid namespace", "the agent finds the process of a rank by its pid", false,
      doctor_look_pid_namespace },
    { "cores", "ranks that share a core slow each other down", false, doctor_look_cores },
    { "clock", "a rank reads the clock for each event", false, doctor_look_clock },
    { "stacks", "show which function a stuck rank executes", false, doctor_look_stacks },
    { "kernel log",
      "explains crashes by GPU errors (Xid), OOM kills and link resets; 'lockstep why' reads saved "
      "copies",
      false, doctor_look_kernel_log },
    { "locked memory", "GPU and network libraries lock buffers in memory", false,
      doctor_look_locked_memory },
    { "open files", "the launcher needs about eight for each rank", false, doctor_look_open_files },
    { "GPUs", "which GPUs are here, and whether each one answers", false, doctor_look_nvml },
    { "NCCL plugin", "reports when collectives begin and end on a GPU, and how they are moved",
      false, doctor_look_nccl },
    { "torch", "the steps and collectives of PyTorch jobs are recorded by hooks in it", false,
      doctor_look_torch },
};
const size_t doctor_check_count = COUNT(doctor_checks);
