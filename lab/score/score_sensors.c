/* score_sensors.c - the files of a node that change while a job runs on it, and what in them must not be taken for a cause.
 *
 * The agents of the run read a made tree instead of /proc and /sys.  A process of ours plays the kernel: counters grow, and
 * after a while one thing fails, which explains what the ranks suffer from.  In every tree there are innocent findings,
 * too: a port that carries no data and goes down again and again, an Xid of another process, CPUs that were throttled and
 * memory errors that were corrected before the job began.  GPUs are those of a scripted NVML, which only a build directory has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/remove_tree.h"
#include "base/sibling.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/score/score_private.h"

#define ONSET 20
#define FAILS_TICK 8 /* when it fails; every sensor has read the tree before */
#define TICK_NS (500 * NS_PER_MS)
#define GPU "sys/bus/pci/devices/0000:3b:00.0"
#define USED "sys/class/infiniband/mlx5_0/ports/1"
#define UNUSED "sys/class/infiniband/mlx5_1/ports/1"
#define GPU_SCRIPT "gpus.script"
#define MEMORY "sys/devices/system/edac/mc/mc0"

static const struct sensors_script {
    const char *name;
    enum fault_id fault;
    double factor;
    uint32_t nodes, steps;
} sensors_scripts[] = {
    [SCORE_SENSORS_WIDTH] = { "PCIe width falls", FAULT_GPU_SLOW, 1.5, 1, 260 },
    [SCORE_SENSORS_PORT] = { "port goes down", FAULT_FROZEN_LINK, 0, 2, 110 },
    [SCORE_SENSORS_DISK] = { "disk becomes slow", FAULT_SLOW_INPUT, 2, 1, 160 },
    [SCORE_SENSORS_MEMORY] = { "memory errors", FAULT_KILL, 0, 1, 140 },
    [SCORE_SENSORS_OTHERS] = { "innocent findings", FAULT_GPU_SLOW, 1.5, 1, 160 },
    [SCORE_SENSORS_CLOCK] = { "GPU clock falls", FAULT_GPU_SLOW, 1.5, 1, 260 },
    [SCORE_SENSORS_ECC] = { "GPU memory errors", FAULT_KILL, 0, 1, 140 },
};
_Static_assert(COUNT(sensors_scripts) == SCORE_SENSORS_COUNT, "a row for each");

static int sensors_which(const struct fault *fault)
{
    for (int i = 0; i < SCORE_SENSORS_COUNT; i++) {
        if (fault->set & (1u << (SCORE_SENSORS_BIT + i)))
            return i;
    }
    return -1;
}

const char *score_sensors_name(const struct fault *fault)
{
    int which = sensors_which(fault);

    return which < 0 ? NULL : sensors_scripts[which].name;
}

static bool sensors_library(struct path *ret)
{
    struct path here;

    return sibling_directory(&here, NULL) == 0 &&
           path_join(ret, here.text, "src/device/libnvidia-ml.so.1", NULL) == 0 &&
           access(ret->text, R_OK) == 0;
}

void score_sensors_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    struct path library;
    uint32_t count = sensors_library(&library) ? SCORE_SENSORS_COUNT : SCORE_SENSORS_CLOCK;
    uint32_t which = number % count, round = number / count;
    const struct sensors_script *script = &sensors_scripts[which];

    score_layout(at, rand, script->fault, 4);
    at->nodes = script->nodes;
    at->steps = script->steps;
    at->fault = (struct fault){ .kind = score_kind(script->fault),
                                .set = FAULT_STEP | FAULT_RANK | 1u << (SCORE_SENSORS_BIT + which),
                                .step = script->fault == FAULT_KILL          ? script->steps - 14
                                        : script->fault == FAULT_FROZEN_LINK ? script->steps - 40
                                                                             : ONSET,
                                .rank = score_place(which + round, at->ranks) };
    if (script->factor > 0) {
        at->fault.set |= FAULT_FACTOR;
        at->fault.factor = script->factor;
    }
}

/* ---- the tree ---- */

static void sensors_put(const struct sensors_scene *scene, const char *path, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));

static void sensors_put(const struct sensors_scene *scene, const char *path, const char *format,
                        ...)
{
    va_list args;
    char full[PATH_MAX + 128];
    FILE *file;

    snprintf(full, sizeof(full), "%s/%s", scene->tree, path);
    for (char *slash = strchr(full + strlen(scene->tree) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    file = fopen(full, "we");
    if (!file)
        return; /* and the case fails, which says so */
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

/* An old error of GPU 1 is in all of them. */
static void sensors_gpus(const struct sensors_scene *scene, const char *more)
{
    sensors_put(scene, GPU_SCRIPT,
                "nvml.count value 4\nnvml.1.ecc-uncorrected value 3\n"
                "nvml.1.ecc-corrected value 5000\n%s",
                more);
}

static void sensors_driver(const struct sensors_scene *scene)
{
    char path[PATH_MAX + 64];
    struct path library;

    sensors_gpus(scene, "");
    if (!sensors_library(&library))
        return;
    sensors_put(scene, "usr/lib/.keep", "%s", "");
    snprintf(path, sizeof(path), "%s/usr/lib/libnvidia-ml.so.1", scene->tree);
    if (symlink(library.text, path) < 0)
        return; /* and the case fails, which says so */
    snprintf(path, sizeof(path), "%s/" GPU_SCRIPT, scene->tree);
    setenv("LOCKSTEP_FAKE_DEVICE", path, 1);
}

static void sensors_make(const struct sensors_scene *scene)
{
    static const struct {
        const char *path, *text;
    } files[] = {
        { GPU "/class", "0x030200\n" },
        { GPU "/vendor", "0x10de\n" },
        { GPU "/current_link_width", "16\n" },
        { GPU "/max_link_width", "16\n" },
        { USED "/state", "4: ACTIVE\n" },
        { USED "/rate", "400 Gb/sec (4X NDR)\n" },
        { UNUSED "/state", "4: ACTIVE\n" },
        { UNUSED "/rate", "400 Gb/sec (4X NDR)\n" },
        { UNUSED "/counters/port_xmit_data", "1000\n" },
        { UNUSED "/counters/link_downed", "17\n" },
        { MEMORY "/ue_count", "0\n" },
        { MEMORY "/ce_count", "4711\n" },
        { "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "987654\n" },
        { "sys/block/nvme0n1/queue/rotational", "0\n" },
        { "sys/class/nvme/nvme0/state", "live\n" },
        { "proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n" },
    };

    for (size_t i = 0; i < COUNT(files); i++)
        sensors_put(scene, files[i].path, "%s", files[i].text);
    sensors_driver(scene);
}

/* What grows on every node, and a port that nobody uses and that never stays up. */
static void sensors_usual(const struct sensors_scene *scene, long long tick, bool slow)
{
    long long late = slow ? tick - FAILS_TICK + 1 : 0; /* ticks in which a request took 900 ms */
    long long ms = 60 * (tick + 900 * late);

    sensors_put(scene, USED "/counters/port_xmit_data", "%lld\n", 1000 + tick * (1 << 22));
    sensors_put(scene, UNUSED "/state", "%s", tick / 4 % 2 ? "1: DOWN\n" : "4: ACTIVE\n");
    sensors_put(scene, UNUSED "/counters/link_downed", "%lld\n", 17 + tick / 8);
    sensors_put(scene, "proc/diskstats", " 259 0 nvme0n1 %lld 0 800 %lld 100 0 800 50 0 100 100\n",
                100 + tick * 60, 50 + ms);
}

static void sensors_fail(const struct sensors_scene *scene, int which)
{
    if (which == SCORE_SENSORS_CLOCK)
        sensors_gpus(scene, "nvml.2.reasons value 64\nnvml.2.sm-clock value 1095\n"
                            "nvml.2.temperature value 91\n");
    if (which == SCORE_SENSORS_ECC)
        sensors_gpus(scene, "nvml.2.ecc-uncorrected value 2\n");
    if (which == SCORE_SENSORS_WIDTH)
        sensors_put(scene, GPU "/current_link_width", "4\n");
    if (which == SCORE_SENSORS_PORT)
        sensors_put(scene, USED "/state", "1: DOWN\n");
    if (which == SCORE_SENSORS_MEMORY)
        sensors_put(scene, MEMORY "/ue_count", "2\n");
}

/* Never returns. */
static void sensors_play(const struct sensors_scene *scene, int which)
{
    const struct timespec nap = time_spec(TICK_NS);
    char path[PATH_MAX + 32];
    int log;

    snprintf(path, sizeof(path), "%s/dev/kmsg", scene->tree);
    log = open(path, O_RDWR | O_CLOEXEC);
    for (long long tick = 0;; tick++) {
        sensors_usual(scene, tick, which == SCORE_SENSORS_DISK && tick >= FAILS_TICK);
        if (tick == FAILS_TICK && log >= 0)
            dprintf(log,
                    "4,9,904000000,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=%d, name=python3, "
                    "Graphics Exception: ESR 0x57c730\n",
                    (int)getpid()); /* alive, and none of the ranks */
        if (tick == FAILS_TICK)
            sensors_fail(scene, which);
        nanosleep(&nap, NULL);
    }
}

int score_sensors_begin(const struct score_case *at, struct sensors_scene *scene, struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    int which = sensors_which(&at->fault);
    char path[PATH_MAX + 32];

    *scene = (struct sensors_scene){ .pid = 0 };
    if (which < 0)
        return 0;
    snprintf(scene->tree, sizeof(scene->tree), "%s/lockstep-sensors-XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(scene->tree))
        return err_set(err, -errno, "%s: %m", scene->tree);
    sensors_make(scene);
    sensors_usual(scene, 0, false);
    snprintf(path, sizeof(path), "%s/dev", scene->tree);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/dev/kmsg", scene->tree);
    if (mkfifo(path, 0600) < 0)
        return err_set(err, -errno, "%s: %m", path);
    scene->pid = fork();
    if (scene->pid < 0)
        return err_set(err, -errno, "fork: %m");
    if (scene->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sensors_play(scene, which);
    }
    setenv("LOCKSTEP_SENSE", "1", 1);
    setenv("LOCKSTEP_SYSROOT", scene->tree, 1);
    setenv("NCCL_IB_TIMEOUT", "14", 1); /* a port may be down for half a second */
    return 0;
}

void score_sensors_end(struct sensors_scene *scene)
{
    if (scene->pid <= 0)
        return;
    kill(scene->pid, SIGKILL);
    while (waitpid(scene->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    unsetenv("LOCKSTEP_SENSE");
    unsetenv("LOCKSTEP_SYSROOT");
    unsetenv("NCCL_IB_TIMEOUT");
    unsetenv("LOCKSTEP_FAKE_DEVICE");
    tree_remove(scene->tree);
    scene->pid = 0;
}
