/* doctor.c - check what lockstep can observe here, and how to fix the rest.
 *
 * Nothing stays behind: the directories of a run are made for a moment, as 'lockstep run' makes them, and removed.  No
 * program is started, no training code is loaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "sense/sense.h"

#define SENSORS_MAX 16

static const char *const state_names[] = {
    [DOCTOR_OK] = "ok",
    [DOCTOR_LIMITED] = "limited",
    [DOCTOR_MISSING] = "missing",
    [DOCTOR_UNKNOWN] = "unknown",
};

struct doctor_settings {
    bool json;
    const char *root;
};

static const struct opt doctor_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct doctor_settings, json), NULL, "one JSON object", NULL,
      false },
    { "root", 0, OPT_TEXT, offsetof(struct doctor_settings, root), "DIR",
      "look at DIR/proc, DIR/sys and DIR/dev (for tests)", NULL, true },
    { .name = NULL },
};

struct doctor_sum {
    unsigned count[4];
    int status; /* the exit status */
};

static void sum_add(struct doctor_sum *sum, const struct doctor_check *check,
                    enum doctor_state state)
{
    sum->count[state]++;
    if (!check->needed)
        return;
    if (state == DOCTOR_MISSING)
        sum->status = 1;
    else if (state == DOCTOR_UNKNOWN && sum->status == 0)
        sum->status = 3;
}

static const char *sum_sentence(const struct doctor_sum *sum)
{
    if (sum->status == 0)
        return "lockstep can run here";
    return sum->status == 1 ? "lockstep cannot watch jobs here"
                            : "could not determine whether lockstep can run here";
}

static void doctor_print_row(const struct doctor_check *check, const struct doctor_finding *finding)
{
    printf("%-8s %-18s %s\n", state_names[finding->state], check->name, finding->found);
    printf("%28s%s%s\n", "", check->needed ? "needed: " : "", check->why);
    if (finding->state != DOCTOR_OK && finding->fix[0])
        printf("%28sfix: %s\n", "", finding->fix);
}

static struct json_object *doctor_row_json(const struct doctor_check *check,
                                           const struct doctor_finding *finding)
{
    struct json_object *row = json_object_new_object();

    json_object_object_add(row, "name", json_object_new_string(check->name));
    json_object_object_add(row, "state", json_object_new_string(state_names[finding->state]));
    json_object_object_add(row, "needed", json_object_new_boolean(check->needed));
    json_object_object_add(row, "found", json_object_new_string(finding->found));
    json_object_object_add(row, "why", json_object_new_string(check->why));
    json_object_object_add(row, "fix",
                           finding->fix[0] ? json_object_new_string(finding->fix) : NULL);
    return row;
}

static void doctor_print_json(struct json_object *rows, const struct doctor_sum *sum)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "can_run",
                           sum->status == 3 ? NULL : json_object_new_boolean(sum->status == 0));
    json_object_object_add(root, "checks", json_object_get(rows));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                  JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
}

/* One row, printed or added to `rows`. */
static void doctor_row_put(const struct doctor_check *check, const struct doctor_finding *finding,
                           struct json_object *rows, struct doctor_sum *sum)
{
    sum_add(sum, check, finding->state);
    if (rows)
        json_object_array_add(rows, doctor_row_json(check, finding));
    else
        doctor_print_row(check, finding);
}

static enum doctor_state doctor_state_of(int result)
{
    if (result == 0)
        return DOCTOR_OK;
    if (result == -EACCES || result == -EPERM)
        return DOCTOR_LIMITED;
    return result == -ENODEV ? DOCTOR_MISSING : DOCTOR_UNKNOWN;
}

/* A row for each source of node evidence. */
static void doctor_sensors_put(const char *root, struct json_object *rows, struct doctor_sum *sum)
{
    const struct sense_place place = { .root = root, .node = "" };
    struct sense_state state[SENSORS_MAX];
    struct sense *sense;
    size_t count;

    if (sense_create(&place, NULL, &sense) < 0)
        return;
    count = sense_states(sense, state, SENSORS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct doctor_finding finding = { .state = doctor_state_of(state[i].result) };
        char name[32];
        const struct doctor_check check = { .name = name, .why = state[i].sensor->summary };

        snprintf(name, sizeof(name), "sensor %s", state[i].sensor->name);
        snprintf(finding.found, sizeof(finding.found), "%s%.200s",
                 finding.state == DOCTOR_OK        ? "reads"
                 : finding.state == DOCTOR_MISSING ? "absent: "
                 : finding.state == DOCTOR_LIMITED ? "no permission: "
                                                   : "cannot be read: ",
                 finding.state == DOCTOR_OK ? "" : state[i].why);
        snprintf(finding.fix, sizeof(finding.fix), "%s",
                 finding.state == DOCTOR_OK ? "" : state[i].sensor->fix);
        doctor_row_put(&check, &finding, rows, sum);
    }
    sense_destroy(sense);
}

static int doctor_run(int argc, char **argv)
{
    struct doctor_settings settings = { .root = "" };
    struct doctor_sum sum = { .status = 0 };
    struct json_object *rows;
    int parsed = opt_parse_all(&command_doctor, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    rows = json_object_new_array();
    for (size_t i = 0; i < doctor_check_count; i++) {
        const struct doctor_check *check = &doctor_checks[i];
        struct doctor_finding finding = { .state = DOCTOR_UNKNOWN };

        check->look(settings.root, &finding);
        doctor_row_put(check, &finding, settings.json ? rows : NULL, &sum);
    }
    doctor_sensors_put(settings.root, settings.json ? rows : NULL, &sum);
    if (settings.json)
        doctor_print_json(rows, &sum);
    else
        printf("\n%s: %u ok, %u limited, %u missing, %u unknown\n", sum_sentence(&sum),
               sum.count[DOCTOR_OK], sum.count[DOCTOR_LIMITED], sum.count[DOCTOR_MISSING],
               sum.count[DOCTOR_UNKNOWN]);
    json_object_put(rows);
    return sum.status;
}

const struct command command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "check what lockstep can observe here, and how to fix the rest",
    .details =
        "Exit status: 0 all that is needed works, 1 something needed is missing, 3 could not tell.",
    .opt = doctor_opts,
    .run = doctor_run,
};
