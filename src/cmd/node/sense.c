/* sense.c - lockstep sense: what this node knows about itself.
 *
 * The same sensors that the node daemon runs.  With a file of kernel records nothing else is read, unless a root directory
 * is given, too: the file is then of another machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/node/sense_gpus.h"
#include "core/clean.h"
#include "core/time.h"
#include "sense/sense.h"
#include "show/style.h"
#include "wire/decision.h"
#include "wire/kernel/xid.h"
#include "wire/verdict.h"

#define FDS_MAX 8
#define STATES_MAX 16

struct sense_settings {
    bool once, json, gpus;
    const char *root, *kmsg, *only;
    uint32_t explain;
};

static const struct opt sense_opts[] = {
    { "once", 0, OPT_FLAG, offsetof(struct sense_settings, once), NULL,
      "read each source once, with the kernel records since boot, and exit", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct sense_settings, json), NULL,
      "one JSON object for each finding, one a line", NULL, false },
    { "sysroot", 0, OPT_TEXT, offsetof(struct sense_settings, root), "DIR",
      "read DIR/proc, DIR/sys and DIR/dev", NULL, false },
    { "kmsg", 0, OPT_TEXT, offsetof(struct sense_settings, kmsg), "FILE",
      "kernel records from FILE, in any form that dmesg, journalctl or syslog prints; without "
      "--sysroot no other source is read",
      NULL, false },
    { "only", 0, OPT_TEXT, offsetof(struct sense_settings, only), "NAME",
      "only this source: kmsg, gpu, fabric, pcie, host, storage, metadata or leftovers", NULL,
      false },
    { "gpus", 0, OPT_FLAG, offsetof(struct sense_settings, gpus), NULL,
      "print all that NVML reports of each GPU, and what it does not report, and exit", NULL,
      false },
    { "explain", 0, OPT_U32, offsetof(struct sense_settings, explain), "XID",
      "print what an Xid means, and exit", NULL, false },
    { .name = NULL },
};

struct sense_print {
    bool json;
    uint64_t count;
};

static struct json_object *sense_number_or_null(uint32_t number)
{
    return number ? json_object_new_int64(number) : NULL;
}

static struct json_object *sense_finding_json(const struct finding *finding, uint32_t line)
{
    struct json_object *object = json_object_new_object(), *ranks = json_object_new_array();
    char time[32] = "";

    if (finding->real_ns)
        time_format_utc(finding->real_ns, time);
    for (uint32_t i = 0; i < MIN(finding->rank_count, (uint32_t)FINDING_RANKS); i++)
        json_object_array_add(ranks, json_object_new_int64(finding->rank[i]));
    json_object_object_add(object, "kind",
                           json_object_new_string(finding_kind_name(finding->kind)));
    json_object_object_add(object, "class",
                           json_object_new_string(finding_class_name(finding->class)));
    json_object_object_add(object, "severity",
                           json_object_new_string(finding_severity_name(finding->severity)));
    json_object_object_add(object, "time", show_string_or_null(time));
    json_object_object_add(object, "node", show_string_or_null(finding->node));
    json_object_object_add(object, "code", sense_number_or_null(finding->code));
    json_object_object_add(object, "device", show_string_or_null(finding->device));
    json_object_object_add(object, "pid", sense_number_or_null(finding->pid));
    json_object_object_add(object, "ranks", ranks);
    json_object_object_add(object, "action",
                           finding->action ? json_object_new_string(action_name(finding->action))
                                           : NULL);
    json_object_object_add(object, "count", json_object_new_int64(finding->count));
    json_object_object_add(object, "text", show_string(finding->text));
    json_object_object_add(object, "line", sense_number_or_null(line));
    json_object_object_add(object, "raw", show_string_or_null(finding->raw));
    json_object_object_add(object, "origin",
                           json_object_new_string(finding_origin_name(finding->origin)));
    snprintf(time, sizeof(time), "%.2f", finding_confidence(finding));
    json_object_object_add(object, "confidence",
                           json_object_new_double_s(finding_confidence(finding), time));
    json_object_object_add(object, "id", json_object_new_string(finding->id));
    return object;
}

/* Of a kernel log, how many messages one finding stands for: those that follow from its cause are among them, so it did not
 * happen so often.  Of a port that is up again the count is a time.
 */
static void print_count(const struct finding *finding)
{
    if (finding->count < 2 || finding->kind == FINDING_PORT)
        return;
    printf(finding->origin == FINDING_FROM_SENSOR ? " (%" PRIu32 " times)"
                                                  : " (%" PRIu32 " messages)",
           finding->count);
}

static void print_text(const struct finding *finding, uint32_t line)
{
    char time[32] = "-", clean[256];

    if (finding->real_ns)
        time_format_utc(finding->real_ns, time);
    printf("%s %-5s %-10s %s", time, finding_severity_name(finding->severity),
           finding_kind_name(finding->kind), show_clean(finding->text, clean, sizeof(clean)));
    print_count(finding);
    if (finding->action)
        printf("; suggested: %s", action_name(finding->action));
    if (line)
        printf(" [line %" PRIu32 "]", line);
    putchar('\n');
}

static void print_finding(void *user, const struct finding *finding, uint32_t line)
{
    struct sense_print *print = user;

    print->count++;
    if (print->json) {
        struct json_object *object = sense_finding_json(finding, line);

        puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                        JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(object);
    } else {
        print_text(finding, line);
    }
    fflush(stdout);
}

static int sense_explain(uint32_t code)
{
    const struct xid *xid = xid_find(code);

    if (!xid) {
        log_error("no Xid %" PRIu32 " is known; numbers are 1 to %d", code, XID_MAX);
        return 2;
    }
    printf("Xid %" PRIu32 ": %s\n  class: %s\n  severity: %s\n  suggested action: %s\n", code,
           xid->what, finding_class_name(xid->class), finding_severity_name(xid->severity),
           action_name(xid->action));
    if (xid->layer != LAYER_UNKNOWN)
        printf("  layer of a verdict that it explains: %s\n", verdict_layer_name(xid->layer));
    if (xid->follows)
        puts("  follows other Xids of the same GPU: look at the first one of the burst");
    if (code >= 144 && code <= 150)
        puts("  severity and action depend on the unit and the bits in the line");
    if (code == XID_RECOVERY_ACTION)
        puts("  severity and action follow the hexadecimal number in the line, not its words");
    return 0;
}

/* What could not be read, once.  Returns true if something is hidden by it: each node has a kernel log, and what cannot be
 * read is there.  Parts that a node does not have hide nothing, as long as there is anything to read.
 */
static bool print_not_observed(const struct sense *sense)
{
    struct sense_state state[STATES_MAX];
    size_t count = sense_states(sense, state, STATES_MAX), missing = 0;
    bool hidden = false;

    for (size_t i = 0; i < count; i++) {
        if (state[i].result == 0)
            continue;
        log_info("not observed: %s: %s", state[i].sensor->name,
                 state[i].why[0] ? state[i].why : strerror(-state[i].result));
        hidden |= strcmp(state[i].sensor->name, "kmsg") == 0 || state[i].result != -ENODEV;
        missing++;
    }
    return hidden || missing == count;
}

/* poll() and not base/loop.h: sensors say anew before each wait which descriptors they have, and a storm on one of them must
 * not run a handler for each record.
 */
static void sense_wait_until(const struct sense *sense)
{
    struct pollfd ready[FDS_MAX] = { { 0 } };
    const struct timespec nap = time_spec(100 * NS_PER_MS); /* a storm is read in portions */
    int fd[FDS_MAX];
    size_t count = sense_fds(sense, fd, FDS_MAX);

    for (size_t i = 0; i < count; i++)
        ready[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
    poll(ready, count, time_poll_ms(sense_next_ns(sense), time_mono_ns()));
    nanosleep(&nap, NULL);
}

static void cmd_sense_step(struct sense *sense, struct sense_print *print)
{
    struct sense_now now = { time_mono_ns(), time_real_ns() };

    sense_step(sense, &now, print_finding, print);
}

static int sense_follow(struct sense *sense, struct sense_print *print)
{
    for (;;) {
        cmd_sense_step(sense, print);
        sense_wait_until(sense);
    }
    return 0;
}

static void sense_clean(struct sense **sense)
{
    sense_destroy(*sense);
}

/* A file that is named must be readable. */
static int sense_check_named(const struct sense *sense, const char *kmsg)
{
    struct sense_state state[STATES_MAX];
    size_t count = sense_states(sense, state, STATES_MAX);

    for (size_t i = 0; kmsg && i < count; i++) {
        if (strcmp(state[i].sensor->name, "kmsg") == 0 && state[i].result < 0) {
            log_error("%s", state[i].why);
            return 2;
        }
    }
    return 0;
}

static bool sense_is_sensor(const char *name)
{
    for (size_t i = 0; i < sensor_count; i++) {
        if (strcmp(sensors[i]->name, name) == 0)
            return true;
    }
    return false;
}

static const char *sense_source_names(char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sensor_count && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", sensors[i]->name);
    return out;
}

/* A file, unlike a FIFO or a device, may be of another machine, and so may a tree: only their own lines say which. */
static bool sense_is_foreign(const struct sense_settings *settings)
{
    struct stat st;

    return settings->root[0] ||
           (settings->kmsg && stat(settings->kmsg, &st) == 0 && S_ISREG(st.st_mode));
}

static int sense_run(int argc, char **argv)
{
    struct sense_settings settings = { .root = "" };
    struct sense_place place = { .root = "" };
    struct sense_print print = { .json = false };
    CLEAN(sense_clean) struct sense *sense = NULL;
    char node[FACT_NAME] = "";
    bool hidden;
    int parsed = opt_parse_all(&command_sense, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.explain)
        return sense_explain(settings.explain);
    if (settings.gpus)
        return sense_gpus(NULL, settings.json);
    if (settings.only && !sense_is_sensor(settings.only)) {
        char names[128];

        log_error("no source '%s'; there are %s", settings.only,
                  sense_source_names(names, sizeof(names)));
        return 2;
    }
    gethostname(node, sizeof(node) - 1);
    place = (struct sense_place){ .root = settings.root,
                                  .kmsg = settings.kmsg,
                                  .node = node,
                                  .foreign = sense_is_foreign(&settings),
                                  .from_start = settings.once || settings.kmsg };
    if (settings.kmsg && !settings.root[0] && !settings.only)
        settings.only = "kmsg";
    if (sense_create(&place, settings.only, &sense) < 0) {
        log_error("out of memory");
        return 2;
    }
    print.json = settings.json;
    if (sense_check_named(sense, settings.kmsg))
        return 2;
    hidden = print_not_observed(sense);
    if (!settings.once)
        return sense_follow(sense, &print);
    cmd_sense_step(sense, &print);
    if (!print.count && !settings.json)
        puts(hidden ? "nothing found in what could be read" : "nothing found");
    if (print.count)
        return 1;
    return hidden ? 2 : 0;
}

const struct command command_sense = {
    .name = "sense",
    .operands = "",
    .summary = "what this node knows about itself: kernel log, GPUs, ports, disks, memory",
    .details =
        "Exit status with --once: 0 nothing found, 1 something found, 2 a source could not be "
        "read.",
    .opt = sense_opts,
    .run = sense_run,
};
