/* ckpt_s3.c - `lockstep ckpt push` and `lockstep ckpt pull`: points to and from an object store.
 *
 * A process of its own, at low priority: it reads what is committed, so it never delays a save.
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/tiers/pull.h"
#include "ckpt/tiers/push.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "core/clean.h"

#define MIB 1048576u

struct s3_options {
    bool json, all, dry_run;
    const char *endpoint, *region;
    uint64_t step, rate;
    uint32_t part_mib;
};

#define S3_OPTS                                                                                    \
    { "endpoint", 0,                                                                               \
      OPT_TEXT,   offsetof(struct s3_options, endpoint),                                           \
      "URL",      "the store, default $AWS_ENDPOINT_URL, else Amazon's of the region",             \
      NULL,       false },                                                                         \
        { "region", 0,                                                                             \
          OPT_TEXT, offsetof(struct s3_options, region),                                           \
          "NAME",   "default $AWS_REGION, else us-east-1",                                         \
          NULL,     false },                                                                       \
        { "step",  0,                                                                              \
          OPT_U64, offsetof(struct s3_options, step),                                              \
          "N",     "the point of this step, default: the newest one",                              \
          NULL,    false },                                                                        \
        { "rate",  0,                                                                              \
          OPT_U64, offsetof(struct s3_options, rate),                                              \
          "MB",    "at most so many MB per second, default no limit",                              \
          NULL,    false },                                                                        \
    {                                                                                              \
        "part-size", 0, OPT_U32, offsetof(struct s3_options, part_mib), "MIB",                     \
            "MiB of one request, a multiple of 4, default 64", NULL, false                         \
    }

static const struct opt push_opts[] = {
    S3_OPTS,
    { "all", 0, OPT_FLAG, offsetof(struct s3_options, all), NULL,
      "all committed points, oldest first", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct s3_options, dry_run), NULL,
      "only print what would be sent", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct s3_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

static const struct opt pull_opts[] = {
    S3_OPTS,
    { "dry-run", 0, OPT_FLAG, offsetof(struct s3_options, dry_run), NULL,
      "only print which points the store has", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct s3_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

/* "s3://BUCKET/PREFIX" in two parts. */
struct s3_place {
    char bucket[128], prefix[512];
};

static int s3_place_parse(const char *text, struct s3_place *ret)
{
    const char *bucket = text + 5, *slash;
    size_t size;

    if (strncmp(text, "s3://", 5) != 0)
        return -EINVAL;
    slash = strchrnul(bucket, '/');
    if (slash == bucket || (size_t)(slash - bucket) >= sizeof(ret->bucket))
        return -EINVAL;
    snprintf(ret->bucket, sizeof(ret->bucket), "%.*s", (int)(slash - bucket), bucket);
    slash += strspn(slash, "/");
    size = strlen(slash);
    while (size && slash[size - 1] == '/')
        size--;
    if (size >= sizeof(ret->prefix))
        return -EINVAL;
    snprintf(ret->prefix, sizeof(ret->prefix), "%.*s", (int)size, slash);
    return 0;
}

static int s3_options_parse(const struct command *command, int argc, char **argv,
                            struct s3_options *options, const char *operand[2])
{
    int count = 0, at = opt_parse(command, argc, argv, options);

    while (at >= 0 && at < argc) {
        int more;

        if (count == 2) {
            log_error("expected two operands, also found '%s'", argv[at]);
            return 2;
        }
        operand[count++] = argv[at];
        more = opt_parse_more(command, argc - at, argv + at, options);
        at = more < 0 ? more : at + more;
    }
    if (at < 0)
        return OPT_EXIT(at);
    if (count < 2) {
        log_error("expected %s", command->operands);
        return 2;
    }
    if (options->part_mib < 8 || options->part_mib % 4 || options->part_mib > 4096) {
        log_error("--part-size must be a multiple of 4 between 8 and 4096");
        return 2;
    }
    return -1;
}

static int s3_store_open(const struct s3_options *options, const char *url, struct s3_place *place,
                         struct s3 **ret, struct err *err)
{
    char amazon[128];
    const char *endpoint = options->endpoint ? options->endpoint : getenv("AWS_ENDPOINT_URL"),
               *region = options->region ? options->region : getenv("AWS_REGION"),
               *session = getenv("AWS_SESSION_TOKEN");

    if (s3_place_parse(url, place) < 0)
        return err_set(err, -EINVAL, "'%s': expected s3://BUCKET/PREFIX", url);
    region = region && region[0] ? region : "us-east-1";
    snprintf(amazon, sizeof(amazon), "https://s3.%.64s.amazonaws.com", region);
    return s3_open(&(struct s3_settings){ .endpoint = endpoint && endpoint[0] ? endpoint : amazon,
                                          .region = region,
                                          .bucket = place->bucket,
                                          .key_id = getenv("AWS_ACCESS_KEY_ID"),
                                          .secret = getenv("AWS_SECRET_ACCESS_KEY"),
                                          .session = session && session[0] ? session : NULL,
                                          .bytes_per_s = options->rate * 1000000 },
                   ret, err);
}

static void s3_point_report(struct json_object *list, bool json, uint64_t step, const char *state,
                            uint64_t moved, uint64_t kept)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "step", json_object_new_uint64(step));
    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_object_add(object, "moved_bytes", json_object_new_uint64(moved));
    json_object_object_add(object, "kept_bytes", json_object_new_uint64(kept));
    json_object_array_add(list, object);
    if (!json)
        printf("step %" PRIu64 "  %s: %.3f MB, %.3f MB were there before\n", step, state,
               (double)moved / 1e6, (double)kept / 1e6);
}

static int s3_status_of(int result)
{
    return result >= 0 ? 0 : result == -EPROTO ? 1 : result == -EINVAL ? 2 : 3;
}

static void s3_list_print(struct json_object *list, bool json)
{
    if (json)
        ckpt_points_print(list);
    else
        json_object_put(list);
}

/* ---- push ---- */

static int s3_push_one(const struct s3_options *options, int dir_fd, const struct point *point,
                       struct push *push, struct json_object *list, struct err *err)
{
    int result = push_point(dir_fd, point, push, err);

    progress_bar_end(push->ctx);
    if (result == -EPROTO)
        point_refuse(dir_fd, point, err->text);
    if (result < 0)
        return err_wrap(err, result, "step %" PRIu64, point->step);
    s3_point_report(list, options->json, point->step,
                    result == 1        ? "sent"
                    : push->kept_bytes ? "was there"
                    : options->dry_run ? "would be sent"
                                       : "was there",
                    push->sent_bytes, push->kept_bytes);
    return 0;
}

static int s3_push_all(const struct s3_options *options, int dir_fd, struct push *push,
                       struct json_object *list, struct err *err)
{
    struct points points = { .point = NULL };
    struct point newest;
    int result;

    if (!options->all) {
        result = ckpt_point_choose(dir_fd, options->step, &newest, err);
        return result < 0 ? result : s3_push_one(options, dir_fd, &newest, push, list, err);
    }
    result = points_read(dir_fd, POINTS_COMMITS, &points, err);
    for (size_t i = points.count; result == 0 && i-- > 0;) {
        if (points.point[i].state == POINT_COMMITTED)
            result = s3_push_one(options, dir_fd, &points.point[i], push, list, err);
    }
    points_fini(&points);
    return result;
}

static int s3_push_main(int argc, char **argv)
{
    struct s3_options options = { .step = UINT64_MAX, .part_mib = 64 };
    const char *operand[2] = { NULL, NULL };
    struct progress_bar bar = { .what = "push" };
    struct push push = { .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                         .ctx = &bar };
    struct s3_place place;
    struct err err = { "" };
    int status = s3_options_parse(&command_ckpt_push, argc, argv, &options, operand), result;
    CLEAN(fd_clean) int fd = -1;
    struct json_object *list;

    if (status >= 0)
        return status;
    fd = open(operand[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_error("%s: %m", operand[0]);
        return 3;
    }
    result = s3_store_open(&options, operand[1], &place, &push.s3, &err);
    list = json_object_new_array();
    push.prefix = place.prefix;
    push.part_bytes = (uint64_t)options.part_mib * MIB;
    push.dry_run = options.dry_run;
    ckpt_priority_lower();
    if (result == 0)
        result = s3_push_all(&options, fd, &push, list, &err);
    s3_list_print(list, options.json);
    s3_close(push.s3);
    if (result < 0)
        log_error("%s", err.text);
    return s3_status_of(result);
}

const struct command command_ckpt_push = {
    .name = "ckpt push",
    .operands = "DIR s3://BUCKET/PREFIX",
    .summary = "copy a checkpoint to an object store",
    .details =
        "Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.\n"
        "What is there already is not sent again, so an interrupted push continues where it "
        "stopped.\n"
        "Exits 1 if the point is damaged, 3 if there is none or the store cannot be used.",
    .opt = push_opts,
    .run = s3_push_main,
};

/* ---- pull ---- */

#define PULL_POINTS_MOST 256 /* of a --dry-run */

static int s3_pull_one(struct pull *pull, struct peer_point point, const char *path,
                       struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    int result;

    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_set(err, errno == EINVAL ? -EIO : -errno, "%s: %m", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    result = pull_point(pull, fd, point.step, point.job, err);
    progress_bar_end(pull->ctx);
    return result;
}

static int s3_pull_run(const struct s3_options *options, struct pull *pull, const char *path,
                       struct json_object *list, struct err *err)
{
    struct peer_point point[PULL_POINTS_MOST];
    size_t count = 0;
    int result =
        pull_points(pull, options->step, point, options->dry_run ? COUNT(point) : 1, &count, err);

    if (result == 0 && !options->dry_run)
        result = s3_pull_one(pull, point[0], path, err);
    for (size_t i = 0; result == 0 && i < count; i++)
        s3_point_report(list, options->json, point[i].step,
                        options->dry_run ? "would be received" : "received", pull->received_bytes,
                        pull->kept_bytes);
    return result;
}

static int s3_pull_main(int argc, char **argv)
{
    struct s3_options options = { .step = UINT64_MAX, .part_mib = 64 };
    const char *operand[2] = { NULL, NULL };
    struct progress_bar bar = { .what = "pull" };
    struct pull pull = { .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                         .ctx = &bar };
    struct s3_place place;
    struct err err = { "" };
    int status = s3_options_parse(&command_ckpt_pull, argc, argv, &options, operand), result;
    struct json_object *list;

    if (status >= 0)
        return status;
    result = s3_store_open(&options, operand[0], &place, &pull.s3, &err);
    pull.prefix = place.prefix;
    pull.part_bytes = (uint64_t)options.part_mib * MIB;
    list = json_object_new_array();
    if (result == 0)
        result = s3_pull_run(&options, &pull, operand[1], list, &err);
    s3_list_print(list, options.json);
    s3_close(pull.s3);
    if (result < 0)
        log_error("%s", err.text);
    return s3_status_of(result);
}

const struct command command_ckpt_pull = {
    .name = "ckpt pull",
    .operands = "s3://BUCKET/PREFIX DIR",
    .summary = "bring a checkpoint back from an object store",
    .details = "The point is committed in DIR after all of its files were read back and compared "
               "with their\nchecksums.  Exits 1 if the objects are damaged, 3 if there is no "
               "complete point or the store\ncannot be used.",
    .opt = pull_opts,
    .run = s3_pull_main,
};
