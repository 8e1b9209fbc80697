/* plan.c - the plan file and the truth files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define PLAN_FIRST "lockstep-plan 1"
#define PLAN_BYTES (PLAN_PATH + PLAN_FAULTS * (FAULT_TEXT + 8) + 64)
#define TRUTH_LINE 160

int plan_write(const char *path, const struct fault_plan *plan, struct err *err)
{
    CLEAN(file_clean) FILE *file = fopen(path, "we");
    FILE *closing;

    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    fprintf(file, PLAN_FIRST "\n");
    if (plan->truth[0])
        fprintf(file, "truth %s\n", plan->truth);
    if (plan->nodes)
        fprintf(file, "nodes %u\n", plan->nodes);
    for (uint32_t i = 0; i < plan->count; i++) {
        char text[FAULT_TEXT];

        fault_format(&plan->fault[i], text);
        fprintf(file, "fault %s\n", text);
    }
    closing = TAKE(file);
    if (fclose(closing) != 0)
        return err_set(err, -errno, "%s: %m", path);
    return 0;
}

static int plan_line(struct fault_plan *plan, const char *line, struct err *err)
{
    if (strncmp(line, "truth ", 6) == 0) {
        if (strlen(line + 6) >= sizeof(plan->truth))
            return err_set(err, -EINVAL, "the path of truth is too long");
        strcpy(plan->truth, line + 6); /* fits: checked above */
        return 0;
    }
    if (strncmp(line, "nodes ", 6) == 0) {
        char *end;
        unsigned long nodes = line[6] >= '0' && line[6] <= '9' ? strtoul(line + 6, &end, 10) : 0;

        if (nodes < 1 || nodes > 65535 || *end != '\0')
            return err_set(err, -EINVAL, "nodes must be 1 to 65535, not '%.40s'", line + 6);
        plan->nodes = (uint32_t)nodes;
        return 0;
    }
    if (strncmp(line, "fault ", 6) != 0)
        return err_set(err, -EINVAL, "expected truth, nodes or fault, not '%.40s'", line);
    if (plan->count == PLAN_FAULTS)
        return err_set(err, -EINVAL, "more than %d faults", PLAN_FAULTS);
    return fault_parse(line + 6, &plan->fault[plan->count], err) < 0 ? -EINVAL : (plan->count++, 0);
}

int plan_parse(const char *text, size_t size, struct fault_plan *ret, struct err *err)
{
    CLEAN(free_clean) char *copy = strndup(text, size);
    CLEAN(free_clean) struct fault_plan *plan = calloc(1, sizeof(*plan));
    char *rest = copy, *line;
    unsigned number = 0;

    if (!copy || !plan)
        return err_nomem(err);
    while ((line = strsep(&rest, "\n"))) {
        int result = 0;

        if (++number == 1 && strcmp(line, PLAN_FIRST) != 0)
            return err_set(err, -EINVAL, "line 1: not a fault plan of version 1");
        if (number > 1 && line[0] != '\0')
            result = plan_line(plan, line, err);
        if (result < 0)
            return err_wrap(err, result, "line %u", number);
    }
    *ret = *plan;
    return 0;
}

int plan_read(const char *path, struct fault_plan *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEAN(free_clean) char *text = malloc(PLAN_BYTES);
    size_t size = 0;
    ssize_t got = 1;

    if (!text)
        return err_nomem(err);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    while (got > 0 && size < PLAN_BYTES) {
        got = read(fd, text + size, PLAN_BYTES - size);
        size += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (size == PLAN_BYTES)
        return err_set(err, -EINVAL, "%s: too long for a fault plan", path);
    if (plan_parse(text, size, ret, err) < 0)
        return err_wrap(err, -EINVAL, "%s", path);
    return 0;
}

struct truth {
    int fd; /* -1: nobody wants to know */
    uint32_t count;
    struct plan_deed deed[PLAN_FAULTS];
    uint64_t last_step[PLAN_FAULTS];
    bool dirty[PLAN_FAULTS];
};

int truth_open(const struct fault_plan *plan, uint32_t rank, uint32_t attempt, struct truth **ret,
               struct err *err)
{
    CLEAN(free_clean) struct truth *truth = calloc(1, sizeof(*truth));
    char path[PLAN_PATH + 48];

    if (!truth)
        return err_nomem(err);
    truth->fd = -1;
    truth->count = plan->count;
    for (uint32_t i = 0; i < plan->count; i++)
        truth->deed[i] = (struct plan_deed){
            .fault = i, .rank = rank, .attempt = attempt, .pid = (uint32_t)getpid()
        };
    memset(truth->dirty, 1,
           sizeof(truth->dirty)); /* lines of fixed length: all, or there are holes */
    if (plan->truth[0] && plan->count > 0) {
        snprintf(path, sizeof(path), "%s.rank-%u.attempt-%u", plan->truth, rank, attempt);
        truth->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (truth->fd < 0)
            return err_set(err, -errno, "%s: %m", path);
        truth_flush(truth);
    }
    *ret = TAKE(truth);
    return 0;
}

void truth_close(struct truth *truth)
{
    if (!truth)
        return;
    truth_flush(truth);
    if (truth->fd >= 0)
        close(truth->fd);
    free(truth);
}

void truth_add(struct truth *truth, uint32_t fault, uint64_t step, int64_t injected_ns)
{
    struct plan_deed *deed = &truth->deed[fault];

    if (deed->steps == 0) {
        deed->first_step = step;
        deed->first_ns = time_mono_ns();
    }
    if (deed->steps == 0 || truth->last_step[fault] != step)
        deed->steps++;
    truth->last_step[fault] = step;
    deed->injected_ns += injected_ns;
    truth->dirty[fault] = true;
}

void truth_flush(struct truth *truth)
{
    for (uint32_t i = 0; truth->fd >= 0 && i < truth->count; i++) {
        const struct plan_deed *deed = &truth->deed[i];
        char line[TRUTH_LINE + 1];

        if (!truth->dirty[i])
            continue;
        snprintf(line, sizeof(line),
                 "fault %u rank %u attempt %u step %llu steps %llu at %lld ns %lld pid %u",
                 deed->fault, deed->rank, deed->attempt, (unsigned long long)deed->first_step,
                 (unsigned long long)deed->steps, (long long)deed->first_ns,
                 (long long)deed->injected_ns, deed->pid);
        memset(line + strlen(line), ' ', sizeof(line) - strlen(line));
        line[TRUTH_LINE - 1] = '\n';
        /* A truth that cannot be written must not stop the training; the scorer misses it. */
        truth->dirty[i] = pwrite(truth->fd, line, TRUTH_LINE, (off_t)i * TRUTH_LINE) != TRUTH_LINE;
    }
}

int truth_parse(const char *line, struct plan_deed *ret)
{
    struct plan_deed deed = { 0 };
    unsigned long long step, steps;
    long long at, ns;

    if (sscanf(line, "fault %u rank %u attempt %u step %llu steps %llu at %lld ns %lld pid %u",
               &deed.fault, &deed.rank, &deed.attempt, &step, &steps, &at, &ns, &deed.pid) < 7)
        return -EINVAL;
    deed.first_step = step;
    deed.steps = steps;
    deed.first_ns = at;
    deed.injected_ns = ns;
    *ret = deed;
    return 0;
}

static size_t truth_read_file(const char *path, struct plan_deed *deed, size_t room)
{
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    char line[TRUTH_LINE + 2];
    size_t count = 0;

    while (file && count < room && fgets(line, sizeof(line), file))
        if (truth_parse(line, &deed[count]) == 0)
            count++;
    return count;
}

int truth_read(const char *path, struct plan_deed *deed, size_t room, struct err *err)
{
    CLEAN(globfree) glob_t found = { 0 };
    char pattern[PLAN_PATH + 48];
    size_t count = 0;
    int result;

    snprintf(pattern, sizeof(pattern), "%s.rank-*.attempt-*", path);
    result = glob(pattern, 0, NULL, &found);
    if (result != 0 && result != GLOB_NOMATCH)
        return err_set(err, -EIO, "%s: cannot list files", pattern);
    for (size_t i = 0; i < found.gl_pathc && count < room; i++)
        count += truth_read_file(found.gl_pathv[i], deed + count, room - count);
    return (int)count;
}
