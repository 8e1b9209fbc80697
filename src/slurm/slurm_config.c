/* slurm_config.c - what is wanted of slurm.conf, and the line that brings it.
 *
 * A value that the site has chosen is kept: a line for a list has all words that are there, and a program that is there is not replaced.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

const struct slurm_want slurm_wants[] = {
    { .key = "Prolog",
      .value = "prolog",
      .why = "a node that fails a check gets no ranks: it is drained with the reason, and the job "
             "starts elsewhere" },
    { .key = "PrologFlags",
      .value = "Alloc",
      .kind = SLURM_WANT_WORD,
      .of = "Prolog",
      .why = "the prolog runs on all nodes when the job gets them, and not only when its first "
             "step starts" },
    { .key = "SchedulerParameters",
      .value = "nohold_on_prolog_fail",
      .kind = SLURM_WANT_WORD,
      .of = "Prolog",
      .why = "a job whose prolog failed on a bad node is started again after two minutes, and not "
             "held until a person releases it" },
    { .key = "Epilog",
      .value = "epilog",
      .why = "a node that fails a check after a job gets no further one; removes the job's records "
             "in shared memory" },
    { .key = "HealthCheckProgram",
      .value = "healthcheck",
      .why =
          "idle nodes are checked before a job meets them, and given back when their checks pass "
          "again.  slurmd "
          "starts it without PATH and SLURM_CONF, ends it after 60 s and ignores its exit status" },
    { .key = "HealthCheckInterval",
      .value = "300",
      .kind = SLURM_WANT_LEAST,
      .of = "HealthCheckProgram",
      .why = "seconds between two checks of a node" },
    { .key = "HealthCheckNodeState",
      .value = "IDLE,CYCLE",
      .kind = SLURM_WANT_SET,
      .of = "HealthCheckProgram",
      .why = "never beside a job; spread over the interval, so that a fault of the whole site is "
             "not found on all nodes at once" },
    { .key = "TaskProlog",
      .value = "task-prolog",
      .why = "jobs are observed without a change by their users: it sets the variables of "
             "README.md, \"Attach a job\"" },
    { .key = "KillWait",
      .value = "60",
      .kind = SLURM_WANT_LEAST,
      .why = "seconds from SIGTERM to SIGKILL at the end of a job's time: a checkpoint that is "
             "being written gets to the disk" },
    { .key = "JobRequeue",
      .value = "1",
      .kind = SLURM_WANT_VALUE,
      .why = "a job that lost a node may be started again, unless its user forbids it "
             "(--no-requeue)" },
    { .key = "SlurmctldParameters",
      .value = "enable_expedited_requeue",
      .kind = SLURM_WANT_WORD,
      .from = 2511,
      .why = "a job that is requeued starts at once; without it lockstep sets its start time" },
    { .key = "ProctrackType",
      .value = "proctrack/cgroup",
      .kind = SLURM_WANT_VALUE,
      .advice = true,
      .why = "signals reach the launcher alone, which saves first; with other types ranks get them "
             "as well.  Needs cgroup.conf and a restart of slurmd" },
    { .key = "SchedulerParameters",
      .value = "disable_job_shrink",
      .kind = SLURM_WANT_WITHOUT,
      .advice = true,
      .why = "a job gives dead nodes back before it is requeued; otherwise Slurm waits for them "
             "until SlurmdTimeout" },
};
const size_t slurm_want_count = COUNT(slurm_wants);

const char *slurm_want_state_name(unsigned state)
{
    static const char *const names[] = {
        [SLURM_WANT_OK] = "ok",         [SLURM_WANT_ADD] = "add",
        [SLURM_WANT_CHANGE] = "change", [SLURM_WANT_TAKEN] = "taken",
        [SLURM_WANT_ADVICE] = "advice", [SLURM_WANT_NEWER] = "needs-newer",
    };

    return state < COUNT(names) ? names[state] : "unknown";
}

/* ---- the text ---- */

/* "Key   = value", or "Key[0]   = value" where Slurm has several of them. */
static const char *config_line_value(const char *line, const char *end, const char *key)
{
    size_t size = strlen(key);
    const char *at = line + size;

    if ((size_t)(end - line) <= size || strncasecmp(line, key, size) != 0)
        return NULL;
    if (*at == '[')
        while (at < end && *at++ != ']')
            ;
    while (at < end && *at == ' ')
        at++;
    if (at == end || *at++ != '=')
        return NULL;
    while (at < end && *at == ' ')
        at++;
    return at;
}

int slurm_config_value(const char *text, size_t size, const char *key, char *ret, size_t room)
{
    const char *at = text, *end = text + size;
    size_t found = 0;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *value;

        stop = stop ? stop : end;
        value = config_line_value(at, stop, key);
        if (value && found++)
            return -EBADMSG;
        if (value && (size_t)(stop - value) >= room)
            return -EMSGSIZE;
        if (value) {
            memcpy(ret, value, (size_t)(stop - value));
            ret[stop - value] = '\0';
        }
        at = stop + 1;
    }
    if (found && (strcmp(ret, "(null)") == 0 || strcasecmp(ret, "none") == 0))
        ret[0] = '\0';
    return found ? 0 : -ENOENT;
}

uint32_t slurm_config_version(const char *text, size_t size)
{
    char value[32];
    unsigned year, month;

    if (slurm_config_value(text, size, "SLURM_VERSION", value, sizeof(value)) < 0 ||
        sscanf(value, "%2u.%2u", &year, &month) != 2)
        return 0;
    return year * 100 + month;
}

/* ---- values ---- */

static bool config_has_word(const char *list, const char *word, size_t size)
{
    for (const char *at = list; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");

        if (length == size && strncasecmp(at, word, size) == 0)
            return true;
        at += length;
    }
    return false;
}

static bool config_has_all(const char *list, const char *words)
{
    for (const char *at = words; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");

        if (!config_has_word(list, at, length))
            return false;
        at += length;
    }
    return true;
}

static bool config_is_wanted(const struct slurm_want *want, const char *value, const char *now)
{
    switch (want->kind) {
    case SLURM_WANT_WORD:
        return config_has_word(now, value, strlen(value));
    case SLURM_WANT_WITHOUT:
        return !config_has_word(now, value, strlen(value));
    case SLURM_WANT_SET:
        return config_has_all(now, value) && config_has_all(value, now);
    case SLURM_WANT_LEAST: /* "30 sec" */
        return strtoul(now, NULL, 10) >= strtoul(value, NULL, 10);
    default:
        return strcasecmp(now, value) == 0;
    }
}

static void config_line(const struct slurm_want *want, const char *value, struct slurm_wanted *ret)
{
    bool longer = want->kind == SLURM_WANT_WORD && ret->now[0];

    snprintf(ret->line, sizeof(ret->line), "%s=%s%s%s", want->key, longer ? ret->now : "",
             longer ? "," : "", value);
}

/* Whether `of` has our program, or would have: a health check of somebody else keeps its interval. */
static bool config_is_ours(const char *text, size_t size, const char *dir, const char *of)
{
    char now[SLURM_CONFIG_VALUE] = "";

    for (size_t i = 0; i < slurm_want_count; i++) {
        char path[SLURM_CONFIG_VALUE];

        if (strcmp(slurm_wants[i].key, of) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, slurm_wants[i].value);
        return slurm_config_value(text, size, of, now, sizeof(now)) == 0 &&
               (!now[0] || strcmp(now, path) == 0);
    }
    return false;
}

int slurm_config_compare(const char *text, size_t size, const char *dir,
                         const struct slurm_want *want, struct slurm_wanted *ret, struct err *err)
{
    struct slurm_wanted found = { .want = want };
    char value[SLURM_CONFIG_VALUE];
    int r;

    if (!slurm_config_version(text, size))
        return err_set(err, -EBADMSG, "scontrol printed no SLURM_VERSION");
    if (want->from > slurm_config_version(text, size)) {
        found.state = SLURM_WANT_NEWER;
        *ret = found;
        return 0;
    }
    r = slurm_config_value(text, size, want->key, found.now, sizeof(found.now));
    if (r == -EMSGSIZE || (r == -EBADMSG && want->kind != SLURM_WANT_PROGRAM))
        return err_set(err, r, "scontrol printed a value of %s that cannot be used", want->key);
    if (r == -EBADMSG) /* several programs */
        snprintf(found.now, sizeof(found.now), "several programs");
    snprintf(value, sizeof(value), "%s%s%s", want->kind == SLURM_WANT_PROGRAM ? dir : "",
             want->kind == SLURM_WANT_PROGRAM ? "/" : "", want->value);
    if (config_is_wanted(want, value, found.now)) {
        found.state = SLURM_WANT_OK;
    } else if (want->advice) {
        found.state = SLURM_WANT_ADVICE;
    } else if ((want->kind == SLURM_WANT_PROGRAM && found.now[0]) ||
               (want->of && !config_is_ours(text, size, dir, want->of))) {
        found.state = SLURM_WANT_TAKEN;
    } else {
        found.state = found.now[0] ? SLURM_WANT_CHANGE : SLURM_WANT_ADD;
        config_line(want, value, &found);
    }
    *ret = found;
    return 0;
}
