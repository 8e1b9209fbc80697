/* line.c - a table of prefixes, tried one after the other until none fits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "core/date.h"
#include "core/time.h"
#include "wire/log_event.h"

#define HEAD 512 /* bytes in which prefixes stand */
#define RANK_MAX (1 << 20)
#define ROUNDS 12 /* prefixes of one line */

struct prefix {
    struct log_line *line;
    int64_t near_real_ns;
    const char *head; /* the beginning of the line */
    bool dated;       /* the last one was a date */
    bool any;         /* there was one before */
    bool torch;       /* "[rank3]:": what follows may name a rank in a group */
};

bool line_number(const char *at, const char *end, int64_t *ret)
{
    bool minus = false;
    int64_t value = 0;

    while (at < end && (*at == ' ' || *at == ':' || *at == '='))
        at++;
    if (at < end && *at == '-') {
        minus = true;
        at++;
    }
    if (at == end || !isdigit((unsigned char)*at))
        return false;
    for (; at < end && isdigit((unsigned char)*at) && value < INT64_C(1) << 53; at++)
        value = 10 * value + (*at - '0');
    *ret = minus ? -value : value;
    return true;
}

const char *line_find(const struct log_line *line, const char *words)
{
    return memmem(line->raw, (size_t)(line->end - line->raw), words, strlen(words));
}

int64_t line_number_after(const struct log_line *line, const char *words, int64_t otherwise)
{
    const char *at = line_find(line, words);
    int64_t value;

    return at && line_number(at + strlen(words), line->end, &value) ? value : otherwise;
}

static void prefix_rank(struct prefix *prefix, const char *digits, bool local)
{
    int64_t rank;

    if (local && prefix->line->rank != LOG_EVENT_NO_RANK && !prefix->line->local)
        return; /* the rank in the job is known */
    if (line_number(digits, digits + strspn(digits, "0123456789"), &rank) && rank < RANK_MAX) {
        prefix->line->rank = (uint32_t)rank;
        prefix->line->local = local;
    }
}

static void prefix_node(struct prefix *prefix, const char *name, size_t bytes)
{
    if (!prefix->line->node[0])
        snprintf(prefix->line->node, sizeof(prefix->line->node), "%.*s", (int)bytes, name);
}

/* "rank3", "Rank 3", "rank=3", "RANK: 3", "local_rank 3" anywhere in [text, end): where the digits begin; NULL. */
static const char *line_rank_word(const char *text, const char *end, bool *local)
{
    for (const char *at = text; at + 5 <= end; at++) {
        const char *digits = at + 4;

        if (strncasecmp(at, "rank", 4) != 0)
            continue;
        *local = at > text + 5 && strncasecmp(at - 6, "local", 5) == 0;
        digits += *digits && strchr(" :=#_-", *digits) ? 1 : 0;
        digits += *digits == ' ';
        if (digits < end && isdigit((unsigned char)*digits) &&
            !isalnum((unsigned char)digits[strspn(digits, "0123456789")]))
            return digits;
    }
    return NULL;
}

static size_t line_take_level_of_kernel(struct prefix *prefix, const char *at)
{
    size_t bytes = strcspn(at, ">");

    return at == prefix->head && *at == '<' && bytes < 5 && at[bytes] == '>' &&
                   strspn(at + 1, "0123456789") == bytes - 1
               ? bytes + 1
               : 0;
}

static size_t line_take_date(struct prefix *prefix, const char *at)
{
    int64_t real_ns = 0, boot_ns = 0;
    size_t bytes = date_read(at, prefix->near_real_ns, &real_ns, &boot_ns);

    if (!bytes)
        return 0;
    if (!prefix->line->real_ns)
        prefix->line->real_ns = real_ns;
    if (!prefix->line->boot_ns)
        prefix->line->boot_ns = boot_ns;
    prefix->dated = true;
    return bytes;
}

/* "n7 kernel:", "n7 python[1234]:" behind a date */
static size_t line_take_syslog(struct prefix *prefix, const char *at)
{
    size_t host = strcspn(at, " "), program, pid = 0;

    if (!prefix->dated || !host || host > 63 || at[host] != ' ' || strchr("[<({", *at))
        return 0;
    program = strcspn(at + host + 1, " [:");
    if (at[host + 1 + program] == '[')
        pid = strcspn(at + host + 1 + program, "]") + 1;
    if (!program || pid > 16 || at[host + 1 + program + pid] != ':' ||
        (!pid && strncmp(at + host + 1, "kernel:", 7) != 0))
        return 0;
    if (pid) {
        int64_t number;

        if (!line_number(at + host + 2 + program, at + host + 1 + program + pid - 1, &number))
            return 0;
        prefix->line->pid = (uint32_t)MIN(number, INT32_MAX);
    }
    prefix_node(prefix, at, host);
    return host + 1 + program + pid + 1;
}

/* "18506:21252 ", "(4119976) ": process and thread behind a date */
static size_t line_take_threads(struct prefix *prefix, const char *at)
{
    size_t colon = *at == ':', open = at[colon] == '(';
    size_t pid = strspn(at + colon + open, "0123456789"), all = colon + open + pid;
    int64_t number;

    if (!prefix->dated || !pid || pid > 9 || (!open && (at[all] != ':' || colon)) ||
        (open && at[all] != ')') || !line_number(at + colon + open, at + all, &number))
        return 0;
    all += 1 + (open ? 0 : strspn(at + all + 1, "0123456789"));
    if (at[all] != ' ')
        return 0;
    prefix->line->pid = (uint32_t)MIN(number, INT32_MAX);
    return all;
}

/* "stderr F ", of container runtimes */
static size_t line_take_container(struct prefix *prefix, const char *at)
{
    bool fits = strncmp(at, "stdout ", 7) == 0 || strncmp(at, "stderr ", 7) == 0;

    return prefix->dated && fits && (at[7] == 'F' || at[7] == 'P') && at[8] == ' ' ? 8 : 0;
}

static void prefix_level(struct prefix *prefix, enum line_level level)
{
    if (!prefix->line->level)
        prefix->line->level = (uint8_t)level;
}

static size_t line_take_level(struct prefix *prefix, const char *at)
{
    static const struct {
        const char *name;
        enum line_level level;
    } levels[] = { { "ERROR", LINE_ERROR },     { "WARNING", LINE_WARNING },
                   { "WARN", LINE_WARNING },    { "INFO", LINE_INFO },
                   { "CRITICAL", LINE_ERROR },  { "FATAL", LINE_ERROR },
                   { "DEBUG", LINE_INFO },      { "error", LINE_ERROR },
                   { "Warning", LINE_WARNING }, { "warning", LINE_WARNING } };

    for (size_t i = 0; i < COUNT(levels); i++) {
        size_t bytes = strlen(levels[i].name);

        if (strncmp(at, levels[i].name, bytes) != 0 || !at[bytes] || !strchr(": |]-", at[bytes]))
            continue;
        if (at[bytes] == ':') { /* a logger's name, as in "ERROR:torch.distributed.elastic:text" */
            size_t name =
                strspn(at + bytes + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_.");

            if (name && at[bytes + 1 + name] == ':')
                bytes += 1 + name;
            bytes++;
        }
        prefix_level(prefix, levels[i].level);
        return bytes;
    }
    return 0;
}

/* "[1,3]<stderr>:" of mpirun --tag-output */
static size_t line_take_mpirun(struct prefix *prefix, const char *at)
{
    size_t job = strspn(at + (*at == '['), "0123456789"), rank, all;

    if (*at != '[' || !job || at[1 + job] != ',')
        return 0;
    rank = strspn(at + 2 + job, "0123456789");
    all = 2 + job + rank;
    if (!rank || at[all] != ']' || strncmp(at + all, "]<std", 5) != 0)
        return 0;
    prefix_rank(prefix, at + 2 + job, false);
    all += strcspn(at + all, ">");
    return at[all] ? all + 1 + (at[all + 1] == ':') : 0;
}

/* "[3]<stderr>:" of horovodrun, behind a date */
static size_t line_take_horovodrun(struct prefix *prefix, const char *at)
{
    size_t rank = strspn(at + (*at == '['), "0123456789");
    const char *stream = at + 1 + rank;

    if (*at != '[' || !rank ||
        (strncmp(stream, "]<stderr>:", 10) != 0 && strncmp(stream, "]<stdout>:", 10) != 0))
        return 0;
    prefix_rank(prefix, at + 1, false);
    return 1 + rank + 10;
}

/* "0000 00:00:1753406689.867166    7257 cuda_dnn.cc:8579": absl before it is set up, with the seconds since 1970 */
static bool line_epoch(const char *at, const char *end, int64_t *real_ns)
{
    static const char head[] = "0000 00:00:";
    int64_t seconds = 0;
    size_t digits;

    if ((size_t)(end - at) < sizeof(head) + 12 || strncmp(at, head, sizeof(head) - 1) != 0)
        return false;
    at += sizeof(head) - 1;
    digits = strspn(at, "0123456789");
    if (digits < 9 || digits > 10 || at[digits] != '.')
        return false;
    for (size_t i = 0; i < digits; i++)
        seconds = 10 * seconds + (at[i] - '0');
    *real_ns = seconds * NS_PER_S;
    return true;
}

/* "E1118 02:14:50.123 ProcessGroupNCCL.cpp:607", "E ProcessGroupNCCL.cpp:474": glog's, to its "]" */
static bool line_glog_fits(struct prefix *prefix, const char *at, const char *end)
{
    int64_t real_ns = 0, boot_ns = 0;
    const char *source = at + 1;
    enum line_level level;

    if (!strchr("IWEFCVD", *at))
        return false;
    level = strchr("IVD", *at) ? LINE_INFO : *at == 'W' ? LINE_WARNING : LINE_ERROR;
    if (line_epoch(at + 1, end, &real_ns)) {
        if (!prefix->line->real_ns)
            prefix->line->real_ns = real_ns;
        prefix_level(prefix, level);
        return true;
    }
    if (isdigit((unsigned char)at[1])) {
        if (!date_read(at + 1, prefix->near_real_ns, &real_ns, &boot_ns) || !real_ns)
            return false;
        if (!prefix->line->real_ns)
            prefix->line->real_ns = real_ns;
        prefix_level(prefix, level);
        return true;
    }
    if (*source != ' ' || !memmem(source, (size_t)(end - source), ".cpp:", 5))
        return false;
    prefix_level(prefix, level);
    return true;
}

/* "[PG ID 3 PG GUID 7(tp) Rank 1]": the rank in that group, which is the one in the job only in the default group. */
static void prefix_group_rank(struct prefix *prefix, const char *at, const char *end,
                              const char *rank)
{
    bool is_default = strncmp(at, "PG 0", 4) == 0 || strncmp(at, "PG ID 0", 7) == 0 ||
                      memmem(at, (size_t)(end - at), "default_pg", 10);

    if (is_default && prefix->line->rank == LOG_EVENT_NO_RANK)
        prefix_rank(prefix, rank, false);
}

/* What may stand in brackets before a message.  `end` is the closing one. */
static bool line_bracket_fits(struct prefix *prefix, const char *at, const char *end)
{
    int64_t real_ns = 0, boot_ns = 0;
    bool local = false;
    const char *rank = line_rank_word(at, end, &local);
    size_t bytes = (size_t)(end - at), digits;

    if (rank && strncmp(at, "PG ", 3) == 0) {
        prefix_group_rank(prefix, at, end, rank);
        return true;
    }
    if (rank && *at == 'R' && prefix->torch)
        return true;
    if (rank) {
        prefix->torch = strncmp(at, "rank", 4) == 0 && rank == at + 4;
        prefix_rank(prefix, rank, local);
        return true;
    }
    if (strncmp(at, "default", 7) == 0 && strspn(at + 7, "0123456789") == bytes - 7) {
        prefix_rank(prefix, at + 7, true);
        return true;
    }
    if (strncmp(at, "pod/", 4) == 0) {
        prefix_node(prefix, at + 4, MIN(strcspn(at + 4, "/]"), (size_t)63));
        return true;
    }
    if (strncmp(at, "worker", 6) == 0) {
        digits = 6 + (strchr("-_ ", at[6]) != NULL && at[6]);
        if (bytes > digits && strspn(at + digits, "0123456789") == bytes - digits) {
            prefix_rank(prefix, at + digits, false);
            return true;
        }
    }
    if (line_glog_fits(prefix, at, end) || line_take_level(prefix, at) == bytes)
        return true;
    if ((*at == 'T' || *at == 'C') && strspn(at + 1, "0123456789") == bytes - 1 && bytes > 1)
        return true; /* the kernel's thread or cpu */
    if (memmem(at, bytes, ".py:", 4))
        return true;
    if (!date_read(at, prefix->near_real_ns, &real_ns, &boot_ns) || !real_ns)
        return false;
    if (!prefix->line->real_ns)
        prefix->line->real_ns = real_ns;
    return true;
}

static size_t line_take_bracket(struct prefix *prefix, const char *at)
{
    size_t blanks, bytes = strcspn(at, "]");

    if (*at != '[' || at[bytes] != ']' || bytes > 160)
        return 0;
    blanks = 1 + strspn(at + 1, " ");
    if (blanks >= bytes || !line_bracket_fits(prefix, at + blanks, at + bytes))
        return 0;
    bytes++;
    return bytes + (at[bytes] == ':');
}

static size_t line_take_glog(struct prefix *prefix, const char *at)
{
    size_t bytes = strcspn(at, "]");

    return *at && strspn(at + 1, "0123456789") >= 3 && at[bytes] == ']' && bytes < 160 &&
                   line_glog_fits(prefix, at, at + bytes)
               ? bytes + 1
               : 0;
}

/* "(RayTrainWorker pid=1234, ip=10.0.0.7) " */
static size_t line_take_ray(struct prefix *prefix, const char *at)
{
    size_t bytes = strcspn(at, ")");
    const char *pid, *ip, *rank;
    bool local = false;
    int64_t number;

    if (*at != '(' || at[bytes] != ')' || bytes > 120)
        return 0;
    pid = memmem(at, bytes, "pid=", 4);
    if (!pid || !line_number(pid + 4, at + bytes, &number))
        return 0;
    prefix->line->pid = (uint32_t)MIN(number, INT32_MAX);
    ip = memmem(at, bytes, "ip=", 3);
    if (ip)
        prefix_node(prefix, ip + 3, MIN(strcspn(ip + 3, ",)"), (size_t)63));
    rank = line_rank_word(at, at + bytes, &local);
    if (rank)
        prefix_rank(prefix, rank, local);
    return bytes + 1;
}

/* " 3: " of srun --label, at the very beginning */
static size_t line_take_srun(struct prefix *prefix, const char *at)
{
    size_t blanks = strspn(at, " "), digits = strspn(at + blanks, "0123456789");

    if (at != prefix->head || prefix->any || !digits || digits > 7 || blanks > 6 ||
        at[blanks + digits] != ':' || at[blanks + digits + 1] != ' ')
        return 0;
    prefix_rank(prefix, at + blanks, false);
    return blanks + digits + 1;
}

/* "worker-3  | text" of docker compose, at the very beginning */
static size_t line_take_compose(struct prefix *prefix, const char *at)
{
    size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    size_t blanks = strspn(at + name, " ");
    const char *worker, *digits;

    if (at != prefix->head || name < 3 || name > 63 || !blanks ||
        strncmp(at + name + blanks, "| ", 2) != 0)
        return 0;
    digits = at + name;
    while (digits > at && isdigit((unsigned char)digits[-1]))
        digits--;
    worker = memmem(at, name, "worker", 6);
    if (worker && digits < at + name && digits - worker <= 7)
        prefix_rank(prefix, digits, false);
    else
        prefix_node(prefix, at, name);
    return name + blanks + 1;
}

/* "8de2ca81 || text": the container, behind a date */
static size_t line_take_container_id(struct prefix *prefix, const char *at)
{
    size_t digits = strspn(at, "0123456789abcdef");

    return prefix->dated && digits >= 8 && digits <= 64 && strncmp(at + digits, " || ", 4) == 0
               ? digits + 3
               : 0;
}

/* "host:pid:tid [dev] NCCL "; the message begins with NCCL */
static size_t line_take_nccl(struct prefix *prefix, const char *at)
{
    size_t host = strcspn(at, " :"), pid, tid, all;
    int64_t number;

    if (!host || host > 63 || at[host] != ':')
        return 0;
    pid = strspn(at + host + 1, "0123456789");
    all = host + 1 + pid;
    if (!pid || at[all] != ':')
        return 0;
    tid = strspn(at + all + 1, "0123456789");
    all += 1 + tid;
    if (!tid || strncmp(at + all, " [", 2) != 0)
        return 0;
    all += strcspn(at + all, "]");
    if (strncmp(at + all, "] ", 2) != 0 || !line_number(at + host + 1, at + all, &number))
        return 0;
    prefix->line->pid = (uint32_t)MIN(number, INT32_MAX);
    prefix_node(prefix, at, host);
    return all + 1;
}

/* "rank 3: ", "Rank3 | ", "rank=3 " */
static size_t line_take_rank(struct prefix *prefix, const char *at)
{
    bool local = false;
    const char *digits = NULL;
    size_t all;

    if (strncasecmp(at, "rank", 4) == 0)
        digits = line_rank_word(at, at + MIN(strlen(at), (size_t)14), &local);
    else if (strncasecmp(at, "--local_rank", 12) == 0 || strncasecmp(at, "local_rank", 10) == 0)
        digits = line_rank_word(at, at + MIN(strlen(at), (size_t)24), &local);
    if (!digits || digits - at > 15)
        return 0;
    all = (size_t)(digits - at) + strspn(digits, "0123456789");
    if (at[all] != ':' && at[all] != '|' && at[all] != ']' && strncmp(at + all, " |", 2) != 0 &&
        strncmp(at + all, " - ", 3) != 0 && digits[-1] != '=')
        return 0;
    prefix_rank(prefix, digits, local);
    return all + (at[all] == ':');
}

/* "10.3.35.83: " of pdsh, at the very beginning; "10.164.0.29 [3] " of PyTorch/XLA behind a date: address and worker */
static size_t line_take_address(struct prefix *prefix, const char *at)
{
    size_t bytes = 0, worker;

    for (int part = 0; part < 4; part++) {
        size_t digits = strspn(at + bytes, "0123456789");

        if (!digits || digits > 3 || (part < 3 && at[bytes + digits] != '.'))
            return 0;
        bytes += digits + (part < 3);
    }
    if (at == prefix->head && strncmp(at + bytes, ": ", 2) == 0) {
        prefix_node(prefix, at, bytes);
        return bytes + 1;
    }
    worker = strncmp(at + bytes, " [", 2) == 0 ? strspn(at + bytes + 2, "0123456789") : 0;
    if (!prefix->dated || !worker || at[bytes + 2 + worker] != ']')
        return 0;
    prefix_node(prefix, at, bytes);
    return bytes + 2 + worker + 1;
}

/* "node07: " of pdsh and clush, at the very beginning: letters and digits, digits last */
static size_t line_take_node(struct prefix *prefix, const char *at)
{
    static const char *const others[] = {
        "python", "gcc", "g++", "clang", "ptxas", "cuda", "libc"
    };
    size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (at != prefix->head || name < 2 || name > 40 || at[name] != ':' || at[name + 1] != ' ' ||
        !isalpha((unsigned char)*at) || !isdigit((unsigned char)at[name - 1]))
        return 0;
    for (size_t i = 0; i < COUNT(others); i++) {
        if (strncasecmp(at, others[i], strlen(others[i])) == 0)
            return 0;
    }
    if (strncasecmp(at, "rank", 4) == 0 || memchr(at, '.', name))
        return 0;
    prefix_node(prefix, at, name);
    return name + 1;
}

/* "  what():  ", before the text of a C++ exception; "Uncaught ", before the name of one of Python */
static size_t line_take_what(struct prefix *prefix, const char *at)
{
    size_t blanks = strspn(at, " ");

    if (strncmp(at + blanks, "what():", 7) == 0)
        return blanks + 7;
    (void)prefix;
    return strncmp(at, "Uncaught ", 9) == 0 && isupper((unsigned char)at[9]) ? 8 : 0;
}

/* "- ", "| ", "|| " between fields */
static size_t line_take_bar(struct prefix *prefix, const char *at)
{
    if (prefix->any && strncmp(at, "|| ", 3) == 0)
        return 2;
    return ((prefix->any && *at == '-') || *at == '|') && at[1] == ' ' ? 1 : 0;
}

/* "W tensorflow/core/...cc:61] ", behind a date */
static size_t line_take_tensorflow(struct prefix *prefix, const char *at)
{
    size_t colon = strncmp(at, ": ", 2) == 0 ? 2 : 0, bytes;

    at += colon;
    bytes = strcspn(at, "]");
    if (!prefix->dated || !*at || !strchr("IWEF", *at) || at[1] != ' ' || bytes > 160 ||
        at[bytes] != ']' ||
        (strncmp(at + 2, "tensorflow/", 11) != 0 && strncmp(at + 2, "external/", 9) != 0))
        return 0;
    prefix_level(prefix, *at == 'I' ? LINE_INFO : *at == 'W' ? LINE_WARNING : LINE_ERROR);
    return colon + bytes + 1;
}

static size_t (*const prefixes[])(struct prefix *prefix, const char *at) = {
    line_take_level_of_kernel,
    line_take_date,
    line_take_syslog,
    line_take_threads,
    line_take_container,
    line_take_mpirun,
    line_take_horovodrun,
    line_take_bracket,
    line_take_glog,
    line_take_tensorflow,
    line_take_ray,
    line_take_srun,
    line_take_nccl,
    line_take_rank,
    line_take_address,
    line_take_node,
    line_take_compose,
    line_take_container_id,
    line_take_level,
    line_take_what,
    line_take_bar,
};

/* The bytes of one prefix at `at`, or behind blanks there; 0: none. */
static size_t prefix_take(struct prefix *prefix, const char *at)
{
    size_t blanks = prefix->any ? strspn(at, " ") : 0;
    bool dated = prefix->dated;

    for (size_t i = 0; i < COUNT(prefixes); i++) {
        size_t bytes;

        prefix->dated = dated;
        bytes = prefixes[i](prefix, at + blanks);
        if (bytes) {
            prefix->dated = prefixes[i] == line_take_date || prefixes[i] == line_take_glog;
            return blanks + bytes;
        }
    }
    return 0;
}

static const char *prefix_take_all(struct prefix *prefix, const char *at)
{
    for (int round = 0; round < ROUNDS && *at; round++) {
        size_t bytes = prefix_take(prefix, at);

        if (!bytes)
            break;
        at += bytes;
        prefix->any = true;
    }
    return at;
}

/* "[rank3]:" of torch or "[rank=3] ||" behind what no prefix knows, such as a progress bar or the line number of a viewer;
 * NULL.
 */
static const char *line_label(const char *at)
{
    for (; (at = strstr(at, "[rank")); at++) {
        const char *digits = at + 5 + (at[5] == '=');
        const char *end = digits + strspn(digits, "0123456789");

        if (end > digits && (strncmp(end, "]:", 2) == 0 || strncmp(end, "] ||", 4) == 0))
            return at;
    }
    return NULL;
}

void line_read(struct log_line *line, const char *raw, const char *end, int64_t near_real_ns)
{
    char head[HEAD + 1];
    struct prefix prefix = { .line = line, .near_real_ns = near_real_ns, .head = head };
    const char *at = head, *label;

    while (end > raw && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    *line = (struct log_line){ .raw = raw,
                               .end = MIN(end, raw + LINE_MAX_BYTES),
                               .rank = LOG_EVENT_NO_RANK };
    memcpy(head, raw, MIN((size_t)(line->end - raw), (size_t)HEAD));
    head[MIN((size_t)(line->end - raw), (size_t)HEAD)] = '\0';
    at = prefix_take_all(&prefix, at);
    label = line->rank == LOG_EVENT_NO_RANK ? line_label(at) : NULL;
    if (label) {
        prefix.any = true;
        at = prefix_take_all(&prefix, label);
    }
    if (prefix.any && *at == ' ')
        at++;
    line->text = raw + (at - head);
}
