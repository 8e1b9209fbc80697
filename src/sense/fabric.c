/* fabric.c - network ports: InfiniBand and Ethernet, state and error counters.
 *
 * A port that was never up, or that carried no data in the minutes before, is not in use: what happens to it is noted and no
 * fault.  One that goes down is reported at once, and again with its duration when it is back: whether a job survives that
 * depends on the job's settings (judge/settings.h).  Ports come and go: one that is gone is down.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "sense/trend.h"
#include "wire/decision.h"

#define PORTS_MAX 64
#define LIST_READS 10              /* reads after which ports are looked for again */
#define FLAPS 3                    /* losses ... */
#define FLAPS_NS (3600 * NS_PER_S) /* ... in so long a time foretell more */
#define USED_BYTES (1 << 20)       /* sent since the last read: somebody uses the port */
#define USED_NS (300 * NS_PER_S)   /* for so long after that */

/* What counts as an error of a port, and from how many on in one read. */
static const struct port_counter {
    const char *file;
    const char *what;
    uint32_t least;
    uint8_t severity;
} ib_counters[] = {
    { "counters/link_downed", "link losses", 1, FINDING_ERROR },
    { "counters/link_error_recovery", "link recoveries", 1, FINDING_WARN },
    { "counters/symbol_error", "symbol errors", 100, FINDING_WARN },
    { "counters/port_rcv_errors", "damaged packets", 10, FINDING_WARN },
    { "counters/local_link_integrity_errors", "link integrity errors", 1, FINDING_WARN },
    { "counters/excessive_buffer_overrun_errors", "buffer overruns", 1, FINDING_WARN },
    { "hw_counters/local_ack_timeout_err", "acknowledge timeouts", 1, FINDING_WARN },
    { "hw_counters/packet_seq_err", "lost packets", 100, FINDING_WARN },
    { "hw_counters/rnr_nak_retry_err", "receivers that were not ready", 1, FINDING_WARN },
    { "hw_counters/req_cqe_error", "failed work requests", 10, FINDING_WARN },
}, net_counters[] = {
    { "carrier_down_count", "link losses", 1, FINDING_ERROR },
    { "statistics/rx_crc_errors", "damaged packets", 10, FINDING_WARN },
    { "statistics/rx_errors", "receive errors", 100, FINDING_WARN },
    { "statistics/tx_errors", "send errors", 10, FINDING_WARN },
};

#define COUNTERS_MAX COUNT(ib_counters)

struct port {
    char name[48], folder[96];
    bool infiniband, was_up, virtual;
    int64_t rate; /* the best seen: Gb/s or Mb/s */
    struct tree_counter sent;
    int64_t used_ns;        /* when it carried data */
    bool sent_unknown;      /* no counter: it may be in use */
    struct finding down;    /* id "": it is not down */
    int64_t lost_ns[FLAPS]; /* when it went down, the newest last; 0: not so often yet */
    struct tree_counter counter[COUNTERS_MAX];
};

struct fabric {
    struct tree tree;
    struct port port[PORTS_MAX];
    size_t ports;
    unsigned reads;
    char device[32]; /* whose ports are listed */
    const struct sense_now *now;
    struct sense_report *report;
};

static void port_ignore(void *user, const char *name)
{
    (void)user;
    (void)name;
}

static void port_add(struct fabric *fabric, bool infiniband, const char *name, const char *folder)
{
    struct port *port = &fabric->port[fabric->ports];
    char physical[128];

    for (size_t i = 0; i < fabric->ports; i++) {
        if (strcmp(fabric->port[i].folder, folder) == 0)
            return;
    }
    if (fabric->ports == PORTS_MAX || strlen(name) >= sizeof(port->name) ||
        strlen(folder) >= sizeof(port->folder))
        return;
    *port = (struct port){ .infiniband = infiniband };
    snprintf(port->name, sizeof(port->name), "%s", name);
    snprintf(port->folder, sizeof(port->folder), "%s", folder);
    snprintf(physical, sizeof(physical), "%s/device/physfn", folder);
    port->virtual = !infiniband && tree_list(&fabric->tree, physical, port_ignore, NULL) >= 0;
    fabric->ports++;
}

static void ib_port(void *user, const char *name)
{
    struct fabric *fabric = user;
    char full[64], folder[128];

    snprintf(full, sizeof(full), "%.31s/%.16s", fabric->device, name);
    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%.31s/ports/%.16s", fabric->device,
             name);
    port_add(fabric, true, full, folder);
}

static void fabric_ib_device(void *user, const char *name)
{
    struct fabric *fabric = user;
    char folder[96];

    if (strlen(name) >= sizeof(fabric->device))
        return;
    snprintf(fabric->device, sizeof(fabric->device), "%s", name);
    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports", name);
    tree_list(&fabric->tree, folder, ib_port, fabric);
}

/* Only interfaces with a device of their own: not bridges, not those of containers. */
static void fabric_net_interface(void *user, const char *name)
{
    struct fabric *fabric = user;
    char folder[128], text[64];

    snprintf(folder, sizeof(folder), "/sys/class/net/%.31s", name);
    if (tree_read(&fabric->tree, text, sizeof(text), "%s/device/vendor", folder) > 0)
        port_add(fabric, false, name, folder);
}

static void fabric_list(struct fabric *fabric)
{
    tree_list(&fabric->tree, "/sys/class/infiniband", fabric_ib_device, fabric);
    tree_list(&fabric->tree, "/sys/class/net", fabric_net_interface, fabric);
}

static int fabric_open(const struct sense_place *place, void **state, struct err *err)
{
    struct fabric *fabric = calloc(1, sizeof(*fabric));

    if (!fabric)
        return err_nomem(err);
    fabric->tree.root = place->root;
    fabric_list(fabric);
    if (!fabric->ports) {
        free(fabric);
        return err_set(err, -ENODEV, "/sys/class/infiniband, /sys/class/net: no port");
    }
    *state = fabric;
    return 0;
}

/* 1 up, 0 down, -1 not known. */
static int port_is_up(const struct fabric *fabric, const struct port *port)
{
    char text[64];

    if (port->infiniband) {
        if (tree_read(&fabric->tree, text, sizeof(text), "%s/state", port->folder) <= 0)
            return -1;
        return text[0] == '4'; /* "4: ACTIVE" */
    }
    if (tree_read(&fabric->tree, text, sizeof(text), "%s/carrier", port->folder) <= 0)
        return -1; /* an interface that is set down has none */
    return text[0] == '1';
}

static bool port_is_gone(const struct fabric *fabric, const struct port *port)
{
    char text[64];

    return tree_read(&fabric->tree, text, sizeof(text),
                     port->infiniband ? "%s/state" : "%s/operstate", port->folder) == -ENOENT &&
           tree_read(&fabric->tree, text, sizeof(text), "%s/uevent", port->folder) == -ENOENT &&
           tree_list(&fabric->tree, port->folder, port_ignore, NULL) == -ENOENT;
}

static void port_traffic(struct fabric *fabric, struct port *port)
{
    int64_t value, unit = port->infiniband ? 4 : 1; /* words, bytes */

    if (!tree_number(&fabric->tree, &value,
                     port->infiniband ? "%s/counters/port_xmit_data" : "%s/statistics/tx_bytes",
                     port->folder)) {
        port->sent_unknown = !port->sent.known; /* of one that is gone it was known */
        return;
    }
    port->sent_unknown = false;
    if (tree_counter_grown(&port->sent, value) * unit >= USED_BYTES)
        port->used_ns = fabric->now->mono_ns;
}

static bool port_is_used(const struct fabric *fabric, const struct port *port)
{
    return port->sent_unknown || (port->used_ns && fabric->now->mono_ns - port->used_ns < USED_NS);
}

/* A leading indicator: links that fail again and again. */
static void port_flaps(struct fabric *fabric, struct port *port)
{
    int64_t now_ns = fabric->now->mono_ns, first_ns, each_ns;
    struct finding finding;

    memmove(port->lost_ns, port->lost_ns + 1, sizeof(port->lost_ns) - sizeof(*port->lost_ns));
    port->lost_ns[FLAPS - 1] = now_ns;
    first_ns = port->lost_ns[0];
    if (!first_ns || now_ns - first_ns > FLAPS_NS || !port_is_used(fabric, port))
        return;
    each_ns = (now_ns - first_ns) / (FLAPS - 1);
    finding = sense_finding(
        fabric->now, FINDING_PORT, FINDING_CLASS_FABRIC, FINDING_INFO, port->name,
        "port %s went down %d times in %lld s; forecast: again in about %lld s", port->name, FLAPS,
        (long long)((now_ns - first_ns) / NS_PER_S), (long long)(each_ns / NS_PER_S));
    finding.code = TREND_CODE;
    finding.action = ACTION_INSPECT;
    sense_report(fabric->report, &finding, 0);
}

static void port_down(struct fabric *fabric, struct port *port, const char *how)
{
    if (port->down.id[0])
        return;
    port_flaps(fabric, port);
    port->down = sense_finding(fabric->now, FINDING_PORT, FINDING_CLASS_FABRIC,
                               port_is_used(fabric, port) ? FINDING_ERROR : FINDING_INFO,
                               port->name, "port %s is %s%s", port->name, how,
                               port_is_used(fabric, port) ? "" : ", which carried no data");
    port->down.code = FINDING_PORT_DOWN;
    port->down.action = ACTION_INSPECT;
    sense_report(fabric->report, &port->down, 0);
}

static void port_up_again(struct fabric *fabric, struct port *port)
{
    int64_t seconds = (fabric->now->mono_ns - port->down.mono_ns) / NS_PER_S;

    if (!port->down.id[0])
        return;
    port->down.severity = MIN(port->down.severity, (uint8_t)FINDING_WARN);
    port->down.count = (uint32_t)MAX(seconds, INT64_C(1));
    snprintf(port->down.text, sizeof(port->down.text), "port %s was down for %u s", port->name,
             port->down.count);
    sense_report(fabric->report, &port->down, 0); /* the same finding */
    port->down = (struct finding){ .id = "" };
}

static void port_state(struct fabric *fabric, struct port *port)
{
    int up = port_is_up(fabric, port);
    int64_t rate = 0;
    struct finding finding;

    if (up == 1) {
        port->was_up = true;
        port_up_again(fabric, port);
    } else if (up == 0 && port->was_up) {
        port_down(fabric, port, "down");
    } else if (up < 0 && port->was_up && !port->virtual && port_is_gone(fabric, port)) {
        port_down(fabric, port, "gone"); /* a virtual one was given to a container */
    }
    if (up != 1 ||
        !tree_number(&fabric->tree, &rate, port->infiniband ? "%s/rate" : "%s/speed", port->folder))
        return;
    if (rate <= 0)
        return;
    if (rate < port->rate) {
        finding = sense_finding(fabric->now, FINDING_PORT, FINDING_CLASS_FABRIC,
                                port_is_used(fabric, port) ? FINDING_WARN : FINDING_INFO,
                                port->name, "port %s runs at %lld %s, before it was %lld",
                                port->name, (long long)rate, port->infiniband ? "Gb/s" : "Mb/s",
                                (long long)port->rate);
        finding.code = 1;
        sense_hold(fabric->report, &finding);
    }
    port->rate = MAX(port->rate, rate);
}

static void port_errors(struct fabric *fabric, struct port *port)
{
    const struct port_counter *counters = port->infiniband ? ib_counters : net_counters;
    size_t count = port->infiniband ? COUNT(ib_counters) : COUNT(net_counters);

    for (size_t i = 0; i < count; i++) {
        int64_t value, grown;
        struct finding finding;

        if (!tree_number(&fabric->tree, &value, "%s/%s", port->folder, counters[i].file))
            continue;
        grown = tree_counter_grown(&port->counter[i], value);
        if (grown < counters[i].least || !port->was_up)
            continue;
        finding = sense_finding(fabric->now, FINDING_PORT, FINDING_CLASS_FABRIC,
                                port_is_used(fabric, port) ? counters[i].severity : FINDING_INFO,
                                port->name, "port %s: %lld %s", port->name, (long long)grown,
                                counters[i].what);
        finding.code = 2 + (uint32_t)i;
        finding.count = (uint32_t)MIN(grown, (int64_t)UINT32_MAX);
        sense_report(fabric->report, &finding, 0);
    }
}

static int fabric_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct fabric *fabric = state;

    fabric->now = now;
    fabric->report = report;
    if (fabric->reads++ % LIST_READS == LIST_READS - 1)
        fabric_list(fabric);
    for (size_t i = 0; i < fabric->ports; i++) {
        port_traffic(fabric, &fabric->port[i]);
        port_state(fabric, &fabric->port[i]);
        port_errors(fabric, &fabric->port[i]);
    }
    return 0;
}

static void fabric_close(void *state)
{
    free(state);
}

const struct sensor sensor_fabric = {
    .name = "fabric",
    .summary = "InfiniBand and Ethernet ports: state, rate, errors",
    .fix = "mount /sys; in a container, the host's, with the host's network namespace",
    .period_ns = NS_PER_S,
    .open = fabric_open,
    .read = fabric_read,
    .close = fabric_close,
};
