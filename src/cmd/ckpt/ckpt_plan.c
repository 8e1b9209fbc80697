/* ckpt_plan.c - `lockstep ckpt plan`: what checkpoints of a job will need and cost, before it runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"
#include "lockstep/ckpt.h"

struct plan_options {
    bool json, shared, compare;
    double size_gb, disk_gbps, copy_gbps;
    uint32_t ranks, ranks_per_node, images;
    int64_t failure_ns, node_failure_ns, restart_ns, step_ns;
};

static const struct opt plan_opts[] = {
    { "size", 0, OPT_F64, offsetof(struct plan_options, size_gb), "GB",
      "all tensors of the job: parameters, optimizer and the rest, replicas counted once", NULL,
      false },
    { "ranks", 0, OPT_U32, offsetof(struct plan_options, ranks), "N", "ranks of the job, default 1",
      NULL, false },
    { "ranks-per-node", 0, OPT_U32, offsetof(struct plan_options, ranks_per_node), "N",
      "ranks on one node, default 8", NULL, false },
    { "disk-rate", 0, OPT_F64, offsetof(struct plan_options, disk_gbps), "GB/s",
      "writing speed of a node's disk; with --shared of the file system", NULL, false },
    { "shared", 0, OPT_FLAG, offsetof(struct plan_options, shared), NULL,
      "all nodes write to one file system", NULL, false },
    { "compare", 0, OPT_FLAG, offsetof(struct plan_options, compare), NULL,
      "replicas are compared: each rank also copies a slice that another rank saves", NULL, false },
    { "copy-rate", 0, OPT_F64, offsetof(struct plan_options, copy_gbps), "GB/s",
      "speed at which a rank copies its tensors, default 10", NULL, false },
    { "mtbf", 0, OPT_DURATION, offsetof(struct plan_options, failure_ns), "TIME",
      "mean time between two failures of the job", NULL, false },
    { "node-mtbf", 0, OPT_DURATION, offsetof(struct plan_options, node_failure_ns), "TIME",
      "the same of one node, such as 400d; the job fails that much more often", NULL, false },
    { "restart", 0, OPT_DURATION, offsetof(struct plan_options, restart_ns), "TIME",
      "from a failure until training continues, default 5m", NULL, false },
    { "step", 0, OPT_DURATION, offsetof(struct plan_options, step_ns), "TIME",
      "one step of the training, to give the interval in steps", NULL, false },
    { "images", 0, OPT_U32, offsetof(struct plan_options, images), "N",
      "copies in memory, 1 or 2, default 2", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct plan_options, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

struct plan {
    uint32_t nodes, ranks_per_node;
    double rank_gb, node_gb, arena_gb; /* arena_gb: on each node */
    double read_s;                     /* reading back, and restoring, at the disk's speed */
    struct lockstep_ckpt_costs costs;
    struct lockstep_ckpt_interval interval;
};

static int plan_options_check(const struct plan_options *options)
{
    const char *why = NULL;

    if (!(options->size_gb > 0) || options->size_gb > 1e9)
        why = "needs --size GB";
    else if (!(options->disk_gbps > 0) || !(options->copy_gbps > 0))
        why = "needs --disk-rate, in GB per second; rates must be above 0";
    else if (!options->ranks || !options->ranks_per_node)
        why = "--ranks and --ranks-per-node must be at least 1";
    else if (options->images < 1 || options->images > 2)
        why = "--images must be 1 or 2";
    else if ((options->failure_ns > 0) == (options->node_failure_ns > 0))
        why = "needs --mtbf or --node-mtbf, not both";
    if (why)
        log_error("%s", why);
    return why ? 2 : 0;
}

/* 0, or -EINVAL: a number is out of range. */
static int plan_make(const struct plan_options *options, struct plan *plan)
{
    double written_gb, nodes, copies;

    plan->ranks_per_node = MIN(options->ranks, options->ranks_per_node);
    plan->nodes = (options->ranks + plan->ranks_per_node - 1) / plan->ranks_per_node;
    nodes = plan->nodes;
    plan->rank_gb = options->size_gb / options->ranks;
    plan->node_gb = plan->rank_gb * plan->ranks_per_node;
    copies = options->compare ? 2 : 1; /* of the part of a rank in an image */
    plan->arena_gb = plan->node_gb * options->images * copies;
    written_gb = options->shared ? options->size_gb : plan->node_gb;
    plan->read_s = written_gb / options->disk_gbps;
    plan->costs = (struct lockstep_ckpt_costs){
        .size = sizeof(plan->costs),
        .save_s = plan->rank_gb * copies / options->copy_gbps,
        .write_s = written_gb / options->disk_gbps,
        .failure_s = options->failure_ns > 0 ? (double)options->failure_ns / NS_PER_S
                                             : (double)options->node_failure_ns / NS_PER_S / nodes,
        .restart_s = (double)options->restart_ns / NS_PER_S,
        .step_s = (double)options->step_ns / NS_PER_S,
    };
    plan->interval.size = sizeof(plan->interval);
    return lockstep_ckpt_interval(&plan->costs, &plan->interval);
}

/* Where a point is, from when on, and what it survives there. */
struct plan_tier {
    const char *name, *survives;
    double seconds;
};

static unsigned plan_tiers(const struct plan_options *options, const struct plan *plan,
                           struct plan_tier tier[2])
{
    tier[0] = (struct plan_tier){ "memory", "the end of the training program", plan->costs.save_s };
    tier[1] = (struct plan_tier){ options->shared ? "shared disk" : "local disk",
                                  options->shared    ? "the loss of nodes"
                                  : plan->nodes == 1 ? "a restart of the node"
                                                     : "restarts of nodes, not the loss of one",
                                  plan->costs.save_s + plan->costs.write_s };
    return 2;
}

static void plan_print_json(const struct plan_options *options, const struct plan *plan)
{
    struct json_object *object = json_object_new_object(), *tiers = json_object_new_array();
    const struct lockstep_ckpt_interval *interval = &plan->interval;
    struct plan_tier tier[2];
    unsigned count = plan_tiers(options, plan, tier);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        { "arena_gb_per_node", plan->arena_gb },      { "disk_gb_per_node", plan->node_gb },
        { "save_seconds", plan->costs.save_s },       { "written_seconds", plan->costs.write_s },
        { "restore_seconds", plan->read_s },          { "mtbf_seconds", plan->costs.failure_s },
        { "interval_seconds", interval->interval_s }, { "save_share", interval->save_share },
        { "rework_share", interval->rework_share },   { "restart_share", interval->restart_share },
    };

    json_object_object_add(object, "nodes", json_object_new_int64(plan->nodes));
    for (size_t i = 0; i < COUNT(numbers); i++)
        json_object_object_add(object, numbers[i].name, json_object_new_double(numbers[i].value));
    json_object_object_add(object, "interval_steps",
                           interval->steps ? json_object_new_uint64(interval->steps) : NULL);
    json_object_object_add(object, "why", json_object_new_string(interval->why));
    for (unsigned i = 0; i < count; i++) {
        struct json_object *item = json_object_new_object();

        json_object_object_add(item, "name", json_object_new_string(tier[i].name));
        json_object_object_add(item, "seconds", json_object_new_double(tier[i].seconds));
        json_object_object_add(item, "survives", json_object_new_string(tier[i].survives));
        json_object_array_add(tiers, item);
    }
    json_object_object_add(object, "tiers", tiers);
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

static void plan_print(const struct plan_options *options, const struct plan *plan)
{
    const struct lockstep_ckpt_interval *interval = &plan->interval;
    struct plan_tier tier[2];
    unsigned count = plan_tiers(options, plan, tier);

    printf("memory    %.1f GB on each of %" PRIu32 " nodes: %" PRIu32
           " images of %.2f GB for each of %" PRIu32 " ranks\n",
           plan->arena_gb, plan->nodes, options->images,
           plan->arena_gb / options->images / plan->ranks_per_node, plan->ranks_per_node);
    printf("disk      %.1f GB %s for each point\n",
           options->shared ? options->size_gb : plan->node_gb,
           options->shared ? "on the shared file system" : "on each node");
    printf("save      %.2f s of training time\n", plan->costs.save_s);
    for (unsigned i = 0; i < count; i++)
        printf("          %s after %.2f s: survives %s\n", tier[i].name, tier[i].seconds,
               tier[i].survives);
    printf("restore   %.2f s\n", plan->read_s);
    printf("interval  %s\n", interval->why);
    if (interval->steps)
        printf("          = every %" PRIu64 " steps\n", interval->steps);
    printf(
        "lost      %.2f %% of the time: saves %.2f %%, repeated work %.2f %%, restarts %.2f %%\n",
        (interval->save_share + interval->rework_share + interval->restart_share) * 100,
        interval->save_share * 100, interval->rework_share * 100, interval->restart_share * 100);
    if (!options->shared && plan->nodes > 1)
        puts("advice    a node that does not come back takes its part of each point with it: save "
             "to a\n          shared file system from time to time, or copy points with 'ckpt "
             "push'");
}

static int plan_main(int argc, char **argv)
{
    struct plan_options options = {
        .copy_gbps = 10, .ranks = 1, .ranks_per_node = 8, .images = 2, .restart_ns = 300 * NS_PER_S
    };
    struct plan plan = { .nodes = 0 };
    int first = opt_parse(&command_ckpt_plan, argc, argv, &options), status;

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("expected no operand, found '%s'", argv[first]);
        return 2;
    }
    status = plan_options_check(&options);
    if (status)
        return status;
    if (plan_make(&options, &plan) < 0) {
        log_error("a number is out of range");
        return 2;
    }
    if (options.json)
        plan_print_json(&options, &plan);
    else
        plan_print(&options, &plan);
    return 0;
}

const struct command command_ckpt_plan = {
    .name = "ckpt plan",
    .operands = "",
    .summary = "what checkpoints of a job need and cost, and how often to save",
    .details =
        "The interval is the one that loses the least time (J. T. Daly, 2006), but not shorter "
        "than\nthe disk needs to write a point.",
    .opt = plan_opts,
    .run = plan_main,
};
