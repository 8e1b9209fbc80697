/* night_evidence.c - reads what two-am.sh collected: deeds, the job's words, and what why, incident and the API say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_member.h"
#include "base/paths.h"
#include "core/clean.h"
#include "lab/drill/night_private.h"

/* ---- lines ---- */

void night_lines(const char *directory, const char *name, bool (*take)(void *arg, char *line),
                 void *arg)
{
    CLEAN(file_clean) FILE *file = NULL;
    CLEAN(free_clean) char *line = NULL;
    struct path path;
    size_t room = 0;

    if (path_join(&path, directory, name, NULL) < 0)
        return;
    file = fopen(path.text, "re");
    while (file && getline(&line, &room, file) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!take(arg, line))
            return;
    }
}

static bool night_deed(void *arg, char *line)
{
    struct night *night = arg;
    char *rest;
    double at_s = strtod(line, &rest);

    if (sscanf(rest, " cluster %63[^\n]", night->slurm) == 1 ||
        sscanf(rest, " flips %" SCNd64 " %63s %" SCNd64, &night->flipped, night->flipped_file,
               &night->flipped_at) == 3 ||
        sscanf(rest, " kernel %*s %239[^\n]", night->kernel) == 1)
        return true;
    if (sscanf(rest, " begins %63s", night->run) == 1)
        night->begins_s = at_s;
    else if (sscanf(rest, " ends %31[^\n]", night->result) == 1)
        night->ends_s = at_s;
    else if (sscanf(rest, " fails %63s %159[^\n]", night->victim, night->failure) == 2)
        night->fails_s = at_s;
    return true;
}

static bool night_word(void *arg, char *line)
{
    struct night *night = arg;
    const char *skipped = strstr(line, "checkpoint skipped: "),
               *restored = strstr(line, "restored from checkpoint of step ");

    if (skipped)
        snprintf(night->refused, sizeof(night->refused), "%s", skipped);
    if (restored)
        sscanf(restored, "restored from checkpoint of step %" SCNd64, &night->restored);
    return true;
}

/* ---- what lockstep says ---- */

static int night_document(const char *directory, const char *name, struct json_object **ret,
                          struct err *err)
{
    struct path path;

    if (path_join(&path, directory, name, NULL) < 0)
        return err_set(err, -ENAMETOOLONG, "%s", directory);
    *ret = json_object_from_file(path.text);
    return *ret ? 0 : err_set(err, -ENODATA, "%s is missing, or is no JSON", path.text);
}

static void night_decisions(struct night *night)
{
    struct json_object *list = json_member(night->decisions, "decisions", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        const char *action = drill_json_text(one, "action");

        if (strcmp(action, "swap") == 0 && strcmp(drill_json_text(one, "state"), "dry-run") != 0 &&
            drill_json_names(one, "nodes", night->victim) && !night->swap)
            night->swap = one;
        if (strcmp(action, "start") == 0 && drill_json_number(one, "attempt") > 0)
            night->start = one;
    }
    if (night->swap)
        night->swap_s = drill_json_time_s(night->swap, "decided_time");
}

/* Its newest state when the action was decided; a later one may have moved with the rank to another node. */
static void night_verdict(struct night *night)
{
    struct json_object *list = json_member(night->why, "verdicts", json_type_array);
    const char *id = night->swap ? drill_json_text(night->swap, "answers") : "";

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        if (strcmp(drill_json_text(one, "id"), id) == 0 &&
            drill_json_names(one, "nodes", night->victim) &&
            drill_json_time_s(one, "decided_time") <= night->swap_s)
            night->verdict = one;
    }
    if (night->verdict)
        night->verdict_s = drill_json_time_s(night->verdict, "decided_time");
}

static void night_steps(struct night *night)
{
    struct json_object *list = json_member(night->steps, "steps", json_type_array);

    night->last_step = night->resumed = -1;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        uint32_t attempt = (uint32_t)drill_json_number(one, "attempt");
        int64_t step = (int64_t)drill_json_number(one, "step");

        if (attempt == 0)
            night->last_step = MAX(night->last_step, step);
        if (attempt + 1 > night->attempts) {
            night->attempts = attempt + 1;
            night->resumed = -1;
        }
        if (attempt > 0 && attempt + 1 == night->attempts &&
            (night->resumed < 0 || step < night->resumed)) {
            night->resumed = step;
            night->new_step_s =
                drill_json_time_s(one, "begin_time") + drill_json_number(one, "seconds");
        }
    }
}

int night_evidence_read(const char *directory, const struct night_plan *plan, struct night *ret,
                        struct err *err)
{
    CLEAN(night_fini) struct night night = { .plan = plan, .flipped = -1, .restored = -1 };
    char incident[64];
    int result;

    night_lines(directory, "deeds", night_deed, &night);
    if (!night.fails_s)
        return err_set(err, -ENODATA, "nothing was injected");
    night_lines(directory, "job.out", night_word, &night);
    result = night_document(directory, "why.json", &night.why, err);
    if (result == 0)
        result = night_document(directory, "steps.json", &night.steps, err);
    if (result == 0)
        result = night_document(directory, "reference.json", &night.reference, err);
    if (result == 0)
        result = night_document(directory, "decisions.json", &night.decisions, err);
    if (result < 0)
        return result;
    night_document(directory, "points.json", &night.points, NULL);
    night_decisions(&night);
    night_verdict(&night);
    night_steps(&night);
    snprintf(incident, sizeof(incident), "incident-%s.json",
             night.swap ? drill_json_text(night.swap, "answers") : "");
    night_document(directory, incident, &night.incident, NULL);
    *ret = night;
    night = (struct night){ 0 };
    return 0;
}

void night_fini(struct night *night)
{
    json_clean(&night->why);
    json_clean(&night->steps);
    json_clean(&night->reference);
    json_clean(&night->decisions);
    json_clean(&night->incident);
    json_clean(&night->points);
}
