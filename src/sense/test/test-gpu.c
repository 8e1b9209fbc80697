/* test-gpu.c - GPUs as a scripted NVML shows them: healthy, slowed, lost; and a library that hangs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/time.h"
#include "sense/gpu/gpu_child.h"
#include "sense/sense.h"

#define FOUND_MAX 32

struct stage {
    struct sense *sense;
    struct finding found[FOUND_MAX];
    size_t count;
};

static char script[] = "/tmp/test-gpu-XXXXXX";

static void play(const char *text)
{
    char fresh[PATH_MAX];
    FILE *file;

    snprintf(fresh, sizeof(fresh), "%s.new", script); /* the library may read it now */
    file = fopen(fresh, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(fresh, script), 0);
}

static void sink(void *user, const struct finding *finding, uint32_t line)
{
    struct stage *stage = user;

    (void)line;
    if (stage->count < FOUND_MAX)
        stage->found[stage->count++] = *finding;
}

/* Until there is something, or for `turns` answers of the library; the clock is ours, the child's time is real. */
static size_t turn(struct stage *stage, int turns)
{
    static int64_t now_ns = 1000 * NS_PER_S;

    stage->count = 0;
    for (int i = 0; i < turns && !stage->count; i++) {
        struct sense_now now;

        now_ns += NS_PER_S;
        now = (struct sense_now){ now_ns, now_ns };
        sense_step(stage->sense, &now, sink, stage);
        nanosleep(&(struct timespec){ .tv_nsec = 20 * NS_PER_MS }, NULL);
    }
    return stage->count;
}

static char root[] = "/tmp/test-gpu-root-XXXXXX";

/* A node whose kernel log cannot be read, or one with `log`; its pid namespace is the host's. */
static void root_make(bool log)
{
    static const char *const folders[] = { "proc",      "proc/self", "proc/self/ns",
                                           "proc/4242", "proc/4243", "proc/4244",
                                           "dev",       "usr",       "usr/lib" };
    char path[128], target[PATH_MAX];

    for (size_t i = 0; i < COUNT(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
    }
    snprintf(path, sizeof(path), "%s/proc/self/ns/pid", root);
    unlink(path);
    assert_int_equal(symlink("pid:[4026531836]", path), 0);
    snprintf(path, sizeof(path), "%s/usr/lib/libnvidia-ml.so.1", root);
    unlink(path);
    assert_non_null(realpath(getenv("FAKE_NVML"), target));
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof(path), "%s/dev/kmsg", root);
    unlink(path);
    if (log) {
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        close(fd);
    }
}

static void stage_begin_at(struct stage *stage, const char *where)
{
    const struct sense_place place = { .root = where, .node = "n7" };

    *stage = (struct stage){ .count = 0 };
    assert_int_equal(sense_create(&place, "gpu", &stage->sense), 0);
}

static void stage_begin(struct stage *stage)
{
    stage_begin_at(stage, "");
}

/* The script has three GPUs; then the second is gone, and the third has its number. */
static void a_gpu_that_is_gone_is_found_and_its_number_is_anothers(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 3\nnvml.0.pci text 00000000:17:00.0\nnvml.1.pci text 00000000:3B:00.0\n"
         "nvml.2.pci text 00000000:5D:00.0\nnvml.2.ecc-uncorrected value 7\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 3), 0);
    play("nvml.count value 2\nnvml.0.pci text 00000000:17:00.0\nnvml.1.pci text 00000000:5D:00.0\n"
         "nvml.1.ecc-uncorrected value 7\n");
    assert_int_equal(turn(&stage, 200), 1); /* and no new errors of memory */
    assert_string_equal(stage.found[0].text, "the driver does not list GPU 0000:3b:00 any more");
    assert_int_equal(turn(&stage, 3), 0);
    sense_destroy(stage.sense);
}

/* Asked at any moment, the driver says that nothing slows it. */
static void a_gpu_that_is_slowed_between_two_looks_is_found(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 1\nnvml.0.slowed-by-heat value 1000000\nnvml.0.gpm-2 value 97\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 15), 0);
    play("nvml.count value 1\nnvml.0.slowed-by-heat value 900000000\nnvml.0.gpm-2 value 97\n");
    assert_int_equal(turn(&stage, 200), 1);
    assert_int_equal(stage.found[0].kind, FINDING_GPU_CLOCK);
    assert_int_equal(stage.found[0].severity, FINDING_WARN);
    assert_non_null(strstr(stage.found[0].text, "too hot, slowed 100 % of the time"));
    assert_non_null(strstr(stage.found[0].text, "SMs active 97 %"));
    assert_int_equal(turn(&stage, 30), 0);
    sense_destroy(stage.sense);
}

static void a_gpu_that_left_the_switches_is_found(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 4\nnvml.0.fabric-state value 0\nnvml.1.fabric-state value 2\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 5), 0); /* none there, and one that starts */
    play("nvml.count value 4\nnvml.2.fabric-error value 3\nnvml.3.fabric-health value 0x41\n");
    assert_int_equal(turn(&stage, 200), 3);
    assert_string_equal(stage.found[0].text,
                        "GPU 0000:12:00 did not join the NVLink switches (NVML 3)");
    assert_string_equal(stage.found[1].text,
                        "GPU 0000:13:00: accesses through the NVLink switches time out");
    assert_int_equal(stage.found[2].severity, FINDING_WARN);
    assert_int_equal(turn(&stage, 5), 0);
    sense_destroy(stage.sense);
}

static void healthy_gpus_are_silent(void **state)
{
    struct stage stage;
    struct sense_state how;

    (void)state;
    play("nvml.count value 8\n");
    stage_begin(&stage);
    assert_int_equal(sense_states(stage.sense, &how, 1), 1);
    assert_int_equal(how.result, 0);
    assert_int_equal(turn(&stage, 3), 0);
    sense_destroy(stage.sense);
}

static void a_slowed_a_worn_and_a_lost_gpu_are_found(void **state)
{
    struct stage stage;
    unsigned kinds = 0;

    (void)state;
    play("nvml.count value 4\n"
         "nvml.0.reasons value 128\n" /* power brake */
         "nvml.1.remap-pending value 1\n"
         "nvml.2.handle error 15\n" /* lost */
         "nvml.3.pcie-width value 4\n");
    stage_begin(&stage);
    turn(&stage, 10);
    for (size_t i = 0; i < stage.count; i++)
        kinds |= 1u << stage.found[i].kind;
    assert_true(kinds >> FINDING_GPU_POWER & 1);
    assert_true(kinds >> FINDING_GPU_MEMORY & 1);
    assert_true(kinds >> FINDING_NVRM & 1);
    assert_true(kinds >> FINDING_PCIE & 1);
    assert_int_equal(turn(&stage, 3), 0); /* reported once */
    sense_destroy(stage.sense);
}

static void new_memory_errors_are_counted(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 1\nnvml.0.ecc-uncorrected value 3\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 3), 0); /* of the time before */
    play("nvml.count value 1\nnvml.0.ecc-uncorrected value 5\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].kind, FINDING_GPU_ECC);
    assert_non_null(strstr(stage.found[0].text, "2 uncorrected"));
    sense_destroy(stage.sense);
}

static void a_library_that_hangs_is_a_finding_and_stops_nothing(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 1\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 3), 0);
    play("nvml.count value 1\nnvml.0.temperature hang\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].kind, FINDING_SENSOR);
    assert_non_null(strstr(stage.found[0].text, "did not answer"));
    sense_destroy(stage.sense);
}

static void a_library_that_ends_the_process_is_a_finding(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 1\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 3), 0);
    play("this line ends the program\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_non_null(strstr(stage.found[0].text, "ended the process"));
    sense_destroy(stage.sense);
}

/* ---- its process ---- */

/* The process that asks NVML: the only child of this program. */
static pid_t child_pid(void)
{
    char path[64];
    FILE *file;
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    fclose(file);
    return pid;
}

static void a_driver_that_hangs_from_the_start_is_unknown_until_it_answers(void **state)
{
    struct stage stage;
    struct sense_state how;

    (void)state;
    play("nvml.count hang\n");
    stage_begin(&stage);
    assert_int_equal(sense_states(stage.sense, &how, 1), 1);
    assert_int_equal(how.result, -EBUSY);
    assert_int_equal(turn(&stage, 1), 1);
    assert_int_equal(stage.found[0].kind, FINDING_SENSOR);
    assert_int_equal(turn(&stage, 30), 0); /* it lasts: reported once */
    sense_states(stage.sense, &how, 1);
    assert_int_equal(how.result, -EBUSY);
    assert_int_equal(child_pid(), 0); /* and no process is left */
    play("nvml.count value 1\n");
    for (int i = 0; i < 200 && how.result; i++) {
        turn(&stage, 1);
        sense_states(stage.sense, &how, 1);
    }
    assert_int_equal(how.result, 0);
    sense_destroy(stage.sense);
}

static void the_process_gets_no_descriptor_of_its_parent(void **state)
{
    struct stage stage;
    char path[64];
    DIR *folder;
    int secret = open(script, O_RDONLY | O_CLOEXEC), count = 0;
    pid_t pid;

    (void)state;
    assert_true(secret >= 0);
    play("nvml.count value 1\n");
    stage_begin(&stage);
    pid = child_pid();
    if (!pid) {
        sense_destroy(stage.sense);
        close(secret);
        skip(); /* a kernel without lists of children */
    }
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char target[64] = "";

        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) < 0)
            continue;
        assert_string_not_equal(target, script);
        count += strncmp(target, "socket:", 7) == 0 && atoi(entry->d_name) > STDERR_FILENO;
    }
    assert_int_equal(count, 1); /* the one it answers on */
    closedir(folder);
    sense_destroy(stage.sense);
    close(secret);
}

/* As a program that reaps all its children does: the number of the process that ended goes to another one. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args args = { .exit_signal = SIGCHLD,
                               .set_tid = (uint64_t)(uintptr_t)&pid,
                               .set_tid_size = 1 };
    pid_t made = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (made == 0) {
        pause();
        _exit(0);
    }
    return made;
}

static void a_process_with_the_number_of_the_one_that_ended_is_left_alone(void **state)
{
    struct stage stage;
    pid_t pid, other;
    int status;

    (void)state;
    play("nvml.count value 1\n");
    stage_begin(&stage);
    pid = child_pid();
    if (!pid) {
        sense_destroy(stage.sense);
        skip();
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(-1, &status, 0), pid);
    other = fork_as(pid);
    sense_destroy(stage.sense);
    if (other < 0)
        skip(); /* only a privileged program chooses a number */
    assert_int_equal(waitpid(other, &status, WNOHANG), 0);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, &status, 0), other);
}

static void an_xid_without_a_kernel_log_names_the_process_of_its_gpu(void **state)
{
    struct stage stage;

    (void)state;
    root_make(false);
    play("nvml.count value 2\n");
    stage_begin_at(&stage, root);
    assert_int_equal(turn(&stage, 3), 0);
    play("nvml.count value 2\nnvml.1.processes text 4242 40000000000\n"
         "nvml.1.xid value 79 times 1\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].kind, FINDING_XID);
    assert_int_equal(stage.found[0].code, 79);
    assert_int_equal(stage.found[0].pid, 4242);
    assert_int_equal(stage.found[0].severity, FINDING_FATAL);
    assert_string_equal(stage.found[0].device, "0000:11:00");
    assert_int_equal(turn(&stage, 5), 0); /* once */
    play("nvml.count value 2\nnvml.1.xid value 31 times 1\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].pid, 4242); /* it died of it */
    play("nvml.count value 2\nnvml.1.processes text 4242 40000000000 4243 1\n"
         "nvml.1.xid value 13 times 1\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].code, 13);
    assert_int_equal(stage.found[0].pid, 0); /* of two processes nobody knows which, */
    assert_int_equal(turn(&stage, 5), 0);
    play("nvml.count value 2\nnvml.1.processes text 4242 40000000000\n");
    assert_int_equal(turn(&stage, 100), 1); /* until one of them is gone */
    assert_int_equal(stage.found[0].code, 13);
    assert_int_equal(stage.found[0].pid, 4243);
    play("nvml.count value 2\nnvml.1.processes text 4242 1 4243 1 4244 1\nnvml.1.xid value 31 "
         "times 1\n");
    assert_int_equal(turn(&stage, 100), 1);
    play("nvml.count value 2\nnvml.1.processes text 4242 1\n");
    assert_int_equal(turn(&stage, 50), 0); /* two went at once */
    sense_destroy(stage.sense);
}

static void an_xid_that_the_kernel_log_has_is_not_reported_twice(void **state)
{
    struct stage stage;

    (void)state;
    root_make(true);
    play("nvml.count value 2\nnvml.1.xid value 79 times 1\n");
    stage_begin_at(&stage, root);
    assert_int_equal(turn(&stage, 5), 0);
    sense_destroy(stage.sense);
}

static void memory_of_a_process_that_ended_is_a_leftover(void **state)
{
    struct stage stage;

    (void)state;
    root_make(true);
    play("nvml.count value 1\nnvml.0.processes text 4242 1048576\n");
    stage_begin_at(&stage, root);
    assert_int_equal(turn(&stage, 5), 0); /* it lives */
    play("nvml.count value 1\nnvml.0.processes text 4242 1048576 777 40000000000\n");
    assert_int_equal(turn(&stage, 100), 1);
    assert_int_equal(stage.found[0].kind, FINDING_LEFTOVER);
    assert_non_null(strstr(stage.found[0].text, "process 777 has ended and still holds 38146 MB"));
    assert_int_equal(turn(&stage, 5), 0);
    sense_destroy(stage.sense);
}

static void another_pid_namespace_hides_processes_that_live(void **state)
{
    struct stage stage;
    char path[128];

    (void)state;
    root_make(true);
    snprintf(path, sizeof(path), "%s/proc/self/ns/pid", root);
    unlink(path);
    assert_int_equal(symlink("pid:[4026532177]", path), 0);
    play("nvml.count value 1\nnvml.0.processes text 777 40000000000\n");
    stage_begin_at(&stage, root);
    assert_int_equal(turn(&stage, 5), 0);
    sense_destroy(stage.sense);
}

static void links_that_fail_are_found_and_unused_ones_are_not(void **state)
{
    struct stage stage;

    (void)state;
    play("nvml.count value 1\nnvml.0.link-17.state value 0\n");
    stage_begin(&stage);
    assert_int_equal(turn(&stage, 3), 0);
    play("nvml.count value 1\nnvml.0.link-17.state value 0\nnvml.0.link-3.state value 0\n"
         "nvml.0.link-4.recoveries value 2\nnvml.0.link-5.speed value 13281\n");
    assert_int_equal(turn(&stage, 200), 3);
    assert_non_null(strstr(stage.found[0].text, "NVLink 3 of GPU 0000:10:00 is down"));
    assert_int_equal(stage.found[0].severity, FINDING_ERROR);
    assert_non_null(strstr(stage.found[1].text, "NVLink 4 of GPU 0000:10:00: 2 recoveries"));
    assert_non_null(strstr(stage.found[2].text, "13281 MB/s, before it was 26562"));
    assert_int_equal(turn(&stage, 15), 0);
    sense_destroy(stage.sense);
}

static void a_library_that_crashes_or_writes_nonsense_is_a_finding(void **state)
{
    const char *const scripts[] = { "nvml.crash value 1\n", "nvml.scribble value 1\n",
                                    "nvml.scribble value 4096\n", NULL };
    char exact[64];

    (void)state;
    snprintf(exact, sizeof(exact), "nvml.scribble value %zu\n", sizeof(struct gpu_answer));
    for (size_t i = 0; i < COUNT(scripts); i++) {
        struct stage stage;

        play("nvml.count value 1\n");
        stage_begin(&stage);
        assert_int_equal(turn(&stage, 3), 0);
        play(scripts[i] ? scripts[i] : exact);
        assert_int_equal(turn(&stage, 100), 1);
        assert_int_equal(stage.found[0].kind, FINDING_SENSOR);
        sense_destroy(stage.sense);
    }
}

static void a_process_that_is_stopped_is_late_and_replaced(void **state)
{
    struct stage stage;
    struct sense_state how = { .result = 0 };
    pid_t pid;

    (void)state;
    play("nvml.count value 1\n");
    stage_begin(&stage);
    pid = child_pid();
    if (!pid) {
        sense_destroy(stage.sense);
        skip();
    }
    assert_int_equal(turn(&stage, 3), 0);
    kill(pid, SIGSTOP);
    assert_int_equal(turn(&stage, 100), 1);
    assert_non_null(strstr(stage.found[0].text, "did not answer"));
    for (int i = 0; i < 200; i++) {
        turn(&stage, 1);
        sense_states(stage.sense, &how, 1);
        if (!how.result)
            break;
    }
    assert_int_equal(how.result, 0); /* another one answers */
    assert_int_not_equal(child_pid(), pid);
    sense_destroy(stage.sense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_that_is_gone_is_found_and_its_number_is_anothers),
        cmocka_unit_test(a_gpu_that_is_slowed_between_two_looks_is_found),
        cmocka_unit_test(a_gpu_that_left_the_switches_is_found),
        cmocka_unit_test(healthy_gpus_are_silent),
        cmocka_unit_test(a_slowed_a_worn_and_a_lost_gpu_are_found),
        cmocka_unit_test(new_memory_errors_are_counted),
        cmocka_unit_test(a_library_that_hangs_is_a_finding_and_stops_nothing),
        cmocka_unit_test(a_library_that_ends_the_process_is_a_finding),
        cmocka_unit_test(a_driver_that_hangs_from_the_start_is_unknown_until_it_answers),
        cmocka_unit_test(the_process_gets_no_descriptor_of_its_parent),
        cmocka_unit_test(a_process_with_the_number_of_the_one_that_ended_is_left_alone),
        cmocka_unit_test(an_xid_without_a_kernel_log_names_the_process_of_its_gpu),
        cmocka_unit_test(an_xid_that_the_kernel_log_has_is_not_reported_twice),
        cmocka_unit_test(memory_of_a_process_that_ended_is_a_leftover),
        cmocka_unit_test(another_pid_namespace_hides_processes_that_live),
        cmocka_unit_test(links_that_fail_are_found_and_unused_ones_are_not),
        cmocka_unit_test(a_library_that_crashes_or_writes_nonsense_is_a_finding),
        cmocka_unit_test(a_process_that_is_stopped_is_late_and_replaced),
    };
    int fd = mkstemp(script), result;

    if (fd < 0 || !mkdtemp(root) || setenv("LOCKSTEP_FAKE_DEVICE", script, 1) < 0)
        return 2;
    close(fd);
    result = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(script);
    tree_remove(root);
    return result;
}
