/* verdict_view.c - a verdict as a person would tell it to a colleague, and as one JSON object.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/verdict_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "show/advice.h"

/* ---- text ---- */

/* What the named ones do to the job; NULL: the cause alone is said. */
static const struct {
    const char *one, *many;
} deeds[VERDICT_KIND_COUNT] = {
    [VERDICT_STRAGGLER] = { "delays the others", "delay the job" },
    [VERDICT_IMBALANCE] = { "has more work than its peers", "have more work than their peers" },
    [VERDICT_SYNC_STALL] = { "waits for communication", "wait for communication" },
    [VERDICT_INPUT_STALL] = { "waits for input", "wait for input" },
    [VERDICT_CHECKPOINT_STALL] = { "waits for a checkpoint", "wait for a checkpoint" },
    [VERDICT_STARTUP_STALL] = { "starts late", "start late" },
    [VERDICT_HANG] = { "blocks all others", "block all others" },
    [VERDICT_DESYNC] = { "does not do the same as the others", "do not do the same as the "
                                                               "others" },
    [VERDICT_CRASH] = { "failed first", "failed first" },
    [VERDICT_CORRUPTION] = { "computes wrong results", "compute wrong results" },
    [VERDICT_REGRESSION] = { "is slower than before", "are slower than before" },
    [VERDICT_NODE_FAULT] = { "is affected by a node fault", "are affected by a node fault" },
};

static const char *verdict_deed(const struct verdict *verdict)
{
    bool many = verdict->rank_count > 1 || (!verdict->rank_count && verdict->node_count > 1);

    if (verdict->kind == VERDICT_HANG && !verdict->rank_count && !verdict->node_count)
        return "does not advance"; /* the job: no rank is known to block the others */
    return many ? deeds[verdict->kind].many : deeds[verdict->kind].one;
}

static bool verdict_is_wait(const struct verdict *verdict)
{
    return verdict->kind == VERDICT_SYNC_STALL || verdict->kind == VERDICT_INPUT_STALL ||
           verdict->kind == VERDICT_CHECKPOINT_STALL;
}

struct view_line {
    char *out;
    size_t room, used;
};

static void __attribute__((format(printf, 2, 3)))
line_add(struct view_line *line, const char *format, ...)
{
    va_list args;
    int more;

    va_start(args, format);
    more = vsnprintf(line->out + line->used, line->room - line->used, format, args);
    va_end(args);
    if (more > 0)
        line->used = MIN(line->used + (size_t)more, line->room - 1);
}

/* Runs of neighbours as "0-3". */
static void line_add_ranks(struct view_line *line, const struct verdict *verdict)
{
    uint32_t count = MIN(verdict->rank_count, VERDICT_RANKS), i = 0;

    line_add(line, count == 1 ? "rank" : "ranks");
    while (i < count) {
        uint32_t end = i;

        while (end + 1 < count && verdict->rank[end + 1] == verdict->rank[end] + 1)
            end++;
        line_add(line, end > i ? " %" PRIu32 "-%" PRIu32 : " %" PRIu32, verdict->rank[i],
                 verdict->rank[end]);
        i = end + 1;
    }
    if (verdict->rank_count > count)
        line_add(line, " and %" PRIu32 " more", verdict->rank_count - count);
}

static void line_add_nodes(struct view_line *line, const struct verdict *verdict)
{
    uint32_t count = MIN(verdict->node_count, VERDICT_NODES);
    char clean[64];

    line_add(line, count == 1 ? "node" : "nodes");
    for (uint32_t i = 0; i < count; i++)
        line_add(line, " %s", show_clean(verdict->node[i], clean, sizeof(clean)));
    if (verdict->node_count > count)
        line_add(line, " and %" PRIu32 " more", verdict->node_count - count);
}

const char *verdict_who(const struct verdict *verdict, char *out, size_t room)
{
    struct view_line line = { .out = out, .room = room };

    out[0] = '\0';
    if (verdict->rank_count)
        line_add_ranks(&line, verdict);
    if (verdict->node_count && verdict->rank_count)
        line_add(&line, " (");
    if (verdict->node_count)
        line_add_nodes(&line, verdict);
    if (verdict->node_count && verdict->rank_count)
        line_add(&line, ")");
    if (!verdict->rank_count && !verdict->node_count)
        line_add(&line, "the job");
    return out;
}

static void verdict_print_sentence(const struct verdict *verdict, const struct show_style *style,
                                   FILE *out)
{
    bool over = verdict->until_real_ns != 0;
    char who[640], clean[128], cost[32];

    fprintf(out, "%s%s%s: %s", show_begin(style, over ? SHOW_OVER : SHOW_BAD),
            verdict_kind_name(verdict->kind), show_end(style),
            verdict_who(verdict, who, sizeof(who)));
    fprintf(out, " %s", verdict_deed(verdict));
    if (verdict->seconds_per_step > 0)
        fprintf(out, " %s %s per step", verdict_is_wait(verdict) ? "for" : "by",
                show_seconds(verdict->seconds_per_step, cost));
    if (verdict->since_step ||
        verdict->decided_step) /* of a job that we did not watch: not known */
        fprintf(out, verdict->kind == VERDICT_CRASH ? " at step %" PRIu64 : " since step %" PRIu64,
                verdict->since_step);
    if (verdict->cause[0])
        fprintf(out, ": %s", show_clean(verdict->cause, clean, sizeof(clean)));
    fputc('\n', out);
}

static void verdict_view_print_lines(const struct verdict_line *line, uint32_t count,
                                     const char *format, FILE *out)
{
    char what[208], source[32], file[88];

    for (uint32_t i = 0; i < count; i++) {
        show_clean(line[i].what, what, sizeof(what));
        show_clean(line[i].source, source, sizeof(source));
        if (strcmp(format, "not") == 0)
            fprintf(out, "  not %s: %s\n", source, what);
        else if (line[i].file[0])
            fprintf(out, "  %s%s:%" PRIu32 ": %s (%s)\n", format,
                    show_clean(line[i].file, file, sizeof(file)), line[i].line, what, source);
        else
            fprintf(out, "  %s%s (%s)\n", format, what, source);
    }
}

static void verdict_print_cost(const struct verdict *verdict, FILE *out)
{
    char clean[72];

    if (verdict->gpu_seconds > 0)
        fprintf(out, "  cost%s: %.1f GPU-seconds\n", verdict->until_real_ns ? "" : " so far",
                verdict->gpu_seconds);
    if (verdict->device[0])
        fprintf(out, "  on %s\n", show_clean(verdict->device, clean, sizeof(clean)));
    if (verdict->group[0] &&
        verdict->kind != VERDICT_NODE_FAULT) /* there it repeats node and device */
        fprintf(out, "  group %s\n", show_clean(verdict->group, clean, sizeof(clean)));
}

static void verdict_print_standing(const struct verdict *verdict, const struct show_style *style,
                                   FILE *out)
{
    char time[32], id[24], plan[168], state[32];

    if (verdict->plan[0])
        fprintf(out, "  plan: %s (%s)\n", show_clean(verdict->plan, plan, sizeof(plan)),
                show_clean(verdict->plan_state, state, sizeof(state)));
    fprintf(out, "  %slayer %s, confidence %.2f", show_begin(style, SHOW_FAINT),
            verdict_layer_name(verdict->layer), verdict->confidence);
    if (verdict->since_step || verdict->decided_step)
        fprintf(out, ", decided at step %" PRIu64, verdict->decided_step);
    if (verdict->since_real_ns) {
        time_format_utc(verdict->since_real_ns, time);
        fprintf(out, ", since %s", time);
    }
    if (verdict->until_real_ns) {
        time_format_utc(verdict->until_real_ns, time);
        fprintf(out, " until %s", time);
    }
    fprintf(out, ", id %s%s\n", show_clean(verdict->id, id, sizeof(id)), show_end(style));
}

void verdict_text(const struct verdict *verdict, const struct show_style *style, FILE *out)
{
    verdict_print_sentence(verdict, style, out);
    verdict_view_print_lines(verdict->because, verdict->because_count, "", out);
    verdict_view_print_lines(verdict->ruled_out, verdict->ruled_out_count, "not", out);
    verdict_view_print_lines(verdict->echo, verdict->echo_count, "follow-on error: ", out);
    verdict_print_cost(verdict, out);
    fprintf(out, "  to do: %s\n", verdict_advice(verdict));
    verdict_print_standing(verdict, style, out);
}

void verdict_brief(const struct verdict *verdict, FILE *out)
{
    static const struct show_style plain = { 0 };

    verdict_print_sentence(verdict, &plain, out);
    verdict_view_print_lines(verdict->because, MIN(verdict->because_count, 1u), "because ", out);
    fprintf(out, "  to do: %s\n", verdict_advice(verdict));
}

const char *verdict_sentence(const struct verdict *verdict, char *out, size_t room)
{
    static const struct show_style plain = { 0 };
    FILE *file = fmemopen(out, room, "w");

    out[0] = '\0';
    if (file) {
        verdict_print_sentence(verdict, &plain, file);
        fclose(file);
        out[room - 1] = '\0'; /* where it was cut */
    }
    out[strcspn(out, "\n")] = '\0';
    return out;
}

/* ---- order ---- */

/* What ended the job or stops it, what made its results worthless, what it recovered from, what may lead to either; then
 * what slows it.
 */
static int verdict_weight(const struct verdict *verdict)
{
    bool over = verdict->until_real_ns != 0;

    switch (verdict->kind) {
    case VERDICT_CRASH:
    case VERDICT_HANG:
    case VERDICT_DESYNC:
        return over ? 2 : 4;
    case VERDICT_CORRUPTION:
        return 3;
    case VERDICT_NODE_FAULT:
        return over ? 0 : 1;
    default:
        return 0;
    }
}

int verdict_by_importance(const void *a, const void *b)
{
    const struct verdict *left = a, *right = b;

    if (verdict_weight(left) != verdict_weight(right))
        return verdict_weight(left) > verdict_weight(right) ? -1 : 1;
    if (left->gpu_seconds != right->gpu_seconds)
        return left->gpu_seconds > right->gpu_seconds ? -1 : 1;
    if (left->seconds_per_step != right->seconds_per_step)
        return left->seconds_per_step > right->seconds_per_step ? -1 : 1;
    if (left->decided_real_ns != right->decided_real_ns)
        return left->decided_real_ns < right->decided_real_ns ? -1 : 1;
    if (left->confidence > right->confidence || left->confidence < right->confidence)
        return left->confidence > right->confidence ? -1 : 1;
    if (left->since_real_ns != right->since_real_ns)
        return left->since_real_ns < right->since_real_ns ? -1 : 1;
    return strcmp(left->id, right->id);
}

/* ---- JSON ---- */

struct json_object *verdict_ranks_json(const struct verdict *verdict)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++)
        json_object_array_add(list, json_object_new_int64(verdict->rank[i]));
    return list;
}

struct json_object *verdict_nodes_json(const struct verdict *verdict)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++)
        json_object_array_add(list, show_string(verdict->node[i]));
    return list;
}

static struct json_object *verdict_lines_json(const struct verdict_line *line, uint32_t count,
                                              const char *what, const char *source)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < count; i++) {
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, source, show_string(line[i].source));
        json_object_object_add(one, what, show_string(line[i].what));
        if (line[i].file[0]) {
            json_object_object_add(one, "file", show_string(line[i].file));
            json_object_object_add(one, "line", json_object_new_int64(line[i].line));
        }
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *verdict_cost_json(const struct verdict *verdict)
{
    struct json_object *cost = json_object_new_object();

    json_object_object_add(cost, "seconds_per_step", show_number(verdict->seconds_per_step));
    json_object_object_add(cost, "gpu_seconds", show_number(verdict->gpu_seconds));
    return cost;
}

static struct json_object *verdict_action_json(const struct verdict *verdict)
{
    struct json_object *action;

    if (!verdict->plan[0])
        return NULL;
    action = json_object_new_object();
    json_object_object_add(action, "plan", show_string(verdict->plan));
    json_object_object_add(action, "state", show_string(verdict->plan_state));
    return action;
}

struct json_object *verdict_json(const struct verdict *verdict)
{
    struct json_object *root = json_object_new_object();

#define ADD(name, value) json_object_object_add(root, name, value)
    ADD("id", show_string(verdict->id));
    ADD("run", show_string(verdict->run));
    ADD("kind", json_object_new_string(verdict_kind_name(verdict->kind)));
    ADD("layer", json_object_new_string(verdict_layer_name(verdict->layer)));
    ADD("cause", show_string_or_null(verdict->cause));
    ADD("ranks", verdict_ranks_json(verdict));
    ADD("nodes", verdict_nodes_json(verdict));
    if (verdict->rank_count > VERDICT_RANKS) /* a list that is not whole says so */
        ADD("rank_count", json_object_new_int64(verdict->rank_count));
    if (verdict->node_count > VERDICT_NODES)
        ADD("node_count", json_object_new_int64(verdict->node_count));
    ADD("device", show_string_or_null(verdict->device));
    ADD("group", show_string_or_null(verdict->group));
    ADD("confidence", show_number(verdict->confidence));
    ADD("since_step", json_object_new_uint64(verdict->since_step));
    ADD("since_time", show_time(verdict->since_real_ns));
    ADD("until_time", show_time(verdict->until_real_ns));
    ADD("decided_step", json_object_new_uint64(verdict->decided_step));
    ADD("decided_time", show_time(verdict->decided_real_ns));
    ADD("cost", verdict_cost_json(verdict));
    ADD("because", verdict_lines_json(verdict->because, verdict->because_count, "what", "source"));
    ADD("ruled_out",
        verdict_lines_json(verdict->ruled_out, verdict->ruled_out_count, "why", "layer"));
    ADD("echoes", verdict_lines_json(verdict->echo, verdict->echo_count, "what", "source"));
    ADD("advice", json_object_new_string(verdict_advice(verdict)));
    if (verdict->would_decide)
        ADD("would_decide", json_object_new_string(verdict->would_decide));
    ADD("action", verdict_action_json(verdict));
#undef ADD
    return root;
}
