/* slurm_text.c - fields of scontrol's texts, and lists of hosts.
 *
 * A line is a sequence of KEY=VALUE, separated by blanks.  Fields whose value a person wrote take the rest of their line, so words in
 * them are no fields; one that contains a newline can only add fields, which makes them ambiguous.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

#define HOSTS_MAX 65536
#define FIELD_MAX 4096

struct slurm_field {
    const char *name;
    bool needed;
    size_t found; /* how often */
    char value[FIELD_MAX];
};

/* ---- fields ---- */

static bool text_takes_line(const char *key, size_t size, bool of_node)
{
    static const char *const free_text[] = { "JobName", "Comment", "AdminComment", "SystemComment",
                                             "Extra",   "OS",      "Command",      "WorkDir",
                                             "StdErr",  "StdIn",   "StdOut",       "SubmitLine" };

    for (size_t i = 0; i < COUNT(free_text); i++) {
        if (strlen(free_text[i]) == size && memcmp(free_text[i], key, size) == 0)
            return true;
    }
    return of_node && size == 6 && memcmp(key, "Reason", 6) == 0;
}

static void field_take(struct slurm_field *field, size_t count, const char *key, size_t key_size,
                       const char *value, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(field[i].name) != key_size || memcmp(field[i].name, key, key_size) != 0)
            continue;
        field[i].found++;
        if (size >= FIELD_MAX) {
            field[i].found++; /* not usable, as if it were there twice */
            return;
        }
        memcpy(field[i].value, value, size);
        field[i].value[size] = '\0';
    }
}

static void field_line(struct slurm_field *field, size_t count, const char *at, const char *end,
                       bool of_node)
{
    while (at < end) {
        const char *word = at, *equals, *stop;

        while (word < end && isblank((unsigned char)*word))
            word++;
        stop = word;
        while (stop < end && !isblank((unsigned char)*stop))
            stop++;
        equals = memchr(word, '=', (size_t)(stop - word));
        if (equals && text_takes_line(word, (size_t)(equals - word), of_node))
            stop = end;
        if (equals)
            field_take(field, count, word, (size_t)(equals - word), equals + 1,
                       (size_t)(stop - equals - 1));
        at = stop;
    }
}

/* Up to the first empty line, behind which another job or node follows. */
static int fields_read(const char *text, size_t size, struct slurm_field *field, size_t count,
                       struct err *err)
{
    const char *at = text, *end = text + size;
    bool of_node = strcmp(field[0].name, "NodeName") == 0;

    if (memchr(text, '\0', size))
        return err_set(err, -EBADMSG, "scontrol printed a NUL");
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop ? stop : end;
        if (stop == at && at > text)
            break;
        field_line(field, count, at, stop, of_node);
        at = stop + 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (field[i].found > 1)
            return err_set(err, -EBADMSG,
                           "scontrol printed %s twice; it is not clear which is true",
                           field[i].name);
        if (field[i].needed && !field[i].found)
            return err_set(err, -EBADMSG, "scontrol printed no %s", field[i].name);
    }
    return 0;
}

static int field_number(const struct slurm_field *field, uint64_t most, uint64_t *ret,
                        struct err *err)
{
    char *end;
    unsigned long long value;

    if (!field->found) {
        *ret = 0;
        return 0;
    }
    errno = 0;
    value = strtoull(field->value, &end, 10);
    if (!isdigit((unsigned char)field->value[0]) || (*end && *end != '-') || errno || value > most)
        return err_set(err, -EBADMSG, "scontrol printed %s=%.40s", field->name, field->value);
    *ret = value;
    return 0;
}

/* "ada(61001)" */
static int field_user(const struct slurm_field *field, uint32_t *ret, struct err *err)
{
    const char *open = strrchr(field->value, '(');
    char *end = NULL;
    unsigned long value = open && isdigit((unsigned char)open[1]) ? strtoul(open + 1, &end, 10) : 0;

    if (!end || strcmp(end, ")") != 0 || value > UINT32_MAX)
        return err_set(err, -EBADMSG, "scontrol printed %s=%.40s", field->name, field->value);
    *ret = (uint32_t)value;
    return 0;
}

static int64_t text_time(const char *value)
{
    char *end;
    long long seconds = isdigit((unsigned char)value[0]) ? strtoll(value, &end, 10) : 0;

    return seconds > 0 && !*end && seconds < INT64_C(4102444800) ? seconds * NS_PER_S : 0;
}

static int field_copy(const struct slurm_field *field, char *ret, size_t room, struct err *err)
{
    size_t size = strlen(field->value);

    if (strcmp(field->value, "(null)") == 0)
        size = 0;
    if (size >= room)
        return err_set(err, -EBADMSG, "scontrol printed a longer %s than expected", field->name);
    memcpy(ret, field->value, size);
    ret[size] = '\0';
    return 0;
}

/* ---- jobs ---- */

enum job_field {
    JOB_ID,
    JOB_USER,
    JOB_STATE,
    JOB_REASON,
    JOB_REQUEUE,
    JOB_RESTARTS,
    JOB_BATCH,
    JOB_SUBMIT,
    JOB_ELIGIBLE,
    JOB_START,
    JOB_END,
    JOB_HOSTS,
    JOB_EXCLUDED,
    JOB_REQUESTED,
    JOB_NODES,
    JOB_BATCH_HOST,
    JOB_PREEMPT,
    JOB_FIELDS,
};

static int job_numbers(const struct slurm_field *field, struct slurm_job *job, struct err *err)
{
    uint64_t restarts = 0, nodes = 0, requeue = 0, batch = 0;
    int r = field_number(&field[JOB_ID], UINT64_MAX, &job->id, err);

    if (r == 0)
        r = field_number(&field[JOB_RESTARTS], UINT32_MAX, &restarts, err);
    if (r == 0)
        r = field_number(&field[JOB_NODES], UINT32_MAX, &nodes, err);
    if (r == 0)
        r = field_number(&field[JOB_REQUEUE], 1, &requeue, err);
    if (r == 0)
        r = field_number(&field[JOB_BATCH], UINT32_MAX, &batch, err);
    if (r == 0)
        r = field_user(&field[JOB_USER], &job->user, err);
    job->restarts = (uint32_t)restarts;
    job->nodes = (uint32_t)nodes;
    job->requeue = requeue != 0;
    job->batch = batch != 0;
    return r;
}

int slurm_job_parse(const char *text, size_t size, struct slurm_job *ret, struct err *err)
{
    static const struct {
        const char *name;
        bool needed;
    } names[JOB_FIELDS] = {
        [JOB_ID] = { "JobId", true },
        [JOB_USER] = { "UserId", true },
        [JOB_STATE] = { "JobState", true },
        [JOB_REASON] = { "Reason", false },
        [JOB_REQUEUE] = { "Requeue", false },
        [JOB_RESTARTS] = { "Restarts", false },
        [JOB_BATCH] = { "BatchFlag", false },
        [JOB_SUBMIT] = { "SubmitTime", false },
        [JOB_ELIGIBLE] = { "EligibleTime", false },
        [JOB_START] = { "StartTime", false },
        [JOB_END] = { "EndTime", false },
        [JOB_HOSTS] = { "NodeList", false },
        [JOB_EXCLUDED] = { "ExcNodeList", false },
        [JOB_REQUESTED] = { "ReqNodeList", false },
        [JOB_NODES] = { "NumNodes", false },
        [JOB_BATCH_HOST] = { "BatchHost", false },
        [JOB_PREEMPT] = { "PreemptTime", false },
    };
    CLEAN(free_clean) struct slurm_field *field = calloc(JOB_FIELDS, sizeof(*field));
    struct slurm_job job = { .id = 0 };
    int r;

    if (!field)
        return err_nomem(err);
    for (size_t i = 0; i < JOB_FIELDS; i++) {
        field[i].name = names[i].name;
        field[i].needed = names[i].needed;
    }
    if (!size)
        return err_set(err, -ENOENT, "scontrol printed no job");
    r = fields_read(text, size, field, JOB_FIELDS, err);
    if (r == 0)
        r = job_numbers(field, &job, err);
    if (r == 0)
        r = field_copy(&field[JOB_STATE], job.state, sizeof(job.state), err);
    if (r == 0)
        r = field_copy(&field[JOB_REASON], job.reason, sizeof(job.reason), err);
    if (r == 0)
        r = field_copy(&field[JOB_HOSTS], job.hosts, sizeof(job.hosts), err);
    if (r == 0)
        r = field_copy(&field[JOB_EXCLUDED], job.excluded, sizeof(job.excluded), err);
    if (r == 0)
        r = field_copy(&field[JOB_REQUESTED], job.requested, sizeof(job.requested), err);
    if (r == 0)
        r = field_copy(&field[JOB_BATCH_HOST], job.batch_host, sizeof(job.batch_host), err);
    if (r < 0)
        return r;
    job.submit_real_ns = text_time(field[JOB_SUBMIT].value);
    job.eligible_real_ns = text_time(field[JOB_ELIGIBLE].value);
    job.start_real_ns = text_time(field[JOB_START].value);
    job.preempt_real_ns = text_time(field[JOB_PREEMPT].value);
    job.end_real_ns = text_time(field[JOB_END].value);
    *ret = job;
    return 0;
}

/* ---- nodes ---- */

/* IDLE+DRAIN, or MIXED*+COMPLETING: base states and flags alike; '*' after one: the node does not respond. */
static uint32_t text_node_flags(const char *state)
{
    static const struct {
        const char *word;
        uint32_t flag;
    } words[] = {
        { "DOWN", SLURM_NODE_DOWN },
        { "DRAIN", SLURM_NODE_DRAIN },
        { "DRAINED", SLURM_NODE_DRAIN | SLURM_NODE_IDLE },
        { "DRAINING", SLURM_NODE_DRAIN | SLURM_NODE_ALLOCATED },
        { "IDLE", SLURM_NODE_IDLE },
        { "ALLOCATED", SLURM_NODE_ALLOCATED },
        { "MIXED", SLURM_NODE_ALLOCATED },
        { "COMPLETING", SLURM_NODE_COMPLETING },
        { "NOT_RESPONDING", SLURM_NODE_SILENT },
    };
    uint32_t flags = 0;

    while (*state) {
        size_t size = strcspn(state, "+"), word = size, i;

        while (word && !isupper((unsigned char)state[word - 1])) {
            flags |= state[word - 1] == '*' ? SLURM_NODE_SILENT : SLURM_NODE_OTHER;
            word--;
        }
        for (i = 0; i < COUNT(words); i++) {
            if (strlen(words[i].word) == word && memcmp(words[i].word, state, word) == 0)
                break;
        }
        flags |= i < COUNT(words) ? words[i].flag : SLURM_NODE_OTHER;
        state += size + (state[size] == '+');
    }
    return flags;
}

/* "xid 79 [root@1790000000]" */
static void text_node_reason(const char *value, struct slurm_node *node)
{
    const char *open = strrchr(value, '['), *at = open ? strchr(open, '@') : NULL;
    size_t size = strlen(value);

    if (at && size && value[size - 1] == ']') {
        char time[32];

        snprintf(time, sizeof(time), "%.*s",
                 (int)MIN((size_t)31, (size_t)(value + size - 1 - at - 1)), at + 1);
        snprintf(node->reason_user, sizeof(node->reason_user), "%.*s", (int)(at - open - 1),
                 open + 1);
        node->reason_real_ns = text_time(time);
        size = (size_t)(open - value);
        while (size && value[size - 1] == ' ')
            size--;
    }
    snprintf(node->reason, sizeof(node->reason), "%.*s", (int)size, value);
}

int slurm_node_parse(const char *text, size_t size, struct slurm_node *ret, struct err *err)
{
    CLEAN(free_clean) struct slurm_field *field = calloc(5, sizeof(*field));
    struct slurm_node node = { .flags = 0 };
    int r;

    if (!field)
        return err_nomem(err);
    field[0].name = "NodeName";
    field[1].name = "State";
    field[2].name = "Reason";
    field[3].name = "NodeAddr";
    field[4].name = "Port";
    field[0].needed = field[1].needed = true;
    if (!size)
        return err_set(err, -ENOENT, "scontrol printed no node");
    r = fields_read(text, size, field, 5, err);
    if (r == 0)
        r = field_copy(&field[3], node.address, sizeof(node.address), err);
    if (r == 0)
        r = field_copy(&field[4], node.port, sizeof(node.port), err);
    if (r == 0)
        r = field_copy(&field[0], node.name, sizeof(node.name), err);
    if (r == 0)
        r = field_copy(&field[1], node.state, sizeof(node.state), err);
    if (r == 0 && (!slurm_is_node_name(node.name) || !node.state[0]))
        r = err_set(err, -EBADMSG, "scontrol printed an invalid name or state of a node");
    if (r < 0)
        return r;
    node.flags = text_node_flags(node.state);
    text_node_reason(field[2].value, &node);
    *ret = node;
    return 0;
}

/* ---- hosts ---- */

bool slurm_is_node_name(const char *name)
{
    size_t size = strlen(name);

    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    }
    return size > 0 && size < SLURM_NAME && isalnum((unsigned char)name[0]);
}

struct hosts_walk {
    bool (*found)(void *arg, const char *name);
    void *arg;
    int count;
    bool stopped;
};

static int hosts_found(struct hosts_walk *walk, const char *name)
{
    if (!slurm_is_node_name(name))
        return -EBADMSG;
    if (walk->count == HOSTS_MAX)
        return -E2BIG;
    walk->count++;
    if (!walk->stopped && walk->found && !walk->found(walk->arg, name))
        walk->stopped = true;
    return 0;
}

/* One of "1-3,07" behind a prefix; *at ends behind it. */
static int hosts_range(struct hosts_walk *walk, const char *prefix, size_t prefix_size,
                       const char **at)
{
    unsigned long first, last;
    char *end, name[SLURM_NAME + 32];
    int width;

    if (!isdigit((unsigned char)**at))
        return -EBADMSG;
    first = last = strtoul(*at, &end, 10);
    width = (int)(end - *at);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        last = strtoul(end + 1, &end, 10);
    if (width > 10 || last < first || last - first >= HOSTS_MAX || prefix_size >= SLURM_NAME)
        return -EBADMSG;
    for (unsigned long i = first; i <= last; i++) {
        int r;

        snprintf(name, sizeof(name), "%.*s%0*lu", (int)prefix_size, prefix, width, i);
        r = hosts_found(walk, name);
        if (r < 0)
            return r;
    }
    *at = end;
    return 0;
}

static int hosts_bracket(struct hosts_walk *walk, const char *prefix, size_t prefix_size,
                         const char **at)
{
    int r;

    do {
        (*at)++; /* the bracket, then each comma */
        r = hosts_range(walk, prefix, prefix_size, at);
    } while (r == 0 && **at == ',');
    if (r < 0 || **at != ']')
        return r < 0 ? r : -EBADMSG;
    (*at)++;
    return 0;
}

int slurm_hosts_each(const char *hosts, bool (*found)(void *arg, const char *name), void *arg)
{
    struct hosts_walk walk = { .found = found, .arg = arg };
    const char *at = hosts;

    while (*at) {
        size_t size = strcspn(at, ",[");
        const char *prefix = at;
        char name[SLURM_NAME];
        int r;

        at += size;
        if (*at == '[') {
            r = hosts_bracket(&walk, prefix, size, &at);
        } else {
            snprintf(name, sizeof(name), "%.*s", (int)MIN(size, (size_t)INT32_MAX), prefix);
            r = size < sizeof(name) ? hosts_found(&walk, name) : -EBADMSG;
        }
        if (r < 0 || (*at && *at != ',') || (*at == ',' && !at[1]))
            return r < 0 ? r : -EBADMSG;
        at += *at == ',';
    }
    return walk.count;
}
