/* kmsg.c - the kernel log, as a stream.
 *
 * /dev/kmsg gives one record for each read; a file or a FIFO gives lines.  A record that was written while we read gets
 * our clock.  Older ones are converted: the kernel's log clock and the monotonic clock begin together, and the former is
 * not slewed, so it is off by at most 500 millionths of the time since boot.  Records that the kernel overwrote before we
 * read them are counted by their numbers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/burst.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "wire/decision.h"

#define LINE_MAX_BYTES 8192 /* the longest record of /dev/kmsg */
#define READ_BYTES 65536
#define RECORDS_AT_ONCE                                                                            \
    20000         /* of a device, in one read of the sensor: a storm must not hold up the others */
#define SLEW 2000 /* 500 millionths */

struct kmsg {
    int fd;
    bool device;  /* one record for each read */
    bool regular; /* a file: read to its end */
    bool live;    /* what was there when we began has been read */
    bool from_start;
    uint64_t seq; /* that comes next; 0: not known */
    uint64_t lost;
    uint32_t line;
    struct tree tree;
    size_t held; /* bytes of an unfinished line */
    char buffer[READ_BYTES + LINE_MAX_BYTES];
    struct kernel_reader reader;
    struct bursts *bursts;
};

static void kmsg_close(void *state)
{
    struct kmsg *kmsg = state;

    if (kmsg->fd >= 0)
        close(kmsg->fd);
    bursts_destroy(kmsg->bursts);
    free(kmsg);
}

static void kmsg_clean(struct kmsg **kmsg)
{
    if (*kmsg)
        kmsg_close(*kmsg);
}

static int kmsg_open(const struct sense_place *place, void **state, struct err *err)
{
    CLEAN(kmsg_clean) struct kmsg *kmsg = calloc(1, sizeof(*kmsg));
    char path[PATH_MAX];
    struct stat status;

    if (!kmsg)
        return err_nomem(err);
    kmsg->fd = -1;
    snprintf(path, sizeof(path), "%s%s", place->kmsg ? "" : place->root,
             place->kmsg ? place->kmsg : "/dev/kmsg");
    if (place->kmsg && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        snprintf(path, sizeof(path), "%s/%s", place->kmsg, place->node);
    kmsg->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (kmsg->fd < 0)
        return err_set(err,
                       errno == ENOENT  ? -ENODEV
                       : errno == EPERM ? -EACCES
                                        : -errno,
                       "%s: %m", path);
    if (fstat(kmsg->fd, &status) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (S_ISDIR(status.st_mode))
        return err_set(err, -EISDIR, "%s: is a directory", path);
    kmsg->device = S_ISCHR(status.st_mode);
    kmsg->regular = S_ISREG(status.st_mode);
    kmsg->from_start = place->from_start;
    kmsg->tree.root = place->root;
    /* What was cleared (dmesg --clear) was answered by somebody. */
    if (kmsg->device && lseek(kmsg->fd, 0, kmsg->from_start ? SEEK_DATA : SEEK_END) < 0)
        return err_set(err, -errno, "%s: %m", path);
    kmsg->live = !kmsg->from_start && !kmsg->regular;
    if (bursts_create(&kmsg->bursts) < 0)
        return err_nomem(err);
    kernel_reader_init(&kmsg->reader);
    *state = TAKE(kmsg);
    return 0;
}

static void kmsg_gap(struct kmsg *kmsg, const struct kernel_prefix *prefix)
{
    if (!prefix->raw)
        return;
    if (kmsg->seq && prefix->seq > kmsg->seq)
        kmsg->lost += prefix->seq - kmsg->seq;
    kmsg->seq = prefix->seq + 1;
}

/* A regular file may be of another machine: the time since its boot says nothing about ours. */
static void kmsg_line_when(const struct kmsg *kmsg, const struct sense_now *now, int64_t boot_ns,
                           struct burst_line *line)
{
    struct kernel_when when;

    if (kmsg->live) {
        line->mono_ns = now->mono_ns;
        line->real_ns = now->real_ns;
    } else if (boot_ns && !kmsg->regular) {
        line->mono_ns = boot_ns;
        line->real_ns = now->real_ns - now->mono_ns + boot_ns;
        line->error_ns = boot_ns / SLEW;
    } else if (boot_ns) {
        line->mono_ns = boot_ns;
    }
    if (!line->real_ns && kernel_when_read(line->raw, line->raw_bytes, now->real_ns, &when) &&
        when.real_ns)
        line->real_ns = when.real_ns;
}

static bool kmsg_has(const char *text, size_t bytes, const char *words)
{
    return memmem(text, bytes, words, strlen(words)) != NULL;
}

/* "bond0: (slave eth0): link status definitely down", "bond0: now running without any active interface!": every user can have
 * devices with these names in a network of his own, and the line does not say whose they are.  It is believed where an adapter
 * or a bond of the node has no link.
 */
static bool kmsg_is_doubtful(const struct kmsg *kmsg, const struct kernel_event *event,
                             const char *text, size_t bytes)
{
    const char *what = "device/vendor", *device = event->device;
    struct kernel_prefix prefix;
    int64_t carrier = 0;
    char none[8], bond[KERNEL_DEVICE];

    if (event->kind != FINDING_NIC)
        return false;
    if (kmsg_has(text, bytes, " without any active interface")) {
        kernel_prefix_read(text, bytes, &prefix);
        snprintf(bond, sizeof(bond), "%.*s", (int)MIN(prefix.message_bytes, sizeof(bond) - 1),
                 prefix.message);
        bond[strcspn(bond, ":/ ")] = '\0';
        device = bond;
        what = "bonding/mode";
    } else if (!kmsg_has(text, bytes, "(slave ") && !kmsg_has(text, bytes, " for interface ")) {
        return false;
    }
    if (tree_read(&kmsg->tree, none, sizeof(none), "/sys/class/net/%.40s/%s", device, what) < 0)
        return true;
    return tree_number(&kmsg->tree, &carrier, "/sys/class/net/%.40s/carrier", device) &&
           carrier == 1;
}

static void kmsg_line(struct kmsg *kmsg, const struct sense_now *now, const char *text,
                      size_t bytes)
{
    struct kernel_event event;
    struct burst_line line = { .event = &event, .raw = text, .raw_bytes = bytes };

    line.line = ++kmsg->line;
    if (kmsg->device) {
        struct kernel_prefix prefix;

        kernel_prefix_read(text, bytes, &prefix);
        kmsg_gap(kmsg, &prefix);
    }
    if (!kernel_line_read(&kmsg->reader, text, bytes, &event) || event.process_only)
        return;
    if (kmsg->live && !kmsg->regular && kmsg_is_doubtful(kmsg, &event, text, bytes))
        event.severity = MIN(event.severity, FINDING_WARN);
    kmsg_line_when(kmsg, now, event.boot_ns, &line);
    bursts_add(kmsg->bursts, &line);
}

/* Returns what is left of the buffer: an unfinished line. */
static void kmsg_lines(struct kmsg *kmsg, const struct sense_now *now, bool end)
{
    char *at = kmsg->buffer, *stop = kmsg->buffer + kmsg->held, *newline;

    while ((newline = memchr(at, '\n', (size_t)(stop - at)))) {
        kmsg_line(kmsg, now, at, (size_t)(newline - at));
        at = newline + 1;
    }
    if (at < stop && (end || stop - at >= LINE_MAX_BYTES)) { /* longer than any record: cut */
        kmsg_line(kmsg, now, at, (size_t)(stop - at));
        at = stop;
    }
    kmsg->held = (size_t)(stop - at);
    memmove(kmsg->buffer, at, kmsg->held);
}

static int kmsg_stream(struct kmsg *kmsg, const struct sense_now *now)
{
    for (int i = 0; i < RECORDS_AT_ONCE; i++) {
        ssize_t bytes = read(kmsg->fd, kmsg->buffer + kmsg->held, READ_BYTES);

        if (bytes < 0)
            return errno == EAGAIN ? 0 : -errno;
        if (bytes == 0) {
            if (kmsg->regular)
                kmsg_lines(kmsg, now, true);
            return 0;
        }
        kmsg->held += (size_t)bytes;
        kmsg_lines(kmsg, now, false);
    }
    return 0;
}

static int kmsg_device(struct kmsg *kmsg, const struct sense_now *now)
{
    for (int i = 0; i < RECORDS_AT_ONCE; i++) {
        ssize_t bytes = read(kmsg->fd, kmsg->buffer, LINE_MAX_BYTES);
        const char *newline;

        if (bytes < 0 && errno == EPIPE)
            continue; /* overwritten; the next record's number says how many */
        if (bytes < 0 && errno == EAGAIN) {
            kmsg->live = true;
            return 0;
        }
        if (bytes < 0)
            return -errno;
        newline = memchr(kmsg->buffer, '\n', (size_t)bytes); /* behind it: the device, for udev */
        kmsg_line(kmsg, now, kmsg->buffer,
                  newline ? (size_t)(newline - kmsg->buffer) : (size_t)bytes);
    }
    return 0;
}

static int kmsg_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct kmsg *kmsg = state;
    int result = kmsg->device ? kmsg_device(kmsg, now) : kmsg_stream(kmsg, now);
    struct finding finding;
    uint32_t line;

    while (bursts_take(kmsg->bursts, &finding, &line)) {
        if (!kmsg->regular && finding_is_of_image(&finding) && finding.severity > FINDING_WARN) {
            finding.severity = FINDING_WARN; /* a file, or somebody's server: no part of the node */
            finding.action = ACTION_NONE;
        }
        sense_report(report, &finding, kmsg->device ? 0 : line);
    }
    if (kmsg->lost) {
        finding = sense_finding(now, FINDING_SENSOR, FINDING_CLASS_HOST, FINDING_WARN, "kmsg",
                                "%llu kernel records were overwritten before they were read",
                                (unsigned long long)kmsg->lost);
        kmsg->lost = 0;
        sense_report(report, &finding, 0);
    }
    return result;
}

static int kmsg_fd(void *state)
{
    const struct kmsg *kmsg = state;

    return kmsg->regular ? -1 : kmsg->fd;
}

const struct sensor sensor_kmsg = {
    .name = "kmsg",
    .summary = "kernel log: GPUs, PCIe, memory, network adapters, disks, kills, stalls",
    .fix = "run the node daemon as root, or set kernel.dmesg_restrict=0 (sysctl)",
    .period_ns = 500 * NS_PER_MS,
    .open = kmsg_open,
    .read = kmsg_read,
    .fd = kmsg_fd,
    .close = kmsg_close,
};
