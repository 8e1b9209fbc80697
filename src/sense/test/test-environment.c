/* test-environment.c - the fingerprint of a rank's world: which variables leave it, adapters of file servers, images.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/environment/environment.h"
#include "sense/test/stage.h"

static const struct environment_pair *pair_of(const struct environment *environment,
                                              const char *name)
{
    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].name, name) == 0)
            return &environment->pair[i];
    }
    return NULL;
}

static int collect_of(pid_t pid, struct environment *ret)
{
    CLEAN(fd_clean) int proc_fd = -1;
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(proc_fd >= 0);
    return environment_collect("", proc_fd, ret, NULL);
}

static const char *value_of(const struct environment *environment, const char *name)
{
    const struct environment_pair *pair = pair_of(environment, name);

    return pair ? pair->value : "none";
}

static void secrets_never_leave(void **state)
{
    char *const variables[] = {
        (char[]){ "NCCL_IB_TIMEOUT=22" }, (char[]){ "WANDB_API_KEY=hunter2" },
        (char[]){ "HF_TOKEN=hunter2" },   (char[]){ "NCCL_SECRET_THING=hunter2" },
        (char[]){ "MY_DATA=hunter2" },    NULL
    };
    struct environment environment = { 0 };
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        execle("/bin/sleep", "sleep", "60", (char *)NULL, variables);
        _exit(127);
    }
    assert_true(pid > 0);
    while (!pair_of(&environment, "NCCL_IB_TIMEOUT")) { /* until the program has begun */
        environment_fini(&environment);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        environment = (struct environment){ 0 };
        assert_int_equal(collect_of(pid, &environment), 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_non_null(pair_of(&environment, "NCCL_IB_TIMEOUT"));
    assert_string_equal(pair_of(&environment, "NCCL_IB_TIMEOUT")->value, "22");
    assert_non_null(pair_of(&environment, "kernel"));
    assert_null(pair_of(&environment, "WANDB_API_KEY"));
    assert_null(pair_of(&environment, "HF_TOKEN"));
    assert_null(pair_of(&environment, "NCCL_SECRET_THING"));
    assert_true(pair_of(&environment, "MY_DATA")->digest);
    for (uint32_t i = 0; i < environment.count; i++)
        assert_null(strstr(environment.pair[i].value, "hunter2"));
    environment_fini(&environment);
}

/* "A=b=c" is one variable: of a secret, "b" would be a name that is sent as it is. */
static void the_value_of_a_variable_is_no_variable(void **state)
{
    struct environment environment = { .pair =
                                           calloc(ENVIRONMENT_PAIRS, sizeof(*environment.pair)) };
    char text[] = "HF_TOKEN=hunter2=x\0NCCL_ALGO=allreduce:ring=1\0DATA=brand=a,driver>=1";

    (void)state;
    assert_non_null(environment.pair);
    environment_add_variables(&environment, text, sizeof(text));
    assert_int_equal(environment.count, 2);
    assert_string_equal(pair_of(&environment, "NCCL_ALGO")->value, "allreduce:ring=1");
    assert_true(pair_of(&environment, "DATA")->digest);
    environment_fini(&environment);
}

static uint64_t reads_so_far(void)
{
    FILE *file = fopen("/proc/self/io", "re");
    unsigned long long reads = 0;
    char line[64];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "syscr: %llu", &reads) == 1)
            break;
    }
    if (file)
        fclose(file);
    return reads;
}

/* 64 libraries of at most 10 reads each, 512 pages of maps, 64 of environ; a process without them needs few. */
static void the_reads_of_an_environment_are_bounded(void **state)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    uint64_t before = reads_so_far();

    (void)state;
    if (!before)
        skip();
    assert_int_equal(collect_of(getpid(), &environment), 0);
    assert_true(environment.count > 0);
    assert_true(reads_so_far() - before < 200);
}

static void the_name_of_the_gpu_is_its_drivers(void **state)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    CLEAN(fd_clean) int proc_fd = -1;
    char path[256];
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    put(&stage, "/proc/7/environ", "A=1");
    put(&stage, "/proc/driver/nvidia/gpus/0000:4e:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 5\n");
    put(&stage, "/proc/driver/nvidia/gpus/0000:5e:00.0/information", "Model: other\n");
    snprintf(path, sizeof(path), "%s/proc/7", stage.root);
    proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(proc_fd >= 0);
    assert_int_equal(environment_collect(stage.root, proc_fd, &environment, NULL), 0);
    assert_string_equal(value_of(&environment, ENVIRONMENT_GPU), "NVIDIA H200");
    stage_end(&stage);
}

static void the_adapter_of_file_servers_is_known(void **state)
{
    static const char mounts[] =
        "20 1 253:0 / / rw - ext4 /dev/mapper/root rw\n"
        "29 20 0:44 / /data rw shared:9 - nfs4 filer:/set "
        "rw,vers=4.2,hard,clientaddr=10.1.0.7,addr=10.1.9.5\n"
        "30 20 0:45 / /scratch rw - lustre 10.2.0.1@o2ib:/fs rw,flock\n"
        "31 20 0:46 / /old rw - nfs elsewhere:/x rw,password=abc,addr=192.168.9.9\n";
    static const char routes[] =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth9\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth0\t0000010A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n"
        "ib0\t0000020A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n";
    struct environment environment = { .pair = calloc(ENVIRONMENT_PAIRS,
                                                      sizeof(struct environment_pair)) };
    struct stage stage;

    (void)state;
    assert_non_null(environment.pair);
    stage_begin(&stage);
    put(&stage, "/sys/class/net/ib0/device/infiniband/mlx5_0/node_type", "1: CA\n");
    put(&stage, "/sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
    environment_add_storage(&environment, stage.root, mounts, routes);
    assert_string_equal(value_of(&environment, "firmware mlx5_0"), "28.39.1002");
    assert_string_equal(value_of(&environment, "mount /data"), "nfs4 rw,vers=4.2,hard");
    assert_string_equal(value_of(&environment, "mount /scratch"), "lustre rw,flock");
    assert_string_equal(value_of(&environment, "mount /old"), "nfs rw");
    assert_string_equal(value_of(&environment, "mount /"), "none");
    assert_int_equal(environment.count, 7);
    assert_string_equal(environment.pair[2].value, "eth0");
    assert_string_equal(environment.pair[4].value, "ib0 mlx5_0");
    assert_string_equal(environment.pair[6].value, "eth9");
    environment_fini(&environment);
    stage_end(&stage);
}

static void the_image_of_a_rank_is_known_by_its_content(void **state)
{
    struct environment environment = { .pair = calloc(ENVIRONMENT_PAIRS,
                                                      sizeof(struct environment_pair)) };
    static const char variables[] = "HOME=/root\0SINGULARITY_CONTAINER=/images/train.sif";
    const struct environment_texts texts = { variables, sizeof(variables),
                                             "20 1 0:44 / / rw - overlay overlay rw\n" };
    char path[128], before[128];
    struct stage stage;
    int fd;

    (void)state;
    stage_begin(&stage);
    put(&stage, "/proc/4711/root/usr/lib/os-release", "NAME=x\nPRETTY_NAME=\"Ubuntu 22.04\"\n");
    link_to(&stage, "/usr/lib/os-release", "/proc/4711/root/etc/os-release"); /* below its root */
    put(&stage, "/proc/4711/root/var/lib/dpkg/status", "Package: a\nVersion: 1\n");
    snprintf(path, sizeof(path), "%s/proc/4711", stage.root);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    environment_add_image(&environment, fd, &texts);
    if (!pair_of(&environment, "image.os"))
        skip(); /* a kernel without openat2() */
    assert_string_equal(value_of(&environment, "image"), "/images/train.sif");
    assert_string_equal(value_of(&environment, "image.root"), "overlay");
    assert_string_equal(value_of(&environment, "image.os"), "Ubuntu 22.04");
    assert_true(pair_of(&environment, "image.packages")->digest);
    snprintf(before, sizeof(before), "%s", value_of(&environment, "image.packages"));
    environment.count = 0;
    put(&stage, "/proc/4711/root/var/lib/dpkg/status", "Package: a\nVersion: 2\n");
    environment_add_image(&environment, fd, &texts);
    assert_string_not_equal(value_of(&environment, "image.packages"), before);
    close(fd);
    environment_fini(&environment);
    stage_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_of_the_gpu_is_its_drivers),
        cmocka_unit_test(the_adapter_of_file_servers_is_known),
        cmocka_unit_test(the_image_of_a_rank_is_known_by_its_content),
        cmocka_unit_test(the_reads_of_an_environment_are_bounded),
        cmocka_unit_test(secrets_never_leave),
        cmocka_unit_test(the_value_of_a_variable_is_no_variable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
