/* bench_ckpt.c - what a checkpoint costs, beside what the machine can do at most.
 *
 * Each round measures the ceilings (memcpy into warm shared memory, direct write and read of a file) and a save and restore of as many
 * bytes, one right after the other, so that other load on the machine meets both.  Results are medians over rounds, ratios
 * are medians of the rounds' ratios.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "ckpt/arena.h"
#include "ckpt/store/blocks.h"
#include "ckpt/store/threads.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/cmd/lab.h"
#include "lockstep/ckpt.h"

#define ROUNDS_MAX 50
#define TENSORS 64
#define PIECE (4u << 20)
#define STALL_BAR 0.85
#define WRITTEN_BAR 0.90
#define RESTORE_BAR 0.90
#define CPU_BAR 0.45

enum measure {
    STALL,
    MEMCPY,
    WRITTEN,
    RAW_WRITE,
    VERIFIED,
    RESTORE,
    RAW_READ,
    CPU, /* seconds per GB */
    STALL_RATIO,
    WRITTEN_RATIO,
    RESTORE_RATIO,
    MEASURES,
};

static const char *const measure_names[MEASURES] = {
    "stall_gbps",    "memcpy_gbps",   "written_gbps",  "raw_write_gbps",
    "verified_gbps", "restore_gbps",  "raw_read_gbps", "cpu_seconds_per_gb",
    "stall_ratio",   "written_ratio", "restore_ratio",
};

struct bench_ckpt {
    const struct bench_ckpt_settings *settings;
    struct path directory, raw;
    uint64_t bytes;
    unsigned char *source; /* the tensors */
    struct arena arena;    /* warm: for the ceilings */
    struct lockstep_ckpt *ckpt;
    enum blocks_way way;
    char io[192];
    double value[MEASURES][ROUNDS_MAX];
    unsigned rounds;
};

static double bench_rate(const struct bench_ckpt *bench, int64_t ns)
{
    return (double)bench->bytes / (double)MAX(ns, 1);
}

/* ---- ceilings ---- */

struct bench_copy {
    const struct bench_ckpt *bench;
    _Atomic uint64_t next;
};

static void *bench_copy_run(void *ctx)
{
    struct bench_copy *copy = ctx;
    uint64_t at;

    while ((at = atomic_fetch_add(&copy->next, PIECE)) < copy->bench->bytes)
        memcpy(copy->bench->arena.base + at, copy->bench->source + at,
               MIN(PIECE, copy->bench->bytes - at));
    return NULL;
}

static int64_t bench_memcpy_ns(const struct bench_ckpt *bench)
{
    struct bench_copy copy = { .bench = bench };
    int64_t begin_ns = time_mono_ns();

    threads_run(MIN(threads_cpus(), 8), bench_copy_run, &copy);
    return time_mono_ns() - begin_ns;
}

static int bench_raw_write_ns(struct bench_ckpt *bench, int64_t *ret_ns, struct err *err)
{
    int64_t begin_ns = (unlink(bench->raw.text), time_mono_ns());
    CLEAN(fd_clean)
    int fd = open(bench->raw.text,
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | blocks_open_flags(bench->way), 0600);
    struct blocks_job job = { .fd = fd,
                              .way = bench->way,
                              .write = true,
                              .bytes = bench->bytes,
                              .image = bench->arena.base };
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", bench->raw.text);
    if (fallocate(fd, 0, 0, (off_t)bench->bytes) < 0 && errno == ENOSPC)
        return err_set(err, -ENOSPC, "%s: %m", bench->raw.text);
    result = blocks_run(&job, err);
    if (result == 0 && fsync(fd) < 0)
        result = err_set(err, -errno, "fsync: %m");
    *ret_ns = time_mono_ns() - begin_ns;
    return result;
}

static int bench_raw_read_ns(const struct bench_ckpt *bench, int64_t *ret_ns, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    CLEAN(fd_clean)
    int fd = open(bench->raw.text, O_RDONLY | O_CLOEXEC | blocks_open_flags(bench->way));
    struct blocks_job job = { .fd = fd, .way = bench->way, .bytes = bench->bytes };
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", bench->raw.text);
    if (bench->way == BLOCKS_BUFFERED)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    result = blocks_run(&job, err);
    *ret_ns = time_mono_ns() - begin_ns;
    return result;
}

/* The fastest way that works in this directory, as the writer finds it. */
static int bench_way_find(struct bench_ckpt *bench, struct err *err)
{
    int result = -EOPNOTSUPP;
    int64_t ns;

    for (bench->way = BLOCKS_URING; result == -EOPNOTSUPP && bench->way < BLOCKS_WAYS;) {
        result = bench_raw_write_ns(bench, &ns, err);
        if (result == -EINVAL)
            result = -EOPNOTSUPP;
        bench->way += result == -EOPNOTSUPP;
    }
    return result;
}

/* ---- the engine ---- */

static int bench_check(const struct bench_ckpt *bench, int result, const char *what,
                       struct err *err)
{
    return result < 0 ? err_set(err, result, "%s: %s", what, lockstep_ckpt_error(bench->ckpt)) : 0;
}

static int bench_tensors_register(struct bench_ckpt *bench, struct err *err)
{
    uint64_t at = 0;
    int result = 0;

    for (unsigned i = 0; result == 0 && i < TENSORS; i++) {
        uint64_t end = bench->bytes / 4 * (i + 1) / TENSORS * 4;
        struct lockstep_ckpt_tensor tensor = { .size = sizeof(tensor),
                                               .dtype = LOCKSTEP_CKPT_F32,
                                               .dims = 1,
                                               .shape = { (end - at) / 4 },
                                               .data = bench->source + at };
        char name[32];

        snprintf(name, sizeof(name), "tensor.%03u", i);
        tensor.name = name;
        result = bench_check(bench, lockstep_ckpt_tensor_set(bench->ckpt, &tensor), "tensor", err);
        at = end;
    }
    return result;
}

static int bench_save(struct bench_ckpt *bench, uint64_t step, struct err *err)
{
    struct lockstep_ckpt_status before = { .size = sizeof(before) }, after = before;
    int64_t begin_ns, fence_ns, written_ns = 0, verified_ns = 0;
    unsigned round = bench->rounds;
    int result;

    lockstep_ckpt_status_get(bench->ckpt, &before);
    begin_ns = time_mono_ns();
    result = bench_check(bench, lockstep_ckpt_save_begin(bench->ckpt, step), "save", err);
    if (result == 0)
        result = bench_check(bench, lockstep_ckpt_fence(bench->ckpt), "fence", err);
    fence_ns = time_mono_ns();
    if (result == 0)
        result = bench_check(bench, lockstep_ckpt_wait(bench->ckpt, LOCKSTEP_CKPT_WRITTEN, -1),
                             "write", err);
    written_ns = time_mono_ns();
    if (result == 0)
        result = bench_check(bench, lockstep_ckpt_wait(bench->ckpt, LOCKSTEP_CKPT_VERIFIED, -1),
                             "read back", err);
    verified_ns = time_mono_ns();
    lockstep_ckpt_status_get(bench->ckpt, &after);
    snprintf(bench->io, sizeof(bench->io), "%s", after.io);
    bench->value[STALL][round] = bench_rate(bench, fence_ns - begin_ns);
    bench->value[WRITTEN][round] = bench_rate(bench, written_ns - fence_ns);
    bench->value[VERIFIED][round] = bench_rate(bench, verified_ns - fence_ns);
    bench->value[CPU][round] =
        (double)(after.writer_cpu_ns - before.writer_cpu_ns) / (double)bench->bytes;
    return result;
}

static int bench_restore(struct bench_ckpt *bench, uint64_t step, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    uint64_t got = 0;
    int result = bench_check(bench, lockstep_ckpt_restore(bench->ckpt, step, &got), "restore", err);

    bench->value[RESTORE][bench->rounds] = bench_rate(bench, time_mono_ns() - begin_ns);
    return result;
}

/* The order alternates: neither always finds the disk as the other left it. */
static int bench_round(struct bench_ckpt *bench, struct err *err)
{
    unsigned round = bench->rounds;
    bool raw_first = round % 2;
    int64_t write_ns = 0, read_ns = 0;
    int result = 0;

    bench->value[MEMCPY][round] = bench_rate(bench, bench_memcpy_ns(bench));
    if (raw_first)
        result = bench_raw_write_ns(bench, &write_ns, err);
    if (result == 0)
        result = bench_save(bench, round + 1, err);
    if (result == 0 && !raw_first)
        result = bench_raw_write_ns(bench, &write_ns, err);
    if (result == 0 && raw_first)
        result = bench_raw_read_ns(bench, &read_ns, err);
    if (result == 0)
        result = bench_restore(bench, round + 1, err);
    if (result == 0 && !raw_first)
        result = bench_raw_read_ns(bench, &read_ns, err);
    if (result < 0)
        return result;
    bench->value[RAW_WRITE][round] = bench_rate(bench, write_ns);
    bench->value[RAW_READ][round] = bench_rate(bench, read_ns);
    bench->value[STALL_RATIO][round] = bench->value[STALL][round] / bench->value[MEMCPY][round];
    bench->value[WRITTEN_RATIO][round] =
        bench->value[WRITTEN][round] / bench->value[RAW_WRITE][round];
    bench->value[RESTORE_RATIO][round] =
        bench->value[RESTORE][round] / bench->value[RAW_READ][round];
    bench->rounds++;
    return 0;
}

/* ---- results ---- */

static int bench_double_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double bench_median(const struct bench_ckpt *bench, enum measure measure)
{
    double sorted[ROUNDS_MAX];

    memcpy(sorted, bench->value[measure], sizeof(sorted));
    qsort(sorted, bench->rounds, sizeof(*sorted), bench_double_compare);
    return sorted[bench->rounds / 2];
}

static bool bench_passed(const struct bench_ckpt *bench)
{
    return bench_median(bench, STALL_RATIO) >= STALL_BAR &&
           bench_median(bench, WRITTEN_RATIO) >= WRITTEN_BAR &&
           bench_median(bench, RESTORE_RATIO) >= RESTORE_BAR && bench_median(bench, CPU) <= CPU_BAR;
}

static void bench_json(const struct bench_ckpt *bench)
{
    struct json_object *object = json_object_new_object();

    for (int i = 0; i < MEASURES; i++)
        json_object_object_add(object, measure_names[i],
                               json_object_new_double(bench_median(bench, (enum measure)i)));
    json_object_object_add(object, "io", json_object_new_string(bench->io));
    json_object_object_add(object, "bytes", json_object_new_uint64(bench->bytes));
    json_object_object_add(object, "rounds", json_object_new_int64(bench->rounds));
    json_object_object_add(object, "passed", json_object_new_boolean(bench_passed(bench)));
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

static void bench_text(const struct bench_ckpt *bench)
{
    static const struct {
        const char *what;
        enum measure own, ceiling, ratio;
        double bar;
    } rows[] = {
        { "stall (copy)", STALL, MEMCPY, STALL_RATIO, STALL_BAR },
        { "written", WRITTEN, RAW_WRITE, WRITTEN_RATIO, WRITTEN_BAR },
        { "restore, verified", RESTORE, RAW_READ, RESTORE_RATIO, RESTORE_BAR },
    };

    printf("%.2f GB, %u rounds, medians; io: %s\n", (double)bench->bytes / 1e9, bench->rounds,
           bench->io);
    for (size_t i = 0; i < COUNT(rows); i++)
        printf("%-18s %6.2f GB/s, ceiling %6.2f GB/s: %5.1f %%, limit %.0f %%\n", rows[i].what,
               bench_median(bench, rows[i].own), bench_median(bench, rows[i].ceiling),
               100 * bench_median(bench, rows[i].ratio), 100 * rows[i].bar);
    printf("%-18s %6.2f GB/s\n", "read back", bench_median(bench, VERIFIED));
    printf("%-18s %6.2f core-seconds per GB in the writer, limit %.2f\n", "CPU",
           bench_median(bench, CPU), CPU_BAR);
}

/* ---- begin and end ---- */

static int bench_open(struct bench_ckpt *bench, struct err *err)
{
    const char *base = bench->settings->dir;
    struct lockstep_ckpt_settings settings = { .size = sizeof(settings), .images = 1, .keep = 1 };
    struct rand rand = { 1 };
    int result;

    if (!base)
        base = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    result = path_join(&bench->directory, base, "lockstep-bench-ckpt-XXXXXX", err);
    if (result < 0)
        return result;
    if (!mkdtemp(bench->directory.text)) {
        result = err_set(err, -errno, "%s: %m", base);
        bench->directory.text[0] = '\0';
        return result;
    }
    result = path_join(&bench->raw, bench->directory.text, "raw", err);
    if (result == 0)
        result = arena_create(&bench->arena, bench->bytes, 1, 1, err);
    if (result < 0)
        return result;
    bench->source = mmap(NULL, bench->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (bench->source == MAP_FAILED) {
        bench->source = NULL;
        return err_nomem(err);
    }
    for (uint64_t i = 0; i + 8 <= bench->bytes; i += 8) {
        uint64_t word = rand_u64(&rand);

        memcpy(bench->source + i, &word, 8);
    }
    settings.directory = bench->directory.text;
    result = lockstep_ckpt_open(&settings, &bench->ckpt, err->text, sizeof(err->text));
    if (result == 0)
        result = bench_tensors_register(bench, err);
    if (result == 0)
        result = bench_check(bench, lockstep_ckpt_prepare(bench->ckpt), "prepare", err);
    return result < 0 ? result : bench_way_find(bench, err);
}

static void bench_close(struct bench_ckpt *bench)
{
    lockstep_ckpt_close(bench->ckpt);
    arena_destroy(&bench->arena);
    if (bench->source)
        munmap(bench->source, bench->bytes);
    if (bench->directory.text[0])
        tree_remove(bench->directory.text);
}

int bench_ckpt_main(int argc, char **argv)
{
    struct bench_ckpt_settings settings = { .bytes = 2000000000, .rounds = 7 };
    int first = opt_parse(&command_bench_ckpt, argc, argv, &settings), result;
    CLEAN(free_clean) struct bench_ckpt *bench = calloc(1, sizeof(*bench));
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc || settings.bytes < 1000000 || !settings.rounds ||
        settings.rounds > ROUNDS_MAX || !bench) {
        log_error(first < argc ? "unexpected operand '%s'"
                               : "--bytes must be at least 1000000, --rounds 1 to 50",
                  argv[first]);
        return 2;
    }
    bench->settings = &settings;
    bench->bytes = settings.bytes / 4096 * 4096;
    bench->arena.fd = -1;
    result = bench_open(bench, &err);
    while (result == 0 && bench->rounds < settings.rounds) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rround %u of %u ", bench->rounds + 1, settings.rounds);
        result = bench_round(bench, &err);
    }
    if (isatty(STDERR_FILENO))
        fputs("\r                  \r", stderr);
    if (result == 0 && settings.json)
        bench_json(bench);
    else if (result == 0)
        bench_text(bench);
    bench_close(bench);
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    return bench_passed(bench) ? 0 : 1;
}
