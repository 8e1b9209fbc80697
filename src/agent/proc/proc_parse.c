/* proc_parse.c - /proc and control-group texts into numbers; nothing in them is trusted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/proc.h"
#include "core/clean.h"

/* One unsigned number after blanks; false at anything else. */
static bool proc_parse_number_get(const char **at, uint64_t *ret)
{
    const char *from = *at + strspn(*at, " \t");
    char *end;

    if (!isdigit((unsigned char)*from))
        return false;
    errno = 0;
    *ret = strtoull(from, &end, 10);
    if (errno)
        return false;
    *at = end;
    return true;
}

static bool proc_word_skip(const char **at)
{
    const char *from = *at + strspn(*at, " \t");
    size_t size = strcspn(from, " \t\n");

    *at = from + size;
    return size > 0;
}

/* The name in parentheses may hold blanks, parentheses and newlines: the last ')' ends it. */
int proc_parse_stat(const char *text, struct proc_stat *ret)
{
    const char *at = strrchr(text, ')');
    uint64_t field[23] = { 0 };
    char state;

    if (!at)
        return -EPROTO;
    at++;
    at += strspn(at, " ");
    if (!isalpha((unsigned char)*at))
        return -EPROTO;
    state = *at++;
    for (int i = 4; i <= 22; i++) { /* some are negative; those are not used */
        const char *number = at;

        if (!proc_parse_number_get(&at, &field[i])) {
            at = number;
            if (!proc_word_skip(&at))
                return -EPROTO;
        }
    }
    *ret = (struct proc_stat){ .state = state,
                               .major_faults = field[12],
                               .cpu_ticks = field[14] + field[15],
                               .threads = field[20],
                               .start = field[22] };
    return 0;
}

int proc_parse_schedstat(const char *text, int64_t *cpu_ns, int64_t *run_delay_ns)
{
    uint64_t cpu, delay;

    if (!proc_parse_number_get(&text, &cpu) || !proc_parse_number_get(&text, &delay) ||
        cpu > INT64_MAX || delay > INT64_MAX)
        return -EPROTO;
    *cpu_ns = (int64_t)cpu;
    *run_delay_ns = (int64_t)delay;
    return 0;
}

static bool proc_parse_list_has(const char *list, size_t size, const char *word)
{
    size_t want = strlen(word);

    for (size_t at = 0; at < size;) {
        size_t end = at;

        while (end < size && list[end] != ',')
            end++;
        if (end - at == want && memcmp(list + at, word, want) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

/* Lines are "number:controllers:path"; no controllers is version 2. */
int proc_parse_cgroup_of(const char *text, const char *controller, struct proc_cgroup *ret)
{
    bool found = false;

    while (*text) {
        const char *line = text, *end = line + strcspn(line, "\n");
        const char *first = memchr(line, ':', (size_t)(end - line));
        const char *second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
        size_t names, path;

        text = *end ? end + 1 : end;
        if (!second || second[1] != '/')
            continue;
        names = (size_t)(second - first - 1);
        path = (size_t)(end - second - 1);
        if (names >= sizeof(ret->controllers) || path >= sizeof(ret->path))
            return -EPROTO;
        if (names > 0 ? !proc_parse_list_has(first + 1, names, controller) : found)
            continue;
        *ret = (struct proc_cgroup){ .v2 = names == 0 };
        memcpy(ret->controllers, first + 1, names);
        memcpy(ret->path, second + 1, path);
        found = true;
        if (names > 0) /* a v1 hierarchy has the limits */
            return 0;
    }
    return found ? 0 : -ENOENT;
}

int proc_parse_cgroup(const char *text, struct proc_cgroup *ret)
{
    return proc_parse_cgroup_of(text, "cpu", ret);
}

int proc_parse_oom_kill(const char *text, uint64_t *ret)
{
    for (const char *line = text; *line;) {
        const char *at = line + 9;

        if (strncmp(line, "oom_kill ", 9) == 0)
            return proc_parse_number_get(&at, ret) ? 0 : -EPROTO;
        line += strcspn(line, "\n");
        line += *line != '\0';
    }
    return -ENOENT;
}

int proc_parse_cpu_stat(const char *text, int64_t *throttled_ns)
{
    static const struct {
        const char *name;
        uint64_t unit_ns;
    } rows[] = { { "throttled_usec ", 1000 }, { "throttled_time ", 1 } };

    for (const char *line = text; *line;) {
        for (size_t i = 0; i < COUNT(rows); i++) {
            const char *at = line + strlen(rows[i].name);
            uint64_t value;

            if (strncmp(line, rows[i].name, strlen(rows[i].name)) != 0)
                continue;
            if (!proc_parse_number_get(&at, &value) || value > INT64_MAX / rows[i].unit_ns)
                return -EPROTO;
            *throttled_ns = (int64_t)(value * rows[i].unit_ns);
            return 0;
        }
        line += strcspn(line, "\n");
        line += *line != '\0';
    }
    return -ENOENT;
}

int proc_parse_nspid(const char *status, uint32_t *innermost)
{
    const char *at = strncmp(status, "NSpid:", 6) == 0 ? status : strstr(status, "\nNSpid:");
    uint64_t value, last = 0;

    if (!at)
        return -ENOENT;
    at = strchr(at, ':') + 1;
    while (proc_parse_number_get(&at, &value))
        last = value;
    if (last == 0 || last > UINT32_MAX)
        return -ENOENT;
    *innermost = (uint32_t)last;
    return 0;
}

int proc_parse_uids(const char *status, uint32_t ret[static 4])
{
    const char *at = strncmp(status, "Uid:", 4) == 0 ? status : strstr(status, "\nUid:");
    uint32_t uid[4];
    uint64_t value;

    if (!at)
        return -ENOENT;
    at = strchr(at, ':') + 1;
    for (size_t i = 0; i < COUNT(uid); i++) {
        if (!proc_parse_number_get(&at, &value) || value > UINT32_MAX)
            return -ENOENT;
        uid[i] = (uint32_t)value;
    }
    memcpy(ret, uid, sizeof(uid));
    return 0;
}
