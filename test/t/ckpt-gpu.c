/* ckpt-gpu.c - tensors on a GPU, for the test of their checkpoints: a small program over libcuda.so.1, real or scripted.
 *
 * usage: ckpt-gpu DIR [prepare] STEP...
 *   STEP is one of
 *     pair=R     first of all: this is rank R of two, whose tensors are equal and are compared
 *     verify     waits until the save is verified
 *     set=N      launches, on the stream of the program, that all tensors become N
 *     begin=S    save_begin(S)          fence     cancel     wait     (until it is written)
 *     sync       waits for the stream of the program
 *     late       launches on the stream that tensor "buffer" becomes 99, and waits: only this one may change before the fence
 *     restore    the newest point       show      prints "weight W buffer B host H", each a byte, or "mixed"
 *     status     prints how tensors are copied
 *
 * A step that fails prints its name and the reason, and the program goes on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/ckpt.h"

#define BYTES (9u << 20)

struct driver {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*push)(void *);
    int (*alloc)(uint64_t *, size_t);
    int (*stream_create)(void **, unsigned);
    int (*set)(uint64_t, unsigned char, size_t, void *);
    int (*to_host)(void *, uint64_t, size_t, void *);
    int (*stream_wait)(void *);
};

struct program {
    struct driver driver;
    struct lockstep_ckpt *ckpt;
    void *stream;
    uint64_t weight, buffer;
    unsigned char *host;
};

static void *driver_symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);

    if (!found) {
        printf("no %s\n", name);
        exit(3);
    }
    return found;
}

#define SYMBOL(member, name)                                                                       \
    do {                                                                                           \
        void *found_ = driver_symbol(handle, name);                                                \
        memcpy(&driver->member, &found_, sizeof(found_));                                          \
    } while (0)

static void driver_open(struct driver *driver)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW), *context;

    if (!handle) {
        printf("no driver\n");
        exit(77);
    }
    SYMBOL(init, "cuInit");
    SYMBOL(retain, "cuDevicePrimaryCtxRetain");
    SYMBOL(push, "cuCtxPushCurrent_v2");
    SYMBOL(alloc, "cuMemAlloc_v2");
    SYMBOL(stream_create, "cuStreamCreate");
    SYMBOL(set, "cuMemsetD8Async");
    SYMBOL(to_host, "cuMemcpyDtoHAsync_v2");
    SYMBOL(stream_wait, "cuStreamSynchronize");
    if (driver->init(0) || driver->retain(&context, 0) || driver->push(context))
        exit(77);
}

static int program_register(struct program *program, const struct lockstep_ckpt_settings *settings)
{
    struct lockstep_ckpt_tensor weight = { .size = sizeof(weight),
                                           .name = "weight",
                                           .dtype = LOCKSTEP_CKPT_U8,
                                           .dims = 1,
                                           .shape = { BYTES },
                                           .device = LOCKSTEP_CKPT_CUDA,
                                           .later = 1,
                                           .replicas = settings->world,
                                           .replica = settings->rank,
                                           .compare = 1 },
                                buffer = weight, host = weight;
    int result;

    weight.data = (void *)(uintptr_t)program->weight; /* NOLINT(performance-no-int-to-ptr) */
    buffer.name = "buffer";
    buffer.data = (void *)(uintptr_t)program->buffer; /* NOLINT(performance-no-int-to-ptr) */
    buffer.later = 0;
    host.name = "host";
    host.data = program->host;
    host.device = LOCKSTEP_CKPT_CPU;
    result = lockstep_ckpt_tensor_set(program->ckpt, &weight);
    if (result == 0)
        result = lockstep_ckpt_tensor_set(program->ckpt, &buffer);
    if (result == 0)
        result = lockstep_ckpt_tensor_set(program->ckpt, &host);
    if (result == 0)
        result = lockstep_ckpt_stream_set(program->ckpt, 0, program->stream);
    return result;
}

static void program_value_print(const char *name, const unsigned char *bytes)
{
    for (size_t i = 1; i < BYTES; i++) {
        if (bytes[i] != bytes[0]) {
            printf("%s mixed ", name);
            return;
        }
    }
    printf("%s %u ", name, bytes[0]);
}

static void program_show(struct program *program)
{
    unsigned char *copy = malloc(BYTES);
    const struct driver *driver = &program->driver;

    if (!copy)
        exit(3);
    driver->to_host(copy, program->weight, BYTES, program->stream);
    driver->stream_wait(program->stream);
    program_value_print("weight", copy);
    driver->to_host(copy, program->buffer, BYTES, program->stream);
    driver->stream_wait(program->stream);
    program_value_print("buffer", copy);
    program_value_print("host", program->host);
    printf("\n");
    free(copy);
}

static void program_set(struct program *program, unsigned char value)
{
    program->driver.set(program->weight, value, BYTES, program->stream);
    program->driver.set(program->buffer, value, BYTES, program->stream);
    memset(program->host, value, BYTES);
}

static int program_status(struct program *program)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };
    int result = lockstep_ckpt_status_get(program->ckpt, &status);

    printf("device %s\nwaited %s\n", status.device, status.pin_wait_ns > 1000000 ? "yes" : "no");
    printf("saved %" PRIu64 " skipped %" PRIu64 " failed %" PRIu64 " cancelled %" PRIu64 "\n",
           status.saved, status.skipped, status.failed, status.cancelled);
    return result;
}

static int program_step(struct program *program, const char *word)
{
    struct lockstep_ckpt *ckpt = program->ckpt;
    uint64_t step;

    if (strncmp(word, "set=", 4) == 0)
        program_set(program, (unsigned char)atoi(word + 4));
    else if (strcmp(word, "late") == 0) {
        program->driver.set(program->buffer, 99, BYTES, program->stream);
        return -program->driver.stream_wait(program->stream);
    } else if (strcmp(word, "sync") == 0)
        return -program->driver.stream_wait(program->stream);
    else if (strcmp(word, "show") == 0)
        program_show(program);
    else if (strcmp(word, "status") == 0)
        return program_status(program);
    else if (strcmp(word, "prepare") == 0)
        return lockstep_ckpt_prepare(ckpt);
    else if (strncmp(word, "begin=", 6) == 0)
        return lockstep_ckpt_save_begin(ckpt, (uint64_t)atoi(word + 6));
    else if (strcmp(word, "fence") == 0)
        return lockstep_ckpt_fence(ckpt);
    else if (strcmp(word, "cancel") == 0)
        return lockstep_ckpt_cancel(ckpt, "as asked");
    else if (strcmp(word, "wait") == 0)
        return lockstep_ckpt_wait(ckpt, LOCKSTEP_CKPT_WRITTEN, 60000);
    else if (strcmp(word, "verify") == 0)
        return lockstep_ckpt_wait(ckpt, LOCKSTEP_CKPT_VERIFIED, 60000);
    else if (strcmp(word, "restore") == 0)
        return lockstep_ckpt_restore(ckpt, LOCKSTEP_CKPT_NEWEST, &step);
    else
        exit(2);
    return 0;
}

int main(int argc, char **argv)
{
    struct program program = { .ckpt = NULL };
    struct lockstep_ckpt_settings settings = { .size = sizeof(settings) };
    char why[256] = "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3)
        return 2;
    settings.directory = argv[1];
    if (strncmp(argv[2], "pair=", 5) == 0) {
        settings.rank = (uint32_t)atoi(argv[2] + 5);
        settings.world = 2;
        settings.job = 1;
    }
    driver_open(&program.driver);
    program.host = malloc(BYTES);
    if (!program.host || program.driver.alloc(&program.weight, BYTES) ||
        program.driver.alloc(&program.buffer, BYTES) ||
        program.driver.stream_create(&program.stream, 1 /* does not wait for the default one */))
        return 3;
    if (lockstep_ckpt_open(&settings, &program.ckpt, why, sizeof(why)) < 0) {
        printf("not opened: %s\n", why);
        return 3;
    }
    if (program_register(&program, &settings) < 0) {
        printf("not registered: %s\n", lockstep_ckpt_error(program.ckpt));
        return 3;
    }
    program_set(&program, 1);
    for (int i = settings.world ? 3 : 2; i < argc; i++) {
        if (program_step(&program, argv[i]) < 0)
            printf("%s: %s\n", argv[i], lockstep_ckpt_error(program.ckpt));
    }
    lockstep_ckpt_close(program.ckpt);
    free(program.host);
    puts("done");
    return 0;
}
