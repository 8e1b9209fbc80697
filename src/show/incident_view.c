/* incident_view.c - an incident as text and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/incident_view.h"

#include <inttypes.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "show/advice.h"
#include "show/record_view.h"
#include "show/verdict_view.h"

#define SHOWN_EVENTS 12 /* so that all of it fits one screen */
#define SHOWN_LINES 4   /* of evidence, of layers that are ruled out, of follow-on errors */

struct json_object *incident_json(const struct incident *incident)
{
    struct json_object *root = json_object_new_object(), *line = json_object_new_array(),
                       *actions = json_object_new_array();

    for (uint32_t i = 0; i < incident->events; i++) {
        const struct incident_event *event = &incident->event[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "time", show_time(event->real_ns));
        json_object_object_add(one, "source", json_object_new_string(event->source));
        json_object_object_add(one, "what", show_string(event->text));
        json_object_array_add(line, one);
    }
    for (uint32_t i = 0; i < incident->actions; i++) {
        const struct incident_action *action = &incident->action[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "decision", decision_json(&action->decision));
        json_object_object_add(one, "outcome",
                               action->has_outcome ? outcome_json(&action->outcome) : NULL);
        json_object_array_add(actions, one);
    }
    json_object_object_add(root, "verdict", verdict_json(&incident->verdict));
    json_object_object_add(root, "states", json_object_new_int64(incident->states));
    json_object_object_add(root, "alive", json_object_new_boolean(incident->alive));
    json_object_object_add(root, "run_gpu_seconds",
                           incident->run_gpu_seconds > 0 ? show_number(incident->run_gpu_seconds)
                                                         : NULL);
    json_object_object_add(root, "timeline", line);
    json_object_object_add(root, "timeline_left_out",
                           json_object_new_int64(incident->events_left_out));
    json_object_object_add(root, "actions", actions);
    return root;
}

static void incident_print_timeline(const struct incident *incident, FILE *out)
{
    uint32_t from = incident->events > SHOWN_EVENTS ? incident->events - SHOWN_EVENTS : 0;

    fputs("time line\n", out);
    if (from + incident->events_left_out)
        fprintf(out, "  %" PRIu32 " earlier event%s: lockstep incident --json\n",
                from + incident->events_left_out, from + incident->events_left_out == 1 ? "" : "s");
    for (uint32_t i = from; i < incident->events; i++) {
        const struct incident_event *event = &incident->event[i];
        char time[32], text[248];

        time_format_utc(event->real_ns, time);
        fprintf(out, "  %.12s  %-8s  %s\n", time + 11, event->source,
                show_clean(event->text, text, sizeof(text)));
    }
}

static void incident_print_lines(const char *title, const struct verdict_line *line, uint32_t count,
                                 FILE *out)
{
    for (uint32_t i = 0; i < MIN(count, (uint32_t)SHOWN_LINES); i++) {
        char what[208], source[32];

        fprintf(out, "%s%s  %s (%s)\n", i ? "" : title, i ? "" : "\n",
                show_clean(line[i].what, what, sizeof(what)),
                show_clean(line[i].source, source, sizeof(source)));
    }
    if (count > SHOWN_LINES)
        fprintf(out, "  and %" PRIu32 " more\n", count - SHOWN_LINES);
}

static void incident_print_actions(const struct incident *incident, FILE *out)
{
    char text[208], plan[168], state[32];

    fputs("actions\n", out);
    for (uint32_t i = 0; i < incident->actions; i++) {
        const struct incident_action *action = &incident->action[i];

        fprintf(out, "  %s (%s): %s\n", action_name(action->decision.action),
                decision_word(action->decision.state, &action->done),
                show_clean(action->decision.why, text, sizeof(text)));
        if (action->has_outcome && action->outcome.text[0])
            fprintf(out, "    %s: %s\n", outcome_result_name(action->outcome.result),
                    show_clean(action->outcome.text, text, sizeof(text)));
    }
    if (incident->verdict.plan[0])
        fprintf(out, "  plan: %s (%s)\n", show_clean(incident->verdict.plan, plan, sizeof(plan)),
                show_clean(incident->verdict.plan_state, state, sizeof(state)));
    else if (!incident->actions)
        fputs("  none was taken or planned by lockstep\n", out);
    fprintf(out, "  to do: %s\n", verdict_advice(&incident->verdict));
}

static void incident_print_cost(const struct incident *incident, FILE *out)
{
    const struct verdict *verdict = &incident->verdict;
    char text[32];

    fputs("cost\n", out);
    if (verdict->seconds_per_step > 0)
        fprintf(out, "  %s per step\n", show_seconds(verdict->seconds_per_step, text));
    if (verdict->gpu_seconds > 0)
        fprintf(out, "  %.1f GPU-seconds%s", verdict->gpu_seconds,
                verdict->until_real_ns ? "" : " so far");
    else
        fputs("  not known: it was not priced", out);
    if (verdict->gpu_seconds > 0 && incident->run_gpu_seconds > 0)
        fprintf(out, ", %.1f %% of the run",
                100 * verdict->gpu_seconds / incident->run_gpu_seconds);
    fputc('\n', out);
}

void incident_text(const struct incident *incident, const struct show_style *style, FILE *out)
{
    const struct verdict *verdict = &incident->verdict;
    bool over = verdict->until_real_ns != 0;
    char sentence[400], run[64], id[24];

    fprintf(out, "%s%s%s\n", show_begin(style, over ? SHOW_OVER : SHOW_BAD),
            verdict_sentence(verdict, sentence, sizeof(sentence)), show_end(style));
    fprintf(out, "  run %s, verdict %s, layer %s, confidence %.2f, %s\n",
            show_clean(verdict->run, run, sizeof(run)), show_clean(verdict->id, id, sizeof(id)),
            verdict_layer_name(verdict->layer), verdict->confidence, over ? "over" : "open");
    incident_print_timeline(incident, out);
    incident_print_lines("evidence", verdict->because, verdict->because_count, out);
    incident_print_lines("ruled out", verdict->ruled_out, verdict->ruled_out_count, out);
    incident_print_lines("follow-on errors", verdict->echo, verdict->echo_count, out);
    incident_print_actions(incident, out);
    incident_print_cost(incident, out);
}
