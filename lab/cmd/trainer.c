/* trainer.c - `lockstep trainer`: one rank of the demo's training job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opt.h"
#include "cmd/lab/trainer_options.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/lab.h"
#include "lab/trainer/trainer.h"

static void trainer_terminate(int signal)
{
    /* Nothing to save: a checkpoint is whole or not there.  Sockets and threads go with us. */
    _exit(128 + signal);
}

static int trainer_check(const struct trainer_settings *settings)
{
    if (settings->world < 1 || settings->world > TRAINER_RANKS_MAX ||
        settings->rank >= settings->world)
        log_error("rank %u of %u: set RANK and WORLD_SIZE, or use 'lockstep run'", settings->rank,
                  settings->world);
    else if (!(settings->step_ms >= 1 && settings->step_ms <= TRAINER_STEP_MS_MAX))
        log_error("--step-ms: 1 to %d, not %g", TRAINER_STEP_MS_MAX, settings->step_ms);
    else if (!(settings->host_work_ms >= 0 && settings->host_work_ms <= settings->step_ms))
        log_error("--host-work-ms: expected 0 to the step's %g, not %g", settings->step_ms,
                  settings->host_work_ms);
    else if (settings->micro_batches > 256)
        log_error("--micro-batches %u: expected at most 256", settings->micro_batches);
    else if (settings->timeout_ns < NS_PER_MS || settings->timeout_ns > 3600 * NS_PER_S)
        log_error("--timeout: expected 1ms to 60m");
    else
        return 0;
    return -EINVAL;
}

int trainer_main(int argc, char **argv)
{
    struct trainer_settings settings = { .steps = 100,
                                         .step_ms = 100,
                                         .host_work_ms = 2.5,
                                         .seed = 1,
                                         .checkpoint_every = 20,
                                         .timeout_ns = 30 * NS_PER_S,
                                         .world = 1,
                                         .master_addr = "127.0.0.1",
                                         .master_port = "29500" };
    int parsed = opt_parse_all(&command_trainer, argc, argv, &settings);
    struct trainer_config config = { 0 };
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    log_name("trainer");
    if (trainer_check(&settings) < 0)
        return 2;
    if (trainer_layout_parse(settings.layout, settings.world, &config.layout, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    config = (struct trainer_config){
        .rank = settings.rank,
        .world = settings.world,
        .attempt = settings.attempt,
        .master_addr = settings.master_addr,
        .master_port = settings.master_port,
        .steps = settings.steps,
        .seed = settings.seed,
        .stamps = settings.stamps,
        .layout = config.layout,
        .checkpoint_every = settings.checkpoint_every,
        .checkpoint_dir = settings.checkpoint_dir,
        .data_dir = settings.data_dir,
        .net_dir = settings.net_dir,
        .step_ms = settings.step_ms,
        .host_work_ms = settings.host_work_ms,
        .micro_batches = settings.micro_batches,
        .plan = settings.plan,
        .stop_file = settings.stop_file,
        .timeout_ms = (int)(settings.timeout_ns / NS_PER_MS),
    };
    signal(SIGTERM, trainer_terminate);
    signal(SIGINT, trainer_terminate);
    signal(SIGPIPE, SIG_IGN);
    if (trainer_elastic_run(&config, &err) < 0) {
        log_error("rank %u: %s", config.rank, err.text);
        return 1;
    }
    return 0;
}
