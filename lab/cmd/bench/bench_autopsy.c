/* bench_autopsy.c - how good the answers about dead jobs are, and how fast a large log is read.
 *
 * The cases are real log excerpts and sets of dumps with the answers of a person.  Each is given to `lockstep why` as a
 * user would, in a process of its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "lab/bench/autopsy_case.h"
#include "lab/bench/log_make.h"
#include "lab/bench/why_child.h"
#include "lab/cmd/lab.h"

#define CASE_SECONDS 60.0
#define LOG_SECONDS 900.0
#define BAR_RIGHT 0.70 /* of the cases that a person can answer */
#define BAR_WRONG 0.02
#define BAR_SILENT 0.15
#define BAR_MB_PER_S 200.0
#define CATEGORIES 64

struct category {
    char name[sizeof(((struct autopsy_case *)0)->category)];
    unsigned grade[GRADE_COUNT], cases;
};

struct autopsy_bench {
    const struct bench_autopsy_settings *settings;
    struct autopsy_cases cases;
    struct autopsy_ranks ranks;
    struct category category[CATEGORIES]; /* in the order of the tables */
    size_t categories;
    unsigned answerable, grade[GRADE_COUNT]; /* of the answerable; wrong: of all */
    double log_seconds, log_cpu_seconds, ceiling_seconds;
    int64_t log_bytes, peak_bytes;
    bool log_named;   /* the culprit of the large log */
    char scratch[64]; /* directory of the log at hand */
};

static struct category *category_of(struct autopsy_bench *bench, const char *name)
{
    for (size_t i = 0; i < bench->categories; i++) {
        if (strcmp(bench->category[i].name, name) == 0)
            return &bench->category[i];
    }
    if (bench->categories == CATEGORIES)
        return &bench->category[CATEGORIES - 1];
    snprintf(bench->category[bench->categories].name, sizeof(bench->category[0].name), "%s", name);
    return &bench->category[bench->categories++];
}

static void bench_count(struct autopsy_bench *bench, const struct autopsy_case *at,
                        enum autopsy_grade grade)
{
    struct category *category = category_of(bench, at->category);

    category->cases++;
    category->grade[grade]++;
    if (!at->none) {
        bench->answerable++;
        bench->grade[grade]++;
    } else if (grade == GRADE_WRONG) {
        bench->grade[grade]++;
    }
}

static int bench_case_copy(const char *from, const char *to, struct err *err)
{
    CLEAN(file_clean) FILE *in = fopen(from, "re");
    CLEAN(file_clean) FILE *out = in ? fopen(to, "we") : NULL;
    char chunk[4096];
    size_t got;

    if (!out)
        return err_set(err, -errno, "%s: %m", in ? to : from);
    while ((got = fread(chunk, 1, sizeof(chunk), in)) > 0)
        fwrite(chunk, 1, got, out);
    return ferror(in) || fflush(out) != 0 ? err_set(err, -EIO, "%s: cannot be copied", from) : 0;
}

/* A directory NAME, or NAME.log under a name that says nothing: a rank may be taken from the name of a file. */
static int bench_case_operand(const struct autopsy_bench *bench, const char *directory,
                              const struct autopsy_case *at, struct path *ret, struct err *err)
{
    char name[sizeof(at->name) + 8];
    struct path log;
    int result = path_join(ret, directory, at->name, err);

    if (result < 0 || access(ret->text, F_OK) == 0)
        return result;
    snprintf(name, sizeof(name), "%s.log", at->name);
    result = path_join(&log, directory, name, err);
    if (result == 0)
        result = path_join(ret, bench->scratch, "job.log", err);
    return result < 0 ? result : bench_case_copy(log.text, ret->text, err);
}

static int bench_case_run(struct autopsy_bench *bench, const char *directory,
                          const struct autopsy_case *at, struct err *err)
{
    CLEAN(why_child_fini) struct why_child child = { 0 };
    enum autopsy_grade grade;
    struct path operand;
    char why[200];
    int result = bench_case_operand(bench, directory, at, &operand, err);

    if (result == 0)
        result = why_child_run(operand.text, CASE_SECONDS, &child, err);
    if (result < 0)
        return result;
    grade = autopsy_grade(at, child.answer, &bench->ranks, why, sizeof(why));
    if (child.status > 128) { /* a signal: no answer is worse */
        grade = GRADE_WRONG;
        snprintf(why, sizeof(why), "'lockstep why' ended with status %d", child.status);
    }
    bench_count(bench, at, grade);
    if (bench->settings->show && grade != GRADE_RIGHT)
        fprintf(stderr, "%-6s %s%s%s\n", autopsy_grade_name(grade), at->name, *why ? ": " : "",
                why);
    return 0;
}

static int bench_directory(struct autopsy_bench *bench, const char *directory, struct err *err)
{
    size_t first = bench->cases.count;
    int result = autopsy_cases_read(directory, &bench->cases, err);

    for (size_t i = first; i < bench->cases.count && result == 0; i++)
        result = bench_case_run(bench, directory, &bench->cases.list[i], err);
    return result;
}

static bool bench_named_culprit(const struct why_child *child)
{
    struct autopsy_case at = { .kind = "crash", .layer = "*", .words = "-", .ranks = 1 };
    struct autopsy_ranks ranks = { 0 };
    char why[200];

    at.rank[0] = LOG_MAKE_CULPRIT;
    return autopsy_grade(&at, child->answer, &ranks, why, sizeof(why)) == GRADE_RIGHT;
}

static int bench_log(struct autopsy_bench *bench, struct err *err)
{
    CLEAN(why_child_fini) struct why_child child = { 0 };
    const char *tmp = getenv("TMPDIR");
    struct path file;
    int result = path_join(&file, tmp && *tmp ? tmp : "/tmp", "lockstep-log.XXXXXX", err), fd;

    if (result < 0 || !bench->settings->size_mb)
        return result;
    fd = mkstemp(file.text);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", file.text);
    close(fd);
    bench->log_bytes = log_make(file.text, (int64_t)bench->settings->size_mb * 1000000, err);
    result = (int)MIN(bench->log_bytes, 0);
    if (result == 0) {
        bench->ceiling_seconds = log_make_ceiling(file.text, err);
        result = (int)MIN(bench->ceiling_seconds, 0);
    }
    if (result == 0)
        result = why_child_run(file.text, LOG_SECONDS, &child, err);
    unlink(file.text);
    if (result < 0)
        return result;
    bench->log_seconds = child.wall_seconds;
    bench->log_cpu_seconds = child.cpu_seconds;
    bench->peak_bytes = child.peak_bytes;
    bench->log_named = bench_named_culprit(&child);
    return 0;
}

static double bench_share(unsigned part, unsigned all)
{
    return all ? (double)part / all : 0;
}

static double bench_mb_per_s(const struct autopsy_bench *bench, double seconds)
{
    return seconds > 0 ? (double)bench->log_bytes / 1e6 / seconds : 0;
}

static bool bench_passes(const struct autopsy_bench *bench)
{
    return bench_share(bench->grade[GRADE_RIGHT], bench->answerable) >= BAR_RIGHT &&
           bench_share(bench->grade[GRADE_WRONG], bench->answerable) <= BAR_WRONG &&
           bench_share(bench->grade[GRADE_SILENT], bench->answerable) <= BAR_SILENT &&
           (!bench->settings->size_mb ||
            (bench->log_named && bench_mb_per_s(bench, bench->log_cpu_seconds) >= BAR_MB_PER_S));
}

static struct json_object *category_json(const struct category *category)
{
    struct json_object *one = json_object_new_object();

    json_object_object_add(one, "cases", json_object_new_int64(category->cases));
    for (int grade = 0; grade < GRADE_COUNT; grade++)
        json_object_object_add(one, autopsy_grade_name(grade),
                               json_object_new_int64(category->grade[grade]));
    return one;
}

static struct json_object *bench_ranks_json(const struct autopsy_ranks *ranks)
{
    struct json_object *one = json_object_new_object();

    json_object_object_add(one, "expected", json_object_new_uint64(ranks->expected));
    json_object_object_add(one, "named", json_object_new_uint64(ranks->named));
    json_object_object_add(one, "right", json_object_new_uint64(ranks->right));
    json_object_object_add(
        one, "precision",
        json_object_new_double(ranks->named ? (double)ranks->right / (double)ranks->named : 1));
    json_object_object_add(
        one, "recall",
        json_object_new_double(ranks->expected ? (double)ranks->right / (double)ranks->expected
                                               : 1));
    return one;
}

static void autopsy_print_json(const struct autopsy_bench *bench)
{
    struct json_object *root = json_object_new_object(), *table = json_object_new_object();
    struct category all = { .cases = bench->answerable };

    memcpy(all.grade, bench->grade, sizeof(all.grade));
    for (size_t i = 0; i < bench->categories; i++)
        json_object_object_add(table, bench->category[i].name, category_json(&bench->category[i]));
    json_object_object_add(root, "cases", json_object_new_uint64(bench->cases.count));
    json_object_object_add(root, "answerable", category_json(&all));
    json_object_object_add(root, "categories", table);
    json_object_object_add(root, "ranks", bench_ranks_json(&bench->ranks));
    if (bench->settings->size_mb) {
        json_object_object_add(root, "log_bytes", json_object_new_int64(bench->log_bytes));
        json_object_object_add(root, "mb_per_s",
                               json_object_new_double(bench_mb_per_s(bench, bench->log_seconds)));
        json_object_object_add(
            root, "mb_per_cpu_s",
            json_object_new_double(bench_mb_per_s(bench, bench->log_cpu_seconds)));
        json_object_object_add(
            root, "ceiling_mb_per_s",
            json_object_new_double(bench_mb_per_s(bench, bench->ceiling_seconds)));
        json_object_object_add(root, "peak_bytes", json_object_new_int64(bench->peak_bytes));
        json_object_object_add(root, "culprit_named", json_object_new_boolean(bench->log_named));
    }
    json_object_object_add(root, "passes", json_object_new_boolean(bench_passes(bench)));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void autopsy_print_text(const struct autopsy_bench *bench)
{
    printf("%-22s %6s %6s %6s %6s %6s\n", "category", "cases", "right", "vague", "silent", "wrong");
    for (size_t i = 0; i < bench->categories; i++) {
        const struct category *at = &bench->category[i];

        printf("%-22s %6u %6u %6u %6u %6u\n", at->name, at->cases, at->grade[GRADE_RIGHT],
               at->grade[GRADE_VAGUE], at->grade[GRADE_SILENT], at->grade[GRADE_WRONG]);
    }
    printf("%-22s %6u %6u %6u %6u %6u\n", "answerable", bench->answerable,
           bench->grade[GRADE_RIGHT], bench->grade[GRADE_VAGUE], bench->grade[GRADE_SILENT],
           bench->grade[GRADE_WRONG]);
    printf("right %.0f %% (limit %.0f), wrong %.0f %% (limit %.0f), silent %.0f %% (limit %.0f)\n",
           100 * bench_share(bench->grade[GRADE_RIGHT], bench->answerable), 100 * BAR_RIGHT,
           100 * bench_share(bench->grade[GRADE_WRONG], bench->answerable), 100 * BAR_WRONG,
           100 * bench_share(bench->grade[GRADE_SILENT], bench->answerable), 100 * BAR_SILENT);
    printf("ranks: %llu expected, %llu named, %llu of them right\n",
           (unsigned long long)bench->ranks.expected, (unsigned long long)bench->ranks.named,
           (unsigned long long)bench->ranks.right);
    if (bench->settings->size_mb)
        printf("log of %.0f MB: %.0f MB/s, %.0f MB per second of CPU time (limit %.0f; plain "
               "reading %.0f), peak memory %.0f MB, culprit %s\n",
               (double)bench->log_bytes / 1e6, bench_mb_per_s(bench, bench->log_seconds),
               bench_mb_per_s(bench, bench->log_cpu_seconds), BAR_MB_PER_S,
               bench_mb_per_s(bench, bench->ceiling_seconds), (double)bench->peak_bytes / 1e6,
               bench->log_named ? "named" : "not named");
}

/* DIR itself, or its half. */
static int bench_operand(struct autopsy_bench *bench, const char *directory, struct err *err)
{
    struct path table, half;
    int result = path_join(&table, directory, "cases.tsv", err);

    if (result < 0)
        return result;
    if (access(table.text, F_OK) == 0)
        return bench_directory(bench, directory, err);
    result = path_join(&half, directory, bench->settings->half, err);
    return result < 0 ? result : bench_directory(bench, half.text, err);
}

int bench_autopsy_main(int argc, char **argv)
{
    struct bench_autopsy_settings settings = { .half = "dev", .size_mb = 256 };
    int first = opt_parse(&command_bench_autopsy, argc, argv, &settings), result = 0;
    CLEAN(free_clean) struct autopsy_bench *bench = calloc(1, sizeof(*bench));
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    if (!bench)
        return 3;
    if (strcmp(settings.half, "dev") != 0 && strcmp(settings.half, "scored") != 0) {
        log_error("--half %s: expected dev or scored", settings.half);
        return 2;
    }
    bench->settings = &settings;
    snprintf(bench->scratch, sizeof(bench->scratch), "/tmp/lockstep-autopsy.XXXXXX");
    if (!mkdtemp(bench->scratch)) {
        log_error("%s: %m", bench->scratch);
        return 3;
    }
    if (first == argc && (result = bench_operand(bench, "test/recorded/logs", &err)) == -ENOENT)
        err_wrap(&err, result, "run this in the source tree, or name a directory with cases");
    for (int i = first; i < argc && result == 0; i++)
        result = bench_operand(bench, argv[i], &err);
    if (result == 0)
        result = bench_log(bench, &err);
    if (result < 0)
        log_error("%s", err.text);
    else if (settings.json)
        autopsy_print_json(bench);
    else
        autopsy_print_text(bench);
    if (result == 0)
        result = bench_passes(bench) ? 0 : 1;
    autopsy_cases_fini(&bench->cases);
    tree_remove(bench->scratch);
    return result < 0 ? 3 : result;
}
