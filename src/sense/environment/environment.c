/* environment.c - reads a process's settings and libraries, and the node's driver and kernel.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/environment/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "sense/build_id.h"
#include "sense/tree.h"

#define ENVIRON_BYTES (256 * 1024)
#define MAPS_BYTES (2 * 1024 * 1024)
#define MOUNTS_BYTES (256 * 1024)
#define LIBRARIES_MAX 64 /* mappings of them that are read */
#define DIGEST_BITS 20

/* Variables whose values are taken. */
static const char *const open_names[] = {
    "NCCL_",
    "TORCH_",
    "PYTORCH_",
    "OMP_",
    "CUDA_",
    "UCX_",
    "FI_",
    "GLOO_",
    "MKL_NUM",
    "NUMEXPR_",
    "OPENBLAS_NUM",
    "KMP_",
    "GOMP_",
    "TORCHINDUCTOR",
    "TRITON_CACHE",
    "NVIDIA_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONHASHSEED",
    "SLURM_NNODES",
    "XLA_",
    "OMPI_MCA_",
};
/* Names that sound like these are left out. */
static const char *const secret_words[] = { "SECRET",     "TOKEN",  "PASSW", "KEY",
                                            "CREDENTIAL", "COOKIE", "AUTH",  "PRIVATE" };
/* Variables that differ between ranks by design. */
static const char *const own_names[] = { "RANK",
                                         "LOCAL_RANK",
                                         "GROUP_RANK",
                                         "ROLE_RANK",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_NODEID",
                                         "SLURM_TASK_PID",
                                         "HOSTNAME",
                                         "LOCKSTEP_RANK",
                                         "PWD",
                                         "OLDPWD",
                                         "_",
                                         "SHLVL",
                                         "CUDA_VISIBLE_DEVICES" };
/* Variables that launchers choose for each rank, attempt, job or session. */
static const char *const own_prefixes[] = {
    "LOCKSTEP_",  "TORCHELASTIC_", "MASTER_",       "PMI",        "OMPI_COMM_WORLD_",
    "SLURM_JOB",  "SLURM_STEP",    "SLURM_TASK",    "SLURM_SRUN", "SLURM_GTIDS",
    "SLURMD_",    "SLURM_TOPO",    "SLURM_LAUNCH_", "SSH_",       "XDG_SESSION",
    "INVOCATION", "JOURNAL_",      "HYDRA_",        "TMUX",       "WINDOWID",
};
/* Libraries whose versions matter. */
static const char *const libraries[] = { "libnccl",      "libcuda.so", "libcudart",
                                         "libcublas",    "libcudnn",   "libtorch_cuda",
                                         "libtorch_cpu", "libc.so",    "libc-2",
                                         "libibverbs",   "libmlx5",    "libnvidia-ml",
                                         "libnccl-net",  "libfabric",  "libucp" };

static bool environment_begins_with_any(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return true;
    }
    return false;
}

static bool environment_is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

bool environment_is_secret(const char *name)
{
    for (size_t i = 0; i < COUNT(secret_words); i++) {
        if (strcasestr(name, secret_words[i]))
            return true;
    }
    return false;
}

void environment_pair_add(struct environment *environment, const char *name, const char *value,
                          bool digest)
{
    struct environment_pair *pair;

    if (environment->count == ENVIRONMENT_PAIRS || strlen(name) >= sizeof(pair->name))
        return;
    pair = &environment->pair[environment->count++];
    *pair = (struct environment_pair){ .digest = digest };
    snprintf(pair->name, sizeof(pair->name), "%s", name);
    if (digest)
        snprintf(pair->value, sizeof(pair->value), "%05x",
                 (unsigned)(hash64(0, value, strlen(value)) & ((1u << DIGEST_BITS) - 1)));
    else
        snprintf(pair->value, sizeof(pair->value), "%s", value);
}

/* "https://user:password@host": the name is harmless, the value is not. */
static bool environment_has_login(const char *value)
{
    const char *scheme = strstr(value, "://");

    return scheme && strchr(scheme, '@');
}

static void environment_take_variable(struct environment *environment, char *text)
{
    char *equals = strchr(text, '=');
    bool open;

    if (!equals)
        return;
    *equals = '\0';
    if (environment_is_one_of(text, own_names, COUNT(own_names)) ||
        environment_begins_with_any(text, own_prefixes, COUNT(own_prefixes)) ||
        environment_is_secret(text))
        return;
    open = environment_begins_with_any(text, open_names, COUNT(open_names)) &&
           !environment_has_login(equals + 1);
    environment_pair_add(environment, text, equals + 1, !open);
}

void environment_add_variables(struct environment *environment, char *text, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        length = strlen(text + at); /* before the name is cut off: a value is no variable */
        environment_take_variable(environment, text + at);
    }
}

/* The whole of a file that may be larger than one read gives; NUL-ended.  -errno. */
static int environment_file_read(int proc_fd, const char *name, size_t most, char **ret,
                                 size_t *bytes)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEAN(free_clean) char *text = NULL;
    size_t used = 0;

    if (fd < 0)
        return -errno;
    text = malloc(most + 1);
    if (!text)
        return -ENOMEM;
    while (used < most) {
        ssize_t got = read(fd, text + used, most - used);

        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    *bytes = used;
    *ret = TAKE(text);
    return 0;
}

/* The image before the variables, whose text these change. */
static int environment_take_variables(int proc_fd, const char *mountinfo,
                                      struct environment *environment)
{
    CLEAN(free_clean) char *text = NULL;
    size_t bytes;
    int result = environment_file_read(proc_fd, "environ", ENVIRON_BYTES, &text, &bytes);

    if (result < 0)
        return result;
    environment_add_image(environment, proc_fd,
                          &(struct environment_texts){ text, bytes, mountinfo });
    environment_add_variables(environment, text, bytes);
    return 0;
}

/* ---- libraries ---- */

/* "7f12-7f34 r--p 00000000 08:01 1234 /usr/lib/libnccl.so.2.28.9"; true: it is one of the list. */
static bool environment_take_library(struct environment *environment, int memory, const char *line)
{
    const char *path = strchr(line, '/'), *file;
    unsigned long long base, end, offset;
    char value[128], id[BUILD_ID_TEXT];

    if (!path || sscanf(line, "%llx-%llx %*s %llx", &base, &end, &offset) != 3 || offset != 0)
        return false;
    file = strrchr(path, '/') + 1;
    if (!environment_begins_with_any(file, libraries, COUNT(libraries)))
        return false;
    build_id_read(memory, base, id);
    snprintf(value, sizeof(value), "%.70s%s%s", file, id[0] ? " " : "", id);
    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].value, value) == 0)
            return true;
    }
    environment_pair_add(environment, "library", value, false);
    return true;
}

void environment_add_libraries(struct environment *environment, int memory, char *maps)
{
    unsigned count = 0;

    for (char *line = maps, *end; *line && count < LIBRARIES_MAX; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        count += environment_take_library(environment, memory, line);
    }
}

static void environment_take_libraries(int proc_fd, struct environment *environment)
{
    CLEAN(free_clean) char *text = NULL;
    CLEAN(fd_clean) int memory = -1;
    size_t bytes;

    if (environment_file_read(proc_fd, "maps", MAPS_BYTES, &text, &bytes) < 0)
        return;
    memory = openat(proc_fd, "mem", O_RDONLY | O_CLOEXEC);
    environment_add_libraries(environment, memory, text);
}

/* As the process sees it: its own mounts and its own network. */
static void environment_take_storage(const char *root, int proc_fd, const char *mountinfo,
                                     struct environment *environment)
{
    CLEAN(free_clean) char *routes = NULL;
    size_t bytes;

    environment_file_read(proc_fd, "net/route", MOUNTS_BYTES, &routes, &bytes);
    environment_add_storage(environment, root, mountinfo, routes ? routes : "");
}

#define GPUS "/proc/driver/nvidia/gpus"

struct environment_gpus {
    const struct tree *tree;
    struct environment *environment;
};

/* The name of the first: "Model: \t\t NVIDIA H200". */
static void environment_take_gpu(void *user, const char *name)
{
    const struct environment_gpus *gpus = user;
    struct environment *environment = gpus->environment;
    char text[512], *model;

    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].name, ENVIRONMENT_GPU) == 0)
            return;
    }
    if (tree_read(gpus->tree, text, sizeof(text), GPUS "/%s/information", name) <= 0)
        return;
    model = strstr(text, "Model:");
    if (!model)
        return;
    model += strlen("Model:");
    model += strspn(model, " \t");
    model[strcspn(model, "\n")] = '\0';
    environment_pair_add(environment, ENVIRONMENT_GPU, model, false);
}

static void environment_take_node(const char *root, struct environment *environment)
{
    static const struct {
        const char *name, *path;
    } files[] = {
        { "kernel", "/proc/sys/kernel/osrelease" },
        { "driver", "/sys/module/nvidia/version" },
        { "gdrcopy", "/sys/module/gdrdrv/version" },
        { "peermem", "/sys/module/nvidia_peermem/version" },
        { "mlx5", "/sys/module/mlx5_core/version" },
        { "board", "/sys/class/dmi/id/product_name" },
        { "bios", "/sys/class/dmi/id/bios_version" },
    };
    struct tree tree = { root };

    tree_list(&tree, GPUS, environment_take_gpu, &(struct environment_gpus){ &tree, environment });
    for (size_t i = 0; i < COUNT(files); i++) {
        char text[128];

        if (tree_read(&tree, text, sizeof(text), "%s", files[i].path) > 0)
            environment_pair_add(environment, files[i].name, text, false);
    }
}

int environment_collect(const char *root, int proc_fd, struct environment *ret, struct err *err)
{
    struct environment environment = { .pair = calloc(ENVIRONMENT_PAIRS,
                                                      sizeof(struct environment_pair)) };
    CLEAN(free_clean) char *mounts = NULL;
    size_t bytes;
    int result;

    if (!environment.pair)
        return err_nomem(err);
    environment_file_read(proc_fd, "mountinfo", MOUNTS_BYTES, &mounts, &bytes);
    environment_take_node(root, &environment);
    environment_take_storage(root, proc_fd, mounts ? mounts : "", &environment);
    environment_take_libraries(proc_fd, &environment);
    result = environment_take_variables(proc_fd, mounts ? mounts : "", &environment);
    if (result < 0) {
        free(environment.pair);
        return err_set(err, result, "environ: %s", strerror(-result));
    }
    ret->count = environment.count;
    ret->pair = environment.pair;
    return 0;
}
