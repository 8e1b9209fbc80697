/* slurm_hook.c - what slurmd's prolog, epilog and health check do with the result of `lockstep check`.
 *
 * A check that failed drains the node, with a reason that says which and why; nothing else does, and an error of our own never does.  The
 * prolog exits with 1 then, so that Slurm starts the job elsewhere.  The health check gives a node back that it, or one of the others, had drained:
 * after two passes, and only if the node is still drained with exactly that reason, which is kept in a file of root's.  If many nodes have failed the
 * same check, what they share is at fault: nothing is drained, and the system log has an alert.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "act/table/kill_switch.h"
#include "agent/node/become.h"
#include "base/json_member.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/time.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_config.h"
#include "slurm/slurm_site.h"

#define HOOK_STATE "/var/lib/lockstep-slurm" /* of root; a user cannot write below /var/lib */
#define HOOK_LIMIT_NS (20 * NS_PER_S) /* stage quick takes 5 s; slurmd gives a health check 60 s */
#define HOOK_PASSES 2
#define HOOK_SITE_SHARE 0.05
#define HOOK_SEEN_NS NS_PER_S /* until all that were drained at the same moment are seen */
#define HOOK_SPREAD_NS (UINT64_C(2) * NS_PER_S)
#define HOOK_REASON 160

struct hook_settings {
    const char *state;
};

static const struct opt hook_opts[] = {
    { "state", 0, OPT_TEXT, offsetof(struct hook_settings, state), "DIR",
      "where the reason of a drain is kept", NULL, false },
    { .name = NULL },
};

struct hook {
    const char *name, *state; /* prolog, epilog, healthcheck */
    char node[SLURM_NAME];
    struct slurm_answer answer;
};

struct hook_drained { /* by us */
    char reason[HOOK_REASON];
    unsigned passes;
};

/* ---- the check ---- */

static char *hook_word(const char *word)
{
    return (char *)(uintptr_t)word;
}

/* The name of the first check that failed and why; "": none failed, or nobody can tell. */
static void hook_first_failed(struct json_object *root, char *ret_name, char *ret_why, size_t room)
{
    struct json_object *list = json_member(root, "checks", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list) && !ret_name[0]; i++) {
        struct json_object *one = json_object_array_get_idx(list, i),
                           *name = json_member(one, "name", json_type_string),
                           *why = json_member(one, "why", json_type_string),
                           *state = json_member(one, "state", json_type_string);

        if (!name || !state || strcmp(json_object_get_string(state), "failed") != 0)
            continue;
        snprintf(ret_name, room, "%s", json_object_get_string(name));
        snprintf(ret_why, room, "%s", why ? json_object_get_string(why) : "");
        ret_why[text_clean(ret_why, strlen(ret_why), false)] =
            '\0'; /* it may have names of users */
    }
}

/* 1: it was done, and *ret_name says what failed; 0: nobody can tell. */
static int hook_check(struct hook *hook, char *ret_name, char *ret_why, size_t room)
{
    char *const argv[] = { hook_word("/proc/self/exe"),
                           hook_word("check"),
                           hook_word("--stage"),
                           hook_word("quick"),
                           hook_word("--for"),
                           hook_word(hook->name),
                           hook_word("--json"),
                           hook_word("--report"),
                           hook_word("--node"),
                           hook->node,
                           NULL };
    CLEAN(json_clean) struct json_object *root = NULL;
    struct err err = { "" };
    const char *text;
    int result = slurm_call(argv, HOOK_LIMIT_NS, &hook->answer, &err);

    ret_name[0] = ret_why[0] = '\0';
    if (result < 0 && result != -EIO) { /* -EIO: its exit status says that a check failed */
        log_error("the check of this node did not end: %s", err.text);
        return 0;
    }
    text = strchr(hook->answer.text, '{');
    root = text ? json_tokener_parse(text) : NULL;
    if (!json_member(root, "verdict", json_type_string)) {
        log_error("the check of this node printed no result: %s", err.text);
        return 0;
    }
    hook_first_failed(root, ret_name, ret_why, room);
    return 1;
}

/* ---- the reason ---- */

static void hook_reason(const struct hook *hook, const char *check, char *ret, size_t room)
{
    char word[48];
    uint64_t id = hash64(0, hook->node, strlen(hook->node));
    size_t size = 0;

    for (const char *at = check; *at && size + 1 < sizeof(word); at++)
        word[size++] = strchr("abcdefghijklmnopqrstuvwxyz0123456789-", *at) ? *at : '-';
    word[size] = '\0';
    id = hash64(id, check, strlen(check));
    id = hash64_u64(id, (uint64_t)time_real_ns());
    snprintf(ret, room, "lockstep: node-fault check-%s c-%016" PRIx64, word, id);
}

static int hook_state_path(const struct hook *hook, struct path *ret)
{
    return path_join(ret, hook->state, "drained", NULL);
}

static bool hook_state_read(const struct hook *hook, struct hook_drained *ret)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;

    *ret = (struct hook_drained){ .passes = 0 };
    if (hook_state_path(hook, &path) < 0 || !(file = fopen(path.text, "re")))
        return false;
    if (fscanf(file, "%u ", &ret->passes) != 1 || !fgets(ret->reason, sizeof(ret->reason), file))
        return false;
    ret->reason[strcspn(ret->reason, "\n")] = '\0';
    return ret->reason[0];
}

/* Before the drain: one that is killed in between has at worst the reason of a drain that never was. */
static int hook_state_write(const struct hook *hook, const struct hook_drained *drained,
                            struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path, beside;
    int result = path_make(hook->state, err);

    if (result == 0)
        result = path_join(&beside, hook->state, ".drained.new", err);
    if (result < 0 || hook_state_path(hook, &path) < 0)
        return result < 0 ? result : -ENAMETOOLONG;
    file = fopen(beside.text, "we");
    if (!file || fprintf(file, "%u %s\n", drained->passes, drained->reason) < 0 ||
        fflush(file) != 0 || fsync(fileno(file)) < 0 || rename(beside.text, path.text) < 0)
        return err_set(err, -errno, "%s: %m", path.text);
    return 0;
}

static void hook_state_forget(const struct hook *hook)
{
    struct path path;

    if (hook_state_path(hook, &path) == 0)
        unlink(path.text);
}

/* ---- drain ---- */

static bool hook_may(void *arg, char *why, size_t room)
{
    char path[4096];

    (void)arg;
    if (!kill_switch_is_on(path, sizeof(path)))
        return true;
    snprintf(why, room, "the kill switch is on: %.80s", path);
    return false;
}

struct hook_others { /* nodes that are drained because of the same check */
    int count;
    bool before;           /* one of them comes before this node in the alphabet */
    char last[SLURM_NAME]; /* sinfo has a line for each partition of a node, one behind the other */
};

static void hook_other(const struct hook *hook, const char *line, const char *reason, size_t size,
                       struct hook_others *others)
{
    size_t length = strcspn(line, "\n");
    const char *name = memrchr(line, '|', length);
    char node[SLURM_NAME];

    if (!name || strncmp(line, reason, size) != 0)
        return;
    snprintf(node, sizeof(node), "%.*s", (int)(line + length - name - 1), name + 1);
    if (strcmp(node, hook->node) == 0 || strcmp(node, others->last) == 0)
        return;
    memcpy(others->last, node, sizeof(others->last));
    others->count++;
    others->before |= strcmp(node, hook->node) < 0;
}

static int hook_others_look(struct hook *hook, const char *reason, struct hook_others *ret,
                            struct err *err)
{
    char *const argv[] = { hook_word("sinfo"), hook_word("-h"), hook_word("-a"),    hook_word("-N"),
                           hook_word("-R"),    hook_word("-o"), hook_word("%E|%n"), NULL };
    size_t size = (size_t)(strrchr(reason, ' ') - reason) + 1; /* without the id */
    int result = slurm_call(argv, SLURM_CALL_NS, &hook->answer, err);

    *ret = (struct hook_others){ .count = 0 };
    for (const char *at = hook->answer.text; result == 0 && *at; at += strspn(at, "\n")) {
        hook_other(hook, at, reason, size, ret);
        at += strcspn(at, "\n");
    }
    return result;
}

static unsigned long hook_nodes_most(struct hook *hook, struct err *err)
{
    char *const argv[] = { hook_word("scontrol"), hook_word("show"), hook_word("config"), NULL };
    char value[32];

    if (slurm_call(argv, SLURM_CALL_NS, &hook->answer, err) < 0 ||
        slurm_config_value(hook->answer.text, hook->answer.size, "MaxNodeCount", value,
                           sizeof(value)) < 0)
        return 0;
    return strtoul(value, NULL, 10);
}

static int hook_line_compare(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

/* sinfo names a node once for each of its partitions.  0: nobody can tell. */
static unsigned long hook_nodes(struct hook *hook, struct err *err)
{
    char *const argv[] = { hook_word("sinfo"),
                           hook_word("-h"),
                           hook_word("-a"),
                           hook_word("-N"),
                           hook_word("-o"),
                           hook_word("%n"),
                           NULL };
    CLEAN(free_clean) char **line = calloc(SLURM_ANSWER / 2 + 1, sizeof(*line));
    int result = line ? slurm_call(argv, SLURM_CALL_NS, &hook->answer, err) : -ENOMEM;
    size_t count = 0, nodes = 0;
    char *rest = NULL;

    if (result == -EMSGSIZE) /* some thousand nodes */
        return hook_nodes_most(hook, err);
    for (char *at = result < 0 ? NULL : strtok_r(hook->answer.text, "\n", &rest); at;
         at = strtok_r(NULL, "\n", &rest))
        line[count++] = at;
    if (count)
        qsort(line, count, sizeof(*line), hook_line_compare);
    for (size_t i = 0; i < count; i++)
        nodes += !i || strcmp(line[i], line[i - 1]) != 0;
    return nodes;
}

/* True: what the nodes share is at fault, or nobody can tell whether it is.  `drained`: this one is, and of nodes that were drained at the
 * same moment the first one stays so.
 */
static bool hook_is_site_fault(struct hook *hook, const char *reason, bool drained)
{
    struct err err = { "" };
    struct hook_others others;
    int result = hook_others_look(hook, reason, &others, &err);
    unsigned long nodes = result < 0 ? 0 : hook_nodes(hook, &err);

    if (!nodes) {
        log_error("the state of other nodes cannot be read, so this one is not drained: %s",
                  err.text);
        return true;
    }
    if (others.count < 1 || others.count + 1 <= HOOK_SITE_SHARE * (double)nodes ||
        (drained && !others.before))
        return false;
    openlog("lockstep", LOG_PID, LOG_DAEMON);
    syslog(LOG_ALERT,
           "%d of %lu nodes are drained for this already: a fault of the site, node %s stays in "
           "service: %s",
           others.count, nodes, hook->node, reason);
    log_error("%d of %lu nodes are drained for this already: a fault of the site, this node stays "
              "in service",
              others.count, nodes);
    return true;
}

/* The prolog of a large job runs on all its nodes in the same second: each must see the drains of the others. */
static void hook_pause(const struct hook *hook)
{
    uint64_t spread = hash64(0, hook->node, strlen(hook->node)) % HOOK_SPREAD_NS;
    const struct timespec pause = time_spec(HOOK_SEEN_NS + (int64_t)spread);

    nanosleep(&pause, NULL);
}

/* Whether the node is to be kept from jobs. */
static bool hook_drain(struct hook *hook, const char *check, const char *why)
{
    struct hook_drained drained = { .passes = 0 }, before;
    struct slurm_site what = { .node = hook->node, .reason = drained.reason, .may = hook_may };
    char text[200], off[4096];
    struct err err = { "" };
    enum slurm_did did;
    bool again;

    if (kill_switch_is_on(off, sizeof(off))) {
        log_error("check %s failed: %s; the kill switch is on: %s", check, why, off);
        return false;
    }
    hook_reason(hook, check, drained.reason, sizeof(drained.reason));
    again = hook_state_read(hook, &before);
    if (again) { /* it is out already, or was given back by a person */
        before.passes = 0;
        drained = before;
    } else if (hook_is_site_fault(hook, drained.reason, false)) {
        return false;
    }
    if (hook_state_write(hook, &drained, &err) < 0) {
        log_error("%s", err.text);
        return false;
    }
    did = slurm_site_drain(&what, text, sizeof(text));
    if (did == SLURM_DID && !again)
        hook_pause(hook);
    if (did == SLURM_DID && !again && hook_is_site_fault(hook, drained.reason, true)) {
        slurm_site_undrain(&what, text, sizeof(text));
        hook_state_forget(hook);
        return false;
    }
    if (did == SLURM_NOT_OURS || did == SLURM_REFUSED || did == SLURM_FAILED)
        hook_state_forget(hook);
    log_error("check %s failed: %s; %s", check, why, text);
    return did == SLURM_DID || did == SLURM_NOT_OURS;
}

static void hook_give_back(struct hook *hook)
{
    struct hook_drained drained;
    struct slurm_site what = { .node = hook->node, .reason = drained.reason, .may = hook_may };
    char text[200];
    enum slurm_did did;

    if (!hook_state_read(hook, &drained))
        return;
    drained.passes++;
    if (drained.passes < HOOK_PASSES) {
        hook_state_write(hook, &drained, NULL);
        return;
    }
    did = slurm_site_undrain(&what, text, sizeof(text));
    log_info("%s", text);
    if (did == SLURM_DID || did == SLURM_NOT_OURS)
        hook_state_forget(hook);
}

/* ---- what a job left ---- */

static bool hook_is_of_job(const char *name, const char *run)
{
    size_t size = strlen(run);

    return strncmp(name, run, size) == 0 &&
           (!name[size] || name[size] == '.' || strncmp(name + size, "-r", 2) == 0);
}

/* Another user may have made that name, also as a link to a directory of this one. */
static bool hook_rings_enter(const char *directory, uid_t uid)
{
    CLEAN(fd_clean) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == uid &&
           !(st.st_mode & (S_IWGRP | S_IWOTH)) && fchdir(fd) == 0;
}

static void hook_rings_remove(const char *directory, uid_t uid, const char *run)
{
    DIR *dir = hook_rings_enter(directory, uid) ? opendir(".") : NULL;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (hook_is_of_job(entry->d_name, run))
            tree_remove(entry->d_name);
    }
    if (dir)
        closedir(dir);
}

/* As the user: root opens nothing below a directory that a user can write to. */
static void hook_rings(void)
{
    const char *job = getenv("SLURM_JOB_ID"), *user = getenv("SLURM_JOB_UID");
    char directory[64], run[48];
    struct passwd *entry;
    uid_t uid;
    pid_t pid;

    if (!job || !user || strspn(job, "0123456789") != strlen(job) || !*user ||
        strspn(user, "0123456789") != strlen(user) || strlen(job) > 20)
        return;
    uid = (uid_t)strtoul(user, NULL, 10);
    entry = getpwuid(uid);
    if (!uid || !entry)
        return;
    snprintf(directory, sizeof(directory), "/dev/shm/lockstep-%u", (unsigned)uid);
    snprintf(run, sizeof(run), "job-%s", job);
    pid = fork();
    if (pid == 0) {
        if (become_user(uid, entry->pw_gid, NULL) == 0)
            hook_rings_remove(directory, uid, run);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* ---- */

static int hook_run(int argc, char **argv)
{
    struct hook_settings settings = { .state = HOOK_STATE };
    CLEAN(free_clean) struct hook *hook = calloc(1, sizeof(*hook));
    int first = opt_parse(&command_slurm_hook, argc, argv, &settings);
    const char *node = getenv("SLURMD_NODENAME"), *name = first >= 0 ? argv[first] : NULL;
    char check[128], why[128];
    bool prolog, keep = false;

    if (first < 0)
        return OPT_EXIT(first);
    if (!hook || !name || !node || !slurm_is_node_name(node) ||
        (strcmp(name, "prolog") != 0 && strcmp(name, "epilog") != 0 &&
         strcmp(name, "healthcheck") != 0)) {
        log_error("this is started by slurmd alone (lockstep slurm install)");
        return 0;
    }
    prolog = strcmp(name, "prolog") == 0;
    hook->name = name;
    hook->state = settings.state;
    snprintf(hook->node, sizeof(hook->node), "%s", node);
    if (strcmp(name, "epilog") == 0)
        hook_rings();
    if (!hook_check(hook, check, why, sizeof(check)))
        return 0;
    if (check[0])
        keep = hook_drain(hook, check, why);
    else if (strcmp(name, "healthcheck") == 0)
        hook_give_back(hook);
    return prolog && keep;
}

const struct command command_slurm_hook = {
    .name = "slurm-hook",
    .operands = "prolog|epilog|healthcheck",
    .summary = "checks this node for slurmd, and drains it if a check failed",
    .opt = hook_opts,
    .run = hook_run,
    .hidden = true,
};
