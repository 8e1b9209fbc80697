/* ckpt_export.c - `lockstep ckpt export`: a checkpoint in the files of another program.
 *
 * Everything is written into a hidden directory beside OUT, which gets its name at the end: OUT is complete, or it does not
 * exist.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "ckpt/load/export_hf.h"
#include "ckpt/store/small_file.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "core/clean.h"

struct export_options {
    bool json, hf, dry_run;
    const char *prefix;
    uint64_t step;
    uint32_t rank;
    double shard_gb;
};

static const struct opt export_opts[] = {
    { "hf", 0, OPT_FLAG, offsetof(struct export_options, hf), NULL,
      "safetensors files as Hugging Face's libraries read them", NULL, false },
    { "step", 0, OPT_U64, offsetof(struct export_options, step), "N",
      "the point of this step, default: the newest one that was read back", NULL, false },
    { "prefix", 0, OPT_TEXT, offsetof(struct export_options, prefix), "TEXT",
      "only tensors whose names begin with TEXT, which is removed, such as model.", NULL, false },
    { "rank", 0, OPT_U32, offsetof(struct export_options, rank), "N",
      "where ranks saved different contents for the same place, take that of rank N", NULL, false },
    { "shard-size", 0, OPT_F64, offsetof(struct export_options, shard_gb), "GB",
      "begin another file after so many GB, default 5", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct export_options, dry_run), NULL,
      "only check whether it is possible", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct export_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

/* The hidden directory of an export. */
struct export_place {
    char parent[PATH_MAX], name[256], hidden[300], path[PATH_MAX + 320];
    int parent_fd, fd;
};

static void export_place_clean(struct export_place *place)
{
    if (place->fd >= 0) {
        close(place->fd);
        tree_remove(place->path); /* nothing is left of it after success */
    }
    fd_clean(&place->parent_fd);
}

static int export_place_open(struct export_place *place, const char *out, struct err *err)
{
    size_t size = strlen(out);
    const char *slash;

    while (size > 1 && out[size - 1] == '/')
        size--;
    slash = memrchr(out, '/', size);
    snprintf(place->parent, sizeof(place->parent), "%.*s", slash ? (int)MAX(slash - out, 1) : 1,
             slash ? out : ".");
    snprintf(place->name, sizeof(place->name), "%.*s",
             (int)(size - (slash ? (size_t)(slash + 1 - out) : 0)), slash ? slash + 1 : out);
    if (!place->name[0] || strcmp(place->name, ".") == 0 || strcmp(place->name, "..") == 0)
        return err_set(err, -EINVAL, "%s: expected the name of a new directory", out);
    place->parent_fd = open(place->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->parent_fd < 0)
        return err_set(err, -errno, "%s: %m", place->parent);
    if (faccessat(place->parent_fd, place->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, -EEXIST, "%s: exists already", out);
    snprintf(place->hidden, sizeof(place->hidden), ".%s.%d.part", place->name, getpid());
    snprintf(place->path, sizeof(place->path), "%s/%s", place->parent, place->hidden);
    if (mkdirat(place->parent_fd, place->hidden, 0755) < 0)
        return err_set(err, -errno, "%s: %m", place->path);
    place->fd =
        openat(place->parent_fd, place->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return place->fd < 0 ? err_set(err, -errno, "%s: %m", place->path) : 0;
}

static int export_place_publish(const struct export_place *place, struct err *err)
{
    if (renameat2(place->parent_fd, place->hidden, place->parent_fd, place->name,
                  RENAME_NOREPLACE) < 0)
        return err_set(err, -errno, "%s: rename: %m", place->name);
    return directory_sync(place->parent_fd, err);
}

static void export_print(const struct export_options *options, const struct export_hf *made,
                         uint64_t step, const char *out)
{
    struct json_object *object;

    if (!options->json) {
        printf("%s step %" PRIu64 ": %zu tensors, %.3f MB in %zu files; %zu tensors left out\n",
               options->dry_run ? "would export" : "exported", step, made->tensors,
               (double)made->bytes / 1e6, made->files, made->left_out);
        return;
    }
    object = json_object_new_object();
    json_object_object_add(object, "step", json_object_new_uint64(step));
    json_object_object_add(object, "out", options->dry_run ? NULL : json_object_new_string(out));
    json_object_object_add(object, "tensors", json_object_new_uint64(made->tensors));
    json_object_object_add(object, "left_out", json_object_new_uint64(made->left_out));
    json_object_object_add(object, "files", json_object_new_uint64(made->files));
    json_object_object_add(object, "bytes", json_object_new_uint64(made->bytes));
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

static int export_run(const struct export_options *options, const char *dir, const char *out,
                      struct err *err)
{
    CLEAN(fd_clean) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(export_place_clean) struct export_place place = { .parent_fd = -1, .fd = -1 };
    struct progress_bar bar = { .what = "export" };
    struct export_hf export = { .prefix = options->prefix,
                                .shard_bytes = (uint64_t)(options->shard_gb * 1e9),
                                .dry_run = options->dry_run,
                                .rank = options->rank,
                                .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                                .ctx = &bar };
    struct point point = { .step = 0 };
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", dir);
    result = ckpt_point_choose(fd, options->step, &point, err);
    if (result == 0 && !options->dry_run)
        result = export_place_open(&place, out, err);
    if (result == 0) {
        result = export_hf(fd, &point, place.fd, &export, err);
        progress_bar_end(&bar);
        if (result == -EPROTO)
            point_refuse(fd, &point, err->text);
        if (result < 0)
            err_wrap(err, result, "step %" PRIu64, point.step);
    }
    if (result == 0 && !options->dry_run)
        result = export_place_publish(&place, err);
    if (result == 0)
        export_print(options, &export, point.step, out);
    return result;
}

/* Options may stand anywhere; returns the exit status, or -1 with both operands. */
static int export_parse(int argc, char **argv, struct export_options *options,
                        const char *operand[2])
{
    int count = 0, at = opt_parse(&command_ckpt_export, argc, argv, options);

    while (at >= 0 && at < argc) {
        int more;

        if (count == 2) {
            log_error("expected two directories, also found '%s'", argv[at]);
            return 2;
        }
        operand[count++] = argv[at];
        more = opt_parse_more(&command_ckpt_export, argc - at, argv + at, options);
        at = more < 0 ? more : at + more;
    }
    if (at < 0)
        return OPT_EXIT(at);
    if (count < (options->dry_run ? 1 : 2)) {
        log_error("expected a checkpoint directory and the name of a new directory");
        return 2;
    }
    if (!options->hf) {
        log_error("expected a form: --hf");
        return 2;
    }
    if (!(options->shard_gb >= 1e-6 && options->shard_gb <= 1e9)) {
        log_error("--shard-size must be between 0.000001 and 1000000000 GB");
        return 2;
    }
    return -1;
}

static int export_main(int argc, char **argv)
{
    struct export_options options = {
        .prefix = "", .step = UINT64_MAX, .rank = EXPORT_NO_RANK, .shard_gb = 5
    };
    const char *operand[2] = { NULL, NULL };
    struct err err = { "" };
    int status = export_parse(argc, argv, &options, operand), result;

    if (status >= 0)
        return status;
    result = export_run(&options, operand[0], operand[1], &err);
    if (result < 0)
        log_error("%s", err.text);
    return result == 0 ? 0 : result == -EPROTO || result == -ENOTSUP ? 1 : 3;
}

const struct command command_ckpt_export = {
    .name = "ckpt export",
    .operands = "DIR OUT",
    .summary = "write a checkpoint as files that other programs read",
    .details =
        "Puts the parts of all ranks together and compares every block with its checksum.  OUT\n"
        "must not exist; it appears when it is complete.  Exits 1 if the point is damaged or a\n"
        "tensor cannot be put together, 3 if there is no point or OUT cannot be written.",
    .opt = export_opts,
    .run = export_main,
};
