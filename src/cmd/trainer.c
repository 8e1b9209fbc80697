/* trainer.c - `lockstep trainer`: one rank of the demo's training job. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opt.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/trainer.h"

struct trainer_settings {
    uint64_t steps, seed, checkpoint_every;
    const char *layout, *checkpoint_dir, *data_dir, *net_dir, *plan, *stop_file;
    double step_ms, host_work_ms;
    uint32_t micro_batches;
    int64_t timeout_ns;
    /* From the launcher, as torchrun tells it. */
    uint32_t rank, world, attempt;
    const char *master_addr, *master_port;
};

#define AT(field) offsetof(struct trainer_settings, field)
static const struct opt trainer_opts[] = {
    { "steps", 0, OPT_U64, AT(steps), "N", "steps to train", NULL, false },
    { "layout", 0, OPT_TEXT, AT(layout), "tp=A,pp=B,dp=C", "how the ranks are cut", NULL, false },
    { "step-ms", 0, OPT_F64, AT(step_ms), "MS", "how long a healthy step takes", NULL, false },
    { "host-work-ms", 0, OPT_F64, AT(host_work_ms), "MS", "CPU time of the host a step", NULL,
      false },
    { "micro-batches", 0, OPT_U32, AT(micro_batches), "N", "micro-batches a step", NULL, false },
    { "seed", 0, OPT_U64, AT(seed), "N", "where all random numbers come from", NULL, false },
    { "checkpoint-dir", 0, OPT_TEXT, AT(checkpoint_dir), "DIR", "where checkpoints go", NULL,
      false },
    { "checkpoint-every", 0, OPT_U64, AT(checkpoint_every), "N", "steps between checkpoints", NULL,
      false },
    { "data-dir", 0, OPT_TEXT, AT(data_dir), "DIR", "where batches are read from", NULL, false },
    { "net-dir", 0, OPT_TEXT, AT(net_dir), "DIR", "where the networks of nodes are", NULL, false },
    { "plan", 0, OPT_TEXT, AT(plan), "FILE", "the faults to make", NULL, false },
    { "stop-file", 0, OPT_TEXT, AT(stop_file), "FILE", "stop in order once this exists", NULL,
      false },
    { "timeout", 0, OPT_DURATION, AT(timeout_ns), "TIME", "how long to wait for a silent peer",
      NULL, false },
    { "rank", 0, OPT_U32, AT(rank), "N", "this rank", "RANK", false },
    { "world-size", 0, OPT_U32, AT(world), "N", "how many ranks there are", "WORLD_SIZE", false },
    { "restart", 0, OPT_U32, AT(attempt), "N", "attempts before this one", "LOCKSTEP_RESTART",
      false },
    { "master-addr", 0, OPT_TEXT, AT(master_addr), "ADDR", "where rank 0 listens", "MASTER_ADDR",
      false },
    { "master-port", 0, OPT_TEXT, AT(master_port), "PORT", "where rank 0 listens", "MASTER_PORT",
      false },
    { 0 },
};

static void trainer_terminate(int signal)
{
    /* Nothing to save: a checkpoint is whole or not there.  Sockets and threads go with us. */
    _exit(128 + signal);
}

static int trainer_check(const struct trainer_settings *settings)
{
    if (settings->world < 1 || settings->world > TRAINER_RANKS_MAX ||
        settings->rank >= settings->world)
        log_error("rank %u of %u: set RANK and WORLD_SIZE, or use lockstep run", settings->rank,
                  settings->world);
    else if (!(settings->step_ms >= 1 && settings->step_ms <= TRAINER_STEP_MS_MAX))
        log_error("--step-ms: 1 to %d, not %g", TRAINER_STEP_MS_MAX, settings->step_ms);
    else if (!(settings->host_work_ms >= 0 && settings->host_work_ms <= settings->step_ms))
        log_error("--host-work-ms: 0 to the step's %g, not %g", settings->step_ms,
                  settings->host_work_ms);
    else if (settings->micro_batches > 256)
        log_error("--micro-batches: at most 256, not %u", settings->micro_batches);
    else if (settings->timeout_ns < NS_PER_MS || settings->timeout_ns > 3600 * NS_PER_S)
        log_error("--timeout: 1ms to 60m");
    else
        return 0;
    return -EINVAL;
}

static int trainer_main(int argc, char **argv);

const struct command command_trainer = {
    .name = "trainer",
    .operands = "",
    .summary = "one rank of the demo's training job",
    .details = "Started by a launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.",
    .opt = trainer_opts,
    .run = trainer_main,
    .hidden = true,
};

static int trainer_main(int argc, char **argv)
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
    int first = opt_parse(&command_trainer, argc, argv, &settings);
    struct trainer_config config = { 0 };
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    log_name("trainer");
    if (first < argc) {
        log_error("takes no operands: '%s'", argv[first]);
        return 2;
    }
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
