/* ckpt-train.c - a trainer for tests of checkpoints: its tensors are a function of the step, so every byte can be checked.
 *
 * usage: ckpt-train DIR [NAME=VALUE...]
 *   steps=N      the last step (default 10)        every=N   save every so many steps (1)
 *   mb=N         MiB of the largest tensor (4)     wait=none|written|verified|replicated (written)
 *   rank=N world=N group=N job=N keep=N images=N   as lockstep_ckpt_settings
 *   slices=1     tensors are replicated over all ranks, each saves a slice; compare=1: and compares that of another one
 *   differs=N    at step N a byte of this rank's largest tensor is not as on the other ranks
 *   child=1      a child process lives on when this one has ended, and prints "child PID"
 *   behind=1     prints "behind N", the newest verified step, when a save is written
 *   shards=1     tensors are cut by rows over the ranks
 *   restore=only ends after restoring; restore=none: begins at step 1
 *   pause=MS     between two steps
 *   at=STEP      restores this point               stale=1   the tensors stay as they are after the first step
 *   rate=MB      per second, limit for the writer  every_kept=N  as keep_every
 *   parts=N      as verify_parts
 *   cancels=N    at step N this rank cancels its save; again=1: and saves the step after all, 0.3 s later
 *   absent=N     at step N this rank does not save
 *   commit=S     as commit_s                       patient=1   waits without a limit
 *   complete=1   tells the writer that all ranks have verified each point
 *
 * Several ranks agree on the point that they restore through files in DIR.agree-JOB; agree=PATH: in PATH.agree-JOB.
 *
 * Prints one line for each event: "restored N", "none: WHY", "saved N", "skipped N: WHY", "written N", "verified N",
 * "failed N: WHY", "memory N" (bytes that were restored from the memory of a writer).  Exit 1 when a restored byte is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/ckpt.h"

#define TENSORS 6
#define COLUMNS 256

struct options {
    uint64_t steps, every, mb, rank, world, group, job, keep, images, slices, shards, pause, at,
        stale, rate, complete, every_kept, parts, compare, differs, child, behind, cancels, again,
        absent, commit, patient;
    const char *wait, *restore, *agree;
};

struct tensor {
    const char *name;
    uint32_t dtype, dims;
    uint64_t global_shape[2], shape[2], offset[2];
    size_t bytes, element;
    unsigned char *data;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

/* What a tensor holds at a step, by the place of the byte in the whole tensor. */
static void fill(const struct tensor *tensor, uint64_t number, uint64_t step, unsigned char *out)
{
    uint64_t first = tensor->dims ? tensor->offset[0] * tensor->shape[1] * tensor->element : 0;

    for (size_t i = 0; i < tensor->bytes;) {
        uint64_t at = first + i, word = mix(step * 1000003 + number * 7919 + at / 8 + 1);

        do
            out[i] = (unsigned char)(word >> (8 * ((first + i) % 8)));
        while (++i < tensor->bytes && (first + i) % 8);
    }
}

static uint64_t number_of(const char *text)
{
    return strtoull(text, NULL, 10);
}

static int option_read(struct options *options, const char *word)
{
    struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {
        { "steps=", &options->steps },
        { "every=", &options->every },
        { "mb=", &options->mb },
        { "rank=", &options->rank },
        { "world=", &options->world },
        { "group=", &options->group },
        { "job=", &options->job },
        { "keep=", &options->keep },
        { "images=", &options->images },
        { "slices=", &options->slices },
        { "shards=", &options->shards },
        { "pause=", &options->pause },
        { "at=", &options->at },
        { "stale=", &options->stale },
        { "rate=", &options->rate },
        { "complete=", &options->complete },
        { "every_kept=", &options->every_kept },
        { "parts=", &options->parts },
        { "compare=", &options->compare },
        { "differs=", &options->differs },
        { "child=", &options->child },
        { "behind=", &options->behind },
        { "cancels=", &options->cancels },
        { "again=", &options->again },
        { "absent=", &options->absent },
        { "commit=", &options->commit },
        { "patient=", &options->patient },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strncmp(word, numbers[i].name, strlen(numbers[i].name)) == 0) {
            *numbers[i].to = number_of(word + strlen(numbers[i].name));
            return 0;
        }
    }
    if (strncmp(word, "wait=", 5) == 0)
        options->wait = word + 5;
    else if (strncmp(word, "restore=", 8) == 0)
        options->restore = word + 8;
    else if (strncmp(word, "agree=", 6) == 0)
        options->agree = word + 6;
    else
        return -EINVAL;
    return 0;
}

static void tensor_make(struct tensor *tensor, const struct options *options, uint64_t rows)
{
    uint64_t first = 0, end = rows;

    tensor->global_shape[0] = rows;
    tensor->global_shape[1] = tensor->shape[1] = COLUMNS;
    if (options->shards) {
        first = rows * options->rank / options->world;
        end = rows * (options->rank + 1) / options->world;
    }
    tensor->offset[0] = first;
    tensor->shape[0] = end - first;
    tensor->bytes =
        tensor->dims ? (size_t)((end - first) * COLUMNS * tensor->element) : tensor->element;
    tensor->data = malloc(tensor->bytes + 1);
    if (!tensor->data)
        exit(3);
    memset(tensor->data, 0xee, tensor->bytes);
}

static int tensor_register(struct lockstep_ckpt *ckpt, const struct tensor *tensor,
                           const struct options *options)
{
    struct lockstep_ckpt_tensor given = { .size = sizeof(given),
                                          .name = tensor->name,
                                          .dtype = tensor->dtype,
                                          .dims = tensor->dims,
                                          .data = tensor->data };

    memcpy(given.shape, tensor->shape, sizeof(tensor->shape));
    memcpy(given.global_shape, tensor->global_shape, sizeof(tensor->global_shape));
    memcpy(given.offset, tensor->offset, sizeof(tensor->offset));
    if (options->slices) {
        given.replicas = (uint32_t)options->world;
        given.replica = (uint32_t)options->rank;
        given.compare = (uint32_t)options->compare;
    }
    return lockstep_ckpt_tensor_set(ckpt, &given);
}

static int check(struct tensor *tensor, uint64_t step)
{
    for (uint64_t i = 0; i < TENSORS; i++) {
        unsigned char *wanted = malloc(tensor[i].bytes + 1);
        int same;

        if (!wanted)
            return 3;
        fill(&tensor[i], i, step, wanted);
        same = memcmp(wanted, tensor[i].data, tensor[i].bytes) == 0;
        free(wanted);
        if (!same) {
            printf("WRONG %s after restoring %" PRIu64 "\n", tensor[i].name, step);
            return 1;
        }
    }
    return 0;
}

struct meeting {
    char directory[PATH_MAX];
    uint32_t rank, world;
    unsigned round;
};

static void meeting_put(const struct meeting *meeting, uint64_t value)
{
    char name[PATH_MAX + 64], temporary[PATH_MAX + 80];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%u.%" PRIu32, meeting->directory, meeting->round,
             meeting->rank);
    snprintf(temporary, sizeof(temporary), "%s.tmp", name);
    file = fopen(temporary, "w");
    if (!file || fprintf(file, "%" PRIu64 "\n", value) < 0 || fclose(file) != 0 ||
        rename(temporary, name) < 0)
        exit(3);
}

static uint64_t meeting_get(const struct meeting *meeting, uint32_t rank)
{
    char name[PATH_MAX + 64];
    uint64_t value;
    FILE *file = NULL;

    snprintf(name, sizeof(name), "%s/%u.%" PRIu32, meeting->directory, meeting->round, rank);
    while (!(file = fopen(name, "r")))
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    if (fscanf(file, "%" SCNu64, &value) != 1)
        exit(3);
    fclose(file);
    return value;
}

static int meeting_agree(void *ctx, uint64_t value, uint64_t *ret_least)
{
    struct meeting *meeting = ctx;

    meeting_put(meeting, value);
    *ret_least = value;
    for (uint32_t rank = 0; rank < meeting->world; rank++) {
        uint64_t other = meeting_get(meeting, rank);

        *ret_least = other < *ret_least ? other : *ret_least;
    }
    meeting->round++;
    return 0;
}

static int restore(struct lockstep_ckpt *ckpt, struct tensor *tensor, const struct options *options,
                   uint64_t *step)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };
    uint64_t blob = 0;
    int result =
        lockstep_ckpt_restore(ckpt, options->at ? options->at : LOCKSTEP_CKPT_NEWEST, step);

    if (result == -ENODATA) {
        printf("none: %s\n", lockstep_ckpt_error(ckpt));
        *step = 0;
        return 0;
    }
    if (result < 0) {
        printf("failed: %s\n", lockstep_ckpt_error(ckpt));
        return 4;
    }
    if (lockstep_ckpt_blob_get(ckpt, "loader", &blob, sizeof(blob)) != sizeof(blob) ||
        blob != *step) {
        printf("WRONG blob after restoring %" PRIu64 "\n", *step);
        return 1;
    }
    printf("restored %" PRIu64 "\n", *step);
    if (lockstep_ckpt_status_get(ckpt, &status) == 0 && status.memory_bytes)
        printf("memory %" PRIu64 "\n", status.memory_bytes);
    return check(tensor, *step);
}

static void behind_print(struct lockstep_ckpt *ckpt)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };

    if (lockstep_ckpt_status_get(ckpt, &status) == 0)
        printf("behind %" PRIu64 "\n", status.verified == UINT64_MAX ? 0 : status.verified);
}

static void save(struct lockstep_ckpt *ckpt, const struct options *options, uint64_t step)
{
    enum lockstep_ckpt_stage stage = strcmp(options->wait, "verified") == 0 ? LOCKSTEP_CKPT_VERIFIED
                                     : strcmp(options->wait, "replicated") == 0
                                         ? LOCKSTEP_CKPT_REPLICATED
                                         : LOCKSTEP_CKPT_WRITTEN;
    int result;

    lockstep_ckpt_blob_set(ckpt, "loader", &step, sizeof(step));
    result = lockstep_ckpt_save_begin(ckpt, step);
    if (result < 0) {
        printf("skipped %" PRIu64 ": %s\n", step, lockstep_ckpt_error(ckpt));
        return;
    }
    if (step == options->cancels) {
        lockstep_ckpt_cancel(ckpt, "a tensor changed");
        printf("cancelled %" PRIu64 "\n", step);
        if (!options->again)
            return;
        nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
        if (lockstep_ckpt_save_begin(ckpt, step) < 0)
            return;
    }
    result = lockstep_ckpt_fence(ckpt);
    if (result == 0)
        printf("saved %" PRIu64 "\n", step);
    if (result == 0 && strcmp(options->wait, "none") != 0) {
        result = lockstep_ckpt_wait(ckpt, stage, options->patient ? -1 : 60000);
        if (result == 0)
            printf("%s %" PRIu64 "\n", options->wait, step);
        if (result == 0 && options->behind)
            behind_print(ckpt);
        if (result == 0 && options->complete)
            result = lockstep_ckpt_complete(ckpt, step);
    }
    if (result < 0)
        printf("failed %" PRIu64 ": %s\n", step, lockstep_ckpt_error(ckpt));
}

/* Once it has answered. */
static void writer_print(struct lockstep_ckpt *ckpt)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };

    for (int i = 0; i < 500 && !status.writer_pid; i++) {
        if (lockstep_ckpt_status_get(ckpt, &status) < 0)
            return;
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    }
    printf("writer %d\n", status.writer_pid);
}

static void status_print(struct lockstep_ckpt *ckpt)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };

    if (lockstep_ckpt_status_get(ckpt, &status) == 0)
        printf("io %s\nunchanged %" PRIu64 " of %" PRIu64 "\narena %" PRIu64 " MiB\n", status.io,
               status.unchanged, status.tensors, status.arena_bytes >> 20);
}

/* What the options say, for an engine on `directory`.  Ranks of several meet beside it. */
static void settings_make(const struct options *options, const char *directory,
                          struct meeting *meeting, struct lockstep_ckpt_settings *settings)
{
    settings->directory = directory;
    settings->rank = (uint32_t)options->rank;
    settings->world = (uint32_t)options->world;
    settings->group = (uint32_t)options->group;
    settings->job = options->job;
    settings->bytes_per_s = options->rate * 1000000;
    settings->keep = (uint32_t)options->keep;
    settings->images = (uint32_t)options->images;
    settings->keep_every = options->every_kept;
    settings->verify_parts = (uint32_t)options->parts;
    settings->commit_s = (uint32_t)options->commit;
    if (options->world > 1) {
        meeting->rank = settings->rank;
        meeting->world = settings->world;
        snprintf(meeting->directory, sizeof(meeting->directory), "%s.agree-%" PRIu64,
                 options->agree ? options->agree : directory, options->job);
        mkdir(meeting->directory, 0700);
        settings->agree = meeting_agree;
        settings->agree_ctx = meeting;
    }
}

static void child_start(void)
{
    pid_t pid = fork();

    if (pid < 0)
        exit(3);
    if (pid == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        sleep(300);
        _exit(0);
    }
    printf("child %d\n", (int)pid);
}

static void train(struct lockstep_ckpt *ckpt, struct tensor *tensor, const struct options *options,
                  uint64_t step)
{
    while (step < options->steps) {
        step++;
        for (uint64_t i = 0; i < TENSORS && !(options->stale && step > 1); i++)
            fill(&tensor[i], i, step, tensor[i].data);
        if (step == options->differs)
            tensor[0].data[tensor[0].bytes / 2] ^= 1;
        if (step % options->every == 0 && step != options->absent)
            save(ckpt, options, step);
        if (options->pause)
            nanosleep(&(struct timespec){ (time_t)(options->pause / 1000),
                                          (long)(options->pause % 1000) * 1000000 },
                      NULL);
    }
}

int main(int argc, char **argv)
{
    struct options options = { .steps = 10, .every = 1, .mb = 4, .wait = "written", .world = 1 };
    struct tensor tensor[TENSORS] = {
        { .name = "model.weight", .dtype = LOCKSTEP_CKPT_F32, .dims = 2, .element = 4 },
        { .name = "model.half \"quoted\"", .dtype = LOCKSTEP_CKPT_BF16, .dims = 2, .element = 2 },
        { .name = "optim.step", .dtype = LOCKSTEP_CKPT_I64, .dims = 0, .element = 8 },
        { .name = "model.scale", .dtype = LOCKSTEP_CKPT_F8_E4M3, .dims = 2, .element = 1 },
        { .name = "model.empty", .dtype = LOCKSTEP_CKPT_F32, .dims = 2, .element = 4 },
        { .name = "model.big", .dtype = LOCKSTEP_CKPT_U16, .dims = 2, .element = 2 },
    };
    struct lockstep_ckpt *ckpt = NULL;
    struct lockstep_ckpt_settings settings = { .size = sizeof(settings) };
    struct meeting meeting = { .round = 0 };
    uint64_t step = 0;
    char why[256] = "";
    int result;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 2; i < argc; i++) {
        if (option_read(&options, argv[i]) < 0)
            return 2;
    }
    if (argc < 2)
        return 2;
    settings_make(&options, argv[1], &meeting, &settings);
    result = lockstep_ckpt_open(&settings, &ckpt, why, sizeof(why));
    if (result < 0) {
        printf("not opened: %s\n", why);
        return 3;
    }
    for (size_t i = 0; i < TENSORS; i++) {
        const uint64_t rows[TENSORS] = { options.mb * 1024, 37, 0, 513, 0, 5000 };

        tensor_make(&tensor[i], &options, rows[i]);
        if (tensor_register(ckpt, &tensor[i], &options) < 0) {
            printf("failed: %s\n", lockstep_ckpt_error(ckpt));
            return 3;
        }
    }
    if (!options.restore || strcmp(options.restore, "none") != 0)
        result = restore(ckpt, tensor, &options, &step);
    if (result || (options.restore && strcmp(options.restore, "only") == 0)) {
        lockstep_ckpt_close(ckpt);
        for (size_t i = 0; i < TENSORS; i++)
            free(tensor[i].data);
        return result;
    }
    if (lockstep_ckpt_prepare(ckpt) < 0)
        printf("not prepared: %s\n", lockstep_ckpt_error(ckpt));
    writer_print(ckpt);
    if (options.child)
        child_start();
    train(ckpt, tensor, &options, step);
    status_print(ckpt);
    lockstep_ckpt_close(ckpt);
    for (size_t i = 0; i < TENSORS; i++)
        free(tensor[i].data);
    puts("done");
    return 0;
}
