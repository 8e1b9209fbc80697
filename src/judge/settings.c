/* settings.c - NCCL's patience with a port, and settings that slow communication.
 *
 * A setting is evidence and no cause: a job may need it.  A person sees it beside the slow transfer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/settings.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "wire/finding.h"

#define TIMEOUT_UNIT_NS INT64_C(4096) /* times 2^NCCL_IB_TIMEOUT */
#define TIMEOUT_MAX 22                /* above it is no value that NCCL passes on */
#define RETRIES_DEFAULT 7
#define SOURCE "environment"

/* The default of NCCL_IB_TIMEOUT grew with these versions. */
static const struct {
    unsigned minor; /* of NCCL 2, from it on */
    int64_t timeout;
} timeouts[] = { { 23, 20 }, { 14, 18 }, { 0, 14 } };

static const struct setting_rule {
    const char *name,
        *value; /* value: a list, separated by spaces; its items are compared as words or beginnings */
    const char *what;
    bool begins;
} rules[] = {
    { "NCCL_P2P_DISABLE", "1", "GPUs of a node do not exchange data directly", false },
    { "NCCL_SHM_DISABLE", "1", "processes of a node exchange data over the network", false },
    { "NCCL_IB_DISABLE", "1", "InfiniBand is not used", false },
    { "NCCL_NET_GDR_LEVEL", "LOC 0", "network adapters do not access GPU memory", false },
    { "NCCL_NET_GDR_READ", "0", "network adapters do not read GPU memory", false },
    { "NCCL_DMABUF_ENABLE", "0", "network adapters may not access GPU memory", false },
    { "NCCL_DEBUG", "TRACE", "NCCL logs each call", false },
    { "NCCL_SOCKET_IFNAME", "lo docker virbr veth br- cni =lo =docker",
      "this interface does not lead to other nodes", true },
    { "NCCL_NET", "Socket", "NCCL uses sockets only", false },
    { "NCCL_MAX_NCHANNELS", "1 2", "NCCL may use few channels only", false },
    { "CUDA_LAUNCH_BLOCKING", "1", "the host waits for each kernel", false },
};

static const char *settings_value(const struct setting *setting, const char *name)
{
    return strcmp(setting->name, name) == 0 ? setting->value : NULL;
}

/* "libnccl.so.2.28.9 8c1d..." is 28; -1: not a version of NCCL 2. */
static int settings_nccl_minor(const struct setting *setting)
{
    int minor;

    return strcmp(setting->name, "library") == 0 &&
                   sscanf(setting->value, "libnccl.so.2.%d", &minor) == 1
               ? minor
               : -1;
}

static int64_t settings_timeout_default(const struct setting *setting, size_t count)
{
    int64_t timeout = timeouts[0].timeout;

    for (size_t i = 0; i < count; i++) {
        int minor = settings_nccl_minor(&setting[i]);

        for (size_t j = 0; minor >= 0 && j < COUNT(timeouts); j++) {
            if ((unsigned)minor >= timeouts[j].minor) {
                timeout = MIN(timeout, timeouts[j].timeout);
                break;
            }
        }
    }
    return timeout;
}

/* The smallest value of a variable; `fallback` where nobody sets it to a number from 1 to `most`. */
static int64_t settings_smallest(const struct setting *setting, size_t count, const char *name,
                                 int64_t most, int64_t fallback)
{
    int64_t smallest = INT64_MAX;

    for (size_t i = 0; i < count; i++) {
        const char *value = settings_value(&setting[i], name);
        long number = 0;

        if (value && sscanf(value, "%9ld", &number) == 1 && number >= 1 && number <= most)
            smallest = MIN(smallest, (int64_t)number);
    }
    return smallest == INT64_MAX ? fallback : smallest;
}

int64_t settings_port_bridge_ns(const struct setting *setting, size_t count)
{
    int64_t timeout = settings_smallest(setting, count, "NCCL_IB_TIMEOUT", TIMEOUT_MAX,
                                        settings_timeout_default(setting, count));

    return (TIMEOUT_UNIT_NS << timeout) *
           settings_smallest(setting, count, "NCCL_IB_RETRY_CNT", RETRIES_DEFAULT, RETRIES_DEFAULT);
}

static bool settings_match(const struct setting_rule *rule, const char *value)
{
    for (const char *item = rule->value; *item; item += strcspn(item, " ")) {
        size_t bytes;

        item += strspn(item, " ");
        bytes = strcspn(item, " ");
        if (strncasecmp(value, item, bytes) == 0 && (rule->begins || !value[bytes]))
            return true;
    }
    return false;
}

static void settings_add(struct tracked_verdict *tracked, const struct setting *setting,
                         const char *what)
{
    struct verdict *verdict = &tracked->verdict;
    char where[FACT_NAME + 16], text[sizeof(verdict->because[0].what)];

    if (setting->node[0])
        snprintf(where, sizeof(where), "node %s", setting->node);
    else
        snprintf(where, sizeof(where), "%u ranks", setting->ranks);
    snprintf(text, sizeof(text), "%s=%s on %s: %s", setting->name, setting->value, where, what);
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        if (strcmp(verdict->because[i].what, text) == 0)
            return;
    }
    if (verdict->because_count == VERDICT_LINES)
        return; /* what was measured matters more */
    verdict_because(verdict, SOURCE, "%s", text);
    tracked->changed = true;
}

/* The value that a variable has on a node; NULL: it is not set there. */
static const char *settings_on(const struct setting *setting, size_t count, const char *node,
                               const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(setting[i].name, name) == 0 &&
            (!setting[i].node[0] || !node[0] || strcmp(setting[i].node, node) == 0))
            return setting[i].value;
    }
    return NULL;
}

/* "mlx5_0,mlx5_1:1", "=eth0", "^docker,lo": beginnings of names, whole names, or all but these. */
static bool settings_list_has(const char *list, const char *name)
{
    bool except = *list == '^', exact, found = false;

    list += except;
    exact = *list == '=';
    list += exact;
    while (*list) {
        size_t bytes = strcspn(list, ",:");

        if (bytes && strncmp(list, name, bytes) == 0 && (!exact || !name[bytes]))
            found = true;
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return found != except;
}

/* Whether NCCL uses the adapter that leads to the file servers of this node, "eth0" or "ib0 mlx5_0". */
static bool settings_shares(const struct setting *setting, size_t count,
                            const struct setting *storage)
{
    const char *off = settings_on(setting, count, storage->node, "NCCL_IB_DISABLE");
    const char *net = settings_on(setting, count, storage->node, "NCCL_NET");
    const char *adapter = strchr(storage->value, ' '), *list;
    char interface[32];

    if (adapter && !(off && strcmp(off, "1") == 0) &&
        !(net && strncasecmp(net, "Socket", sizeof("Socket")) == 0)) {
        list = settings_on(setting, count, storage->node, "NCCL_IB_HCA");
        return !list || settings_list_has(list, adapter + 1);
    }
    snprintf(interface, sizeof(interface), "%.*s", (int)strcspn(storage->value, " "),
             storage->value);
    list = settings_on(setting, count, storage->node, "NCCL_SOCKET_IFNAME");
    return list && settings_list_has(list, interface);
}

static void settings_storage(struct tracked_verdict *tracked, const struct setting *setting,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(setting[i].name, ENVIRONMENT_STORAGE) == 0 &&
            settings_shares(setting, count, &setting[i]))
            settings_add(tracked, &setting[i], "storage and NCCL share this network adapter");
    }
}

void settings_judge(struct judge_state *judge, const struct setting *setting, size_t count)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind == VERDICT_CHECKPOINT_STALL)
            settings_storage(tracked, setting, count);
        if (!tracked->open || tracked->verdict.kind != VERDICT_SYNC_STALL)
            continue;
        settings_storage(tracked, setting, count);
        for (size_t j = 0; j < count; j++) {
            for (size_t k = 0; k < COUNT(rules); k++) {
                const char *value = settings_value(&setting[j], rules[k].name);

                if (value && settings_match(&rules[k], value))
                    settings_add(tracked, &setting[j], rules[k].what);
            }
        }
    }
}
