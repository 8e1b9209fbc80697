/* ckpt_scrub.c - `lockstep ckpt scrub`: reads all checkpoints of a directory at low priority and marks the damaged ones.
 *
 * Disks lose bits in files that nobody reads.  Found early, a damaged point costs one line; found by a restart, it costs
 * the work since the point before it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/seal/seal.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

struct scrub_options {
    bool json, dry_run;
    uint64_t rate;
};

static const struct opt scrub_opts[] = {
    { "rate", 0, OPT_U64, offsetof(struct scrub_options, rate), "MB",
      "read at most so many MB per second, default 200; 0: no limit", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct scrub_options, dry_run), NULL,
      "read everything, write no marks", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct scrub_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

struct scrub {
    const struct scrub_options *options;
    struct progress_bar bar;
    uint64_t done_bytes, bytes; /* of all points */
    int64_t begin_ns;           /* of the sealed checkpoint that is being read */
    struct json_object *list;
    size_t good, bad;
};

static void scrub_report(struct scrub *scrub, struct json_object *object, const char *label,
                         const char *state, const char *why, bool marked)
{
    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_object_add(object, "why", why[0] ? json_object_new_string(why) : NULL);
    json_object_object_add(object, "marked", json_object_new_boolean(marked));
    json_object_array_add(scrub->list, object);
    if (scrub->options->json)
        return;
    printf("%s  %s%s%s\n", label, state, why[0] ? ": " : "", why);
    fflush(stdout);
}

static void scrub_own(struct scrub *scrub, int dir_fd, const struct point *point)
{
    struct point_check check = { .threads = 1,
                                 .digests = true,
                                 .bytes_per_s = scrub->options->rate * 1000000,
                                 .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                                 .ctx = &scrub->bar,
                                 .done_bytes = scrub->done_bytes,
                                 .bytes = scrub->bytes,
                                 .mark = !scrub->options->dry_run };
    struct err err = { "" };
    int result = point_verify(dir_fd, point, &check, &err);
    bool known = point->state == POINT_REFUSED, marked = known;
    const char *state = result == 0         ? "verified"
                        : result == -ESTALE ? "gone"
                        : result == -EPROTO ? "refused"
                                            : "unreadable";
    char label[40];

    progress_bar_end(&scrub->bar);
    scrub->done_bytes += point->bytes;
    if (result == -EPROTO && !known && !scrub->options->dry_run) {
        marked = point_refuse(dir_fd, point, err.text);
        if (!marked)
            log_error("step %" PRIu64
                      ": the mark could not be written; a restore may try this point",
                      point->step);
    }
    scrub->good += result == 0;
    scrub->bad += result < 0 && result != -ESTALE;
    snprintf(label, sizeof(label), "step %" PRIu64, point->step);
    scrub_report(scrub, ckpt_step_json(point), label, state, err.text, marked);
}

/* The rate of sealed checkpoints: their reader has no limit of its own. */
static void scrub_sealed_pace(void *ctx, uint64_t done_bytes, uint64_t bytes)
{
    struct scrub *scrub = ctx;
    struct timespec until;

    if (isatty(STDERR_FILENO))
        progress_bar_show(&scrub->bar, scrub->done_bytes + done_bytes, MAX(scrub->bytes, bytes));
    if (!scrub->options->rate)
        return;
    until = time_spec(scrub->begin_ns +
                      (int64_t)((double)done_bytes * 1e3 / (double)scrub->options->rate));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static void scrub_sealed(struct scrub *scrub, const struct sealed_point *point)
{
    struct seal_run run = { .threads = 1, .progress = scrub_sealed_pace, .ctx = scrub };
    struct err err = point->why;
    int result = -EPROTO;
    char label[400];

    scrub->begin_ns = time_mono_ns();
    if (point->seal.files)
        result = seal_verify(point->fd, &point->seal, &run, &err);
    progress_bar_end(&scrub->bar);
    scrub->done_bytes += seal_bytes(&point->seal);
    err.text[text_clean(err.text, strlen(err.text), false)] = '\0';
    scrub->good += result == 0;
    scrub->bad += result < 0;
    scrub_report(scrub, sealed_json(point), sealed_label(point, label, sizeof(label)),
                 result == 0         ? "verified"
                 : result == -EPROTO ? "refused"
                                     : "unreadable",
                 err.text, false);
}

static uint64_t scrub_bytes_of(const struct all_points *all)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < all->own.count; i++)
        bytes += all->own.point[i].state == POINT_COMMITTED ? all->own.point[i].bytes : 0;
    for (size_t i = 0; i < all->sealed.count; i++)
        bytes += seal_bytes(&all->sealed.point[i].seal);
    return bytes;
}

static int scrub_all(struct scrub *scrub, int dir_fd, struct all_points *all)
{
    const struct sealed_point *sealed;
    struct point *point;

    scrub->list = json_object_new_array();
    scrub->bytes = scrub_bytes_of(all);
    while (ckpt_all_next(all, &point, &sealed)) {
        if (sealed)
            scrub_sealed(scrub, sealed);
        else if (!ckpt_point_ignored(point))
            scrub_own(scrub, dir_fd, point);
    }
    if (scrub->options->json)
        ckpt_points_print(scrub->list);
    else
        json_object_put(scrub->list);
    if (all->own.left_out)
        log_error("%zu more points were not read", all->own.left_out);
    if (!scrub->good && !scrub->bad)
        log_error("no committed or sealed checkpoint in this directory");
    return scrub->bad ? 1 : scrub->good ? 0 : 3;
}

static int scrub_main(int argc, char **argv)
{
    struct scrub_options options = { .rate = 200 };
    struct scrub scrub = { .options = &options, .bar = { .what = "scrub" } };
    struct all_points all = { .own_at = 0 };
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_scrub, argc, argv, &options, &path);
    int status = 3;

    if (fd < 0)
        return -1 - fd;
    if (options.rate > UINT64_MAX / 1000000) {
        log_error("--rate %" PRIu64 " is too large", options.rate);
        return 2;
    }
    ckpt_priority_lower();
    if (ckpt_all_read(fd, POINTS_COMMITS, &all, &err) < 0)
        log_error("%s: %s", path, err.text);
    else
        status = scrub_all(&scrub, fd, &all);
    ckpt_all_fini(&all);
    return status;
}

const struct command command_ckpt_scrub = {
    .name = "ckpt scrub",
    .operands = "DIR",
    .summary = "read all checkpoints at low priority and mark the damaged ones",
    .details =
        "A point that is damaged gets the mark REFUSED and is never restored.  One that is right\n"
        "counts as verified from then on.  Exits 0 if all are right, 1 if one is not, 3 if there\n"
        "is none.",
    .opt = scrub_opts,
    .run = scrub_main,
};
