/* incident.c - gathers the facts around a verdict: its own states, what its nodes and ranks reported, what was decided and
 * done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/incident.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "control/report/run_frames.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"
#include "show/verdict_view.h"
#include "wire/finding.h"

#define BEFORE_NS (600 * NS_PER_S) /* a cause precedes what it causes */
#define AFTER_NS (600 * NS_PER_S)

struct incident_search {
    struct incident *incident;
    int64_t from_ns, to_ns;
    struct map clock; /* sender → real minus monotonic time */
};

static void incident_search_fini(struct incident_search *search)
{
    map_fini(&search->clock);
}

__attribute__((format(printf, 4, 5))) static void incident_add(struct incident *incident,
                                                               int64_t real_ns, const char *source,
                                                               const char *format, ...)
{
    struct incident_event *event = &incident->event[incident->events];
    va_list args;

    if (incident->events == INCIDENT_EVENTS) {
        incident->events_left_out++;
        return;
    }
    event->order = incident->events++;
    event->real_ns = real_ns;
    event->source = source;
    va_start(args, format);
    vsnprintf(event->text, sizeof(event->text), format, args);
    va_end(args);
}

/* ---- the verdict's own states ---- */

static void incident_add_change(struct incident *incident, const struct verdict *before,
                                const struct verdict *now)
{
    if (before->layer != now->layer)
        incident_add(incident, now->decided_real_ns, "judge", "layer %s, before: %s",
                     verdict_layer_name(now->layer), verdict_layer_name(before->layer));
    if (strcmp(before->cause, now->cause) != 0 && now->cause[0])
        incident_add(incident, now->decided_real_ns, "judge", "cause found: %s", now->cause);
    if (before->until_real_ns && !now->until_real_ns)
        incident_add(incident, now->decided_real_ns, "judge", "it is back");
    if (!before->until_real_ns && now->until_real_ns)
        incident_add(incident, now->until_real_ns, "judge", "it is over");
}

static int incident_take_states(struct incident *incident, const struct run_summary *summary,
                                const char *id, struct err *err)
{
    const struct verdict *before = NULL;

    for (size_t i = 0; i < summary->verdicts; i++) {
        const struct verdict *verdict = &summary->verdict[i];
        char sentence[240];

        if (strcmp(verdict->id, id) != 0)
            continue;
        incident->states++;
        if (!before) {
            incident_add(incident, verdict->since_real_ns, "judge", "it begins, at step %" PRIu64,
                         verdict->since_step);
            incident_add(incident, verdict->decided_real_ns, "judge", "found: %s",
                         verdict_sentence(verdict, sentence, sizeof(sentence)));
            if (verdict->until_real_ns)
                incident_add(incident, verdict->until_real_ns, "judge", "it is over");
        } else {
            incident_add_change(incident, before, verdict);
        }
        before = verdict;
    }
    if (!before)
        return err_set(err, -ENOENT, "run %s has no verdict %s", summary->run, id);
    incident->verdict = *before;
    return 0;
}

/* ---- facts around it ---- */

static bool incident_is_inside(const struct incident_search *search, int64_t real_ns)
{
    return real_ns >= search->from_ns && real_ns <= search->to_ns;
}

static bool incident_names_node(const struct verdict *verdict, const char *node)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, (uint32_t)VERDICT_NODES); i++) {
        if (strcmp(verdict->node[i], node) == 0)
            return true;
    }
    return false;
}

static void incident_take_finding(struct incident_search *search, struct reader in)
{
    struct finding finding;

    if (finding_get(in, &finding) == 0 && incident_is_inside(search, finding.real_ns) &&
        incident_names_node(&search->incident->verdict, finding.node))
        incident_add(search->incident, finding.real_ns, "node", "%s%s%s: %s", finding.node,
                     finding.device[0] ? " " : "", finding.device, finding.text);
}

static void incident_take_decision(struct incident_search *search, struct reader in)
{
    struct incident *incident = search->incident;
    struct decision decision;
    uint32_t at = 0;

    if (decision_get(in, &decision) < 0 || strcmp(decision.of, incident->verdict.id) != 0)
        return;
    while (at < incident->actions && strcmp(incident->action[at].decision.id, decision.id) != 0)
        at++;
    if (at == INCIDENT_ACTIONS)
        return;
    if (at == incident->actions) {
        incident->actions++;
        incident_add(incident, decision.decided_real_ns, "policy", "%s (%s): %s",
                     action_name(decision.action), decision_state_name(decision.state),
                     decision.why);
    }
    incident->action[at].decision = decision;
}

static void incident_take_outcome(struct incident_search *search, struct reader in)
{
    struct incident *incident = search->incident;
    struct outcome outcome;

    if (outcome_get(in, &outcome) < 0)
        return;
    for (uint32_t i = 0; i < incident->actions; i++) {
        struct incident_action *action = &incident->action[i];
        int64_t real_ns = MAX(outcome.ended_real_ns, outcome.began_real_ns);

        if (strcmp(action->decision.id, outcome.decision) != 0)
            continue;
        outcome_tally_add(&action->done, &outcome);
        if (outcome_only_began(&outcome)) { /* its end says more */
            action->began_real_ns = outcome.began_real_ns;
            continue;
        }
        action->has_outcome = true;
        action->outcome = outcome;
        incident_add(incident, real_ns ? real_ns : action->decision.decided_real_ns, "action",
                     "%s: %s%s%s", outcome.part, outcome_result_name(outcome.result),
                     outcome.text[0] ? ", " : "", outcome.text);
    }
}

static void incident_take_run(struct incident_search *search, struct reader in)
{
    struct fact_run run;

    if (fact_run_get(in, &run) < 0 || !incident_is_inside(search, run.real_ns))
        return;
    if (run.event == RUN_ATTEMPT_BEGIN)
        incident_add(search->incident, run.real_ns, "launcher", "attempt %" PRIu32 " begins",
                     run.attempt);
    else if (run.event == RUN_ATTEMPT_END)
        incident_add(search->incident, run.real_ns, "launcher",
                     "attempt %" PRIu32 " ends with status %" PRId32 "%s%s", run.attempt,
                     run.status, run.text[0] ? ": " : "", run.text);
    else if (run.event == RUN_END)
        incident_add(search->incident, run.real_ns, "launcher", "the run ends with status %" PRId32,
                     run.status);
}

static void incident_take_exit(struct incident_search *search, uint64_t sender, struct reader in)
{
    const uint64_t *clock = map_get(&search->clock, sender);
    struct fact_exit fact;
    int64_t real_ns;

    if (!clock || fact_exit_get(in, &fact) < 0 || fact.ended_by_launcher ||
        !verdict_names_rank(&search->incident->verdict, fact.rank))
        return;
    real_ns = fact.mono_ns + (int64_t)*clock;
    if (incident_is_inside(search, real_ns))
        incident_add(search->incident, real_ns, "launcher", "rank %" PRIu32 " %s", fact.rank,
                     fact.text);
}

static int incident_take_frame(void *arg, const struct frame *frame, struct err *err)
{
    struct incident_search *search = arg;
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_hello hello;

    switch (frame->type) {
    case FRAME_HELLO:
        if (fact_hello_get(in, &hello) == 0 &&
            !map_put(&search->clock, frame->sender, (uint64_t)(hello.real_ns - hello.mono_ns)))
            return err_nomem(err);
        break;
    case FRAME_FINDING:
        incident_take_finding(search, in);
        break;
    case FRAME_DECISION:
        incident_take_decision(search, in);
        break;
    case FRAME_OUTCOME:
        incident_take_outcome(search, in);
        break;
    case FRAME_RUN:
        incident_take_run(search, in);
        break;
    case FRAME_EXIT:
        incident_take_exit(search, frame->sender, in);
        break;
    default:
        break;
    }
    return 0;
}

/* Once all is read: actions that somebody began, and of which nobody reported the end. */
static void incident_add_begun(struct incident *incident)
{
    for (uint32_t i = 0; i < incident->actions; i++) {
        const struct incident_action *action = &incident->action[i];
        uint32_t open = action->done.began - MIN(action->done.began, action->done.ended);

        if (open)
            incident_add(incident, action->began_real_ns, "action",
                         "%s: %" PRIu32 " of %" PRIu32 " that began it reported no end",
                         action_name(action->decision.action), open, action->done.began);
    }
}

static int incident_compare(const void *a, const void *b)
{
    const struct incident_event *left = a, *right = b;

    if (left->real_ns != right->real_ns)
        return left->real_ns < right->real_ns ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

int incident_read(const char *run_dir, const char *id, struct incident *ret, struct err *err)
{
    CLEAN(free_clean) struct incident *incident = calloc(1, sizeof(*incident));
    CLEAN(incident_search_fini) struct incident_search search = { .incident = incident };
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    int result = incident ? run_report_read(run_dir, true, &summary, err) : err_nomem(err);

    if (result == 0)
        result = incident_take_states(incident, &summary, id, err);
    if (result < 0)
        return result;
    incident->alive = summary.alive;
    incident->run_gpu_seconds = summary.has_ledger ? ledger_total(&summary.ledger) : 0;
    search.from_ns = incident->verdict.since_real_ns - BEFORE_NS;
    search.to_ns =
        incident->verdict.until_real_ns ? incident->verdict.until_real_ns + AFTER_NS : INT64_MAX;
    result = run_frames_each(run_dir, incident_take_frame, &search, err);
    incident_add_begun(incident);
    qsort(incident->event, incident->events, sizeof(incident->event[0]), incident_compare);
    if (result == 0)
        *ret = *incident;
    return result;
}
