/* why_artifacts.c - reads what a dead job left, judges it, and prints the answer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/why/why_artifacts.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem.h"
#include "base/log.h"
#include "control/report/processes.h"
#include "core/clean.h"
#include "core/time.h"
#include "read/artifacts.h"
#include "read/kernellogs.h"
#include "show/verdict_paragraph.h"
#include "show/verdict_view.h"

#define SKIPPED_LINES 16 /* on stderr; all of them are in JSON */

#define KERNEL_BEFORE_NS (120 * NS_PER_S) /* lines of so long before a run may matter to it */
#define KERNEL_AFTER_NS (900 * NS_PER_S)

struct artifact_inquiry {
    struct artifacts artifacts;
    struct findings findings;
    bool kernel_apart; /* kernel messages were judged already */
};

static void inquiry_fini(struct artifact_inquiry *inquiry)
{
    artifacts_fini(&inquiry->artifacts);
    findings_fini(&inquiry->findings);
}

static void artifacts_drop_kernel_events(struct logs *logs)
{
    size_t kept = 0;

    for (size_t i = 0; i < logs->events; i++) {
        if (logs->event[i].kind < LOG_EVENT_XID || logs->event[i].kind > LOG_EVENT_RECOVERY)
            logs->event[kept++] = logs->event[i];
    }
    logs->events = kept;
}

static int artifacts_inquire(const char *const *operand, size_t count,
                             struct artifact_inquiry *inquiry, struct err *err)
{
    char resolved[PATH_MAX];
    const char *slash, *run = operand[0];
    struct budget budget = { .limit = BUDGET_WHY };
    int result = artifacts_read_all(operand, count, &budget, &inquiry->artifacts, err);

    if (result < 0)
        return result;
    if (inquiry->kernel_apart)
        artifacts_drop_kernel_events(&inquiry->artifacts.logs);
    if (realpath(operand[0], resolved) && (slash = strrchr(resolved, '/')) && slash[1])
        run = slash + 1; /* a dead job has no other name */
    if (postmortem_dumps(&inquiry->artifacts.dumps, run, &inquiry->findings) < 0 ||
        postmortem_reports(&inquiry->artifacts.reports, run, &inquiry->findings) < 0 ||
        postmortem_lanes(&inquiry->artifacts.lanes, run, &inquiry->findings) < 0 ||
        postmortem_logs(&inquiry->artifacts.logs, run, &inquiry->findings) < 0)
        return err_set(err, -ENOMEM, "%s: out of memory", operand[0]);
    return 0;
}

static int inquiry_exit(const struct artifact_inquiry *inquiry)
{
    if (inquiry->findings.count)
        return 1;
    return inquiry->findings.well ? 0 : 3;
}

static size_t artifacts_ranks_left(const struct dumps *dumps, enum dump_left left)
{
    size_t count = 0;

    for (size_t i = 0; i < dumps->ranks; i++)
        count += dumps->rank[i].left == left;
    return count;
}

static struct json_object *artifacts_skipped_json(const struct artifacts *artifacts)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < artifacts->files; i++) {
        struct json_object *one;

        if (artifacts->file[i].kind != ARTIFACT_SKIPPED)
            continue;
        one = json_object_new_object();
        json_object_object_add(one, "file", show_string(artifacts->file[i].name));
        json_object_object_add(one, "why", show_string(artifacts->file[i].why));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *artifacts_mention_json(const struct verdict_line *mention)
{
    struct json_object *one = json_object_new_object();

    json_object_object_add(one, "file", show_string(mention->file));
    json_object_object_add(one, "line", json_object_new_uint64(mention->line));
    json_object_object_add(one, "what", show_string(mention->what));
    return one;
}

static void artifacts_print_json(const struct artifact_inquiry *inquiry)
{
    const struct dumps *dumps = &inquiry->artifacts.dumps;
    struct json_object *root = json_object_new_object(), *list = json_object_new_array();
    struct json_object *counts = json_object_new_object();

    for (size_t i = 0; i < inquiry->findings.count; i++)
        json_object_array_add(list, verdict_json(&inquiry->findings.verdict[i]));
    json_object_object_add(root, "source", json_object_new_string("remains"));
    json_object_object_add(root, "verdicts", list);
    json_object_object_add(counts, "files", json_object_new_uint64(inquiry->artifacts.files));
    json_object_object_add(counts, "dumps", json_object_new_uint64(inquiry->artifacts.dump_files));
    json_object_object_add(counts, "logs", json_object_new_uint64(inquiry->artifacts.log_files));
    json_object_object_add(counts, "traces",
                           json_object_new_uint64(inquiry->artifacts.trace_files));
    json_object_object_add(counts, "ranks", json_object_new_uint64(dumps->ranks));
    json_object_object_add(counts, "ranks_without_dump",
                           json_object_new_uint64(artifacts_ranks_left(dumps, DUMP_NOTHING)));
    json_object_object_add(counts, "ranks_with_empty_dump",
                           json_object_new_uint64(artifacts_ranks_left(dumps, DUMP_EMPTY)));
    json_object_object_add(counts, "groups", json_object_new_uint64(dumps->groups));
    json_object_object_add(root, "counts", counts);
    if (!inquiry->findings.count && inquiry->findings.mention.what[0])
        json_object_object_add(root, "mention", artifacts_mention_json(&inquiry->findings.mention));
    json_object_object_add(root, "skipped", artifacts_skipped_json(&inquiry->artifacts));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static const char *artifacts_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* Why there is no verdict: what was read shows nothing, or nothing was read. */
static void artifacts_print_nothing(const struct artifact_inquiry *inquiry)
{
    const struct artifacts *artifacts = &inquiry->artifacts;

    if (inquiry->findings.well)
        puts("nothing is wrong in these files");
    else if (artifacts->skipped == artifacts->files)
        printf(
            "cannot tell: none of %zu file%s could be read as a log, a flight-recorder dump or a\n"
            "profiler trace\n",
            artifacts->files, artifacts_plural(artifacts->files));
    else
        puts("cannot tell: these files do not show a cause.  Logs of all ranks and of the\n"
             "launcher, the kernel log of each node (dmesg -T) and flight-recorder dumps\n"
             "would help.");
    if (!inquiry->findings.well && inquiry->findings.mention.what[0])
        printf("The program went on behind the line that looks most like an error:\n%s:%u: %s\n",
               inquiry->findings.mention.file, inquiry->findings.mention.line,
               inquiry->findings.mention.what);
    if (artifacts->skipped && artifacts->skipped < artifacts->files && !inquiry->findings.well)
        printf("%zu of %zu files could not be read\n", artifacts->skipped, artifacts->files);
}

static void artifacts_print_text(const struct artifact_inquiry *inquiry)
{
    const struct artifacts *artifacts = &inquiry->artifacts;
    struct show_style style = show_style_of(stdout);

    for (size_t i = 0; i < inquiry->findings.count; i++)
        verdict_paragraph(&inquiry->findings.verdict[i], &style, stdout);
    if (!inquiry->findings.count)
        artifacts_print_nothing(inquiry);
    if (artifacts->trace_files)
        printf("from %zu profiler trace%s\n", artifacts->trace_files,
               artifacts_plural(artifacts->trace_files));
    if (artifacts->log_files)
        printf("from %zu log%s\n", artifacts->log_files, artifacts_plural(artifacts->log_files));
    if (artifacts->dump_files)
        printf("from %zu flight-recorder dump%s of %zu rank%s in %zu group%s\n",
               artifacts->dump_files, artifacts_plural(artifacts->dump_files),
               artifacts->dumps.ranks, artifacts_plural(artifacts->dumps.ranks),
               artifacts->dumps.groups, artifacts_plural(artifacts->dumps.groups));
}

/* Nobody should have to wonder whether a file was read. */
static void artifacts_log_skipped(const struct artifacts *artifacts)
{
    size_t lines = 0;

    for (size_t i = 0; i < artifacts->files && lines < SKIPPED_LINES; i++) {
        if (artifacts->file[i].kind == ARTIFACT_SKIPPED) {
            log_info("skipped %s: %s", artifacts->file[i].name, artifacts->file[i].why);
            lines++;
        }
    }
    if (artifacts->skipped > lines)
        log_info("skipped %zu more; --json lists all", artifacts->skipped - lines);
}

int why_artifacts(const char *const *operand, size_t count, bool json,
                  const struct thresholds *limits, struct err *err)
{
    CLEAN(inquiry_fini) struct artifact_inquiry inquiry = { .findings.limits = limits };
    int result = artifacts_inquire(operand, count, &inquiry, err);

    if (result < 0)
        return result;
    artifacts_log_skipped(&inquiry.artifacts);
    if (inquiry.findings.count)
        qsort(inquiry.findings.verdict, inquiry.findings.count, sizeof(inquiry.findings.verdict[0]),
              verdict_by_importance);
    if (json)
        artifacts_print_json(&inquiry);
    else
        artifacts_print_text(&inquiry);
    return inquiry_exit(&inquiry);
}

static bool artifacts_has_dumps(const char *directory)
{
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = artifact_is_named_as_dump(entry->d_name);
    closedir(dir);
    return found;
}

/* What lockstep itself writes into a run's directory, and what ranks print: no kernel's words. */
static bool artifacts_is_ours(const char *path)
{
    static const char *const names[] = { "run.json",    "spool",      "log.lsf", "matrix.lsm",
                                         "steps.lsp",   "out",        "lock",    "owner",
                                         "control.log", "agent.token" };

    for (size_t i = 0; i < COUNT(names); i++) {
        if (strcmp(path, names[i]) == 0)
            return true;
    }
    return strncmp(path, "agent-", 6) == 0 || artifact_is_named_as_dump(path);
}

/* Is there anything that we did not write?  Most runs have nothing: then nothing need be read for it. */
static bool artifacts_has_others(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.' && !artifacts_is_ours(entry->d_name);
    closedir(dir);
    return found;
}

static int artifacts_run_summary_add(struct run_summary *summary, const struct findings *findings,
                                     struct err *err)
{
    size_t count = findings->count;
    struct verdict *grown =
        reallocarray(summary->verdict, summary->verdicts + count + 1, sizeof(*grown));

    if (!grown)
        return err_nomem(err);
    if (count)
        memcpy(grown + summary->verdicts, findings->verdict, count * sizeof(*grown));
    summary->verdict = grown;
    summary->verdicts += count;
    return 0;
}

/* Lines of kernel logs that lie in the run's directory join what was said about its ranks. */
static int artifacts_add_kernel_logs(const char *directory, const struct thresholds *limits,
                                     struct run_summary *summary, struct err *err)
{
    CLEAN(processes_fini) struct processes processes = { 0 };
    CLEAN(findings_fini) struct findings findings = { .limits = limits };
    CLEAN(logs_fini) struct logs logs = { 0 };
    struct kernellogs_filter filter = { .skip = artifacts_is_ours };
    struct postmortem_watched watched = { .run = summary->run };
    int result;

    if (!artifacts_has_others(directory))
        return 0;
    result = processes_read(directory, &processes, err);
    if (result < 0 || !processes.count)
        return result;
    filter.from_real_ns = processes.process[0].began_real_ns - KERNEL_BEFORE_NS;
    filter.until_real_ns = processes.end_real_ns + KERNEL_AFTER_NS;
    result = kernellogs_read(directory, &filter, &logs, err);
    if (result < 0)
        return result;
    watched.process = processes.process;
    watched.processes = processes.count;
    watched.verdict = summary->verdict;
    watched.verdicts = summary->verdicts;
    if (postmortem_kernel(&watched, &logs, &findings) < 0)
        return err_set(err, -ENOMEM, "%s: out of memory", directory);
    return artifacts_run_summary_add(summary, &findings, err);
}

int why_add_artifacts(const char *directory, const struct thresholds *limits,
                      struct run_summary *summary, struct err *err)
{
    CLEAN(inquiry_fini)
    struct artifact_inquiry inquiry = { .findings.limits = limits, .kernel_apart = true };
    int result = summary->alive ? 0 : artifacts_add_kernel_logs(directory, limits, summary, err);

    if (result < 0 || !artifacts_has_dumps(directory))
        return result;
    result = artifacts_inquire(&directory, 1, &inquiry, err);
    return result < 0 ? result : artifacts_run_summary_add(summary, &inquiry.findings, err);
}
