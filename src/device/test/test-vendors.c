/* test-vendors.c - the tables over libraries that a script drives, through the loader like the real ones.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/cuda/cuda.h"
#include "device/library.h"
#include "device/nccl_library.h"
#include "device/nvml.h"

static char script_path[64];

static void script(const char *text)
{
    char fresh[80];
    FILE *file;

    snprintf(fresh, sizeof(fresh), "%s.new", script_path);
    file = fopen(fresh, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, script_path), 0);
}

static int setup(void **state)
{
    char path[] = "/tmp/lockstep-test-device-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    if (fd < 0)
        return -1;
    close(fd);
    strcpy(script_path, path);
    return setenv("LOCKSTEP_FAKE_DEVICE", script_path, 1);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(script_path);
}

static void a_library_that_is_not_there_is_no_surprise(void **state)
{
    struct library *library = NULL;
    struct nvml *nvml = NULL;
    struct nccl nccl = { 0 };
    struct err err = { "" };

    (void)state;
    assert_int_equal(library_open("liblockstep-nowhere.so.9", &library, &err), -ENOENT);
    assert_non_null(strstr(err.text, "liblockstep-nowhere.so.9"));
    assert_int_equal(library_open("./libcuda.so.1", &library, &err), -EINVAL);
    assert_int_equal(library_open("/dev/null", &library, &err), -ELIBBAD);
    assert_int_equal(nvml_open("liblockstep-nowhere.so.9", &nvml, &err), -ENOENT);
    assert_int_equal(nccl_open(&nccl, "liblockstep-nowhere.so.9", &err), -ENOENT);
    assert_null(library);
    assert_null(nvml);
}

static void a_library_without_a_function_names_it(void **state)
{
    struct nvml *nvml = NULL;
    struct err err = { "" };

    (void)state;
    assert_int_equal(nvml_open("libcuda.so.1", &nvml, &err), -ENOSYS);
    assert_non_null(strstr(err.text, "nvmlInit_v2"));
    assert_null(nvml);
}

static void activity_is_a_mean_between_two_reads(void **state)
{
    struct nvml_sample sample = { 0 }, other = { 0 };
    struct nvml *nvml;

    (void)state;
    script(
        "nvml.count value 2\nnvml.0.gpm-2 value 93\nnvml.0.gpm-5 error 3\nnvml.0.gpm-10 value 101\n"
        "nvml.0.gpm-61 value 123456\nnvml.1.gpm value 0\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    nvml_activity_read(nvml, 0, &sample);
    assert_true(sample.known == 0);
    nvml_activity_read(nvml, 0, &sample);
    nvml_activity_read(nvml, 1, &other);
    nvml_activity_read(nvml, 1, &other);
    nvml_activity_read(nvml, 99, &other);
    assert_true(other.known == 0);
    assert_true(nvml_has(&sample, NVML_SM_ACTIVE_PERCENT));
    assert_int_equal(sample.value[NVML_SM_ACTIVE_PERCENT], 93);
    assert_false(nvml_has(&sample, NVML_TENSOR_ACTIVE_PERCENT));
    assert_false(nvml_has(&sample, NVML_MEMORY_BANDWIDTH_PERCENT)); /* no percentage */
    assert_int_equal(sample.value[NVML_NVLINK_SENT_MIBPS], 123456);
    nvml_close(nvml);
}

static void the_fabric_of_links_has_a_state_and_a_health(void **state)
{
    struct nvml_sample sample;
    struct nvml *nvml;

    (void)state;
    script("nvml.count value 3\nnvml.0.fabric-state value 0\nnvml.1.fabric-state value 2\n"
           "nvml.2.fabric-error value 3\nnvml.2.fabric-health value 0x51\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    assert_int_equal(nvml_read(nvml, 0, &sample, NULL), 0);
    assert_false(nvml_has(&sample, NVML_FABRIC_STATE));
    assert_int_equal(nvml_read(nvml, 1, &sample, NULL), 0);
    assert_int_equal(sample.value[NVML_FABRIC_STATE], 2);
    assert_false(nvml_has(&sample, NVML_FABRIC_ERROR));
    assert_int_equal(nvml_read(nvml, 2, &sample, NULL), 0);
    assert_int_equal(sample.value[NVML_FABRIC_ERROR], 3);
    assert_int_equal(sample.value[NVML_FABRIC_HEALTH], NVML_FABRIC_DEGRADED_BANDWIDTH |
                                                           NVML_FABRIC_ROUTE_UNHEALTHY |
                                                           NVML_FABRIC_ACCESS_TIMEOUT);
    nvml_close(nvml);
}

static void gpus_are_identified_and_read(void **state)
{
    struct nvml_identity identity;
    struct nvml_sample sample;
    struct nvml *nvml;
    unsigned count = 0;
    char driver[80];

    (void)state;
    script("nvml.count value 2\nnvml.1.name text NVIDIA H200\nnvml.1.temperature value 91 # hot\n"
           "nvml.1.reasons value 0x60\nnvml.driver text 575.1\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    assert_int_equal(nvml_driver_version(nvml, driver, sizeof(driver), NULL), 0);
    assert_string_equal(driver, "575.1");
    assert_int_equal(nvml_count(nvml, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_int_equal(nvml_identify(nvml, 1, &identity, NULL), 0);
    assert_string_equal(identity.name, "NVIDIA H200");
    assert_string_equal(identity.pci, "00000000:11:00.0");
    assert_int_equal(nvml_read(nvml, 1, &sample, NULL), 0);
    nvml_activity_read(nvml, 1, &sample);
    nvml_activity_read(nvml, 1, &sample);
    for (unsigned i = 0; i < NVML_VALUES; i++) {
        assert_true(nvml_has(&sample, i));
        assert_string_not_equal(nvml_value_name(i), "?");
    }
    assert_int_equal(sample.value[NVML_TEMPERATURE_C], 91);
    assert_int_equal(sample.value[NVML_CLOCK_REASONS],
                     NVML_REASON_SW_THERMAL | NVML_REASON_HW_THERMAL);
    assert_int_equal(sample.value[NVML_PCIE_WIDTH], 16);
    assert_int_equal(sample.value[NVML_RECOVERY_ACTION], 0);
    assert_int_equal(nvml_read(nvml, 2, &sample, NULL), -EIO);
    nvml_close(nvml);
}

static void what_a_gpu_does_not_report_is_absent_and_not_zero(void **state)
{
    struct nvml_sample sample;
    struct nvml *nvml;

    (void)state;
    script("nvml.0.power error 3\nnvml.0.remap* error 3\nnvml.0.recovery-action error 3\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    assert_int_equal(nvml_read(nvml, 0, &sample, NULL), 0);
    assert_false(nvml_has(&sample, NVML_POWER_MW));
    assert_false(nvml_has(&sample, NVML_REMAP_FAILED));
    assert_false(nvml_has(&sample, NVML_RECOVERY_ACTION));
    assert_true(nvml_has(&sample, NVML_MEMORY_TEMPERATURE_C));
    assert_true(nvml_has(&sample, NVML_PCIE_REPLAYS));
    nvml_close(nvml);
}

static void a_lost_gpu_is_a_finding(void **state)
{
    static const struct {
        int error, result;
    } cases[] = { { 15, -ENODEV }, { 16, -ENOTRECOVERABLE }, { 10, -ETIMEDOUT } };
    struct nvml_sample sample, before;
    struct nvml *nvml;
    struct err err;
    char text[64];

    (void)state;
    script("nvml.count value 1\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    memset(&before, 0x5a, sizeof(before));
    memcpy(&sample, &before, sizeof(sample));
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof(text), "nvml.0.ecc-corrected error %d\n", cases[i].error);
        script(text);
        assert_int_equal(nvml_read(nvml, 0, &sample, &err), cases[i].result);
        assert_non_null(strstr(err.text, "NVML"));
        assert_memory_equal(&sample, &before, sizeof(sample));
    }
    script("nvml.0.handle error 15\n");
    assert_int_equal(nvml_read(nvml, 0, &sample, &err), -ENODEV);
    assert_memory_equal(&sample, &before, sizeof(sample));
    nvml_close(nvml);
    script("nvml.init error 9\n");
    assert_int_equal(nvml_open(NULL, &nvml, &err), -EIO);
    assert_non_null(strstr(err.text, "Driver Not Loaded"));
}

static void a_script_counts_delays_and_hangs(void **state)
{
    struct nvml_sample sample;
    struct nvml *nvml;
    int64_t began_ns;
    int status;
    pid_t pid;

    (void)state;
    script("nvml.0.power value 1 after 1 times 1\nnvml.1.power delay 60ms\nnvml.2.* hang\n");
    assert_int_equal(nvml_open(NULL, &nvml, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nvml_read(nvml, 0, &sample, NULL), 0);
        assert_int_equal(sample.value[NVML_POWER_MW] == 1, i == 1);
    }
    began_ns = time_mono_ns();
    assert_int_equal(nvml_read(nvml, 1, &sample, NULL), 0);
    assert_true(time_mono_ns() - began_ns >= 60 * NS_PER_MS);
    pid = fork();
    if (pid == 0) {
        alarm(1);
        nvml_read(nvml, 2, &sample, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    nvml_close(nvml);
}

static void a_script_that_cannot_be_read_ends_the_program(void **state)
{
    struct nvml *nvml;
    int status;
    pid_t pid;

    (void)state;
    script("nvml.0.power values 1\n");
    pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        nvml_open(NULL, &nvml, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 99);
}

static struct library *cuda_opened(struct cuda *cuda)
{
    struct library *library;
    void *context;

    assert_int_equal(library_open(CUDA_LIBRARY, &library, NULL), 0);
    assert_int_equal(cuda_load(cuda, library_find, library, NULL), 0);
    assert_int_equal(cuda->init(0), CUDA_SUCCESS);
    assert_int_equal(cuda->context_retain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuda->context_push(context), CUDA_SUCCESS);
    return library;
}

static void a_kernel_keeps_its_stream_busy_and_events_time_it(void **state)
{
    void *stream, *begin, *end, *module, *function;
    struct library *library;
    struct cuda cuda;
    float ms = 0;

    (void)state;
    script("cuda.kernel-us value 30000\n");
    library = cuda_opened(&cuda);
    assert_int_equal(cuda.stream_create(&stream, CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuda.event_create(&begin, CUDA_EVENT_DEFAULT), 0);
    assert_int_equal(cuda.event_create(&end, CUDA_EVENT_DEFAULT), 0);
    assert_int_equal(cuda.module_load(&module, "", 0, NULL, NULL), 0);
    assert_int_equal(cuda.module_function(&function, module, "spin"), 0);
    assert_int_equal(cuda.event_record(begin, stream), 0);
    assert_int_equal(cuda.launch(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 0);
    assert_int_equal(cuda.event_record(end, stream), 0);
    assert_int_equal(cuda.stream_query(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuda.event_elapsed(&ms, begin, end), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuda.stream_wait(stream), 0);
    assert_int_equal(cuda.event_elapsed(&ms, begin, end), 0);
    assert_true(ms >= 30);
    assert_int_equal(cuda.event_destroy(begin), 0);
    assert_int_equal(cuda.event_destroy(end), 0);
    assert_int_equal(cuda.module_unload(module), 0);
    assert_int_equal(cuda.stream_destroy(stream), 0);
    assert_int_equal(cuda.context_pop(NULL), 0);
    library_close(library);
}

static void memory_comes_back_as_it_went(void **state)
{
    char out[64] = "there and back", back[64] = "";
    struct library *library;
    struct cuda cuda;
    uint64_t address;

    (void)state;
    script("");
    library = cuda_opened(&cuda);
    assert_int_equal(cuda.memory_alloc(&address, sizeof(out)), 0);
    assert_int_equal(cuda.copy_to_device(address, out, sizeof(out), NULL), 0);
    assert_int_equal(cuda.copy_to_host(back, address, sizeof(back), NULL), 0);
    assert_int_equal(cuda.stream_wait(NULL), 0);
    assert_string_equal(back, "there and back");
    assert_int_equal(cuda.memory_free(address), 0);
    assert_int_equal(cuda.context_pop(NULL), 0);
    /* Without a context nothing is launched. */
    assert_int_equal(cuda.copy_to_host(back, 0, 0, NULL), 201);
    library_close(library);
}

static void errors_of_the_driver_become_ours(void **state)
{
    struct library *library;
    struct err err = { "" };
    struct cuda cuda;

    (void)state;
    script("cuda.memory-alloc error 2 times 1\n");
    library = cuda_opened(&cuda);
    assert_int_equal(cuda_check(&cuda, cuda.memory_alloc(&(uint64_t){ 0 }, 8), "arena", &err),
                     -ENOMEM);
    assert_string_equal(err.text, "arena: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    assert_int_equal(cuda_check(&cuda, 0, "x", &err), 0);
    assert_int_equal(cuda_check(&cuda, 100, "x", &err), -ENODEV);
    assert_int_equal(cuda_check(&cuda, 600, "x", &err), -EAGAIN);
    assert_int_equal(cuda_check(&cuda, 987654, "kernel", &err), -EIO);
    assert_string_equal(err.text, "kernel: unknown CUDA error (987654): no description");
    assert_int_equal(cuda.context_pop(NULL), 0);
    library_close(library);
}

static void nccl_is_opened_and_fails_with_its_text(void **state)
{
    float from[4] = { 1, 2, 3, 4 }, to[4] = { 0 };
    struct err err = { "" };
    struct nccl_id id;
    struct nccl nccl;
    void *comm = NULL;
    int version = 0;

    (void)state;
    script("nccl.all-reduce error 6 after 1\n");
    assert_int_equal(nccl_open(&nccl, NULL, NULL), 0);
    assert_int_equal(nccl.version(&version), 0);
    assert_int_equal(version, 22809);
    assert_int_equal(nccl.id_make(&id), 0);
    assert_int_equal(nccl_check(&nccl, nccl.comm_init(&comm, 1, id, 1), "init", &err), -EIO);
    assert_int_equal(nccl.comm_init(&comm, 1, id, 0), 0);
    assert_int_equal(nccl.all_reduce(from, to, 4, NCCL_FLOAT32, NCCL_SUM, comm, NULL), 0);
    assert_memory_equal(from, to, sizeof(to));
    assert_int_equal(nccl_check(&nccl,
                                nccl.all_reduce(from, to, 4, NCCL_FLOAT32, NCCL_SUM, comm, NULL),
                                "link", &err),
                     -EIO);
    assert_string_equal(err.text,
                        "link: remote process exited or there was a network error (NCCL 6)");
    assert_int_equal(nccl_check(&nccl, NCCL_IN_PROGRESS, "x", NULL), 0);
    assert_int_equal(nccl.comm_destroy(comm), 0);
    nccl_close(&nccl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_not_there_is_no_surprise),
        cmocka_unit_test(a_library_without_a_function_names_it),
        cmocka_unit_test(activity_is_a_mean_between_two_reads),
        cmocka_unit_test(the_fabric_of_links_has_a_state_and_a_health),
        cmocka_unit_test(gpus_are_identified_and_read),
        cmocka_unit_test(what_a_gpu_does_not_report_is_absent_and_not_zero),
        cmocka_unit_test(a_lost_gpu_is_a_finding),
        cmocka_unit_test(a_script_counts_delays_and_hangs),
        cmocka_unit_test(a_script_that_cannot_be_read_ends_the_program),
        cmocka_unit_test(a_kernel_keeps_its_stream_busy_and_events_time_it),
        cmocka_unit_test(memory_comes_back_as_it_went),
        cmocka_unit_test(errors_of_the_driver_become_ours),
        cmocka_unit_test(nccl_is_opened_and_fails_with_its_text),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
