/* verdict_json.c - a verdict as one JSON object. */
#include "core/clean.h"
#include "show/verdict.h"

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

static struct json_object *lines_json(const struct verdict_line *line, uint32_t count,
                                      const char *what, const char *source)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < count; i++) {
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, source, show_string(line[i].source));
        json_object_object_add(one, what, show_string(line[i].what));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *cost_json(const struct verdict *verdict)
{
    struct json_object *cost = json_object_new_object();

    json_object_object_add(cost, "seconds_per_step", show_number(verdict->seconds_per_step));
    json_object_object_add(cost, "gpu_seconds", show_number(verdict->gpu_seconds));
    return cost;
}

static struct json_object *action_json(const struct verdict *verdict)
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
    ADD("cost", cost_json(verdict));
    ADD("because", lines_json(verdict->because, verdict->because_count, "what", "source"));
    ADD("ruled_out", lines_json(verdict->ruled_out, verdict->ruled_out_count, "why", "layer"));
    ADD("echoes", lines_json(verdict->echo, verdict->echo_count, "what", "source"));
    ADD("action", action_json(verdict));
#undef ADD
    return root;
}
