/* stacks.c - lockstep stacks: what every rank of a run on this node executes now.
 *
 * The agent's own code looks (agent/proc/stack.h): one child for each rank, which ends after three seconds whatever it
 * meets.  So neither an agent nor a controller has to live, and a stuck file system or a stopped rank holds up nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/proc/proc.h"
#include "agent/proc/rank_procs.h"
#include "agent/proc/stack.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"

#define LOOKS_AT_ONCE 16 /* children; each reads symbols, which takes a core for a moment */
#define LOOK_NAP_NS (5 * NS_PER_MS)
#define EVERY_RANK UINT32_MAX

struct stacks_settings {
    bool json, native;
    uint32_t rank;
};

static const struct opt stacks_opts[] = {
    { "rank", 'r', OPT_U32, offsetof(struct stacks_settings, rank), "N",
      "only this rank; default every rank on this node", NULL, false },
    { "native", 0, OPT_FLAG, offsetof(struct stacks_settings, native), NULL,
      "native stacks, too; on by default, --no-native disables it; each rank is stopped for some "
      "milliseconds",
      NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct stacks_settings, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

struct stacks_run {
    char id[64];
    char rings[PATH_MAX];
    uint32_t ranks; /* that the launcher started; 0: not known */
    bool alive;
};

struct stacks_look {
    const struct rank_proc *who; /* NULL: no process was found */
    uint32_t rank;
    struct proc *proc;
    struct proc_look *stack;
    bool over;
    struct fact_stack fact; /* once over */
};

struct looks {
    struct stacks_look *list;
    size_t count;
};

static void looks_fini(struct looks *looks)
{
    for (size_t i = 0; i < looks->count; i++) {
        proc_look_end(looks->list[i].stack);
        proc_close(looks->list[i].proc);
    }
    free(looks->list);
}

/* ---- which run ---- */

static int run_read(const char *directory, struct stacks_run *ret, struct err *err)
{
    CLEAN(runfile_fini) struct runfile file = { 0 };
    int lives = runfile_lives(directory, err);
    int result = runfile_read(directory, &file, err);

    if (result < 0)
        return result;
    *ret = (struct stacks_run){ .ranks = file.layout.ranks, .alive = lives > 0 };
    snprintf(ret->id, sizeof(ret->id), "%s", file.id);
    snprintf(ret->rings, sizeof(ret->rings), "%s", file.rings);
    return 0;
}

static int run_newest_alive(struct stacks_run *ret, struct err *err)
{
    CLEAN(free_clean) struct run_entry *list = NULL;
    int64_t count = paths_list(&list, err);

    for (int64_t i = 0; i < count; i++) {
        struct path directory;

        if (paths_run(list[i].name, &directory, NULL) == 0 &&
            runfile_lives(directory.text, NULL) > 0 && run_read(directory.text, ret, NULL) == 0)
            return 0;
    }
    if (count < 0)
        return (int)count;
    return err_set(err, -ESRCH, "no run is running here; 'lockstep ps' lists the runs");
}

/* A job that no launcher of ours started has rings where the probe makes them, and no directory among the runs. */
static int run_by_rings(const char *name, struct stacks_run *ret)
{
    struct path rings;

    if (paths_check_run(name, NULL) < 0 || paths_rings(name, 0, &rings, NULL) < 0 ||
        access(rings.text, R_OK | X_OK) < 0)
        return -ENOENT;
    *ret = (struct stacks_run){ .alive = true };
    snprintf(ret->id, sizeof(ret->id), "%s", name);
    snprintf(ret->rings, sizeof(ret->rings), "%s", rings.text);
    return 0;
}

static int run_find(const char *name, struct stacks_run *ret, struct err *err)
{
    struct path directory;
    int result;

    if (!name)
        return run_newest_alive(ret, err);
    result = paths_find(name, &directory, err);
    if (result == -ENOENT && run_by_rings(name, ret) == 0)
        return 0;
    return result < 0 ? result : run_read(directory.text, ret, err);
}

/* ---- looking ---- */

static void look_fail(struct stacks_look *look, const char *why)
{
    look->over = true;
    look->fact = (struct fact_stack){ .rank = look->rank,
                                      .attempt = look->who ? look->who->attempt : 0,
                                      .state = '?' };
    snprintf(look->fact.why_not, sizeof(look->fact.why_not), "%s", why);
}

static const char *stacks_open_failed(int result)
{
    if (result == -ESRCH)
        return "its process is gone";
    if (result == -EPERM)
        return "its process belongs to another user; run this command as that user";
    if (result == -ENOENT)
        return "its process cannot be seen from here: it is in another pid namespace, or /proc "
               "hides it";
    return "its process cannot be opened in /proc";
}

/* One in uninterruptible sleep does not stop when asked to, and one that is traced has its tracer. */
static void look_begin(struct stacks_look *look, bool native)
{
    struct stack_ask ask = { .rank = look->rank };
    struct sample sample;
    int result;

    if (!look->who) {
        look_fail(look, "no process of this rank was found on this node");
        return;
    }
    result = proc_open(look->who->pid, look->who->pid_ns_inode, look->who->pid_start,
                       look->who->owner, &look->proc);
    if (result < 0) {
        look_fail(look, stacks_open_failed(result));
        return;
    }
    ask.attempt = look->who->attempt;
    ask.proc = *proc_ref(look->proc);
    ask.state = proc_sample(look->proc, time_mono_ns(), &sample);
    ask.native = native && !strchr("tTDZX", ask.state);
    if (stack_begin(&ask, time_mono_ns(), &look->stack) < 0)
        look_fail(look, "no process could be started to look at it");
}

/* A native stack is read from a process that is stopped for it, which these states do not allow. */
static bool look_cannot_stop(const struct fact_stack *fact)
{
    return fact->state && strchr("tTDZX", fact->state);
}

/* Says why a native stack that was asked for is not there. */
static void look_state_note(struct stacks_look *look, bool native)
{
    struct fact_stack *fact = &look->fact;

    if (native && !fact->why_not[0] && look_cannot_stop(fact))
        snprintf(fact->why_not, sizeof(fact->why_not),
                 "native stack: not read from a process in state %c", fact->state);
}

static bool look_poll(struct stacks_look *look, bool native)
{
    int result = stack_poll(look->stack, time_mono_ns(), &look->fact);

    if (result == 0)
        return false;
    proc_look_end(TAKE(look->stack));
    if (result == -ETIMEDOUT)
        look_fail(look, "it could not be read within 3 seconds");
    else if (result < 0)
        look_fail(look, "the process that read it failed");
    else
        look_state_note(look, native);
    look->over = true;
    return true;
}

static void looks_run(struct looks *looks, bool native)
{
    size_t begun = 0, going = 0;

    while (begun < looks->count || going > 0) {
        const struct timespec nap = time_spec(LOOK_NAP_NS);

        for (; begun < looks->count && going < LOOKS_AT_ONCE; begun++) {
            look_begin(&looks->list[begun], native);
            going += !looks->list[begun].over;
        }
        for (size_t i = 0; i < begun; i++)
            if (!looks->list[i].over && look_poll(&looks->list[i], native))
                going--;
        if (going)
            nanosleep(&nap, NULL);
    }
}

/* ---- which ranks ---- */

static int looks_add(struct looks *looks, size_t *room, uint32_t rank, const struct rank_proc *who)
{
    if (!ARRAY_FIT_ZERO(looks->list, *room, looks->count + 1))
        return -ENOMEM;
    looks->list[looks->count++] = (struct stacks_look){ .rank = rank, .who = who };
    return 0;
}

/* Those with a process, and of a run that lives also those that must have one. */
static int looks_make(struct looks *looks, const struct rank_procs *procs,
                      const struct stacks_run *run, uint32_t only)
{
    uint32_t known = run->alive ? run->ranks : 0, rank = 0;
    size_t room = 0, at = 0;
    int result = 0;

    while (result == 0 && (at < procs->count || rank < known)) {
        const struct rank_proc *who = at < procs->count ? &procs->list[at] : NULL;

        if (who && (who->rank <= rank || rank >= known)) {
            at++;
            rank = who->rank;
        } else {
            who = NULL;
        }
        if (only == EVERY_RANK || only == rank)
            result = looks_add(looks, &room, rank, who);
        rank++;
    }
    return result;
}

static int stacks_ranks_find(const struct stacks_run *run, struct rank_procs *ret, struct err *err)
{
    struct err ring_err = { "" };
    int result = -ENOENT;

    if (run->rings[0])
        result = rank_procs_add_rings(ret, run->rings, &ring_err);
    if (result < 0 && result != -ENOENT)
        return err_set(err, result, "%s", ring_err.text);
    if (result == 0 && ring_err.text[0])
        log_info("a ring could not be read: %s", ring_err.text);
    result = rank_procs_add_environment(ret, run->id);
    return result < 0 ? err_set(err, result, "/proc: %s", strerror(-result)) : 0;
}

/* ---- what is printed ---- */

static bool look_succeeded(const struct stacks_look *look)
{
    return look->fact.python[0] || look->fact.native[0] || look->fact.kernel[0];
}

static bool stacks_equal(const struct fact_stack *a, const struct fact_stack *b)
{
    return strcmp(a->python, b->python) == 0 && strcmp(a->native, b->native) == 0 &&
           strcmp(a->kernel, b->kernel) == 0 && strcmp(a->why_not, b->why_not) == 0;
}

/* Is it the first of its group? */
static bool look_leads(const struct looks *looks, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (stacks_equal(&looks->list[i].fact, &looks->list[at].fact))
            return false;
    return true;
}

/* "0-3,5": the ranks from `first` on that have its stacks. */
static void stacks_print_ranks(const struct looks *looks, size_t first)
{
    const struct fact_stack *lead = &looks->list[first].fact;
    bool open = false;

    for (size_t i = first; i < looks->count; i++) {
        const struct stacks_look *look = &looks->list[i], *next = look + 1;
        bool joined =
            i + 1 < looks->count && next->rank == look->rank + 1 && stacks_equal(&next->fact, lead);

        if (!stacks_equal(&look->fact, lead))
            continue;
        if (!open)
            printf("%s%u", i > first ? "," : "", look->rank);
        else if (!joined)
            printf("-%u", look->rank);
        open = joined;
    }
}

/* "rank 7 (pid 4211, state R)", "ranks 0-3,5 (states R, S)". */
static void stacks_print_heading(const struct looks *looks, size_t first)
{
    const struct stacks_look *lead = &looks->list[first];
    char states[48] = "";
    size_t used = 0, members = 0;

    for (size_t i = first; i < looks->count; i++) {
        const struct fact_stack *fact = &looks->list[i].fact;

        if (!stacks_equal(fact, &lead->fact))
            continue;
        members++;
        if (!strchr(states, fact->state) && used + 4 < sizeof(states))
            used += (size_t)snprintf(states + used, sizeof(states) - used, "%s%c", used ? ", " : "",
                                     fact->state);
    }
    fputs(members == 1 ? "rank " : "ranks ", stdout);
    stacks_print_ranks(looks, first);
    if (members == 1 && lead->proc)
        printf(" (pid %d, state %s)", (int)proc_ref(lead->proc)->pid, states);
    else if (lead->proc)
        printf(" (%s %s)", states[1] ? "states" : "state", states);
    puts(":");
}

static void stacks_print_frames(const char *name, const char *text)
{
    char line[512], clean[512];

    if (!text[0])
        return;
    printf("  %s stack, innermost first:\n", name);
    while (*text) {
        size_t size = strcspn(text, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)size, text);
        printf("    %s\n", show_clean(line, clean, sizeof(clean)));
        text += size + (text[size] == '\n');
    }
}

static void stacks_print_groups(const struct looks *looks)
{
    char clean[FACT_WORDS];

    for (size_t i = 0; i < looks->count; i++) {
        const struct fact_stack *fact = &looks->list[i].fact;

        if (!look_leads(looks, i))
            continue;
        stacks_print_heading(looks, i);
        stacks_print_frames("Python", fact->python);
        stacks_print_frames("native", fact->native);
        stacks_print_frames("kernel", fact->kernel);
        if (fact->why_not[0])
            printf("  not read: %s\n", show_clean(fact->why_not, clean, sizeof(clean)));
        else if (!look_succeeded(&looks->list[i]))
            puts("  not read: it has no stack of its own");
    }
}

static struct json_object *stacks_frames_json(const char *text)
{
    struct json_object *list = json_object_new_array();

    while (*text) {
        size_t size = strcspn(text, "\n");

        json_object_array_add(list, json_object_new_string_len(text, (int)size));
        text += size + (text[size] == '\n');
    }
    return list;
}

static struct json_object *look_json(const struct stacks_look *look)
{
    struct json_object *object = json_object_new_object();
    const char state[2] = { look->fact.state, '\0' };

    json_object_object_add(object, "rank", json_object_new_int64(look->rank));
    json_object_object_add(object, "attempt", json_object_new_int64(look->fact.attempt));
    json_object_object_add(object, "pid",
                           look->proc ? json_object_new_int(proc_ref(look->proc)->pid) : NULL);
    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_object_add(object, "python", stacks_frames_json(look->fact.python));
    json_object_object_add(object, "native", stacks_frames_json(look->fact.native));
    json_object_object_add(object, "kernel", stacks_frames_json(look->fact.kernel));
    json_object_object_add(object, "channel", show_string_or_null(look->fact.channel));
    json_object_object_add(object, "not_read", show_string_or_null(look->fact.why_not));
    return object;
}

static void stacks_print_json(const struct stacks_run *run, const struct looks *looks)
{
    struct json_object *top = json_object_new_object(), *ranks = json_object_new_array();

    for (size_t i = 0; i < looks->count; i++)
        json_object_array_add(ranks, look_json(&looks->list[i]));
    json_object_object_add(top, "run", show_string(run->id));
    json_object_object_add(top, "ranks", ranks);
    show_json(top, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    json_object_put(top);
}

/* ---- the command ---- */

static int looks_report(const struct stacks_run *run, const struct looks *looks, bool json)
{
    size_t failed = 0, partly = 0, refused = 0;

    for (size_t i = 0; i < looks->count; i++) {
        const struct stacks_look *look = &looks->list[i];
        bool part = look->proc && look->fact.why_not[0];

        failed += !look_succeeded(look);
        partly += part;
        refused += part && !look_cannot_stop(&look->fact);
    }
    if (json) {
        stacks_print_json(run, looks);
    } else {
        printf("run %s: %zu rank%s on this node\n", run->id, looks->count,
               looks->count == 1 ? "" : "s");
        stacks_print_groups(looks);
    }
    if (partly)
        log_info("%zu of %zu ranks could not be read in full%s", partly, looks->count,
                 refused ? "; row 'stacks' of 'lockstep doctor' says what permission is missing"
                         : "");
    return failed ? 3 : 0;
}

static int stacks_show(const struct stacks_run *run, const struct stacks_settings *settings,
                       struct err *err)
{
    CLEAN(rank_procs_fini) struct rank_procs procs = { 0 };
    CLEAN(looks_fini) struct looks looks = { 0 };
    int result = stacks_ranks_find(run, &procs, err);

    if (result < 0)
        return result;
    if (looks_make(&looks, &procs, run, settings->rank) < 0)
        return err_nomem(err);
    if (!looks.count && settings->rank != EVERY_RANK)
        return err_set(err, -ESRCH, "run %s: rank %u has no process on this node", run->id,
                       settings->rank);
    if (!looks.count)
        return err_set(err, -ESRCH, "run %s: no rank has a process on this node%s", run->id,
                       run->alive ? "" : "; the run has ended");
    looks_run(&looks, settings->native);
    return looks_report(run, &looks, settings->json);
}

static int stacks_main(int argc, char **argv)
{
    struct stacks_settings settings = { .native = true, .rank = EVERY_RANK };
    int first = opt_parse(&command_stacks, argc, argv, &settings), result;
    struct stacks_run run;
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    if (first + 1 < argc) {
        log_error("unexpected operand '%s'", argv[first + 1]);
        return 2;
    }
    result = run_find(first < argc ? argv[first] : NULL, &run, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOENT || result == -EINVAL ? 2 : 3;
    }
    result = stacks_show(&run, &settings, &err);
    if (result < 0)
        log_error("%s", err.text);
    return result < 0 ? 3 : result;
}

const struct command command_stacks = {
    .name = "stacks",
    .operands = "[RUN]",
    .summary = "the Python and native stack of every rank of a run on this node, now",
    .details = "RUN is a run's name, the beginning of it, or its directory; without it the newest "
               "run that\n"
               "is running.  Ranks with equal stacks are shown together.  No agent is needed.\n"
               "Exit status: 0 every rank was read, 2 bad usage or no such run, 3 a rank could not "
               "be read.",
    .opt = stacks_opts,
    .run = stacks_main,
};
