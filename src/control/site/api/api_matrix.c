/* api_matrix.c - the rank × step matrix for the page: what there is, which steps its columns are, and its tiles.
 *
 * Each answer opens the file of the run and reads one tile: 64 KiB, whatever the length of the run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/http/reply.h"
#include "control/matrix/matrix.h"
#include "core/clean.h"
#include "core/hash.h"

static void api_matrix_clean(struct matrix **matrix)
{
    matrix_close(*matrix);
}

/* NULL: it was answered. */
static struct matrix *api_matrix_open(struct api_call *call)
{
    struct site_run *run = NULL;
    struct matrix *matrix = NULL;
    struct err err = { "" };
    struct path path;
    int result = site_get(call->site, call->run, false, &run, &err);

    if (result < 0) {
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
        return NULL;
    }
    result = path_join(&path, run->dir.path.text, "matrix.lsm", &err);
    if (result == 0)
        result = matrix_open(path.text, &matrix, &err);
    if (result == -ENOENT)
        reply_error(call->exchange, 404, "run '%s' has no matrix yet", call->run);
    else if (result < 0)
        reply_error(call->exchange, 503, "%s", err.text);
    return result < 0 ? NULL : matrix;
}

struct json_object *matrix_size_json(const struct matrix *matrix)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "ranks", json_object_new_int64(matrix_ranks(matrix)));
    json_object_object_add(root, "columns", json_object_new_uint64(matrix_columns(matrix)));
    json_object_object_add(root, "levels", json_object_new_int64(matrix_levels(matrix)));
    json_object_object_add(root, "tile", json_object_new_int(MATRIX_TILE));
    return root;
}

/* {ranks, columns, levels, tile} */
void api_get_matrix(struct api_call *call)
{
    CLEAN(api_matrix_clean) struct matrix *matrix = api_matrix_open(call);

    if (matrix)
        reply_cached(call->exchange, matrix_size_json(matrix));
}

struct json_object *matrix_columns_json(uint64_t first, const struct matrix_column *column,
                                        size_t count)
{
    struct json_object *root = json_object_new_object(), *step = json_object_new_array(),
                       *attempt = json_object_new_array(), *median = json_object_new_array();

    for (size_t i = 0; i < count; i++) {
        json_object_array_add(step, json_object_new_uint64(column[i].step));
        json_object_array_add(attempt, json_object_new_int64(column[i].attempt));
        json_object_array_add(median, json_object_new_double((double)column[i].median_ns / 1e9));
    }
    json_object_object_add(root, "first", json_object_new_uint64(first));
    json_object_object_add(root, "step", step);
    json_object_object_add(root, "attempt", attempt);
    json_object_object_add(root, "median_seconds", median);
    return root;
}

/* Which steps the 256 columns of a band are. */
void api_get_matrix_columns(struct api_call *call)
{
    CLEAN(api_matrix_clean) struct matrix *matrix = api_matrix_open(call);
    struct matrix_column column[MATRIX_TILE];
    uint64_t first = call->number[0] * MATRIX_TILE;
    struct err err = { "" };
    int64_t count;

    if (!matrix)
        return;
    if (first >= matrix_columns(matrix)) {
        reply_error(call->exchange, 404, "the matrix has no columns from %" PRIu64 " on", first);
        return;
    }
    count = matrix_steps(matrix, first, column, COUNT(column), &err);
    if (count < 0)
        reply_error(call->exchange, 503, "%s", err.text);
    else
        reply_cached(call->exchange, matrix_columns_json(first, column, (size_t)count));
}

/* LEVEL/X/Y: 256 × 256 cells of a byte each, row by row. */
void api_get_matrix_tile(struct api_call *call)
{
    CLEAN(api_matrix_clean) struct matrix *matrix = api_matrix_open(call);
    CLEAN(free_clean) unsigned char *tile = NULL;
    const char *known = http_header(call->exchange, "If-None-Match");
    struct err err = { "" };
    struct buf body = { 0 };
    char tag[24];
    int result;

    if (!matrix)
        return;
    tile = malloc(MATRIX_TILE_BYTES);
    result = !tile ? err_nomem(&err)
                   : matrix_tile(matrix, (unsigned)MIN(call->number[0], UINT64_C(255)),
                                 call->number[1], call->number[2], tile, &err);
    if (result < 0) {
        reply_error(call->exchange, result == -ENOENT ? 404 : 503, "%s", err.text);
        return;
    }
    snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", hash64(0, tile, MATRIX_TILE_BYTES));
    http_answer_header(call->exchange, "ETag", tag);
    http_answer_header(call->exchange, "Cache-Control", "no-cache");
    if (!known || !strstr(known, tag))
        buf_put(&body, tile, MATRIX_TILE_BYTES);
    http_answer(call->exchange, body.size ? 200 : 304, "application/octet-stream", &body);
}
