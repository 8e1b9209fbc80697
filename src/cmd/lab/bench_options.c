/* bench_options.c - the options of 'lockstep bench ...', which is in lockstep-lab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/lab/bench_options.h"

static const struct opt bench_control_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_control_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_control_settings, ranks), "N",
      "ranks of the job, 8 per node, default 16384", NULL, false },
    { "seconds", 0, OPT_U32, offsetof(struct bench_control_settings, seconds), "S",
      "seconds to send, default 30", NULL, false },
    { "step-ms", 0, OPT_U32, offsetof(struct bench_control_settings, step_ms), "MS",
      "time between two steps, default 1000", NULL, false },
    { "ops", 0, OPT_U32, offsetof(struct bench_control_settings, ops), "N",
      "collectives between nodes per step, default 200", NULL, false },
    { "readers", 0, OPT_U32, offsetof(struct bench_control_settings, readers), "N",
      "readers of the event stream, default 100", NULL, false },
    { "processes", 0, OPT_U32, offsetof(struct bench_control_settings, processes), "N",
      "processes that simulate the agents, default 2", NULL, false },
    { "dir", 0, OPT_TEXT, offsetof(struct bench_control_settings, directory), "DIR",
      "directory of the logs during the run, on a real disk, default $TMPDIR or /tmp", NULL,
      false },
    { .name = NULL },
};

const struct command command_bench_control = {
    .name = "bench control",
    .operands = "",
    .summary = "load of a very large job on a site's controller",
    .details =
        "Separate processes simulate the agents of many nodes and send real frames to a real\n"
        "controller; readers follow its events.  Exits 1 if a limit is exceeded.",
    .opt = bench_control_opts,
};

static const struct opt bench_probe_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_probe_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "batches", 0, OPT_U32, offsetof(struct bench_probe_settings, batches), "N",
      "batches of 1,000 marks to time, default 3000", NULL, false },
    { "cold", 0, OPT_U32, offsetof(struct bench_probe_settings, cold), "N",
      "single marks to time with cold caches, default 100", NULL, false },
    { .name = NULL },
};

const struct command command_bench_probe = {
    .name = "bench probe",
    .operands = "",
    .summary = "cost of a mark in the training process, beyond reading the clock",
    .details =
        "Batches of 1,000 marks alternate with batches of 1,000 clock reads.  The cost is the "
        "time\n"
        "per mark minus the median clock read of the same run.  Then collectives of two channels\n"
        "are reported to the NCCL profiler plugin as NCCL reports them, and to an empty plugin "
        "for\n"
        "comparison.  Exits 0 if the median of a mark is within the limit, else 1.",
    .opt = bench_probe_opts,
};

static const struct opt bench_dumps_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_dumps_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_dumps_settings, ranks), "N",
      "ranks of the job, a multiple of 8, default 1024", NULL, false },
    { "ops", 0, OPT_U32, offsetof(struct bench_dumps_settings, ops), "N",
      "operations in each dump, default 500", NULL, false },
    { .name = NULL },
};

const struct command command_bench_dumps = {
    .name = "bench dumps",
    .operands = "",
    .summary = "time to read and judge the dumps of a large job",
    .details = "Writes the flight-recorder dumps of a hanging job below $TMPDIR, reads and judges "
               "them on\n"
               "one core, and removes them.  Exits 1 if it takes too long or the culprit is not "
               "named.",
    .opt = bench_dumps_opts,
};

static const struct opt bench_autopsy_opts[] = {
    { "half", 0, OPT_TEXT, offsetof(struct bench_autopsy_settings, half), "NAME",
      "half of the cases: dev (default) or scored", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct bench_autopsy_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "show", 0, OPT_FLAG, offsetof(struct bench_autopsy_settings, show), NULL,
      "print the name of each case that is not answered right, and why, to stderr", NULL, false },
    { "size", 0, OPT_U32, offsetof(struct bench_autopsy_settings, size_mb), "MB",
      "size of the large log, default 256; 0: none", NULL, false },
    { .name = NULL },
};

const struct command command_bench_autopsy = {
    .name = "bench autopsy",
    .operands = "[DIR...]",
    .summary = "quality of the answers about dead jobs, and speed of reading a large log",
    .details =
        "Runs 'lockstep why' on every case of DIR/cases.tsv, or of DIR/dev/cases.tsv, and\n"
        "compares its answers with those of a person; default DIR: test/recorded/logs.  Then\n"
        "writes a large log below $TMPDIR and measures how fast it is read.  Exits 1 if a limit\n"
        "is missed: of the cases that a person can answer 70 % right, 2 % wrong, 15 % silent;\n"
        "200 MB per second of CPU time.",
    .opt = bench_autopsy_opts,
};

static const struct opt bench_noise_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_noise_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "ranks", 'n', OPT_U32, offsetof(struct bench_noise_settings, ranks), "N",
      "ranks of the job, a multiple of 8, default 16384", NULL, false },
    { "steps", 0, OPT_U64, offsetof(struct bench_noise_settings, steps), "N",
      "steps to judge, default those of a week", NULL, false },
    { "step-seconds", 0, OPT_F64, offsetof(struct bench_noise_settings, step_seconds), "S",
      "duration of a step of the job, default 6", NULL, false },
    { "seconds", 0, OPT_F64, offsetof(struct bench_noise_settings, seconds), "S",
      "longest time to run, default 60; 0: no limit", NULL, false },
    { "often", 0, OPT_F64, offsetof(struct bench_noise_settings, often), "N",
      "factor for the rate of bursts and pauses, default 1", NULL, false },
    { "seed", 0, OPT_U64, offsetof(struct bench_noise_settings, seed), "N",
      "seed of all random choices, default 1", NULL, false },
    { "from", 0, OPT_TEXT, offsetof(struct bench_noise_settings, from), "RUN",
      "use the noise of this healthy run of 8 ranks or more, default a built-in recording", NULL,
      false },
    { "print-tape", 0, OPT_FLAG, offsetof(struct bench_noise_settings, print), NULL,
      "only print the noise of --from as the table of lab/bench/noise/noise_tape.c", NULL, false },
    { "detect", 0, OPT_FLAG, offsetof(struct bench_noise_settings, detect), NULL,
      "simulate the sequential test alone: its delay and its false alarms; takes seconds", NULL,
      false },
    { "cases", 0, OPT_U32, offsetof(struct bench_noise_settings, cases), "N",
      "judge N small simulated jobs instead, most of them with one fault, and score the verdicts",
      NULL, false },
    { .name = NULL },
};

const struct command command_bench_noise = {
    .name = "bench noise",
    .operands = "",
    .summary = "false alarms in a large job on noisy hosts, and faults detected in that noise",
    .details =
        "Judges the steps of a simulated healthy job whose hosts replay recorded noise with heavy\n"
        "tails, bursts and pauses, and counts the verdicts; then injects faults into the\n"
        "same noise.  Exits 1 if there is more than one false alarm per week, or if a fault\n"
        "is not detected.",
    .opt = bench_noise_opts,
};

static const struct opt bench_replay_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_replay_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "repeats", 0, OPT_U32, offsetof(struct bench_replay_settings, repeats), "N",
      "repeats of each measurement, of which the median counts, default 31", NULL, false },
    { .name = NULL },
};

const struct command command_bench_replay = {
    .name = "bench replay",
    .operands = "",
    .summary = "time to replay and judge steps, on one core",
    .details =
        "Replays a step of up to 131072 GPUs (tp 8, pp 16, 64 micro-batches) and compares it\n"
        "with the memory bandwidth; judges a step of 16384 ranks with a straggler; counts\n"
        "the bytes of a step.  Exits 1 if a limit is missed.",
    .opt = bench_replay_opts,
};

static const struct opt bench_verdicts_opts[] = {
    { .name = "all",
      .type = OPT_FLAG,
      .offset = offsetof(struct bench_verdicts_settings, all),
      .help = "all families, on the first, middle and last rank of 4, 8 and 16; takes hours" },
    { .name = "cases",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, cases),
      .arg = "N",
      .help = "number of runs with a fault, default 30; with --all: most runs of each family" },
    { .name = "healthy",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, healthy),
      .arg = "N",
      .help = "number of runs without a fault, default 40; with --all: most runs of each family" },
    { .name = "healthy-time",
      .type = OPT_DURATION,
      .offset = offsetof(struct bench_verdicts_settings, healthy_ns),
      .arg = "TIME",
      .help = "additional long healthy runs, with this total duration: 120m" },
    { .name = "only",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, only),
      .arg = "FAMILY[,FAMILY...]",
      .help =
          "families or sets of families: gpu, user-code, cpu, data, stage (the set slow); input, "
          "checkpoint, fabric (the set stall); corruption; hang, desync, crash, traps; "
          "slowly; storage; link; channels; kernel-log; sensors; two; torch" },
    { .name = "seed",
      .type = OPT_U64,
      .offset = offsetof(struct bench_verdicts_settings, seed),
      .arg = "N",
      .help = "seed that selects the cases, default 1" },
    { .name = "jobs",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, jobs),
      .arg = "N",
      .help = "cases at a time, of those that need little CPU, default 1" },
    { .name = "retry",
      .type = OPT_U32,
      .offset = offsetof(struct bench_verdicts_settings, retry),
      .arg = "N",
      .help =
          "repeat a case at most N times if other processes used a tenth of a core for a second, "
          "whatever its verdicts, default 0" },
    { .name = "results",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, results),
      .arg = "DIR",
      .help =
          "store results and runs with a wrong verdict there, and continue from stored results" },
    { .name = "part",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, part),
      .arg = "K/N",
      .help = "run only the K-th of N parts of the cases; needs --results" },
    { .name = "sum",
      .type = OPT_FLAG,
      .offset = offsetof(struct bench_verdicts_settings, sum),
      .help = "run nothing and add up the stored results; needs --results" },
    { .name = "keep",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, keep),
      .arg = "DIR",
      .help = "keep all runs in this directory, for 'lockstep why'" },
    { .name = "write",
      .type = OPT_TEXT,
      .offset = offsetof(struct bench_verdicts_settings, write),
      .arg = "FILE",
      .help = "write the score as a Markdown page, such as docs/VERDICTS.md" },
    { .name = "json",
      .type = OPT_FLAG,
      .offset = offsetof(struct bench_verdicts_settings, json),
      .help = "print one JSON object" },
    { 0 },
};

const struct command command_bench_verdicts = {
    .name = "bench verdicts",
    .operands = "",
    .summary = "precision, recall and delay of verdicts, in real runs with real faults",
    .details =
        "Each case is a 'lockstep demo' in separate processes.  The expected verdicts are in a "
        "table\n"
        "that the judges do not use.  Takes about ten minutes, with --all hours.  Run it on an "
        "idle\n"
        "machine: other load is itself a fault and is reported as one.\n"
        "Exits 0 if all limits are met: precision and recall 0.98, layer 0.95, a verdict after 5\n"
        "steps from a factor of 1.25 and after 20 at 1.10, ledger 5 %, no false alarm; 1 if not; "
        "3\n"
        "if all cases were skipped.",
    .opt = bench_verdicts_opts,
};

static const struct opt bench_matrix_opts[] = {
    { "dir", 0, OPT_TEXT, offsetof(struct bench_matrix_settings, dir), "DIR",
      "directory of the file, 2.2 GB by default, which is removed at the end; default /var/tmp",
      NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct bench_matrix_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_matrix_settings, ranks), "N",
      "rows of the matrix, default 16384", NULL, false },
    { "steps", 0, OPT_U64, offsetof(struct bench_matrix_settings, steps), "N",
      "columns of the matrix, default 100000", NULL, false },
    { "tiles", 0, OPT_U32, offsetof(struct bench_matrix_settings, tiles), "N",
      "tiles to read from memory, and from disk, default 2000", NULL, false },
    { .name = NULL },
};

const struct command command_bench_matrix = {
    .name = "bench matrix",
    .operands = "",
    .summary = "time to read a tile of the rank × step matrix, at any zoom",
    .details =
        "Creates a matrix of 16384 ranks and 100000 steps and reads tiles of all zooms from it,\n"
        "from memory and from disk.  Exits 1 if the 99th percentile exceeds the limit (10 ms).",
    .opt = bench_matrix_opts,
};

static const struct opt bench_page_opts[] = {
    { "browser", 0, OPT_TEXT, offsetof(struct bench_page_settings, browser), "FILE",
      "Chromium or a browser of that kind, default /usr/bin/chromium", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct bench_page_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "keys", 0, OPT_U32, offsetof(struct bench_page_settings, keys), "N",
      "keys to press on the heatmap, default 100", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_page_settings, ranks), "N",
      "ranks of the job, a multiple of 8, default 16384", NULL, false },
    { "steps", 0, OPT_U32, offsetof(struct bench_page_settings, steps), "N",
      "steps of the job, default 20", NULL, false },
    { .name = NULL },
};

const struct command command_bench_page = {
    .name = "bench page",
    .operands = "",
    .summary = "size of the page, time to its first paint, and from a key to the picture",
    .details = "A controller judges a simulated job, and a real browser without a window opens "
               "its page.  Keys\non the heatmap are compared with an empty canvas of the same "
               "size.  Exits 1 if a limit is\nexceeded.",
    .opt = bench_page_opts,
};

static const struct opt bench_kmsg_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_kmsg_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "seconds", 0, OPT_F64, offsetof(struct bench_kmsg_settings, seconds), "S",
      "CPU seconds to classify, default 2", NULL, false },
    { .name = NULL },
};

const struct command command_bench_kmsg = {
    .name = "bench kmsg",
    .operands = "",
    .summary = "lines of a kernel log that are classified in a second",
    .details =
        "Classifies a made log on one core, then a storm of one line; for comparison the ends of\n"
        "the same lines are searched.  Exits 0 if a million lines a second are reached, else 1.",
    .opt = bench_kmsg_opts,
};

static const struct opt bench_fabric_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_fabric_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "cases", 0, OPT_U32, offsetof(struct bench_fabric_settings, cases), "N",
      "networks to test, default 60", NULL, false },
    { "nodes", 0, OPT_U32, offsetof(struct bench_fabric_settings, nodes), "N",
      "most nodes of a network, 8 to 32, default 32", NULL, false },
    { "only", 0, OPT_TEXT, offsetof(struct bench_fabric_settings, only), "FAULT",
      "only this fault: nic, uplink, pair, nic-one-way, uplink-one-way, two, healthy", NULL,
      false },
    { "with", 0, OPT_TEXT, offsetof(struct bench_fabric_settings, with), "TOOL",
      "tcp (default), or nccl, by the libraries that the loader finds, such as scripted ones", NULL,
      false },
    { "seed", 0, OPT_U64, offsetof(struct bench_fabric_settings, seed), "N",
      "seed that draws the cases, default 1", NULL, false },
    { .name = NULL },
};

const struct command command_bench_fabric = {
    .name = "bench fabric",
    .operands = "",
    .summary = "precision and recall of 'lockstep fabric test', in networks with slow parts",
    .details =
        "Joins network namespaces by bridges as leafs and a spine, makes parts of them slow and\n"
        "compares what the test names with what was made slow.  Needs root.  Exits 0 if precision\n"
        "and recall are at least 0.95, 1 if not, 3 if it could not run.",
    .opt = bench_fabric_opts,
};

static const struct opt bench_recover_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_recover_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "rounds", 0, OPT_U32, offsetof(struct bench_recover_settings, rounds), "N",
      "how often to measure, default 3", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_recover_settings, ranks), "N",
      "ranks of the job, default 4", NULL, false },
    { "slurm", 0, OPT_TEXT, offsetof(struct bench_recover_settings, slurm), "SCRIPT",
      "test/slurm/recover.sh of the source tree: a node of a Slurm job is lost, compared with "
      "Slurm "
      "alone and a loop around srun; needs root",
      NULL, false },
    { .name = NULL },
};

const struct command command_bench_recover = {
    .name = "bench recover",
    .operands = "",
    .summary = "time from a killed rank to the first new step, compared with torchrun",
    .details =
        "Trains with torch under torchrun and under lockstep run, kills a rank, and measures "
        "in parts how\n"
        "long it takes until the job trains again.  Exits 0 if lockstep needs at most half "
        "of the time\n"
        "of torchrun, else 1.",
    .opt = bench_recover_opts,
};

static const struct opt bench_agent_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_agent_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "seconds", 0, OPT_F64, offsetof(struct bench_agent_settings, seconds), "S",
      "seconds to measure, with sensors and without, default 60", NULL, false },
    { "ranks", 0, OPT_U32, offsetof(struct bench_agent_settings, ranks), "N",
      "ranks of the job, default 8", NULL, false },
    { "ops", 0, OPT_U32, offsetof(struct bench_agent_settings, ops), "N",
      "collectives per step, default 200", NULL, false },
    { "step-ms", 0, OPT_U32, offsetof(struct bench_agent_settings, step_ms), "MS",
      "time between two steps, default 100", NULL, false },
    { "nvml", 0, OPT_TEXT, offsetof(struct bench_agent_settings, nvml), "FILE",
      "library that stands for NVML; without, GPUs are not read", NULL, false },
    { "tree", 0, OPT_TEXT, offsetof(struct bench_agent_settings, tree), "DIR",
      "make the tree of files in this new directory, and measure nothing", NULL, false },
    { "rank", 0, OPT_FLAG, offsetof(struct bench_agent_settings, rank), NULL,
      "be one rank of the job; the benchmark itself starts these", NULL, false },
    { .name = NULL },
};

const struct command command_bench_agent = {
    .name = "bench agent",
    .operands = "",
    .summary = "cost of the agent of a node, with all sensors and without",
    .details =
        "Runs a job whose ranks write marks only, first without sensors, then with all sensors "
        "over\n"
        "the files of a node with 8 GPUs and 9 network adapters.  CPU time, memory and reads of "
        "the\n"
        "agent and its children are counted.  Exits 0 if the sensors need at most 0.5 % of a core\n"
        "and the agent at most 8 MB of memory of its own, else 1.",
    .opt = bench_agent_opts,
};

static const struct opt bench_ckpt_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct bench_ckpt_settings, json), NULL,
      "print one JSON object", NULL, false },
    { "bytes", 0, OPT_U64, offsetof(struct bench_ckpt_settings, bytes), "N",
      "bytes of all tensors, default 2000000000; three times as much memory is needed", NULL,
      false },
    { "rounds", 0, OPT_U32, offsetof(struct bench_ckpt_settings, rounds), "N",
      "how often to measure, default 7", NULL, false },
    { "dir", 0, OPT_TEXT, offsetof(struct bench_ckpt_settings, dir), "DIR",
      "directory on the disk to measure, default $TMPDIR or /var/tmp", NULL, false },
    { .name = NULL },
};

const struct command command_bench_ckpt = {
    .name = "bench ckpt",
    .operands = "",
    .summary = "cost of a checkpoint, compared with memcpy and the bare disk",
    .details =
        "Saves and restores tensors in main memory, and measures in the same rounds how fast\n"
        "memory can be copied and the disk be written and read.  Exits 1 if a ratio is below its\n"
        "limit.",
    .opt = bench_ckpt_opts,
};
