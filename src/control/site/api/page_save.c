/* page_save.c - collects the answers of the API for one run and writes them into a page.
 *
 * The log is indexed again in a temporary directory: the run may belong to a site, may still be running, or may lie on a
 * read-only disk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/page_save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "control/matrix/matrix.h"
#include "control/report/run_report.h"
#include "control/site/api/api_private.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"
#include "show/page_files.h"

#define SAVE_RECORDS 200 /* findings, and checks */
#define SAVE_STEPS 3000
#define SAVE_TILE_BYTES (6u << 20) /* of the matrix */
#define SAVE_BANDS 96              /* of columns */
#define SAVE_TIMELINES 24
#define SAVE_TIMELINE_RANKS 16
#define SAVE_LEDGERS 1000

#define STYLE_LINK "<link rel=\"stylesheet\" href=\"app.css\">\n"
#define SCRIPT_LINK "<script src=\"app.js\" defer></script>\n"

enum {
    LAYOUT_TENSOR = 5,
    LAYOUT_STAGE = 6
}; /* indices in index_rank.layout */

struct saved_place { /* of a rank in the layout of the job */
    uint32_t rank, stage, tensor;
};

struct saved_page {
    char run[64];
    struct path directory, copy; /* temporary; the run's in it */
    struct rundir dir;           /* of the copy */
    struct index *index;
    struct matrix *matrix;
    struct json_object *answers, *tiles, *notes;
    struct run_summary summary;
    struct saved_place *place; /* of ranks with a layout, by number */
    size_t places, place_room;
    size_t tile_bytes;
    unsigned whole_from; /* this level and coarser ones are whole */
};

static void save_fini(struct saved_page *save)
{
    index_close(save->index);
    matrix_close(save->matrix);
    json_object_put(save->answers);
    json_object_put(save->tiles);
    json_object_put(save->notes);
    run_report_fini(&save->summary);
    free(save->place);
    if (save->directory.text[0])
        tree_remove(save->directory.text);
}

/* ---- the log, indexed beside everything else ---- */

static int save_copy(const char *from, const char *to, struct err *err)
{
    CLEAN(fd_clean) int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEAN(fd_clean) int out = -1;
    ssize_t some = 1;

    if (in < 0)
        return err_set(err, -errno, "%s: %m", from);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return err_set(err, -errno, "%s: %m", to);
    while (some > 0)
        some = copy_file_range(in, NULL, out, NULL, 1u << 30, 0);
    if (some < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS)) {
        CLEAN(free_clean) char *part = malloc(1u << 20);

        if (!part)
            return err_nomem(err);
        while ((some = read(in, part, 1u << 20)) > 0) {
            if (write(out, part, (size_t)some) != some)
                return err_set(err, errno ? -errno : -ENOSPC, "%s: %m", to);
        }
    }
    return some < 0 ? err_set(err, -errno, "%s: %m", to) : 0;
}

static int save_index(struct saved_page *save, const char *run_dir, struct err *err)
{
    const char *base = getenv("TMPDIR");
    struct rundir dir;
    struct path path;
    int64_t more = 0;
    int result = rundir_open(&dir, run_dir, err);

    if (result < 0)
        return result;
    snprintf(save->run, sizeof(save->run), "%s", dir.run);
    snprintf(save->directory.text, sizeof(save->directory.text), "%s/lockstep-page-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(save->directory.text)) {
        result = err_set(err, -errno, "%s: %m", save->directory.text);
        save->directory.text[0] = '\0';
        return result;
    }
    result = path_join(&save->copy, save->directory.text, dir.run, err);
    if (result == 0 && mkdir(save->copy.text, 0700) < 0)
        result = err_set(err, -errno, "%s: %m", save->copy.text);
    if (result == 0)
        result = rundir_open(&save->dir, save->copy.text, err);
    if (result == 0 && link(dir.log.text, save->dir.log.text) < 0)
        result = save_copy(dir.log.text, save->dir.log.text, err);
    if (result == 0)
        result = path_join(&path, save->directory.text, "index.sqlite", err);
    if (result == 0)
        result = index_open(path.text, &save->index, err);
    while (result == 0 && (more = index_follow(save->index, save->copy.text, 100000, err)) > 0)
        ;
    if (result == 0 && more < 0)
        result = (int)more;
    index_leave(save->index, save->run);
    return result;
}

/* ---- rows ---- */

struct save_rows {
    struct json_object *list;
    struct saved_page *save; /* of ranks */
    uint64_t last;           /* cursor of the newest rank */
};

static int save_add(struct save_rows *rows, struct json_object *row)
{
    return json_object_array_add(rows->list, row) == 0 ? 0 : -ENOMEM;
}

static int save_run_row(void *arg, const struct index_run *row)
{
    struct json_object *root = run_json(row);

    json_object_object_add(root, "refused", NULL);
    return save_add(arg, root);
}

/* Where it is: what it did last is of no use any more, and a large job has many. */
static int save_rank_row(void *arg, const struct index_rank *row)
{
    static const char *const kept[] = { "rank", "attempt", "node", "layout" };
    struct json_object *all = rank_json(row), *root = json_object_new_object(), *value;
    struct save_rows *rows = arg;

    for (size_t i = 0; i < COUNT(kept); i++) {
        if (json_object_object_get_ex(all, kept[i], &value))
            json_object_object_add(root, kept[i], json_object_get(value));
    }
    json_object_put(all);
    rows->last = row->cursor;
    if (row->has_layout &&
        ARRAY_FIT(rows->save->place, rows->save->place_room, rows->save->places + 1))
        rows->save->place[rows->save->places++] =
            (struct saved_place){ row->rank, row->layout[LAYOUT_STAGE],
                                  row->layout[LAYOUT_TENSOR] };
    return save_add(rows, root);
}

static int save_step_row(void *arg, const struct index_step *row)
{
    return save_add(arg, step_json(row));
}

static int save_node_row(void *arg, const struct index_node *row)
{
    struct json_object *root = node_json(row);

    json_object_object_add(root, "clock", NULL);
    return save_add(arg, root);
}

/* NULL: its payload is damaged. */
static int save_record(struct save_rows *rows, struct json_object *row)
{
    return row ? save_add(rows, row) : 0;
}

static int save_finding_row(void *arg, const struct index_record *row)
{
    return save_record(arg, record_json(FRAME_FINDING, row));
}

static int save_check_row(void *arg, const struct index_record *row)
{
    return save_record(arg, record_json(FRAME_CHECK, row));
}

static int64_t save_findings(struct index *index, const struct index_query *query,
                             index_record_call *call, void *arg, struct err *err)
{
    return index_records(index, FRAME_FINDING, query, call, arg, err);
}

static int64_t save_checks(struct index *index, const struct index_query *query,
                           index_record_call *call, void *arg, struct err *err)
{
    return index_records(index, FRAME_CHECK, query, call, arg, err);
}

static int save_ledger_row(void *arg, const struct index_ledger *row)
{
    return save_add(arg, ledger_row_json(row));
}

/* "runs/RUN/NAME": {NAME: [...], next: null} */
static void save_page(struct saved_page *save, const char *name, const char *field,
                      struct json_object *list)
{
    struct json_object *root = json_object_new_object();
    char path[160];

    snprintf(path, sizeof(path), "runs/%s/%s", save->run, name);
    json_object_object_add(root, field, list);
    json_object_object_add(root, "next", NULL);
    json_object_object_add(save->answers, path, root);
}

static void save_answer(struct saved_page *save, const char *tail, struct json_object *root)
{
    char path[160];

    snprintf(path, sizeof(path), "runs/%s%s", save->run, tail);
    json_object_object_add(save->answers, path, root);
}

/* An answer of the index has at most 10,000 of them. */
static int64_t save_ranks(struct saved_page *save, struct err *err)
{
    struct save_rows rows = { .list = json_object_new_array(), .save = save };
    int64_t count;

    do {
        const struct index_query query = { .run = save->run, .limit = 10000, .after = rows.last };

        count = index_ranks(save->index, &query, save_rank_row, &rows, err);
    } while (count > 0);
    save_page(save, "ranks", "ranks", rows.list);
    return count;
}

static int save_rows(struct saved_page *save, struct err *err)
{
    struct index_query query = { .run = save->run, .limit = 10000 };
    struct save_rows rows = { .list = json_object_new_array() };
    int64_t count = index_runs(save->index, &query, save_run_row, &rows, err);

    if (count >= 0 && json_object_array_length(rows.list))
        save_answer(save, "", json_object_get(json_object_array_get_idx(rows.list, 0)));
    json_object_put(rows.list);
#define SAVE_LIST(function, each, name, field, most, newest)                                       \
    if (count >= 0) {                                                                              \
        rows.list = json_object_new_array();                                                       \
        query = (struct index_query){                                                              \
            .run = save->run, .limit = (most), .newest_first = (newest), .spread = true            \
        };                                                                                         \
        count = function(save->index, &query, each, &rows, err);                                   \
        save_page(save, name, field, rows.list);                                                   \
    }
    if (count >= 0)
        count = save_ranks(save, err);
    SAVE_LIST(index_nodes, save_node_row, "nodes", "nodes", 10000, false)
    SAVE_LIST(index_steps, save_step_row, "steps", "steps", SAVE_STEPS, true)
    SAVE_LIST(index_ledgers, save_ledger_row, "ledger", "ledgers", SAVE_LEDGERS, true)
    SAVE_LIST(save_findings, save_finding_row, "findings", "findings", SAVE_RECORDS, true)
    SAVE_LIST(save_checks, save_check_row, "checks", "checks", SAVE_RECORDS, true)
#undef SAVE_LIST
    return (int)MIN(count, 0);
}

/* ---- the matrix ---- */

static struct json_object *save_base64(const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct json_object *text;
    size_t room = (size + 2) / 3 * 4, at = 0;
    CLEAN(free_clean) char *out = malloc(room + 1);

    if (!out)
        return NULL;
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16;

        if (i + 1 < size)
            bits |= (uint32_t)data[i + 1] << 8;
        if (i + 2 < size)
            bits |= data[i + 2];
        out[at++] = digits[bits >> 18];
        out[at++] = digits[bits >> 12 & 63];
        out[at++] = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        out[at++] = i + 2 < size ? digits[bits & 63] : '=';
    }
    text = json_object_new_string_len(out, (int)at);
    return text;
}

static uint64_t save_level_rows(const struct saved_page *save, unsigned level)
{
    uint64_t rows = matrix_ranks(save->matrix);

    for (unsigned i = 0; i < level && rows > MATRIX_TILE; i++)
        rows = (rows + 1) / 2;
    return rows;
}

static int save_tile(struct saved_page *save, unsigned level, uint64_t x, uint64_t y,
                     struct err *err)
{
    unsigned char tile[MATRIX_TILE_BYTES];
    size_t rows = (size_t)MIN(MATRIX_TILE, save_level_rows(save, level) - y * MATRIX_TILE);
    char path[192];
    int result;

    snprintf(path, sizeof(path), "runs/%s/matrix/%u/%" PRIu64 "/%" PRIu64, save->run, level, x, y);
    if (json_object_object_get_ex(save->tiles, path, NULL))
        return 0;
    result = matrix_tile(save->matrix, level, x, y, tile, err);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    save->tile_bytes += rows * MATRIX_TILE;
    json_object_object_add(save->tiles, path, save_base64(tile, rows * MATRIX_TILE));
    return 0;
}

static int save_level(struct saved_page *save, unsigned level, struct err *err)
{
    uint64_t across = (matrix_columns(save->matrix) + (UINT64_C(256) << level) - 1) >> (level + 8),
             down = (save_level_rows(save, level) + MATRIX_TILE - 1) / MATRIX_TILE;
    int result = 0;

    for (uint64_t x = 0; x < across && result == 0; x++) {
        for (uint64_t y = 0; y < down && result == 0; y++)
            result = save_tile(save, level, x, y, err);
    }
    return result;
}

static int save_band(struct saved_page *save, uint64_t band, struct err *err)
{
    struct matrix_column column[MATRIX_TILE];
    char tail[48];
    int64_t count = matrix_steps(save->matrix, band * MATRIX_TILE, column, COUNT(column), err);

    if (count < 0)
        return (int)count;
    snprintf(tail, sizeof(tail), "/matrix/%" PRIu64, band);
    save_answer(save, tail, matrix_columns_json(band * MATRIX_TILE, column, (size_t)count));
    return 0;
}

/* The column in which a verdict began; UINT64_MAX: not known. */
static int save_column_of(void *arg, const struct index_step *row)
{
    uint64_t *ret = arg;

    *ret = row->column;
    return 0;
}

static uint64_t save_verdict_column(struct saved_page *save, uint64_t step)
{
    struct index_query query = { .run = save->run,
                                 .step_from = step,
                                 .step_to = MAX(step, 1),
                                 .limit = 1,
                                 .newest_first = true };
    uint64_t column = UINT64_MAX;

    index_steps(save->index, &query, save_column_of, &column, NULL);
    return column;
}

static int save_around(struct saved_page *save, const struct verdict *verdict, struct err *err)
{
    uint64_t column = save_verdict_column(save, verdict->since_step);
    int result = 0;

    if (column == UINT64_MAX)
        return 0;
    for (unsigned level = 0; level < save->whole_from && result == 0; level++) {
        uint64_t x = column >> (level + 8), rank = verdict->rank_count ? verdict->rank[0] : 0, y;

        for (unsigned i = 0; i < level && save_level_rows(save, i) > MATRIX_TILE; i++)
            rank /= 2;
        y = rank / MATRIX_TILE;
        if (save->tile_bytes > 2 * (size_t)SAVE_TILE_BYTES)
            break;
        result = save_tile(save, level, x, y, err);
        if (result == 0)
            result = save_tile(save, level, x + 1, y, err);
    }
    return result == 0 ? save_band(save, column / MATRIX_TILE, err) : result;
}

static int save_matrix(struct saved_page *save, struct err *err)
{
    struct path path;
    uint64_t bands;
    int result = path_join(&path, save->copy.text, "matrix.lsm", err);

    if (result == 0 && matrix_open(path.text, &save->matrix, NULL) < 0)
        return 0; /* no step of all ranks */
    if (result < 0)
        return result;
    save_answer(save, "/matrix", matrix_size_json(save->matrix));
    save->whole_from = matrix_levels(save->matrix);
    while (result == 0 && save->whole_from > 0) {
        unsigned level = save->whole_from - 1;
        uint64_t bytes = (matrix_columns(save->matrix) >> level) * save_level_rows(save, level);

        if (save->tile_bytes + bytes > SAVE_TILE_BYTES)
            break;
        result = save_level(save, level, err);
        save->whole_from = level;
    }
    bands = (matrix_columns(save->matrix) + MATRIX_TILE - 1) / MATRIX_TILE;
    for (uint64_t i = 0; result == 0 && i < MIN(bands, (uint64_t)SAVE_BANDS); i++)
        result = save_band(save, bands <= SAVE_BANDS ? i : i * bands / SAVE_BANDS, err);
    for (size_t i = 0; result == 0 && i < save->summary.verdicts; i++)
        result = save_around(save, &save->summary.verdict[i], err);
    return result;
}

/* ---- single steps ---- */

static uint32_t save_neighbours(const struct saved_page *save, uint32_t middle,
                                uint32_t rank[static SAVE_TIMELINE_RANKS])
{
    uint32_t world = save->matrix ? matrix_ranks(save->matrix) : 0, count = 0;
    uint32_t first = middle > SAVE_TIMELINE_RANKS / 2 ? middle - SAVE_TIMELINE_RANKS / 2 : 0;

    first = world > SAVE_TIMELINE_RANKS ? MIN(first, world - SAVE_TIMELINE_RANKS) : 0;
    while (count < SAVE_TIMELINE_RANKS && first + count < world) {
        rank[count] = first + count;
        count++;
    }
    return count;
}

/* The rank and those nearest to it that do the same: same stage and tensor index, as the page compares them.  0: the layout is not
 * known.
 */
static uint32_t save_peers(const struct saved_page *save, uint32_t middle,
                           uint32_t rank[static SAVE_TIMELINE_RANKS])
{
    const struct saved_place *place = save->place;
    size_t at = 0, low, high;
    uint32_t count = 0;

    while (at < save->places && place[at].rank != middle)
        at++;
    if (at == save->places)
        return 0;
    rank[count++] = middle;
    for (low = at, high = at + 1; (low || high < save->places) && count < SAVE_TIMELINE_RANKS;) {
        bool down = low && (high == save->places ||
                            middle - place[low - 1].rank <= place[high].rank - middle);
        const struct saved_place *next = down ? &place[--low] : &place[high++];

        if (next->stage == place[at].stage && next->tensor == place[at].tensor)
            rank[count++] = next->rank;
    }
    return count;
}

static void save_timeline(struct saved_page *save, const struct verdict *verdict)
{
    uint64_t column = save_verdict_column(save, verdict->decided_step);
    uint32_t rank[SAVE_TIMELINE_RANKS], count, middle = verdict->rank_count ? verdict->rank[0] : 0;
    struct json_object *root = NULL;
    char tail[48];

    snprintf(tail, sizeof(tail), "/steps/%" PRIu64, column);
    count = save_peers(save, middle, rank);
    if (count < 2)
        count = save_neighbours(save, middle, rank);
    if (column != UINT64_MAX && count &&
        step_detail_json(save->index, &save->dir, column, rank, count, &root, NULL) == 0)
        save_answer(save, tail, root);
}

/* ---- what the reader must know ---- */

static void __attribute__((format(printf, 2, 3)))
save_note(struct saved_page *save, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_object_array_add(save->notes, json_object_new_string(text));
}

static void save_notes(struct saved_page *save, size_t timelines)
{
    uint64_t columns = save->matrix ? matrix_columns(save->matrix) : 0;

    save_note(save, "Saved page of run %s: nothing here is updated.", save->run);
    if (save->whole_from > 0)
        save_note(save,
                  "The heatmap is complete down to cells of %u steps; finer cells are saved around "
                  "verdicts only.",
                  1u << save->whole_from);
    if (columns > SAVE_STEPS)
        save_note(save, "Numbers of single steps are saved for the newest %d of %" PRIu64 ".",
                  SAVE_STEPS, columns);
    save_note(save,
              "Timelines are saved for %zu step%s, those of verdicts; 'lockstep trace export' has "
              "others.",
              timelines, timelines == 1 ? "" : "s");
}

static int save_collect(struct saved_page *save, const char *run_dir, struct err *err)
{
    size_t timelines;
    int result = save_index(save, run_dir, err);

    if (result == 0)
        result = run_report_read(run_dir, false, &save->summary, err);
    if (result < 0)
        return result;
    save->answers = json_object_new_object();
    save->tiles = json_object_new_object();
    save->notes = json_object_new_array();
    save_answer(save, "/why", run_summary_json(&save->summary));
    result = save_rows(save, err);
    if (result == 0)
        result = save_matrix(save, err);
    timelines = MIN(save->summary.verdicts, (size_t)SAVE_TIMELINES);
    for (size_t i = 0; result == 0 && i < timelines; i++)
        save_timeline(save, &save->summary.verdict[i]);
    save_notes(save, timelines);
    return result;
}

/* ---- the file ---- */

/* As text of a script element: no "<" ends it or begins another. */
static void save_put_json(struct json_object *root, FILE *out)
{
    size_t size;
    const char *text = json_object_to_json_string_length(
        root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);
    CLEAN(free_clean) char *clean = malloc(size + 1);

    if (!clean)
        return;
    memcpy(clean, text, size);
    size = text_clean(clean, size, true);
    for (size_t i = 0; i < size; i++) {
        if (clean[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(clean[i], out);
    }
}

static void save_put_head(FILE *out)
{
    CLEAN(free_clean) char *html = strndup((const char *)page_html, page_html_size);
    char *style = html ? strstr(html, STYLE_LINK) : NULL,
         *script = html ? strstr(html, SCRIPT_LINK) : NULL;

    if (!style || !script)
        return;
    *style = *script = '\0';
    fputs(html, out);
    fprintf(out,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
            "'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action "
            "'none'\">\n<style>",
            page_script_sha256, page_style_sha256);
    fwrite(page_style, 1, page_style_size, out);
    fputs("</style>\n</head>\n<body><div id=\"app\"></div>\n", out);
}

static void save_put(struct saved_page *save, struct json_object *report, FILE *out)
{
    struct json_object *root = json_object_new_object();
    char time[32];

    time_format_utc(time_real_ns(), time);
    json_object_object_add(root, "version", json_object_new_int(1));
    json_object_object_add(root, "run", show_string(save->run));
    json_object_object_add(root, "made", json_object_new_string(time));
    json_object_object_add(root, "note", json_object_get(save->notes));
    json_object_object_add(root, "report", json_object_get(report));
    json_object_object_add(root, "answers", json_object_get(save->answers));
    json_object_object_add(root, "tiles", json_object_get(save->tiles));
    save_put_head(out);
    fputs("<script type=\"application/json\" id=\"lockstep-saved\">", out);
    save_put_json(root, out);
    fputs("</script>\n<script>", out);
    fwrite(page_script, 1, page_script_size, out);
    fputs("</script></body>\n</html>\n", out);
    json_object_put(root);
}

int page_save(const char *run_dir, const char *file, struct json_object *report, struct err *err)
{
    CLEAN(save_fini) struct saved_page save = { 0 };
    CLEAN(file_clean) FILE *out = NULL;
    struct path part;
    int result = save_collect(&save, run_dir, err);

    if (result < 0)
        return result;
    snprintf(part.text, sizeof(part.text), "%s.part", file);
    out = fopen(part.text, "we");
    if (!out)
        return err_set(err, -errno, "%s: %m", file);
    save_put(&save, report, out);
    if (fflush(out) != 0 || ferror(out) || rename(part.text, file) < 0) {
        result = err_set(err, errno ? -errno : -EIO, "%s: %m", file);
        unlink(part.text);
    }
    return result;
}
