/* bench_options.c - the options of 'lockstep bench ...', which is in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/bench_options.h"

static const struct opt bench_control_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_control_settings, json), NULL, "one JSON object",
      NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_control_settings, ranks), "N",
      "ranks of the job, 8 a node (default 16384)", NULL, false },
    { "seconds", 0, OPT_U32, offsetof(struct bench_control_settings, seconds), "S",
      "how long to send (default 30)", NULL, false },
    { "step-ms", 0, OPT_U32, offsetof(struct bench_control_settings, step_ms), "MS",
      "a step every so long (default 1000)", NULL, false },
    { "ops", 0, OPT_U32, offsetof(struct bench_control_settings, ops), "N",
      "collectives between nodes in a step (default 200)", NULL, false },
    { "readers", 0, OPT_U32, offsetof(struct bench_control_settings, readers), "N",
      "readers of the event stream (default 100)", NULL, false },
    { "processes", 0, OPT_U32, offsetof(struct bench_control_settings, processes), "N",
      "processes that play the agents (default 2)", NULL, false },
    { "dir", 0, OPT_TEXT, offsetof(struct bench_control_settings, directory), "DIR",
      "where the logs go meanwhile, on a real disk (default $TMPDIR or /tmp)", NULL, false },
    { .name = NULL },
};

const struct command command_bench_control = {
    .name = "bench control",
    .operands = "",
    .summary = "a site's controller under the load of a very large job",
    .details =
        "Agents of many nodes, played by processes of their own, send real frames to a real\n"
        "controller; readers follow its events.  Exits 1 when a bar is missed.",
    .opt = bench_control_opts,
};

static const struct opt bench_probe_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_probe_settings, json), NULL, "one JSON object",
      NULL, false },
    { "batches", 0, OPT_U32, offsetof(struct bench_probe_settings, batches), "N",
      "batches of 1,000 marks to time (default 3000)", NULL, false },
    { "cold", 0, OPT_U32, offsetof(struct bench_probe_settings, cold), "N",
      "single marks to time with cold caches (default 100)", NULL, false },
    { .name = NULL },
};

const struct command command_bench_probe = {
    .name = "bench probe",
    .operands = "",
    .summary = "what a mark costs the training process, beyond reading the clock",
    .details =
        "Batches of 1,000 marks take turns with batches of 1,000 clock reads. The cost is a\n"
        "batch's time per mark less the median clock read of the same run. Then collectives of\n"
        "two channels are told to NCCL's profiler plugin as NCCL does, in turn with a plugin that\n"
        "does nothing. Exits 0 when the median of a mark is within the bar, 1 when it is not.",
    .opt = bench_probe_opts,
};

static const struct opt bench_dumps_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_dumps_settings, json), NULL, "one JSON object",
      NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_dumps_settings, ranks), "N",
      "ranks of the job, a multiple of 8 (default 1024)", NULL, false },
    { "ops", 0, OPT_U32, offsetof(struct bench_dumps_settings, ops), "N",
      "ops that each has recorded (default 500)", NULL, false },
    { .name = NULL },
};

const struct command command_bench_dumps = {
    .name = "bench dumps",
    .operands = "",
    .summary = "how fast the dumps of a large job are read and judged",
    .details = "Writes the flight-recorder dumps of a job that hangs below $TMPDIR, reads and "
               "judges them on one\n"
               "core, and removes them.  Exits 1 when it takes too long or the culprit is not the "
               "one named.",
    .opt = bench_dumps_opts,
};

static const struct opt bench_noise_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_noise_settings, json), NULL, "one JSON object",
      NULL, false },
    { "ranks", 'n', OPT_U32, offsetof(struct bench_noise_settings, ranks), "N",
      "of the job, a multiple of 8, default 16384", NULL, false },
    { "steps", 0, OPT_U64, offsetof(struct bench_noise_settings, steps), "N",
      "to judge, default those of a week", NULL, false },
    { "step-seconds", 0, OPT_F64, offsetof(struct bench_noise_settings, step_seconds), "S",
      "how long a step of that job takes, default 6", NULL, false },
    { "seconds", 0, OPT_F64, offsetof(struct bench_noise_settings, seconds), "S",
      "of this machine's time to take at most, default 60; 0: no limit", NULL, false },
    { "often", 0, OPT_F64, offsetof(struct bench_noise_settings, often), "N",
      "times as often do hosts have bursts and ranks pauses, default 1", NULL, false },
    { "seed", 0, OPT_U64, offsetof(struct bench_noise_settings, seed), "N",
      "where all random choices come from, default 1", NULL, false },
    { "from", 0, OPT_TEXT, offsetof(struct bench_noise_settings, from), "RUN",
      "take the noise from this healthy run of 8 ranks or more, not from the built-in tape", NULL,
      false },
    { "print-tape", 0, OPT_FLAG, offsetof(struct bench_noise_settings, print), NULL,
      "print the noise of --from as a table of lab/bench/noise_tape.c, and nothing else", NULL,
      false },
    { .name = NULL },
};

const struct command command_bench_noise = {
    .name = "bench noise",
    .operands = "",
    .summary = "false alarms in a large job on noisy hosts, and faults found in that noise",
    .details = "Judges steps of a made-up job whose hosts play recorded noise with heavy tails,\n"
               "bursts and pauses, and counts what is said though nothing is wrong; then makes\n"
               "faults in the same noise.  Exits 1 when there is more than one alarm a week, or a\n"
               "fault is missed.",
    .opt = bench_noise_opts,
};

static const struct opt bench_replay_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_replay_settings, json), NULL, "one JSON object",
      NULL, false },
    { "repeats", 0, OPT_U32, offsetof(struct bench_replay_settings, repeats), "N",
      "how often to run each; the median counts (default 31)", NULL, false },
    { .name = NULL },
};

const struct command command_bench_replay = {
    .name = "bench replay",
    .operands = "",
    .summary = "how fast steps are replayed and judged, on one core",
    .details = "Replays a step of up to 131072 GPUs (tp 8, pp 16, 64 micro-batches) and says what\n"
               "part of the memory's speed it reaches; judges a step of 16384 ranks with a\n"
               "straggler; counts the bytes of a step.  Exits 1 when a bar is missed.",
    .opt = bench_replay_opts,
};

static const struct opt bench_verdicts_opts[] = {
    { .name = "all",
      .type = OPT_FLAG,
      .offset = offsetof(struct bench_verdicts_settings, all),
      .help = "every family, on first, middle and last rank of 4, 8 and 16; takes hours" },
    { .name = "cases",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, cases),
      .arg = "N",
      .help = "runs with a fault, default 30; with --all of each family, at most" },
    { .name = "healthy",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, healthy),
      .arg = "N",
      .help = "runs without, default 40; with --all of each family, at most" },
    { .name = "healthy-time",
      .type = OPT_DURATION,
      .offset = offsetof(struct bench_verdicts_settings, healthy_ns),
      .arg = "TIME",
      .help = "long healthy runs besides, so long in all: 120m" },
    { .name = "only",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, only),
      .arg = "FAMILY[,FAMILY...]",
      .help = "families, or sets of them: gpu, user-code, cpu, data, stage (the set slow); input, "
              "checkpoint, fabric (the set stall); corruption; hang, desync, crash, traps; "
              "slowly; storage; link; channels; kernel-log; two; torch" },
    { .name = "seed",
      .type = OPT_U64,
      .offset = offsetof(struct bench_verdicts_settings, seed),
      .arg = "N",
      .help = "which cases are drawn, default 1" },
    { .name = "jobs",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, jobs),
      .arg = "N",
      .help = "so many cases at a time, of those that mostly sleep; default 1" },
    { .name = "retry",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, retry),
      .arg = "N",
      .help = "run a case again, so often at most, during which others took a tenth of a core for "
              "a second, whatever was said about it; default 0" },
    { .name = "results",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, results),
      .arg = "DIR",
      .help = "keep results and the runs that were not right there, and go on from what is there" },
    { .name = "keep",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, keep),
      .arg = "DIR",
      .help = "keep all runs in this directory, for 'lockstep why'" },
    { .name = "write",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, write),
      .arg = "FILE",
      .help = "the score as a page: docs/VERDICTS.md" },
    { .name = "json",
      .type = OPT_FLAG,
      .offset = offsetof(struct bench_verdicts_settings, json),
      .help = "one JSON object" },
    { 0 },
};

const struct command command_bench_verdicts = {
    .name = "bench verdicts",
    .operands = "",
    .summary = "real runs with real faults: precision, recall and speed of the verdicts",
    .details =
        "Every case is a 'lockstep demo' in processes of its own; what must be said about it\n"
        "is in one table that no judge sees.  Takes about ten minutes, with --all hours; a busy\n"
        "machine is itself a fault and will be named as one.\n"
        "Exits 0 when the bars are met: precision and recall 0.98, layer 0.95, 5 steps from a\n"
        "factor of 1.25 and 20 at 1.10, ledger 5 %, no false alarm; 3 when all was skipped.",
    .opt = bench_verdicts_opts,
};

static const struct opt bench_matrix_opts[] = {
    { "dir", 0, OPT_TEXT, offsetof(struct bench_matrix_settings, dir), "DIR",
      "where to make the file, 2.2 GB by default; removed at the end (/var/tmp)", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct bench_matrix_settings, json), NULL, "one JSON object",
      NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_matrix_settings, ranks), "N",
      "rows of the matrix (default 16384)", NULL, false },
    { "steps", 0, OPT_U64, offsetof(struct bench_matrix_settings, steps), "N",
      "columns of the matrix (default 100000)", NULL, false },
    { "tiles", 0, OPT_U32, offsetof(struct bench_matrix_settings, tiles), "N",
      "how many tiles to read each way (default 2000)", NULL, false },
    { .name = NULL },
};

const struct command command_bench_matrix = {
    .name = "bench matrix",
    .operands = "",
    .summary = "how long a tile of the rank × step matrix takes, at any zoom",
    .details =
        "Makes a matrix of 16384 ranks and 100000 steps and reads tiles of all zooms from it, "
        "from\n"
        "memory and from disk.  Exits 1 when one in a hundred takes longer than the bar (10 ms).",
    .opt = bench_matrix_opts,
};
