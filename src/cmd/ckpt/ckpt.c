/* ckpt.c - `lockstep ckpt ...`: what is in a checkpoint directory, whether it is right, and what may go.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/store/point.h"
#include "ckpt/store/retain.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "core/clean.h"

#define LISTS_MAX 5 /* how often a list of points is read if all of them are removed meanwhile */

struct ckpt_options {
    bool json, newest, dry_run;
    uint32_t keep;
    uint64_t every;
};

static const struct opt verify_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct ckpt_options, json), NULL, "one JSON object", NULL,
      false },
    { "newest", 0, OPT_FLAG, offsetof(struct ckpt_options, newest), NULL,
      "read only the newest point, and older ones only until one is right", NULL, false },
    { .name = NULL },
};

static const struct opt ls_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct ckpt_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

static const struct opt gc_opts[] = {
    { "keep", 0, OPT_U32, offsetof(struct ckpt_options, keep), "N",
      "how many verified points to keep, default 2", NULL, false },
    { "every", 0, OPT_U64, offsetof(struct ckpt_options, every), "N",
      "also keep points whose step is a multiple of N", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct ckpt_options, dry_run), NULL,
      "only print what would be removed", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct ckpt_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

int ckpt_parse(const struct command *command, int argc, char **argv, void *options,
               const char **ret_path)
{
    int first = opt_parse(command, argc, argv, options), rest, fd;

    if (first < 0)
        return -1 - OPT_EXIT(first);
    if (first == argc) {
        log_error("expected a directory");
        return -1 - 2;
    }
    rest = opt_parse(command, argc - first, argv + first, options);
    if (rest < 0)
        return -1 - OPT_EXIT(rest);
    if (first + rest < argc) {
        log_error("expected one directory, also found '%s'", argv[first + rest]);
        return -1 - 2;
    }
    *ret_path = argv[first];
    fd = open(argv[first], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_error("%s: %m", argv[first]);
        return -1 - 3;
    }
    return fd;
}

void ckpt_points_print(struct json_object *list)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "points", list);
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

struct json_object *ckpt_step_json(const struct point *point)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "step", json_object_new_uint64(point->step));
    return object;
}

/* ---- points of both kinds ---- */

int ckpt_all_read(int dir_fd, enum points_depth depth, struct all_points *ret, struct err *err)
{
    int result = points_read(dir_fd, depth, &ret->own, err);

    return result < 0 ? result : sealed_points_read(dir_fd, &ret->sealed, err);
}

void ckpt_all_fini(struct all_points *all)
{
    points_fini(&all->own);
    sealed_points_fini(&all->sealed);
}

bool ckpt_all_next(struct all_points *all, struct point **own, const struct sealed_point **sealed)
{
    struct point *first = all->own_at < all->own.count ? &all->own.point[all->own_at] : NULL;
    const struct sealed_point *second =
        all->sealed_at < all->sealed.count ? &all->sealed.point[all->sealed_at] : NULL;

    if (first && second && (second->step == SEAL_NO_STEP || second->step <= first->step))
        second = NULL;
    *own = second ? NULL : first;
    *sealed = second;
    all->own_at += *own != NULL;
    all->sealed_at += second != NULL;
    return *own || *sealed;
}

bool ckpt_point_ignored(const struct point *point)
{
    if (point->state != POINT_INCOMPLETE && point->state != POINT_FOREIGN)
        return false;
    log_error("step %" PRIu64 ": %s; ignored", point->step, point->why);
    return true;
}

int ckpt_point_choose(int dir_fd, uint64_t step, struct point *ret, struct err *err)
{
    struct points points = { .point = NULL };
    const struct point *chosen = NULL;
    int result = points_read(dir_fd, POINTS_MARKS, &points, err);

    for (size_t i = 0; result == 0 && i < points.count; i++) {
        const struct point *point = &points.point[i];

        if (step != UINT64_MAX && point->step != step)
            continue;
        if (point->state != POINT_COMMITTED)
            err_set(err, 0, "step %" PRIu64 ": %s", point->step, point->why);
        else if (!chosen || (point->read_back && !chosen->read_back))
            chosen = point;
    }
    for (size_t i = 0; chosen && step == UINT64_MAX && i < points.count; i++) {
        const struct point *point = &points.point[i];

        if (point->step > chosen->step)
            log_info("step %" PRIu64 " is not used: %s", point->step,
                     point->why[0] ? point->why : "it was not read back");
    }
    if (chosen)
        *ret = *chosen;
    else if (result == 0 && err->text[0])
        result = -ENODATA;
    else if (result == 0)
        result = err_set(err, -ENODATA, "no committed point%s",
                         step != UINT64_MAX ? " of this step" : "");
    points_fini(&points);
    return result;
}

/* The training goes first: CPU and disk are taken only when nobody else wants them. */
void ckpt_priority_lower(void)
{
    setpriority(PRIO_PROCESS, 0, 19);
    syscall(SYS_ioprio_set, 1 /* process */, 0, 3 << 13 /* idle */);
}

/* ---- verify ---- */

/* Whether it is right; -ESTALE: it was removed meanwhile, which is no damage. */
static int ckpt_verify_point(int dir_fd, struct point *point, bool json, struct json_object *list)
{
    struct progress_bar bar = { .what = "verify" };
    struct point_check check = { .digests = true,
                                 .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                                 .ctx = &bar };
    struct err err = { "" };
    int result = point_verify(dir_fd, point, &check, &err);
    bool good = result == 0;
    struct json_object *object;

    progress_bar_end(&bar);
    if (result == -ESTALE)
        return result;
    object = ckpt_step_json(point);
    json_object_object_add(object, "state", json_object_new_string(good ? "verified" : "refused"));
    json_object_object_add(object, "why", good ? NULL : json_object_new_string(err.text));
    json_object_array_add(list, object);
    if (!json)
        printf("step %" PRIu64 "  %s%s%s\n", point->step, good ? "verified" : "refused",
               good ? "" : ": ", err.text);
    return good;
}

/* Two points with the same tensors: every checksum is right, and yet one of them is not what it should be. */
struct verify_twins {
    struct ckpt_digest contents; /* of the newer point */
    uint64_t step;
    bool known;
};

static void ckpt_verify_twin(int dir_fd, const struct point *point, struct verify_twins *twins,
                             struct json_object *list)
{
    struct ckpt_digest contents;

    if (point_contents(dir_fd, point, &contents, NULL) < 0) {
        twins->known = false;
        return;
    }
    if (twins->known && twins->step != point->step &&
        memcmp(contents.byte, twins->contents.byte, sizeof(contents.byte)) == 0) {
        log_error("step %" PRIu64 ": all tensors are identical to those of step %" PRIu64
                  "; check that the program saves the tensors that it trains",
                  twins->step, point->step);
        json_object_object_add(json_object_array_get_idx(list, json_object_array_length(list) - 2),
                               "same_as", json_object_new_uint64(point->step));
    }
    *twins = (struct verify_twins){ .contents = contents, .step = point->step, .known = true };
}

/* The exit status; -ESTALE: points were removed meanwhile, and none that is left was judged. */
static int ckpt_verify_points(int dir_fd, struct all_points *all,
                              const struct ckpt_options *options, struct json_object *list)
{
    const struct sealed_point *sealed;
    struct point *point;
    struct verify_twins twins = { .known = false };
    int newest = -1; /* nothing yet; else whether it is right */
    bool gone = false;

    while (ckpt_all_next(all, &point, &sealed)) {
        int good;

        if (point && ckpt_point_ignored(point))
            continue;
        good = point ? ckpt_verify_point(dir_fd, point, options->json, list)
                     : sealed_verify(sealed, options->json, list);
        if (good < 0) {
            gone = true;
            continue;
        }
        if (point && good)
            ckpt_verify_twin(dir_fd, point, &twins, list);
        else
            twins.known = false;
        newest = newest < 0 ? good : newest;
        if (good && options->newest)
            break;
    }
    return newest >= 0 ? !newest : gone ? -ESTALE : 3;
}

/* A job that runs removes old points while it writes new ones: the list is read again if all of it was removed. */
static int ckpt_verify_directory(int fd, const struct ckpt_options *options,
                                 struct json_object *list, struct err *err)
{
    int status = -ESTALE;

    for (int i = 0; status == -ESTALE && i < LISTS_MAX; i++) {
        struct all_points all = { .own_at = 0 };

        status = ckpt_all_read(fd, POINTS_COMMITS, &all, err);
        if (status == 0)
            status = ckpt_verify_points(fd, &all, options, list);
        ckpt_all_fini(&all);
    }
    return status;
}

static int ckpt_verify_main(int argc, char **argv)
{
    struct ckpt_options options = { .json = false };
    struct json_object *list;
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_verify, argc, argv, &options, &path);
    int status;

    if (fd < 0)
        return -1 - fd;
    list = json_object_new_array();
    status = ckpt_verify_directory(fd, &options, list, &err);
    if (options.json && (status >= 0 || status == -ESTALE))
        ckpt_points_print(list);
    else
        json_object_put(list);
    if (status == 3)
        log_error(
            "no committed or sealed checkpoint in this directory; 'lockstep ckpt seal' seals a "
            "checkpoint of another program");
    else if (status == -ESTALE)
        log_error("%s: points are removed faster than they can be read", path);
    else if (status < 0)
        log_error("%s: %s", path, err.text);
    return status < 0 ? 3 : status;
}

const struct command command_ckpt_verify = {
    .name = "ckpt verify",
    .operands = "DIR",
    .summary = "read the checkpoints of a directory and compare them with their checksums",
    .details = "Exits 0 if the newest committed point is complete and right, 1 if it is not, 3 if "
               "there is\nnone.",
    .opt = verify_opts,
    .run = ckpt_verify_main,
};

/* ---- ls ---- */

static const char *ckpt_state_name(const struct point *point)
{
    if (point->state == POINT_COMMITTED)
        return point->read_back ? "verified" : "committed";
    if (point->state == POINT_FOREIGN)
        return "foreign";
    return point->state == POINT_REFUSED ? "refused" : "incomplete";
}

static struct json_object *ckpt_ls_json(const struct point *point)
{
    struct json_object *object = ckpt_step_json(point), *tiers = json_object_new_array();

    json_object_object_add(object, "ranks", json_object_new_int64(point->ranks));
    json_object_object_add(object, "bytes", json_object_new_uint64(point->bytes));
    json_object_object_add(object, "state", json_object_new_string(ckpt_state_name(point)));
    if (point->read_back && point->parts > 1)
        json_object_object_add(object, "read_back_parts", json_object_new_int64(point->parts));
    json_object_array_add(tiers, json_object_new_string("local"));
    if (point->on_peer)
        json_object_array_add(tiers, json_object_new_string("peer"));
    if (point->in_store)
        json_object_array_add(tiers, json_object_new_string("store"));
    json_object_object_add(object, "tiers", tiers);
    if (point->why[0])
        json_object_object_add(object, "why", json_object_new_string(point->why));
    return object;
}

static void ckpt_ls_point(const struct point *point, bool json, struct json_object *list)
{
    char partly[64] = "";

    if (point->read_back && point->parts > 1)
        snprintf(partly, sizeof(partly), "one of %" PRIu32 " parts was read back", point->parts);
    json_object_array_add(list, ckpt_ls_json(point));
    if (!json)
        printf("step %-12" PRIu64 " %-10s %6" PRIu32 " ranks %12.3f MB%s%s%s%s%s%s\n", point->step,
               ckpt_state_name(point), point->ranks, (double)point->bytes / 1e6,
               point->why[0] ? "  " : "", point->why, partly[0] ? "  " : "", partly,
               point->on_peer ? "  copied to a peer" : "",
               point->in_store ? "  copied to a store" : "");
}

static int ckpt_ls_main(int argc, char **argv)
{
    struct ckpt_options options = { .json = false };
    struct all_points all = { .own_at = 0 };
    const struct sealed_point *sealed;
    struct point *point;
    struct json_object *list;
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_ls, argc, argv, &options, &path);

    if (fd < 0)
        return -1 - fd;
    if (ckpt_all_read(fd, POINTS_MARKS, &all, &err) < 0) {
        log_error("%s: %s", path, err.text);
        ckpt_all_fini(&all);
        return 3;
    }
    list = json_object_new_array();
    while (ckpt_all_next(&all, &point, &sealed)) {
        if (point)
            ckpt_ls_point(point, options.json, list);
        else
            sealed_ls(sealed, options.json, list);
    }
    if (options.json)
        ckpt_points_print(list);
    else
        json_object_put(list);
    if (!all.own.count && !all.sealed.count)
        log_info("%s: no checkpoints of lockstep, and no sealed ones", path);
    if (all.own.left_out)
        log_error("%s: %zu more points are not listed", path, all.own.left_out);
    ckpt_all_fini(&all);
    return 0;
}

const struct command command_ckpt_ls = {
    .name = "ckpt ls",
    .operands = "DIR",
    .summary = "list the checkpoints of a directory, newest first",
    .details =
        "Reads no tensors: 'verified' means that each rank's file was read back when it was "
        "saved,\n'sealed' that a sealed checkpoint has its files, with the sizes that were sealed.",
    .opt = ls_opts,
    .run = ckpt_ls_main,
};

/* ---- gc ---- */

struct gc {
    const struct ckpt_options *options;
    struct json_object *list;
};

static void gc_each(void *ctx, const struct point *point, bool goes, const char *why)
{
    struct gc *gc = ctx;
    struct json_object *object = ckpt_step_json(point);

    json_object_object_add(object, "state", json_object_new_string(ckpt_state_name(point)));
    json_object_object_add(object, "removed", json_object_new_boolean(goes));
    json_object_object_add(object, "why", json_object_new_string(why));
    json_object_array_add(gc->list, object);
    if (!gc->options->json)
        printf("step %-12" PRIu64 " %s: %s\n", point->step,
               !goes                  ? "kept"
               : gc->options->dry_run ? "would be removed"
                                      : "removed",
               why);
}

static int gc_main(int argc, char **argv)
{
    struct ckpt_options options = { .keep = 2 };
    struct gc gc = { .options = &options };
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_gc, argc, argv, &options, &path);
    int result;

    if (fd < 0)
        return -1 - fd;
    if (!options.keep) {
        log_error("--keep must be at least 1");
        return 2;
    }
    gc.list = json_object_new_array();
    result = retain_points(fd,
                           &(struct retain){ .keep = options.keep,
                                             .every = options.every,
                                             .dry_run = options.dry_run,
                                             .each = gc_each,
                                             .ctx = &gc },
                           &err);
    if (options.json)
        ckpt_points_print(gc.list);
    else
        json_object_put(gc.list);
    if (result < 0)
        log_error("%s: %s", path, err.text);
    return result < 0 ? 3 : 0;
}

const struct command command_ckpt_gc = {
    .name = "ckpt gc",
    .operands = "DIR",
    .summary = "remove old checkpoints that newer, verified ones replace",
    .details =
        "Counts only points that were read back from the disk when they were saved.  What a\n"
        "crash left unfinished goes with the points of its age.",
    .opt = gc_opts,
    .run = gc_main,
};
