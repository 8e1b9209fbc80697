/* bench_matrix.c - how long a tile of the rank × step matrix takes, at any zoom.
 *
 * The file is made through the very functions that a controller uses.  Tiles are then read at random levels and
 * places, once with the file in the page cache and once without, and beside them the same bytes at
 * the same places by plain reads: nothing can be faster than that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lab/bench_options.h"
#include "control/matrix/matrix.h"
#include "control/matrix/matrix_private.h"
#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/cmd/lab.h"

#define TILE_BAR_MS 10.0

struct bench_series {
    double *ms;
    size_t count;
};

struct bench_matrix {
    const struct bench_matrix_settings *settings;
    struct path path;
    double append_us; /* a column, flushes included */
    double file_bytes;
    struct bench_series warm, cold, warm_read, cold_read;
};

static void bench_fini(struct bench_matrix *bench)
{
    if (bench->path.text[0])
        unlink(bench->path.text);
    free(bench->warm.ms);
    free(bench->cold.ms);
    free(bench->warm_read.ms);
    free(bench->cold_read.ms);
}

static int bench_compare_ms(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double series_quantile(const struct bench_series *series, double share)
{
    size_t at = (size_t)(share * (double)series->count);

    return series->count ? series->ms[MIN(at, series->count - 1)] : 0;
}

static int bench_matrix_fill(struct bench_matrix *bench, struct err *err)
{
    const struct bench_matrix_settings *settings = bench->settings;
    CLEAN(free_clean) int64_t *excess = malloc(settings->ranks * sizeof(*excess));
    struct rand rand = { 1 };
    struct matrix_writer *writer;
    int64_t begin_ns = time_mono_ns();
    struct stat st;
    int result;

    if (!excess)
        return err_nomem(err);
    for (uint32_t rank = 0; rank < settings->ranks; rank++)
        excess[rank] = (int64_t)rand_below(&rand, 2000000);
    result = matrix_writer_open(bench->path.text, settings->ranks, &writer, err);
    for (uint64_t step = 0; result == 0 && step < settings->steps; step++) {
        struct matrix_column column = { .step = step, .median_ns = 100000000 };

        excess[rand_below(&rand, settings->ranks)] = (int64_t)rand_below(&rand, 1000000000);
        result = matrix_append(writer, &column, excess, err);
    }
    if (result < 0)
        return result;
    result = matrix_flush(writer, err);
    matrix_writer_close(writer);
    bench->append_us = (double)(time_mono_ns() - begin_ns) / 1e3 / (double)settings->steps;
    if (result == 0 && stat(bench->path.text, &st) == 0)
        bench->file_bytes = (double)st.st_blocks * 512;
    return result;
}

struct tile_place {
    unsigned level;
    uint64_t x, y;
};

static struct tile_place bench_matrix_draw(const struct matrix *matrix,
                                           const struct matrix_layout *layout, struct rand *rand)
{
    struct tile_place place = { .level = rand_below(rand, matrix_levels(matrix)) };
    uint64_t across = ((matrix_columns(matrix) - 1) >> (place.level + 8)) + 1;

    place.x = rand_below(rand, (uint32_t)across);
    place.y = rand_below(rand, layout->tiles[place.level]);
    return place;
}

static int bench_matrix_forget(int fd, struct err *err)
{
    if (fdatasync(fd) < 0)
        return err_set(err, -errno, "fdatasync: %m");
    errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return errno ? err_set(err, -errno, "posix_fadvise: %m") : 0;
}

/* Reads tiles; or, with `plain`, as many bytes from the same places. */
static int bench_matrix_measure(struct bench_matrix *bench, struct bench_series *series, bool cold,
                                bool tree, struct err *err)
{
    CLEAN(free_clean) unsigned char *tile = malloc(MATRIX_SLOT_BYTES);
    CLEAN(fd_clean) int fd = open(bench->path.text, O_RDONLY | O_CLOEXEC);
    struct matrix_layout layout;
    struct matrix *matrix;
    struct rand rand = { 2 };
    int result = matrix_open(bench->path.text, &matrix, err);

    if (result < 0)
        return result;
    series->ms = malloc(bench->settings->tiles * sizeof(*series->ms));
    if (fd < 0 || !tile || !series->ms)
        result = err_set(err, -ENOMEM, "%s: cannot open the file, or no memory", bench->path.text);
    matrix_layout(&layout, bench->settings->ranks);
    if (result == 0 && cold)
        result = bench_matrix_forget(fd, err);
    for (uint32_t i = 0; result == 0 && i < bench->settings->tiles; i++) {
        struct tile_place place = bench_matrix_draw(matrix, &layout, &rand);
        int64_t begin_ns = time_mono_ns();

        if (tree)
            result = pread(fd, tile, MATRIX_SLOT_BYTES,
                           (off_t)matrix_tile_at(&layout, place.level, place.x, place.y)) < 0
                         ? err_set(err, -errno, "%s: %m", bench->path.text)
                         : 0;
        else
            result = matrix_tile(matrix, place.level, place.x, place.y, tile, err);
        series->ms[series->count++] = (double)(time_mono_ns() - begin_ns) / 1e6;
    }
    if (series->count)
        qsort(series->ms, series->count, sizeof(*series->ms), bench_compare_ms);
    matrix_close(matrix);
    return result;
}

static int bench(struct bench_matrix *bench, struct err *err)
{
    int fd, result = path_join(&bench->path, bench->settings->dir, "lockstep-matrix-XXXXXX", err);

    if (result < 0)
        return result;
    fd = mkstemp(bench->path.text);
    if (fd < 0) {
        bench->path.text[0] = '\0';
        return err_set(err, -errno, "%s: %m", bench->settings->dir);
    }
    close(fd);
    result = bench_matrix_fill(bench, err);
    if (result == 0) /* the first pass brings all of it into the cache that fits */
        result = bench_matrix_measure(bench, &bench->cold, true, false, err);
    if (result == 0)
        result = bench_matrix_measure(bench, &bench->cold_read, true, true, err);
    if (result == 0)
        result = bench_matrix_measure(bench, &bench->warm_read, false, true, err);
    if (result == 0)
        result = bench_matrix_measure(bench, &bench->warm, false, false, err);
    return result;
}

static void bench_matrix_print_json(const struct bench_matrix *bench)
{
    struct json_object *root = json_object_new_object();
    const struct {
        const char *name;
        double value;
    } figures[] = {
        { "ranks", bench->settings->ranks },
        { "steps", (double)bench->settings->steps },
        { "tile_p50_ms", series_quantile(&bench->warm, 0.5) },
        { "tile_p99_ms", series_quantile(&bench->warm, 0.99) },
        { "tile_cold_p50_ms", series_quantile(&bench->cold, 0.5) },
        { "tile_cold_p99_ms", series_quantile(&bench->cold, 0.99) },
        { "read_p50_ms", series_quantile(&bench->warm_read, 0.5) },
        { "read_p99_ms", series_quantile(&bench->warm_read, 0.99) },
        { "read_cold_p50_ms", series_quantile(&bench->cold_read, 0.5) },
        { "read_cold_p99_ms", series_quantile(&bench->cold_read, 0.99) },
        { "append_us", bench->append_us },
        { "file_bytes", bench->file_bytes },
        { "bar_ms", TILE_BAR_MS },
    };

    for (size_t i = 0; i < COUNT(figures); i++)
        json_object_object_add(root, figures[i].name, json_object_new_double(figures[i].value));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void bench_matrix_print_text(const struct bench_matrix *bench)
{
    printf("%u ranks, %llu steps, %.0f MB; appending a column takes %.1f µs\n",
           bench->settings->ranks, (unsigned long long)bench->settings->steps,
           bench->file_bytes / 1e6, bench->append_us);
    printf("tile from memory: p50 %.3f ms, p99 %.3f ms; plain reads %.3f ms, %.3f ms\n",
           series_quantile(&bench->warm, 0.5), series_quantile(&bench->warm, 0.99),
           series_quantile(&bench->warm_read, 0.5), series_quantile(&bench->warm_read, 0.99));
    printf("tile from disk: p50 %.3f ms, p99 %.3f ms; plain reads %.3f ms, %.3f ms (limit: at most "
           "%.0f ms)\n",
           series_quantile(&bench->cold, 0.5), series_quantile(&bench->cold, 0.99),
           series_quantile(&bench->cold_read, 0.5), series_quantile(&bench->cold_read, 0.99),
           TILE_BAR_MS);
}

int bench_matrix_main(int argc, char **argv)
{
    struct bench_matrix_settings settings = {
        .ranks = 16384, .steps = 100000, .tiles = 2000, .dir = "/var/tmp"
    };
    CLEAN(bench_fini) struct bench_matrix run = { .settings = &settings };
    int parsed = opt_parse_all(&command_bench_matrix, argc, argv, &settings);
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.ranks < 1 || settings.ranks > MATRIX_RANKS_MAX || settings.steps < 1 ||
        settings.steps > 10000000 || settings.tiles < 1) {
        log_error("expected 1 to %d --ranks, 1 to 10000000 --steps and at least 1 of --tiles",
                  MATRIX_RANKS_MAX);
        return 2;
    }
    if (bench(&run, &err) < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings.json)
        bench_matrix_print_json(&run);
    else
        bench_matrix_print_text(&run);
    return series_quantile(&run.warm, 0.99) <= TILE_BAR_MS &&
                   series_quantile(&run.cold, 0.99) <= TILE_BAR_MS
               ? 0
               : 1;
}
