/* host_list.c - expands lists of hosts, within bounds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/host_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"

#define TOPOLOGY_BYTES (4u << 20)
#define DIGITS_MAX 9

void host_list_fini(struct host_names *list)
{
    free(list->host);
    *list = (struct host_names){ .host = NULL };
}

static int host_add(struct host_names *list, const char *name, struct err *err)
{
    if (!name[0])
        return err_set(err, -EINVAL, "an empty name in a list of hosts");
    if (list->count == HOST_LIST_MAX)
        return err_set(err, -E2BIG, "more than %d hosts", HOST_LIST_MAX);
    if (!ARRAY_FIT(list->host, list->room, list->count + 1))
        return err_nomem(err);
    snprintf(list->host[list->count++], HOST_NAME, "%s", name);
    return 0;
}

/* ---- one item: NAME, or NAME[FROM-TO,...]REST ---- */

struct host_item {
    char before[HOST_NAME], after[HOST_NAME];
};

static size_t host_digits(const char *at, const char *end)
{
    size_t count = 0;

    while (at + count < end && isdigit((unsigned char)at[count]))
        count++;
    return count;
}

static int host_range_add(const struct host_item *item, const char *at, const char *end,
                          struct host_names *list, struct err *err)
{
    size_t digits = host_digits(at, end), more = 0;
    unsigned long from, to;
    int result = 0;

    if (!digits || digits > DIGITS_MAX)
        return err_set(err, -EINVAL, "expected numbers in brackets, as in gpu[1-8,12]");
    from = to = strtoul(at, NULL, 10);
    if (at + digits < end && at[digits] == '-') {
        more = host_digits(at + digits + 1, end);
        if (!more || more > DIGITS_MAX)
            return err_set(err, -EINVAL, "expected a number behind '-' in brackets");
        to = strtoul(at + digits + 1, NULL, 10);
        more++;
    }
    if (at + digits + more != end || to < from)
        return err_set(err, -EINVAL, "expected numbers in brackets, as in gpu[1-8,12]");
    for (unsigned long number = from; number <= to && result == 0; number++) {
        char name[2 * HOST_NAME + DIGITS_MAX + 2];

        if (snprintf(name, sizeof(name), "%s%0*lu%s", item->before, (int)digits, number,
                     item->after) >= HOST_NAME)
            return err_set(err, -EINVAL, "a host name is too long");
        result = host_add(list, name, err);
    }
    return result;
}

static int host_item_add(const char *at, const char *end, struct host_names *list, struct err *err)
{
    const char *open = memchr(at, '[', (size_t)(end - at)), *close;
    struct host_item item = { "", "" };
    int result = 0;

    if (end - at >= HOST_NAME)
        return err_set(err, -EINVAL, "a host name is too long");
    /* "[::1]:9000" is an address. */
    close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
    if (!open || (close && memchr(open, ':', (size_t)(close - open)))) {
        memcpy(item.before, at, (size_t)(end - at));
        return host_add(list, item.before, err);
    }
    if (!close || memchr(close, '[', (size_t)(end - close)))
        return err_set(err, -EINVAL, "expected one pair of brackets in a name");
    memcpy(item.before, at, (size_t)(open - at));
    memcpy(item.after, close + 1, (size_t)(end - close - 1));
    for (const char *part = open + 1; part <= close && result == 0;) {
        const char *stop = memchr(part, ',', (size_t)(close - part));

        stop = stop ? stop : close;
        result = host_range_add(&item, part, stop, list, err);
        part = stop + 1;
    }
    return result;
}

int host_list_parse(const char *text, size_t size, struct host_names *list, struct err *err)
{
    const char *end = text + size;
    int result = 0;

    if (memchr(text, '\0', size))
        return err_set(err, -EINVAL, "a list of hosts with a zero byte");
    for (const char *at = text; result == 0;) {
        const char *stop = at;
        bool inside = false;

        for (; stop < end && (inside || *stop != ','); stop++)
            inside = *stop == '[' ? true : *stop == ']' ? false : inside;
        result = host_item_add(at, stop, list, err);
        if (stop == end)
            break;
        at = stop + 1;
    }
    return result;
}

/* ---- topology.conf ---- */

void topology_fini(struct topology *topology)
{
    for (size_t i = 0; i < topology->count; i++) {
        host_list_fini(&topology->list[i].nodes);
        host_list_fini(&topology->list[i].switches);
    }
    free(topology->list);
    *topology = (struct topology){ .list = NULL };
}

/* The value of KEY= in a line; keys are separated by blanks. */
static bool host_topology_value(const char *line, const char *end, const char *key,
                                const char **ret, size_t *size)
{
    size_t length = strlen(key);

    for (const char *at = line; at < end;) {
        const char *stop = at;

        while (stop < end && !isspace((unsigned char)*stop))
            stop++;
        if ((size_t)(stop - at) > length && at[length] == '=' &&
            strncasecmp(at, key, length) == 0) {
            *ret = at + length + 1;
            *size = (size_t)(stop - *ret);
            return true;
        }
        for (at = stop; at < end && isspace((unsigned char)*at); at++)
            ;
    }
    return false;
}

static int host_topology_line(const char *line, const char *end, struct topology *topology,
                              struct err *err)
{
    const char *comment = memchr(line, '#', (size_t)(end - line)), *value;
    struct topology_switch *one;
    size_t size;
    int result = 0;

    end = comment ? comment : end;
    if (!host_topology_value(line, end, "SwitchName", &value, &size))
        return 0;
    if (!size || size >= sizeof(one->name))
        return err_set(err, -EINVAL, "expected SwitchName= with a name of at most 63 characters");
    if (!ARRAY_FIT(topology->list, topology->room, topology->count + 1))
        return err_nomem(err);
    one = &topology->list[topology->count++];
    *one = (struct topology_switch){ .name = "" };
    memcpy(one->name, value, size);
    if (host_topology_value(line, end, "Nodes", &value, &size))
        result = host_list_parse(value, size, &one->nodes, err);
    if (result == 0 && host_topology_value(line, end, "Switches", &value, &size))
        result = host_list_parse(value, size, &one->switches, err);
    topology->hosts += one->nodes.count + one->switches.count;
    if (result == 0 && topology->hosts > HOST_LIST_MAX)
        result = err_set(err, -E2BIG, "more than %d hosts and switches in all", HOST_LIST_MAX);
    return result;
}

int topology_parse(const char *text, size_t size, struct topology *ret, struct err *err)
{
    struct topology topology = { .list = NULL };
    const char *end = text + size;
    unsigned number = 1;
    int result = memchr(text, '\0', size) ? err_set(err, -EINVAL, "a zero byte") : 0;

    for (const char *line = text; line < end && result == 0; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));

        stop = stop ? stop : end;
        result = host_topology_line(line, stop, &topology, err);
        if (result < 0)
            err_wrap(err, result, "line %u", number);
        line = stop + 1;
    }
    if (result < 0) {
        topology_fini(&topology);
        return result;
    }
    *ret = topology;
    return 0;
}

int topology_read(const char *path, struct topology *ret, struct err *err)
{
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    CLEAN(free_clean) char *text = malloc(TOPOLOGY_BYTES + 1);
    size_t size;
    int result;

    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    if (!text)
        return err_nomem(err);
    size = fread(text, 1, TOPOLOGY_BYTES + 1, file);
    if (ferror(file) || size > TOPOLOGY_BYTES)
        return err_set(err, -EINVAL, "%s: cannot be read, or is larger than 4 MiB", path);
    result = topology_parse(text, size, ret, err);
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

const char *topology_leaf(const struct topology *topology, const char *host)
{
    for (size_t i = 0; i < topology->count; i++) {
        const struct host_names *nodes = &topology->list[i].nodes;

        for (uint32_t n = 0; n < nodes->count; n++) {
            if (strcmp(nodes->host[n], host) == 0)
                return topology->list[i].name;
        }
    }
    return NULL;
}

const char *topology_spine(const struct topology *topology)
{
    const char *spine = NULL;

    for (size_t i = 0; i < topology->count; i++) {
        if (!topology->list[i].switches.count)
            continue;
        if (spine)
            return "spine";
        spine = topology->list[i].name;
    }
    return spine ? spine : "spine";
}
