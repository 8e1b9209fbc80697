/* fabric_report.c - the result of a fabric test as text and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_member.h"
#include "cmd/fabric/fabric_private.h"
#include "core/clean.h"
#include "judge/median.h"
#include "show/style.h"
#include "verify/fabric/fabric_words.h"

#define NCCL_SECONDS 3.0 /* that driver and NCCL take before a transfer, about */
#define SHOWN_PATHS 20   /* slow transfers in the table */
#define UNREACHABLE 0.6  /* a node that nothing comes back from may be down, or its network */

static const char *report_node(const void *ctx, uint32_t node)
{
    return fabric_run_name(ctx, node);
}

static const char *report_leaf(const void *ctx, uint32_t leaf)
{
    return ((const struct fabric_run *)ctx)->leaf_name[leaf];
}

static struct fabric_names report_names(const struct fabric_run *run, const char *spine)
{
    return (struct fabric_names){ .node = report_node,
                                  .leaf = report_leaf,
                                  .spine = spine,
                                  .rails = run->shape.rails,
                                  .shape = &run->shape,
                                  .ctx = run };
}

static uint32_t report_skipped(const struct fabric_run *run, bool unreachable)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < run->nodes; i++)
        count += run->node[i].state == NODE_SKIPPED && (!unreachable || run->node[i].unreachable);
    return count;
}

static const char *report_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

int fabric_report_status(const struct fabric_run *run)
{
    if (run->too_many)
        return 3;
    if (run->found.count || report_skipped(run, true))
        return 1;
    if (report_skipped(run, false) || !run->found.sound || run->found.unexplained ||
        run->shape.nodes < 2 || fabric_run_missing(run))
        return 3;
    return 0;
}

/* ---- before ---- */

void fabric_report_plan(const struct fabric_run *run, const struct fabric_test_options *options)
{
    const struct pair_plan *plan = &run->plan;
    double rate = options->rate, worker = 0;
    struct plan_cost cost;

    for (uint32_t i = 0; i < run->nodes; i++)
        worker = MAX(worker, (double)run->node[i].rate * 8 / 1e9);
    if (worker > 0 && (rate <= 0 || rate > worker))
        rate = worker;
    cost = pair_plan_cost(plan, (double)options->time_ns / 1e9, rate * 1e9 / 8, run->shape.rails);
    if (run->settings.tool == FABRIC_NCCL)
        cost.seconds += NCCL_SECONDS * 2 * (double)plan->rounds;
    if (options->json && options->dry_run) {
        CLEAN(json_clean) struct json_object *root = json_object_new_object();

        json_object_object_add(root, "nodes", json_object_new_int64(run->shape.nodes));
        json_object_object_add(root, "leafs", json_object_new_int64(run->shape.leafs));
        json_object_object_add(root, "rounds", json_object_new_uint64(plan->rounds));
        json_object_object_add(root, "pairs", json_object_new_uint64(plan->pairs));
        json_object_object_add(root, "seconds", show_number(cost.seconds));
        json_object_object_add(root, "bytes", rate > 0 ? show_number(cost.bytes) : NULL);
        show_json(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
        return;
    }
    printf("%u node%s, ", run->shape.nodes, report_plural(run->shape.nodes));
    if (run->shape.leafs)
        printf("%u leaf switch%s: ", run->shape.leafs, run->shape.leafs == 1 ? "" : "es");
    else
        printf("leaf switches not known: ");
    printf("%zu round%s of disjoint pairs, %zu pair%s, about %.0f s, ", plan->rounds,
           report_plural(plan->rounds), plan->pairs, report_plural(plan->pairs), cost.seconds);
    if (rate > 0)
        printf("at most %.3g GB, %.3g Gbit/s for each adapter\n", cost.bytes / 1e9, rate);
    else
        printf("as fast as the workers allow\n");
    fflush(stdout);
}

/* ---- after ---- */

static void report_slow_paths(const struct fabric_run *run, const struct show_style *style)
{
    size_t shown = 0;

    for (size_t i = 0; i < run->paths && shown < SHOWN_PATHS; i++) {
        const struct slow_links_path *path = &run->path[i];
        const struct fabric_path *measured = &run->measured[i];

        if (path->state != LINK_SLOW)
            continue;
        if (!shown++)
            printf("%-24s %-24s %5s %10s %10s\n", "from", "to", "rail", "Gbit/s", "us");
        printf("%-24s %-24s %5u %s%10.3g%s ", fabric_run_name(run, path->from),
               fabric_run_name(run, path->to), path->rail, show_begin(style, SHOW_BAD),
               measured->gbps, show_end(style));
        if (measured->latency_us > 0)
            printf("%10.1f\n", measured->latency_us);
        else
            printf("%10s\n", measured->error ? strerror((int)measured->error) : "-");
    }
    if (run->found.slow > shown)
        printf("and %zu more slow transfer%s; --json lists all\n", (size_t)run->found.slow - shown,
               report_plural((size_t)run->found.slow - shown));
}

/* What the links reached: a good result without numbers shows nothing. */
static void report_rates(const struct fabric_run *run)
{
    CLEAN(free_clean) double *rate = calloc(run->paths + 1, sizeof(*rate));
    CLEAN(free_clean) double *latency = calloc(run->paths + 1, sizeof(*latency));
    size_t rates = 0, latencies = 0, slowest = 0;

    for (size_t i = 0; rate && latency && i < run->paths; i++) {
        if (run->path[i].rate <= 0)
            continue;
        if (!rates || run->path[i].rate < run->path[slowest].rate)
            slowest = i;
        rate[rates++] = run->path[i].rate;
        if (run->measured[i].latency_us > 0)
            latency[latencies++] = run->measured[i].latency_us;
    }
    if (!rates)
        return;
    printf("median %.3g Gbit/s", median_f64(rate, rates));
    if (latencies)
        printf(" and %.1f us", median_f64(latency, latencies));
    printf("; slowest %.3g Gbit/s from %s to %s\n", run->path[slowest].rate,
           fabric_run_name(run, run->path[slowest].from),
           fabric_run_name(run, run->path[slowest].to));
}

static void report_notes(const struct fabric_run *run)
{
    for (uint32_t i = 0; i < run->nodes; i++) {
        if (run->node[i].state == NODE_SKIPPED)
            printf("skipped: %s: %s\n", run->node[i].name, run->node[i].why);
    }
    if (run->oversubscribed)
        printf("transfers between leaf switches are slower only when all nodes send at once: the "
               "uplinks are shared\n");
    if (run->found.unexplained)
        printf("%u slow transfer%s no part in common that could be named\n", run->found.unexplained,
               run->found.unexplained == 1 ? " has" : "s have");
    if (fabric_run_missing(run))
        printf("%zu planned transfer%s could not be measured\n", fabric_run_missing(run),
               report_plural(fabric_run_missing(run)));
    if (run->too_many)
        printf("%zu parts would have to be slow at once, so what is normal here is not known; give "
               "--expect\n",
               run->found.count);
}

void fabric_report_text(const struct fabric_run *run, const char *spine)
{
    struct fabric_names names = report_names(run, spine);
    struct show_style style = show_style_of(stdout);

    report_slow_paths(run, &style);
    report_notes(run);
    for (size_t i = 0; i < run->found.count && !run->too_many; i++) {
        const struct slow_links_named *named = &run->found.named[i];
        char name[600], because[1200];

        fabric_words_name(&names, named, name, sizeof(name));
        fabric_words_because(&names, named, because, sizeof(because));
        printf("%s%s %s%s (%.0f %%): %s\n", show_begin(&style, SHOW_BAD),
               fabric_words_kind(named->part), name, show_end(&style), 100 * named->confidence,
               because);
    }
    report_rates(run);
    printf("%u transfer%s measured: %u sound, %u slow, %u in between: %s\n",
           run->found.sound + run->found.slow + run->found.unknown,
           report_plural((size_t)run->found.sound + run->found.slow + run->found.unknown),
           run->found.sound, run->found.slow, run->found.unknown,
           fabric_report_status(run) == 0   ? "all links are alike"
           : fabric_report_status(run) == 1 ? "something is slow or does not answer"
                                            : "could not tell");
}

static struct json_object *report_named(const char *kind, const char *name, double confidence,
                                        const char *because)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "kind", json_object_new_string(kind));
    json_object_object_add(object, "name", show_string(name));
    json_object_object_add(object, "confidence", show_number(confidence));
    json_object_object_add(object, "because", show_string(because));
    return object;
}

static struct json_object *report_all_named(const struct fabric_run *run, const char *spine)
{
    struct json_object *list = json_object_new_array();
    struct fabric_names names = report_names(run, spine);

    for (size_t i = 0; i < run->found.count && !run->too_many; i++) {
        const struct slow_links_named *named = &run->found.named[i];
        char name[600], because[1200];

        fabric_words_name(&names, named, name, sizeof(name));
        fabric_words_because(&names, named, because, sizeof(because));
        json_object_array_add(
            list, report_named(fabric_words_kind(named->part), name, named->confidence, because));
    }
    for (uint32_t i = 0; i < run->nodes; i++) {
        const struct fabric_node *node = &run->node[i];
        char because[256];

        if (node->state != NODE_SKIPPED || !node->unreachable)
            continue;
        snprintf(because, sizeof(because), "its worker does not answer: %s", node->why);
        json_object_array_add(list, report_named("node", node->name, UNREACHABLE, because));
    }
    return list;
}

static struct json_object *report_pair(const struct fabric_run *run, size_t i)
{
    static const char *const states[] = { "unclear", "sound", "slow" };
    const struct slow_links_path *path = &run->path[i];
    const struct fabric_path *measured = &run->measured[i];
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "from", show_string(fabric_run_name(run, path->from)));
    json_object_object_add(object, "to", show_string(fabric_run_name(run, path->to)));
    json_object_object_add(object, "rail", json_object_new_int64(path->rail));
    json_object_object_add(object, "gbps", show_number(measured->gbps));
    json_object_object_add(object, "foreign_gbps", show_number(measured->foreign_gbps));
    json_object_object_add(object, "latency_us",
                           measured->latency_us > 0 ? show_number(measured->latency_us) : NULL);
    json_object_object_add(object, "state", json_object_new_string(states[path->state]));
    json_object_object_add(object, "error",
                           measured->error ? show_string(strerror((int)measured->error)) : NULL);
    return object;
}

void fabric_report_json(const struct fabric_run *run, const char *spine)
{
    static const char *const verdicts[] = { "ok", "slow", "", "unknown" };
    CLEAN(json_clean) struct json_object *root = json_object_new_object();
    struct json_object *pairs = json_object_new_array(), *skipped = json_object_new_array();

    for (size_t i = 0; i < run->paths; i++)
        json_object_array_add(pairs, report_pair(run, i));
    for (uint32_t i = 0; i < run->nodes; i++) {
        struct json_object *one;

        if (run->node[i].state != NODE_SKIPPED)
            continue;
        one = json_object_new_object();
        json_object_object_add(one, "node", show_string(run->node[i].name));
        json_object_object_add(one, "why", show_string(run->node[i].why));
        json_object_array_add(skipped, one);
    }
    json_object_object_add(root, "verdict",
                           json_object_new_string(verdicts[fabric_report_status(run)]));
    json_object_object_add(root, "rounds",
                           json_object_new_uint64(run->plan.rounds + run->again.rounds));
    json_object_object_add(root, "oversubscribed", json_object_new_boolean(run->oversubscribed));
    json_object_object_add(root, "unmeasured", json_object_new_uint64(fabric_run_missing(run)));
    json_object_object_add(root, "unexplained", json_object_new_int64(run->found.unexplained));
    json_object_object_add(root, "pairs", pairs);
    json_object_object_add(root, "named", report_all_named(run, spine));
    json_object_object_add(root, "skipped", skipped);
    show_json(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}
