/* doctor_checks.c - the list of what lockstep wants to see, and how each is looked for. */
#include <ctype.h>
#include <dlfcn.h>
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
#include "cmd/doctor.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/ring.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void __attribute__((format(printf, 3, 4)))
found(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
{
    va_list args;

    finding->state = state;
    va_start(args, format);
    vsnprintf(finding->found, sizeof(finding->found), format, args);
    va_end(args);
}

static void __attribute__((format(printf, 2, 3)))
fix(struct doctor_finding *finding, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(finding->fix, sizeof(finding->fix), format, args);
    va_end(args);
}

/* The beginning of root/path as text without the last newline.  -errno. */
static int look_read(const char *root, const char *path, char *out, size_t room)
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

static void show_bytes(uint64_t bytes, char out[static 32])
{
    if (bytes >= 10 * GIB)
        snprintf(out, 32, "%" PRIu64 " GiB", bytes / GIB);
    else
        snprintf(out, 32, "%" PRIu64 " MiB", bytes / MIB);
}

/* The nearest folder that exists, at or above `path`: where a missing one would be made. */
static void nearest_existing(struct path *path)
{
    while (access(path->text, F_OK) < 0) {
        char *slash = strrchr(path->text, '/');

        if (!slash)
            break;
        slash[slash == path->text] = '\0';
        if (slash == path->text)
            break;
    }
}

static void look_state_directory(const char *root, struct doctor_finding *finding)
{
    struct path state, suggest;
    struct statvfs fs;
    struct err err;
    char room[32];

    (void)root;
    if (paths_state(&state, &err) < 0) {
        found(finding, DOCTOR_MISSING, "%s", err.text);
        fix(finding, "set LOCKSTEP_STATE to a folder that you may write to");
        return;
    }
    suggest = state;
    nearest_existing(&suggest);
    if (access(suggest.text, W_OK | X_OK) < 0 || statvfs(suggest.text, &fs) < 0) {
        found(finding, DOCTOR_MISSING, "%.160s: %m", suggest.text);
        fix(finding, "make %.120s writable, or set LOCKSTEP_STATE to another folder", suggest.text);
        return;
    }
    show_bytes((uint64_t)fs.f_bavail * fs.f_frsize, room);
    found(finding, DOCTOR_OK, "%.160s, %s free", state.text, room);
    if ((uint64_t)fs.f_bavail * fs.f_frsize < 256 * MIB) {
        finding->state = DOCTOR_LIMITED;
        fix(finding, "free some space, or set LOCKSTEP_STATE to a folder on a larger disk");
    }
}

static void look_rings(const char *root, struct doctor_finding *finding)
{
    const char *given = getenv("LOCKSTEP_DIR");
    uint64_t one = ring_file_bytes(RING_LANES_DEFAULT, RING_RECORDS_DEFAULT), left;
    struct path path;
    struct statvfs fs;
    struct err err;
    char room[32];

    (void)root;
    if (given && given[0])
        snprintf(path.text, sizeof(path.text), "%s", given);
    else if (paths_rings("run", 8 * one, &path, &err) < 0)
        return found(finding, DOCTOR_UNKNOWN, "%s", err.text);
    nearest_existing(&path);
    if (access(path.text, W_OK | X_OK) < 0 || statvfs(path.text, &fs) < 0) {
        found(finding, DOCTOR_MISSING, "%.160s: %m", path.text);
        fix(finding, "make it writable, or set LOCKSTEP_DIR to a folder that is");
        return;
    }
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    show_bytes(left, room);
    found(finding, DOCTOR_OK, "%.120s, %s free: room for %" PRIu64 " ranks", path.text, room,
          left / one);
    if (left / one >= 8 && (given || strncmp(path.text, "/dev/shm", 8) == 0))
        return;
    finding->state = DOCTOR_LIMITED;
    fix(finding,
        "make /dev/shm larger: mount -o remount,size=1G /dev/shm (a container: --shm-size=1g)");
}

static void look_processes(const char *root, struct doctor_finding *finding)
{
    char stat[512];
    int r = look_read(root, "/proc/self/stat", stat, sizeof(stat));

    if (r < 0) {
        found(finding, DOCTOR_MISSING, "/proc/self/stat: %s", strerror(-r));
        fix(finding, "mount /proc: mount -t proc proc /proc");
        return;
    }
    found(finding, DOCTOR_OK, "/proc is mounted");
}

static void look_run_delay(const char *root, struct doctor_finding *finding)
{
    char text[128];
    uint64_t cpu = 0, delay = 0;
    int r = look_read(root, "/proc/self/schedstat", text, sizeof(text));

    fix(finding,
        "a kernel with CONFIG_SCHED_INFO; until then a starved rank looks like a slow one");
    if (r < 0)
        return found(finding, DOCTOR_MISSING, "/proc/self/schedstat: %s", strerror(-r));
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &cpu, &delay) != 2 || cpu == 0)
        return found(finding, DOCTOR_MISSING, "/proc/self/schedstat counts nothing");
    fix(finding, "%s", "");
    found(finding, DOCTOR_OK, "/proc/PID/schedstat counts time on and waiting for a core");
    if (look_read(root, "/proc/sys/kernel/sched_schedstats", text, sizeof(text)) == 0 &&
        text[0] == '0')
        found(finding, DOCTOR_OK,
              "/proc/PID/schedstat counts (kernel.sched_schedstats 0 does not matter)");
}

/* cpu.stat of this process's own control group, version 2 or 1.  Inside a container the path in
 * /proc/self/cgroup may be the host's; then the mount's top is the container's group.
 */
static int read_cgroup_stat(const char *root, char *shown, size_t shown_room, char *out,
                            size_t room)
{
    static const char *const tops[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/cpu,cpuacct",
                                        "/sys/fs/cgroup/cpu" };
    char groups[4096];
    const char *line;
    int r = look_read(root, "/proc/self/cgroup", groups, sizeof(groups));

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
            if (look_read(root, shown, out, room) == 0 && strstr(out, "nr_throttled"))
                return 0;
        }
    }
    for (size_t i = 0; i < COUNT(tops); i++) {
        snprintf(shown, shown_room, "%s/cpu.stat", tops[i]);
        if (look_read(root, shown, out, room) == 0 && strstr(out, "nr_throttled"))
            return 0;
    }
    return -ENOENT;
}

static void look_throttling(const char *root, struct doctor_finding *finding)
{
    char stat[2048], shown[1024];
    const char *count;

    if (read_cgroup_stat(root, shown, sizeof(shown), stat, sizeof(stat)) < 0) {
        found(finding, DOCTOR_MISSING, "no cpu.stat with nr_throttled in /sys/fs/cgroup");
        fix(finding, "mount /sys/fs/cgroup with the cpu controller enabled for this group");
        return;
    }
    count = strstr(stat, "nr_throttled");
    found(finding, DOCTOR_OK, "%.160s: throttled %llu times so far", shown,
          strtoull(count + strlen("nr_throttled"), NULL, 10));
}

static void look_pressure(const char *root, struct doctor_finding *finding)
{
    char text[256];
    int r = look_read(root, "/proc/pressure/cpu", text, sizeof(text));

    if (r < 0) {
        found(finding, DOCTOR_MISSING, "/proc/pressure/cpu: %s", strerror(-r));
        fix(finding, "a kernel with CONFIG_PSI, started with psi=1");
        return;
    }
    found(finding, DOCTOR_OK, "/proc/pressure: %.*s", (int)strcspn(text, "\n"), text);
}

static void look_orphans(const char *root, struct doctor_finding *finding)
{
    int is = 0, fd;

    (void)root;
    if (prctl(PR_GET_CHILD_SUBREAPER, &is) < 0) {
        found(finding, DOCTOR_MISSING, "PR_GET_CHILD_SUBREAPER: %m");
        fix(finding, "a kernel of 3.4 or later, or a sandbox that lets prctl through");
        return;
    }
    fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0) {
        found(finding, DOCTOR_LIMITED, "subreaper yes, pidfd_open: %m");
        fix(finding, "a kernel of 5.3 or later");
        return;
    }
    close(fd);
    found(finding, DOCTOR_OK, "subreaper and pidfd work");
}

static void look_pid_namespace(const char *root, struct doctor_finding *finding)
{
    char status[4096], *line;
    unsigned levels = 0;

    if (look_read(root, "/proc/self/status", status, sizeof(status)) < 0 ||
        !(line = strstr(status, "\nNSpid:")))
        return found(finding, DOCTOR_UNKNOWN, "/proc/self/status does not say");
    for (line += strlen("\nNSpid:"); *line && *line != '\n'; line++)
        levels += isdigit((unsigned char)line[0]) && !isdigit((unsigned char)line[1]);
    if (levels == 1)
        return found(finding, DOCTOR_OK, "one pid for each process, as /proc shows it");
    found(finding, DOCTOR_OK, "%u pids for each process: an inner pid namespace", levels);
}

static void look_cores(const char *root, struct doctor_finding *finding)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t mask;
    int mine;

    (void)root;
    if (sched_getaffinity(0, sizeof(mask), &mask) < 0)
        return found(finding, DOCTOR_UNKNOWN, "sched_getaffinity: %m");
    mine = CPU_COUNT(&mask);
    found(finding, mine > 1 ? DOCTOR_OK : DOCTOR_LIMITED, "%d of %ld cores may be used", mine,
          online);
    if (mine <= 1)
        fix(finding, "give this process more cores: ranks and agent share this one");
}

/* What a clock read costs decides what an event costs; so it is measured, not guessed from a name. */
static int64_t clock_read_ns(void)
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

static void look_clock(const char *root, struct doctor_finding *finding)
{
    char name[64];
    int64_t cost = clock_read_ns();

    if (look_read(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
                  sizeof(name)) < 0)
        snprintf(name, sizeof(name), "unnamed");
    found(finding, cost <= 200 ? DOCTOR_OK : DOCTOR_LIMITED,
          "clock source %s, %" PRId64 " ns a read", name, cost);
    if (cost > 200)
        fix(finding,
            "a clock source that is read without a system call: tsc, if the host offers it");
}

static void look_stacks(const char *root, struct doctor_finding *finding)
{
    static const char *const words[] = { "any process of the same user", "only own children",
                                         "only with CAP_SYS_PTRACE", "nobody" };
    char text[16];
    int r = look_read(root, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
    unsigned scope = r == 0 ? (unsigned)(text[0] - '0') : 0;

    if (r == -ENOENT)
        return found(finding, DOCTOR_OK, "no Yama here: %s may be traced", words[0]);
    if (r < 0 || scope >= COUNT(words))
        return found(finding, DOCTOR_UNKNOWN, "ptrace_scope cannot be read");
    found(finding, scope == 0 ? DOCTOR_OK : DOCTOR_LIMITED, "ptrace_scope %u: %s may be traced",
          scope, words[scope]);
    if (scope > 0)
        fix(finding, "sysctl kernel.yama.ptrace_scope=0, or only ask about ranks of your own run");
}

static void look_kernel_log(const char *root, struct doctor_finding *finding)
{
    char text[1024];
    int r = look_read(root, "/dev/kmsg", text, sizeof(text));

    if (r == 0 || r == -EAGAIN || r == -EPIPE) /* EPIPE: overwritten while we read */
        return found(finding, DOCTOR_OK, "/dev/kmsg can be read");
    found(finding, r == -ENOENT ? DOCTOR_MISSING : DOCTOR_LIMITED, "/dev/kmsg: %s", strerror(-r));
    fix(finding,
        "run the agent with CAP_SYSLOG, or sysctl kernel.dmesg_restrict=0 and let the agent's "
        "group read /dev/kmsg");
}

static void look_locked_memory(const char *root, struct doctor_finding *finding)
{
    struct rlimit limit;
    char room[32];

    (void)root;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return found(finding, DOCTOR_UNKNOWN, "RLIMIT_MEMLOCK: %m");
    if (limit.rlim_cur == RLIM_INFINITY)
        return found(finding, DOCTOR_OK, "no limit");
    show_bytes(limit.rlim_cur, room);
    found(finding, DOCTOR_LIMITED, "%s", room);
    fix(finding,
        "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service that starts the job");
}

static void look_nvml(const char *root, struct doctor_finding *finding)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    char version[256];

    if (library) {
        dlclose(library);
        return found(finding, DOCTOR_OK, "libnvidia-ml.so.1 is there");
    }
    if (look_read(root, "/proc/driver/nvidia/version", version, sizeof(version)) == 0) {
        found(finding, DOCTOR_MISSING, "a driver without libnvidia-ml.so.1");
        fix(finding, "install libnvidia-ml1 (a container: the runtime's 'utility' capability)");
        return;
    }
    found(finding, DOCTOR_MISSING, "no libnvidia-ml.so.1 and no NVIDIA driver");
}

/* The first python3 on PATH, without running it. */
static int find_python(struct path *ret)
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
static int find_torch(const struct path *python, char *version, size_t room)
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

static void look_torch(const char *root, struct doctor_finding *finding)
{
    struct path python;
    char version[64];

    (void)root;
    if (find_python(&python) < 0)
        return found(finding, DOCTOR_MISSING, "no python3 on PATH");
    if (find_torch(&python, version, sizeof(version)) < 0)
        return found(finding, DOCTOR_MISSING, "no torch beside %.120s", python.text);
    found(finding, DOCTOR_OK, "torch %s beside %.120s", version, python.text);
}

static void look_nccl(const char *root, struct doctor_finding *finding)
{
    const char *other = getenv("NCCL_PROFILER_PLUGIN"), *mode = getenv("LOCKSTEP_NCCL");
    struct attach attach;

    (void)root;
    attach_find(&attach);
    if (other) {
        found(finding, DOCTOR_MISSING, "NCCL_PROFILER_PLUGIN is %.120s, and NCCL has one plugin",
              other);
        fix(finding, "unset NCCL_PROFILER_PLUGIN: lockstep run names ours then");
    } else if (attach.nccl_plugin[0] == '\0') {
        found(finding, DOCTOR_MISSING, "%s",
              mode && strcmp(mode, "off") == 0 ? "LOCKSTEP_NCCL=off"
                                               : "no liblockstep.so.0 beside this program, or "
                                                 "LOCKSTEP_ATTACH=0");
    } else {
        found(finding, DOCTOR_OK, "%.160s, for NCCL 2.27 and later", attach.nccl_plugin);
    }
}

static void look_open_files(const char *root, struct doctor_finding *finding)
{
    struct rlimit limit;

    (void)root;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return found(finding, DOCTOR_UNKNOWN, "RLIMIT_NOFILE: %m");
    found(finding, limit.rlim_cur >= 256 ? DOCTOR_OK : DOCTOR_LIMITED, "%llu at a time",
          (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur < 256)
        fix(finding, "ulimit -n 1024: each rank takes about eight");
}

const struct doctor_check doctor_checks[] = {
    { "state directory", "runs, their logs and verdicts are kept there", true,
      look_state_directory },
    { "rings", "each rank writes what it does into a file there", true, look_rings },
    { "process state", "who runs, who is stopped, who is gone", true, look_processes },
    { "orphans", "no process of a job may outlive it", true, look_orphans },
    { "run delay", "tells a rank that waits for a core from one that is slow", false,
      look_run_delay },
    { "CPU throttling", "tells a CPU quota from slow code", false, look_throttling },
    { "pressure", "tells a starved node from a slow one", false, look_pressure },
    { "pid namespace", "agent and ranks must mean the same process by a pid", false,
      look_pid_namespace },
    { "cores", "ranks that share cores disturb each other", false, look_cores },
    { "clock", "an event in a rank costs little more than a clock read", false, look_clock },
    { "stacks", "what a hung rank is doing, line by line", false, look_stacks },
    { "kernel log", "GPU errors (Xid), OOM kills and link resets are written there", false,
      look_kernel_log },
    { "locked memory", "pinned buffers of GPU and network libraries", false, look_locked_memory },
    { "open files", "each rank takes a few", false, look_open_files },
    { "NVIDIA management", "clocks, temperatures, ECC and throttling of GPUs", false, look_nvml },
    { "NCCL plugin", "when collectives begin and end on a GPU, by which algorithm and channels",
      false, look_nccl },
    { "torch", "the Python hooks go into this one", false, look_torch },
};
const size_t doctor_check_count = COUNT(doctor_checks);
