/* night.c - judges a night by ten bars, and writes the page about it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/drill/night.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_member.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/rand.h"
#include "lab/drill/night_private.h"

#define NIGHT_RANKS 4
#define NIGHT_STEP_LEAST 60
#define NIGHT_STEPS 80       /* in which it may come */
#define NIGHT_STEPS_MAX 1000 /* of a job */

void night_plan_draw(uint64_t seed, struct night_plan *ret)
{
    struct rand rand = { .state = seed };

    *ret = (struct night_plan){ .seed = seed,
                                .fault = seed % 2 ? "lost-gpu" : "slow-disk",
                                .step = NIGHT_STEP_LEAST + rand_below(&rand, NIGHT_STEPS),
                                .rank = rand_below(&rand, NIGHT_RANKS) };
    ret->death = rand_below(&rand, 2) ? "stop" : "abort";
}

/* ---- sections ---- */

static void night_page_injected(const struct night *night, struct drill_page *page)
{
    struct drill_section *section = drill_section_add(page, "injected");

    drill_row_add(section, DRILL_PLAIN, night->victim, "drill", "%s", night->failure);
    drill_row_add(section, DRILL_PLAIN, "its kernel", "drill", "%s", night->kernel);
    drill_row_add(section, DRILL_PLAIN, "checkpoint", "drill",
                  "bit 2 of byte %" PRId64 " of %s of step %" PRId64 ", the newest, is flipped",
                  night->flipped_at, night->flipped_file, night->flipped);
}

static void night_page_timeline(const struct night *night, struct drill_page *page)
{
    struct json_object *list = json_member(night->incident, "timeline", json_type_array);
    struct drill_section *section =
        drill_section_add(page, "time line, in seconds since the fault");
    char first[32];

    drill_row_add(section, DRILL_PLAIN, "0.00", "drill", "%s: %s", night->victim, night->failure);
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        double at_s = drill_json_time_s(one, "time") - night->fails_s;
        char at[32];

        if (at_s < -1 || (night->new_step_s && at_s > night->new_step_s - night->fails_s))
            continue;
        snprintf(at, sizeof(at), "%.2f", at_s);
        drill_row_add(section, DRILL_PLAIN, at, drill_json_text(one, "source"), "%s",
                      drill_json_text(one, "what"));
    }
    snprintf(first, sizeof(first), "%.2f", night->new_step_s - night->fails_s);
    if (night->new_step_s)
        drill_row_add(section, DRILL_PLAIN, first, "API, steps",
                      "the first new step, %" PRId64 ", is complete", night->resumed);
}

static void night_page_parts(const struct night *night, struct drill_page *page)
{
    static const struct {
        const char *name, *label;
    } parts[] = {
        { "detect_s", "detect" }, { "decide_s", "decide" },      { "stop_s", "stop" },
        { "start_s", "start" },   { "init_s", "init and load" }, { "first_step_s", "first step" },
        { "total_s", "in all" },
    };
    struct json_object *restarts = json_member(night->why, "restarts", json_type_array);
    struct drill_section *section = drill_section_add(page, "the restart, in seconds");

    for (size_t i = 0; restarts && i < json_object_array_length(restarts); i++) {
        struct json_object *one = json_object_array_get_idx(restarts, i);
        struct json_object *times = json_member(one, "parts", json_type_object);

        for (size_t k = 0; times && k < COUNT(parts); k++)
            drill_row_add(section, DRILL_PLAIN, parts[k].label, "lockstep why", "%.2f",
                          drill_json_number(times, parts[k].name));
    }
}

static void night_page_ledger(const struct night *night, struct drill_page *page)
{
    struct json_object *ledger = json_member(night->why, "ledger", json_type_object);
    struct json_object *buckets = json_member(ledger, "buckets", json_type_object);
    struct drill_section *section = drill_section_add(page, "GPU-seconds by cause");

    if (!buckets)
        return;
    json_object_object_foreach(buckets, name, seconds)
    {
        if (json_object_get_double(seconds) >= 0.05)
            drill_row_add(section, DRILL_PLAIN, name, "lockstep why", "%.1f",
                          json_object_get_double(seconds));
    }
}

static bool night_is_action(struct json_object *decision, const char *action)
{
    return strcmp(drill_json_text(decision, "action"), action) == 0;
}

/* Decisions that were carried out; or those that were not, which a person may carry out. */
static void night_page_decisions(const struct night *night, bool done,
                                 struct drill_section *section)
{
    struct json_object *list = json_member(night->why, "decisions", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        if (night_is_action(one, "start") || night_is_action(one, "end") ||
            (strcmp(drill_json_text(one, "outcome"), "done") == 0) != done)
            continue;
        drill_row_add(section, DRILL_PLAIN, drill_json_text(one, "action"), "lockstep why", "%s",
                      drill_json_text(one, "why"));
    }
}

struct night_nodes { /* what sinfo says, in a file of it */
    const struct night *night;
    char state[32], reason[200]; /* of the victim */
    char other[240];             /* the first other node that has a reason; "": none */
    bool any;
};

static bool night_node(void *arg, char *line)
{
    struct night_nodes *nodes = arg;
    const char *name = strsep(&line, "|"), *state = strsep(&line, "|");

    if (!state || !line)
        return true;
    nodes->any = true;
    if (strcmp(name, nodes->night->victim) == 0) {
        snprintf(nodes->state, sizeof(nodes->state), "%s", state);
        snprintf(nodes->reason, sizeof(nodes->reason), "%s", line);
    } else if (strcmp(line, "none") != 0) {
        snprintf(nodes->other, sizeof(nodes->other), "%s is %s: %s", name, state, line);
    }
    return true;
}

static struct night_nodes night_nodes_of(const char *directory, const struct night *night)
{
    struct night_nodes nodes = { .night = night };

    night_lines(directory, "nodes.after", night_node, &nodes);
    return nodes;
}

static bool night_is_drained(const struct night_nodes *nodes)
{
    return strncmp(nodes->state, "drain", 5) == 0 && strncmp(nodes->reason, "lockstep", 8) == 0;
}

static void night_page_people(const struct night *night, const char *directory,
                              struct drill_page *page)
{
    struct night_nodes nodes = night_nodes_of(directory, night);
    struct drill_section *section = drill_section_add(page, "done without a person");

    night_page_decisions(night, true, section);
    if (night->refused[0])
        drill_row_add(section, DRILL_PLAIN, "refused", "the job's output", "%s", night->refused);
    if (night->restored >= 0)
        drill_row_add(section, DRILL_PLAIN, "restored", "the job's output",
                      "from the checkpoint of step %" PRId64, night->restored);
    if (night_is_drained(&nodes))
        drill_row_add(section, DRILL_PLAIN, nodes.state, "sinfo", "%s: %s", night->victim,
                      nodes.reason);
    section = drill_section_add(page, "left to a person");
    night_page_decisions(night, false, section);
    if (night->verdict)
        drill_row_add(section, DRILL_PLAIN, night->victim, "lockstep why", "%s",
                      drill_json_text(night->verdict, "advice"));
    if (night_is_drained(&nodes))
        drill_row_add(section, DRILL_PLAIN, night->victim, "sinfo",
                      "is %s until it was repaired and checked", nodes.state);
}

/* ---- the bars ---- */

static enum drill_mark night_mark(bool passed)
{
    return passed ? DRILL_PASSED : DRILL_MISSED;
}

static void night_check_verdict(const struct night *night, struct drill_fault *fault,
                                struct drill_section *section)
{
    static const char *const disk[] = { "storage" }, *const gpu[] = { "gpu", "pcie" };
    bool is_gpu = strcmp(night->plan->fault, "lost-gpu") == 0, layer = false;
    struct json_object *verdict = night->verdict;
    double after_s = night->verdict_s - night->fails_s;

    if (!verdict) {
        drill_row_add(section, DRILL_MISSED, "verdict", "lockstep why",
                      "no action was decided for %s", night->victim);
        return;
    }
    for (size_t i = 0; i < (is_gpu ? COUNT(gpu) : COUNT(disk)); i++)
        layer |= strcmp(drill_json_text(verdict, "layer"), is_gpu ? gpu[i] : disk[i]) == 0;
    fault->right = layer && drill_json_text(verdict, "cause")[0];
    fault->detected_s = after_s;
    snprintf(fault->verdict, sizeof(fault->verdict), "%s on %s: %s (%s)",
             drill_json_text(verdict, "kind"), night->victim, drill_json_text(verdict, "cause"),
             drill_json_text(verdict, "layer"));
    drill_row_add(section, night_mark(fault->right && after_s <= NIGHT_DETECT_BAR_S), "verdict",
                  "lockstep why", "after %.2f s, at most %.0f: %s, confidence %.2f, %s", after_s,
                  NIGHT_DETECT_BAR_S, fault->verdict, drill_json_number(verdict, "confidence"),
                  drill_json_text(verdict, "id"));
}

static void night_check_decision(const struct night *night, struct drill_section *section)
{
    double saves = night->swap ? drill_json_number(night->swap, "saves_gpu_seconds") : 0,
           costs = night->swap ? drill_json_number(night->swap, "costs_gpu_seconds") : 0;

    if (!night->swap)
        drill_row_add(section, DRILL_MISSED, "decision", "API, decisions", "none takes %s out",
                      night->victim);
    else
        drill_row_add(section, night_mark(saves > costs && costs > 0), "decision", "API, decisions",
                      "%s %s: saves %.0f GPU-seconds, costs %.1f",
                      drill_json_text(night->swap, "action"), night->victim, saves, costs);
}

static void night_check_nodes(const struct night *night, const char *directory,
                              struct drill_section *section)
{
    struct night_nodes nodes = night_nodes_of(directory, night);
    struct json_object *list = json_member(night->start, "nodes", json_type_array);
    bool spare = night->start && !drill_json_names(night->start, "nodes", night->victim);

    drill_row_add(section, night_mark(night_is_drained(&nodes)), "drained", "sinfo", "%s is %s: %s",
                  night->victim, nodes.state, nodes.reason);
    drill_row_add(section, night_mark(spare && night->resumed >= 0), "spare", "API, decisions",
                  "the next attempt is on %s, without %s",
                  list ? json_object_to_json_string(list) : "no node", night->victim);
}

static void night_check_restore(const struct night *night, struct drill_section *section)
{
    char refused[64];

    snprintf(refused, sizeof(refused), "checkpoint skipped: step %" PRId64 ":", night->flipped);
    drill_row_add(section,
                  night_mark(strncmp(night->refused, refused, strlen(refused)) == 0 &&
                             night->restored >= 0 && night->restored < night->flipped &&
                             night->resumed == night->restored),
                  "restored", "the job's output; API, steps", "from step %" PRId64 "; %s",
                  night->restored, night->refused[0] ? night->refused : "nothing was refused");
}

static void night_check_step(const struct night *night, struct drill_fault *fault,
                             struct drill_section *section)
{
    double after_s = night->new_step_s - night->verdict_s;

    if (!night->new_step_s) {
        drill_row_add(section, DRILL_MISSED, "first step", "API, steps",
                      "the job did not train again");
        return;
    }
    fault->recovered_s = night->new_step_s - night->fails_s;
    fault->lost_steps = night->last_step + 1 - night->resumed;
    drill_row_add(section, night_mark(night->verdict && after_s <= NIGHT_FIRST_STEP_BAR_S),
                  "first step", "API, steps",
                  "%.2f s after the verdict, at most %.0f; %.2f s after the fault; %" PRId64
                  " steps are done again",
                  night->verdict ? after_s : NAN, NIGHT_FIRST_STEP_BAR_S, fault->recovered_s,
                  fault->lost_steps);
}

/* The API's loss is the mean of the ranks that have told one.  When an attempt is cut off they are a step apart at most, so its last
 * two steps are not compared; they were done again.
 */
struct night_losses {
    bool found[NIGHT_STEPS_MAX]; /* by step: with the bits of the reference */
    size_t equal, differ, cut;
};

static void night_loss(const struct night *night, struct night_losses *losses,
                       struct json_object *one, struct json_object *whole)
{
    bool of_first = (uint32_t)drill_json_number(one, "attempt") == 0 && night->attempts > 1;
    int64_t step = (int64_t)drill_json_number(one, "step");
    bool known = json_member(one, "loss", json_type_double);
    struct json_object *same = NULL;

    if (step >= 0 && (size_t)step < MIN(json_object_array_length(whole), (size_t)NIGHT_STEPS_MAX))
        same = json_object_array_get_idx(whole, (size_t)step);
    if (!known || (of_first && step >= night->last_step - 1)) {
        losses->cut++;
    } else if (same && (int64_t)drill_json_number(same, "step") == step &&
               json_member(same, "loss", json_type_double) &&
               drill_json_number(one, "loss") == drill_json_number(same, "loss")) {
        losses->found[step] = true;
        losses->equal++;
    } else {
        losses->differ++;
    }
}

static void night_check_losses(const struct night *night, struct drill_section *section)
{
    struct json_object *list = json_member(night->steps, "steps", json_type_array);
    struct json_object *whole = json_member(night->reference, "steps", json_type_array);
    struct night_losses losses = { .equal = 0 };
    size_t steps = whole ? json_object_array_length(whole) : 0, found = 0;

    for (size_t i = 0; list && whole && i < json_object_array_length(list); i++)
        night_loss(night, &losses, json_object_array_get_idx(list, i), whole);
    for (size_t i = 0; i < MIN(steps, (size_t)NIGHT_STEPS_MAX); i++)
        found += losses.found[i];
    drill_row_add(
        section, night_mark(steps && found == steps && !losses.differ), "losses", "API, steps",
        "of %zu steps of an uninterrupted run %zu have the same bits here, %zu differ; %zu "
        "were cut off and done again",
        steps, found, losses.differ, losses.cut);
}

static bool night_same_line(void *arg, char *line)
{
    char **rest = arg;
    size_t size = strlen(line);

    if (strncmp(*rest, line, size) != 0 || (*rest)[size] != '\n')
        return false;
    *rest += size + 1;
    return true;
}

static bool night_all_lines(void *arg, char *line)
{
    char *text = arg;
    size_t size = strlen(text);

    snprintf(text + size, 2048 - size, "%s\n", line);
    return true;
}

static void night_check_others(const struct night *night, const char *directory,
                               struct drill_section *section)
{
    struct night_nodes nodes = night_nodes_of(directory, night);
    char before[2048] = "", *rest = before, left[2048] = "";
    bool same;

    night_lines(directory, "jobs.before", night_all_lines, before);
    night_lines(directory, "jobs.after", night_same_line, &rest);
    same = before[0] && !*rest;
    drill_row_add(section, night_mark(same && nodes.any && !nodes.other[0]), "others",
                  "squeue, sinfo", "%s; %s",
                  same ? "the other user's job runs as before" : "the other user's job changed",
                  nodes.other[0] ? nodes.other : "no other node has a reason");
    night_lines(directory, "left", night_all_lines, left);
    left[strcspn(left, "\n")] = '\0';
    drill_row_add(section, night_mark(!left[0] && strcmp(night->result, "exit 0") == 0),
                  "left behind", "ps, find, squeue", "%s; the job ended with %s",
                  left[0] ? left : "nothing", night->result[0] ? night->result : "no status");
}

static void night_check(const struct night *night, const char *directory, struct drill_page *page)
{
    struct drill_fault *fault = drill_fault_add(page, night->plan->fault);
    struct drill_section *section = drill_section_add(page, "bars");

    if (!fault)
        return;
    night_check_verdict(night, fault, section);
    night_check_decision(night, section);
    night_check_nodes(night, directory, section);
    night_check_restore(night, section);
    night_check_step(night, fault, section);
    night_check_losses(night, section);
    night_check_others(night, directory, section);
    fault->passed = true;
    for (uint32_t i = 0; i < section->rows; i++) {
        if (section->row[i].mark == DRILL_PASSED)
            continue;
        fault->passed = false;
        snprintf(fault->why + strlen(fault->why), sizeof(fault->why) - strlen(fault->why), "%s%s",
                 fault->why[0] ? ", " : "missed: ", section->row[i].label);
    }
}

int night_read(const char *directory, const struct night_plan *plan, struct drill_page *ret,
               struct err *err)
{
    CLEAN(night_fini) struct night night = { 0 };
    int result = night_evidence_read(directory, plan, &night, err);

    if (result < 0)
        return result;
    *ret = (struct drill_page){ .sections = 0 };
    snprintf(ret->title, sizeof(ret->title),
             "two-am, seed %" PRIu64 ": %s on %s, 4 nodes and a spare", plan->seed, plan->fault,
             night.slurm);
    night_page_injected(&night, ret);
    night_page_timeline(&night, ret);
    night_page_parts(&night, ret);
    night_page_ledger(&night, ret);
    night_page_people(&night, directory, ret);
    night_check(&night, directory, ret);
    return 0;
}
