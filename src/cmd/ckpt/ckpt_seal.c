/* ckpt_seal.c - `lockstep ckpt seal`, and sealed directories in `ckpt verify` and `ckpt ls`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/store/point.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "core/clean.h"
#include "core/text.h"

struct seal_options {
    bool json, allow_nan, allow_zeros, replace, dry_run;
    uint64_t step;
};

static const struct opt seal_opts[] = {
    { "step", 0, OPT_U64, offsetof(struct seal_options, step), "N",
      "the training step of the checkpoint; default: the number in the name of DIR", NULL, false },
    { "replace", 0, OPT_FLAG, offsetof(struct seal_options, replace), NULL,
      "accept changes since DIR was sealed, and seal it again", NULL, false },
    { "allow-nan", 0, OPT_FLAG, offsetof(struct seal_options, allow_nan), NULL,
      "do not refuse tensors that contain NaN", NULL, false },
    { "allow-zeros", 0, OPT_FLAG, offsetof(struct seal_options, allow_zeros), NULL,
      "do not refuse files that end with zeros", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct seal_options, dry_run), NULL,
      "check everything, write no seal", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct seal_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

static struct json_object *seal_step_json(uint64_t step)
{
    return step == SEAL_NO_STEP ? NULL : json_object_new_uint64(step);
}

static void seal_err_clean(struct err *err)
{
    text_clean(err->text, strlen(err->text), false);
}

/* "step 12" or "step unknown", with the name where that does not say the same. */
const char *sealed_label(const struct sealed_point *point, char *out, size_t room)
{
    char step[40] = "step unknown", usual[40] = ".";

    if (point->step != SEAL_NO_STEP) {
        snprintf(step, sizeof(step), "step %" PRIu64, point->step);
        snprintf(usual, sizeof(usual), "step-%" PRIu64, point->step);
    }
    if (strcmp(point->name, ".") == 0 || strcmp(point->name, usual) == 0)
        snprintf(out, room, "%s", step);
    else
        snprintf(out, room, "%s (%s)", step, point->name);
    return out;
}

struct json_object *sealed_json(const struct sealed_point *point)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "step", seal_step_json(point->step));
    json_object_object_add(object, "name", json_object_new_string(point->name));
    return object;
}

bool sealed_verify(const struct sealed_point *point, bool json, struct json_object *list)
{
    struct progress_bar bar = { .what = "verify" };
    struct seal_run run = { .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                            .ctx = &bar };
    struct json_object *object = sealed_json(point);
    struct err err = point->why;
    bool good = point->seal.files && seal_verify(point->fd, &point->seal, &run, &err) == 0;
    char label[400];

    progress_bar_end(&bar);
    seal_err_clean(&err);
    json_object_object_add(object, "state", json_object_new_string(good ? "verified" : "refused"));
    json_object_object_add(object, "why", good ? NULL : json_object_new_string(err.text));
    json_object_array_add(list, object);
    if (!json)
        printf("%s  %s%s%s\n", sealed_label(point, label, sizeof(label)),
               good ? "verified" : "refused", good ? "" : ": ", good ? "" : err.text);
    return good;
}

void sealed_ls(const struct sealed_point *point, bool json, struct json_object *list)
{
    struct json_object *object = sealed_json(point), *tiers = json_object_new_array();
    struct err err = point->why;
    bool good = point->seal.files && seal_verify_sizes(point->fd, &point->seal, &err) == 0;
    const char *state = good ? "sealed" : "refused"; /* only verify reads what is in them */
    uint64_t bytes = seal_bytes(&point->seal);
    char label[400];

    seal_err_clean(&err);
    json_object_object_add(object, "ranks", NULL); /* no format says so */
    json_object_object_add(object, "bytes", json_object_new_uint64(bytes));
    json_object_object_add(object, "files", json_object_new_uint64(point->seal.files));
    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_array_add(tiers, json_object_new_string("local"));
    json_object_object_add(object, "tiers", tiers);
    if (!good)
        json_object_object_add(object, "why", json_object_new_string(err.text));
    json_object_array_add(list, object);
    if (!json)
        printf("%-17s %-10s %6zu files %12.3f MB  sealed%s%s\n",
               sealed_label(point, label, sizeof(label)), state, point->seal.files,
               (double)bytes / 1e6, good ? "" : "; ", good ? "" : err.text);
}

/* ---- seal ---- */

struct totals {
    uint64_t nan, inf, zero_pages;
    size_t format[SEAL_FORMATS];
};

static struct totals totals_of(const struct seal *seal)
{
    struct totals totals = { .nan = 0 };

    for (size_t i = 0; i < seal->files; i++) {
        totals.nan += seal->file[i].nan;
        totals.inf += seal->file[i].inf;
        totals.zero_pages += seal->file[i].zero_pages;
        totals.format[seal->file[i].format]++;
    }
    return totals;
}

static void seal_result_json(const struct seal *seal, const char *state, const char *why)
{
    struct totals totals = totals_of(seal);
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_object_add(object, "why", why ? json_object_new_string(why) : NULL);
    json_object_object_add(object, "step", seal_step_json(seal->step));
    if (!why) {
        json_object_object_add(object, "files", json_object_new_uint64(seal->files));
        json_object_object_add(object, "bytes", json_object_new_uint64(seal_bytes(seal)));
        json_object_object_add(object, "unchecked_files",
                               json_object_new_uint64(totals.format[SEAL_OTHER]));
        json_object_object_add(object, "nan", json_object_new_uint64(totals.nan));
        json_object_object_add(object, "inf", json_object_new_uint64(totals.inf));
        json_object_object_add(object, "zero_pages", json_object_new_uint64(totals.zero_pages));
    }
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

/* "2 safetensors files"; nothing for none of them. */
static void seal_forms_print(const struct totals *totals)
{
    const struct {
        size_t count;
        const char *name;
    } forms[] = {
        { totals->format[SEAL_SAFETENSORS], "safetensors" },
        { totals->format[SEAL_ZIP], "torch.save (zip)" },
        { totals->format[SEAL_DCP] + totals->format[SEAL_DCP_METADATA],
          "torch.distributed.checkpoint" },
        { totals->format[SEAL_INDEX], "index" },
    };
    size_t known = 0;

    for (size_t i = 0; i < COUNT(forms); i++) {
        if (forms[i].count)
            printf("%s%s: %zu", known ? ", " : "  complete files by format: ", forms[i].name,
                   forms[i].count);
        known += forms[i].count;
    }
    if (known)
        putchar('\n');
    if (totals->format[SEAL_OTHER])
        printf("  files of formats that lockstep does not know, recorded but not checked: %zu\n",
               totals->format[SEAL_OTHER]);
}

static void seal_values_print(const struct totals *totals)
{
    if (!totals->format[SEAL_SAFETENSORS])
        puts("  not searched for NaN: only safetensors files are");
    else if (totals->nan || totals->inf)
        printf("  values in safetensors files: %" PRIu64 " are NaN, %" PRIu64 " are infinite\n",
               totals->nan, totals->inf);
    else
        puts("  values in safetensors files: no NaN, no infinity");
    if (totals->zero_pages)
        printf("  pages of 4096 bytes with zeros only: %" PRIu64
               "; normal for tensors of zeros, and what a crash leaves of a file\n",
               totals->zero_pages);
}

static void seal_result_print(const struct seal *seal, const char *path, bool dry_run)
{
    struct totals totals = totals_of(seal);
    char step[40] = "step unknown; --step gives it";

    if (seal->step != SEAL_NO_STEP)
        snprintf(step, sizeof(step), "step %" PRIu64, seal->step);
    printf("%s %s: %zu file%s, %.3f MB, %s\n", dry_run ? "would seal" : "sealed", path, seal->files,
           seal->files == 1 ? "" : "s", (double)seal_bytes(seal) / 1e6, step);
    seal_forms_print(&totals);
    seal_values_print(&totals);
    if (!dry_run)
        printf(
            "  checksums are in lockstep.seal; 'lockstep ckpt verify %s' compares the files with "
            "them\n",
            path);
}

static int seal_result_refused(const struct seal_options *options, const char *path, int result,
                               struct err *err)
{
    struct seal none = { .step = options->step };

    seal_err_clean(err);
    if (result != -EPROTO) {
        log_error("%s: %s", path, err->text);
        return 3;
    }
    if (options->json)
        seal_result_json(&none, "refused", err->text);
    else
        printf("refused: %s\n  no seal was written\n", err->text);
    return 1;
}

/* A seal that is there is not replaced by one of other contents: that would hide the change. */
static int seal_old_check(int fd, const struct seal *made, struct err *err)
{
    struct seal old = { .step = SEAL_NO_STEP };
    int result = seal_read(fd, &old, err);

    if (result == -ENOENT)
        return 0;
    if (result == 0) {
        result = seal_compare(&old, made, true, err);
        seal_fini(&old);
    }
    return result < 0
               ? err_wrap(err, result, "changed since it was sealed (--replace accepts the change)")
               : 0;
}

static int seal_own_points_check(int fd, struct err *err)
{
    struct points points = { .point = NULL };
    int result = points_read(fd, POINTS_COMMITS, &points, err);
    size_t count = points.count;

    points_fini(&points);
    if (result < 0 || !count)
        return result;
    return err_set(
        err, -EINVAL,
        "lockstep wrote the checkpoints in this directory; they have checksums and need no "
        "seal");
}

static uint64_t seal_step_of_path(const char *path)
{
    CLEAN(free_clean) char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;

    return slash ? seal_step_of(slash + 1) : SEAL_NO_STEP;
}

static int seal_directory(int fd, const struct seal_options *options, struct seal *ret,
                          struct err *err)
{
    struct progress_bar bar = { .what = "seal" };
    struct seal_run run = { .allow_nan = options->allow_nan,
                            .allow_zeros = options->allow_zeros,
                            .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                            .ctx = &bar };
    int result = seal_own_points_check(fd, err);

    if (result == 0)
        result = seal_make(fd, &run, ret, err);
    progress_bar_end(&bar);
    if (result < 0)
        return result;
    ret->step = options->step;
    if (!options->replace)
        result = seal_old_check(fd, ret, err);
    if (result == 0 && !options->dry_run)
        result = seal_write(fd, ret, err);
    return result;
}

static int seal_main(int argc, char **argv)
{
    struct seal_options options = { .step = SEAL_NO_STEP };
    struct seal seal = { .step = SEAL_NO_STEP };
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_seal, argc, argv, &options, &path);
    int result, status = 0;

    if (fd < 0)
        return -1 - fd;
    if (options.step == SEAL_NO_STEP)
        options.step = seal_step_of_path(path);
    result = seal_directory(fd, &options, &seal, &err);
    if (result < 0)
        status = seal_result_refused(&options, path, result, &err);
    else if (options.json)
        seal_result_json(&seal, options.dry_run ? "unsealed" : "sealed", NULL);
    else
        seal_result_print(&seal, path, options.dry_run);
    seal_fini(&seal);
    return status;
}

const struct command command_ckpt_seal = {
    .name = "ckpt seal",
    .operands = "DIR",
    .summary = "check a checkpoint of any program and record its checksums",
    .details =
        "DIR is the directory of one checkpoint that another program has written, such as\n"
        "checkpoint-500 of Hugging Face, or a file of torch.save in a directory of its own.\n"
        "Checks that it is complete, writes the file lockstep.seal into it and changes nothing\n"
        "else.  Later 'lockstep ckpt verify DIR' tells whether a file has changed, is missing or\n"
        "is damaged.  Exits 0 if it is sealed, 1 if the checkpoint is incomplete or damaged, 3 if\n"
        "it cannot be read.",
    .opt = seal_opts,
    .run = seal_main,
};
