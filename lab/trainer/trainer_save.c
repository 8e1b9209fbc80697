/* trainer_save.c - the trainer's checkpoints: when, and from which one it goes on.
 *
 * They are saved and restored by the library that people's programs use (include/lockstep/ckpt.h).  Each stage and each part of its
 * tensor group is a tensor of its own, and its replicas save a slice each.  A rank waits until its own part is synced, as programs
 * do that save without a thread: so one whose disk is slow is seen to take longer than the others.  The commit and the reading back
 * go on behind its back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/trainer_private.h"
#include "lockstep/ckpt.h"
#include "wire/save_note.h"

#define SAVE_KEEP 2
#define SAVE_BLOB "run"
#define SAVE_END_MS 10000 /* for reading back what was saved last */

/* ---- the engine ---- */

static int save_least(void *ctx, uint64_t value, uint64_t *ret_least)
{
    struct err err = { "" };
    int result = trainer_host_reduce(ctx, COMM_WORLD, GROUP_MIN_U64, &value, 1, &err);

    if (result == 0)
        *ret_least = value;
    return result;
}

/* Rank 0's random number: ranks that are started by hand have nothing else in common that another start has not. */
static int save_job_agree(struct trainer *trainer, uint64_t *ret, struct err *err)
{
    uint64_t job = UINT64_MAX;
    int result;

    if (trainer->config->rank == 0 && getrandom(&job, sizeof(job), 0) != sizeof(job))
        return err_set(err, -errno, "getrandom: %m");
    if (trainer->config->rank == 0)
        job = (job >> 1) | 1;
    result = trainer_host_reduce(trainer, COMM_WORLD, GROUP_MIN_U64, &job, 1, err);
    *ret = job;
    return result;
}

static int save_tensor_set(struct trainer *trainer, const char *kind, float *data)
{
    const struct lockstep_layout *place = &trainer->place;
    struct lockstep_ckpt_tensor tensor = { .size = sizeof(tensor),
                                           .dtype = LOCKSTEP_CKPT_F32,
                                           .dims = 1,
                                           .shape = { trainer->toy.params },
                                           .data = data,
                                           .replicas = place->dp_size,
                                           .replica = place->dp };
    char name[64];

    snprintf(name, sizeof(name), "%s.stage-%u.part-%u", kind, place->pp, place->tp);
    tensor.name = name;
    return lockstep_ckpt_tensor_set(trainer->ckpt, &tensor);
}

/* What another run would not have; the number of replicas may change. */
static void save_run_text(const struct trainer *trainer, char out[static SAVE_RUN_TEXT])
{
    snprintf(out, SAVE_RUN_TEXT, "seed %" PRIu64 ", tp=%u,pp=%u", trainer->config->seed,
             trainer->config->layout.tp, trainer->config->layout.pp);
}

static int save_engine_open(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    struct lockstep_ckpt_settings settings = { .size = sizeof(settings),
                                               .directory = config->checkpoint_dir,
                                               .rank = config->rank,
                                               .world = config->world,
                                               .threads = 1,
                                               .keep = SAVE_KEEP,
                                               .agree = save_least,
                                               .agree_ctx = trainer };
    char why[256], run[SAVE_RUN_TEXT];
    int result = save_job_agree(trainer, &settings.job, err);

    if (result < 0)
        return result;
    if (mkdir(config->checkpoint_dir, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", config->checkpoint_dir);
    result = lockstep_ckpt_open(&settings, &trainer->ckpt, why, sizeof(why));
    if (result < 0)
        return err_set(err, result, "%s", why);
    save_run_text(trainer, run);
    result = save_tensor_set(trainer, "model", trainer->toy.param);
    if (result == 0)
        result = save_tensor_set(trainer, "optim.momentum", trainer->toy.momentum);
    if (result == 0)
        result = lockstep_ckpt_blob_set(trainer->ckpt, SAVE_BLOB, run, strlen(run));
    return result < 0 ? err_set(err, result, "%s", lockstep_ckpt_error(trainer->ckpt)) : 0;
}

/* ---- going on ---- */

/* What the launcher chose for all ranks of this attempt; later workers of it have newer ones. */
static uint64_t trainer_restore_step(const struct trainer *trainer)
{
    const char *path = trainer->config->generation ? NULL : getenv("LOCKSTEP_RESUME"),
               *name = path ? strrchr(path, '/') : NULL;
    uint64_t step;

    return name && sscanf(name, "/step-%" SCNu64, &step) == 1 ? step : LOCKSTEP_CKPT_NEWEST;
}

/* Points that were passed over, once for the run. */
static void save_refused_tell(struct trainer *trainer)
{
    char text[2048], *rest = text, *line;

    if (trainer->config->rank != 0 || lockstep_ckpt_refused(trainer->ckpt, text, sizeof(text)) <= 0)
        return;
    while ((line = strsep(&rest, "\n")) && line[0]) {
        fprintf(stderr, "rank 0: checkpoint skipped: %s\n", line);
        lockstep_note_put(trainer->probe, line);
    }
}

/* Going on from another run's checkpoint would in time remove it. */
static int save_run_check(const struct trainer *trainer, struct err *err)
{
    char own[SAVE_RUN_TEXT], saved[SAVE_RUN_TEXT] = "";
    int64_t size = lockstep_ckpt_blob_get(trainer->ckpt, SAVE_BLOB, saved, sizeof(saved) - 1);

    save_run_text(trainer, own);
    if (size == (int64_t)strlen(own) && memcmp(own, saved, (size_t)size) == 0)
        return 0;
    return err_set(err, -ESTALE, "%s: written by another run: %s", trainer->config->checkpoint_dir,
                   size > 0 && size < SAVE_RUN_TEXT ? saved : "it does not say which");
}

int trainer_restore(struct trainer *trainer, struct err *err)
{
    uint64_t wanted = trainer_restore_step(trainer), all = 0;
    char note[64];
    int result, asked;

    if (!trainer->config->checkpoint_dir)
        return 0;
    result = save_engine_open(trainer, err);
    if (result < 0)
        return result;
    result = lockstep_ckpt_restore(trainer->ckpt, wanted, &trainer->step);
    if (result < 0)
        err_set(err, result, "%s", lockstep_ckpt_error(trainer->ckpt));
    save_refused_tell(trainer);
    if (result == -ENODATA && wanted == LOCKSTEP_CKPT_NEWEST)
        return 0;
    if (result == 0)
        result = save_run_check(trainer, err);
    asked = save_least(trainer, result == 0, &all);
    if (result < 0)
        return result;
    if (asked < 0 || !all)
        return err_set(err, -EBADMSG, "another rank cannot restore step %" PRIu64, trainer->step);
    snprintf(note, sizeof(note), "restored from checkpoint of step %" PRIu64, trainer->step);
    lockstep_note_put(trainer->probe, note);
    if (trainer->config->rank == 0)
        printf("%s\n", note);
    return 0;
}

/* ---- saving ---- */

static void save_note_put(struct trainer *trainer, const struct lockstep_ckpt_spans *spans)
{
    struct lockstep_ckpt_status status = { .size = sizeof(status) };
    struct save_note note = { .step = spans->step,
                              .saved_in = spans->step - 1,
                              .bytes = spans->bytes,
                              .snapshot_us = spans->copy_ns / 1000,
                              .write_us = spans->write_ns / 1000,
                              .digest_us = spans->digest_ns / 1000,
                              .commit_us = spans->commit_ns / 1000,
                              .verify_us = spans->verify_ns / 1000,
                              .tensors = spans->tensors,
                              .tensors_unchanged = spans->unchanged,
                              .moments = spans->moments,
                              .moments_unchanged = spans->moments_unchanged };
    char text[512];

    lockstep_ckpt_status_get(trainer->ckpt, &status);
    note.arena_bytes = status.arena_bytes;
    note.skipped = status.skipped;
    note.failed = status.failed;
    snprintf(note.disk, sizeof(note.disk), "%s", spans->disk);
    if (save_note_text(&note, text, sizeof(text)))
        lockstep_note_put(trainer->probe, text);
    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " is verified, saved in step %" PRIu64, spans->step,
             spans->step - 1);
    lockstep_note_put(trainer->probe, text);
}

void trainer_save_report(struct trainer *trainer)
{
    struct lockstep_ckpt_spans spans = { .size = sizeof(spans) };

    if (!trainer->ckpt || trainer->reported == trainer->saved ||
        lockstep_ckpt_spans_get(trainer->ckpt, &spans) < 0 || spans.step <= trainer->reported)
        return;
    trainer->reported = spans.step;
    save_note_put(trainer, &spans);
}

void trainer_save_end(struct trainer *trainer)
{
    if (trainer->ckpt && trainer->saved)
        lockstep_ckpt_wait(trainer->ckpt, LOCKSTEP_CKPT_VERIFIED, SAVE_END_MS);
    trainer_save_report(trainer);
}

static void save_pause(struct trainer *trainer, int64_t begin_ns)
{
    /* The storage of a real job: a modelled time, unless ours took longer. */
    int64_t taken_ns = MAX(time_mono_ns() - begin_ns, trainer->times.checkpoint);
    struct timespec until =
        time_spec(begin_ns + taken_ns + trainer_fault_checkpoint(trainer, taken_ns));

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Somebody waits for the point, or the next worker needs it: then it must be committed. */
static int save_store(struct trainer *trainer, struct err *err)
{
    bool now = trainer->sum[SUM_SAVE] > 0 || trainer->sum[SUM_STOP] > 0;
    int result = lockstep_ckpt_save_begin(trainer->ckpt, trainer->step + 1);

    if (result == 0)
        result = lockstep_ckpt_fence(trainer->ckpt);
    if (result == 0)
        result =
            lockstep_ckpt_wait(trainer->ckpt, now ? LOCKSTEP_CKPT_WRITTEN : LOCKSTEP_CKPT_STORED,
                               trainer->config->timeout_ms);
    if (result < 0)
        return err_set(err, result, "checkpoint of step %" PRIu64 ": %s", trainer->step + 1,
                       lockstep_ckpt_error(trainer->ckpt));
    trainer->saved = trainer->step + 1;
    return 0;
}

int trainer_save(struct trainer *trainer, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    int result;

    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
    result = trainer_check_replicas(trainer, err);
    if (result == 0)
        result = save_store(trainer, err);
    save_pause(trainer, begin_ns);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
    return result;
}

int trainer_check_replicas(struct trainer *trainer, struct err *err)
{
    uint64_t digest[2], range[2];
    int result;

    if (trainer_fault_differs(trainer))
        return 0;
    toy_digest(&trainer->toy, digest);
    range[0] = digest[0];
    range[1] = ~digest[0];
    result = trainer_host_reduce(trainer, COMM_DP, GROUP_MIN_U64, range, 2, err);
    if (result == 0 && range[0] != ~range[1])
        return err_set(err, -EILSEQ, "the replicas of %s differ after step %llu",
                       trainer->comm[COMM_DP].name, (unsigned long long)trainer->step);
    return result;
}
