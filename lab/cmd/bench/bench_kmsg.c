/* bench_kmsg.c - how many lines of a kernel log are classified in a second, on one core.
 *
 * The log is made: lines that every machine writes, in the forms of /dev/kmsg, dmesg and syslog, and one line of a fault in
 * twenty.  A storm of one line comes second.  The ceiling is the time to find the ends of the same lines.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/lab.h"
#include "wire/kernel/kernel_line.h"

#define LINES 20000 /* in the made log, which is read again and again */
#define LIMIT 1e6

static const char *const common[] = {
    "usb 2-1: new high-speed USB device number 6 using xhci_hcd",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode. Opts: (null)",
    "docker0: port 1(veth0ab12c3) entered blocking state",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth0ab12c3: link becomes ready",
    "audit: type=1400 audit(1695929343.571:3): apparmor=\"STATUS\" operation=\"profile_load\"",
    "mlx5_core 0000:5e:00.0 ens1f0: Link up",
    "perf: interrupt took too long (3139 > 3137), lowering kernel.perf_event_max_sample_rate",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "nvidia-nvlink: Nvlink Core is being initialized",
    "Started Session 1234 of User root.",
    "pcieport 0000:00:1c.0:   device [8086:a33c] error status/mask=00001000/00002000",
};

static const char *const faults[] = {
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=2280636, name=python3, Ch 0000000a, intr 00000000",
    "pcieport 0000:00:1c.1: AER: Corrected error received: 0000:00:1c.1",
    "nvme nvme0: I/O 832 QID 9 timeout, reset controller",
};

static const char storm[] =
    "4,99,1000000,-;pcieport 0000:00:1c.1: AER: Corrected error received: 0000:00:1c.1";

struct made_log {
    char *text;
    size_t bytes;
};

static void bench_prefix_make(unsigned i, char *out, size_t room)
{
    switch (i / 7 % 3) {
    case 0: /* /dev/kmsg */
        snprintf(out, room, "6,%u,%u000,-;", i, i + 1000);
        return;
    case 1: /* dmesg */
        snprintf(out, room, "[%5u.%06u] ", i, i % 1000000);
        return;
    default: /* syslog */
        snprintf(out, room, "Nov 15 15:41:03 gpu-%04u kernel: [%u.123456] ", i % 1000, i);
    }
}

static int log_make(struct made_log *ret)
{
    size_t room = (size_t)LINES * 256;

    ret->text = malloc(room);
    if (!ret->text)
        return -1;
    ret->bytes = 0;
    for (unsigned i = 0; i < LINES; i++) {
        bool fault = i % 20 == 7;
        char prefix[64];

        bench_prefix_make(i, prefix, sizeof(prefix));
        ret->bytes +=
            (size_t)snprintf(ret->text + ret->bytes, room - ret->bytes, "%s%s", prefix,
                             fault ? faults[i / 20 % COUNT(faults)] : common[i % COUNT(common)]);
        ret->text[ret->bytes++] = '\n';
    }
    return 0;
}

struct speed {
    double lines, bytes; /* in a second */
    uint64_t events;
};

static struct speed speed_of(uint64_t lines, uint64_t bytes, uint64_t events, int64_t ns)
{
    return (struct speed){ (double)lines * 1e9 / (double)ns, (double)bytes * 1e9 / (double)ns,
                           events };
}

static struct speed bench_classify(const struct made_log *log, double seconds, bool read)
{
    int64_t begin_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns = begin_ns;
    uint64_t lines = 0, bytes = 0, events = 0;
    struct kernel_reader reader;

    kernel_reader_init(&reader);
    while ((double)(now_ns - begin_ns) < seconds * 1e9) {
        const char *end = log->text + log->bytes;

        for (const char *at = log->text, *stop; at < end; at = stop + 1) {
            struct kernel_event event;

            stop = memchr(at, '\n', (size_t)(end - at));
            if (read)
                events += kernel_line_read(&reader, at, (size_t)(stop - at), &event);
            lines++;
        }
        bytes += log->bytes;
        now_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID);
    }
    return speed_of(lines, bytes, events, now_ns - begin_ns);
}

static struct speed bench_classify_storm(double seconds)
{
    int64_t begin_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns = begin_ns;
    uint64_t lines = 0, events = 0;
    struct kernel_reader reader;

    kernel_reader_init(&reader);
    while ((double)(now_ns - begin_ns) < seconds * 1e9) {
        for (int i = 0; i < 10000; i++, lines++) {
            struct kernel_event event;

            events += kernel_line_read(&reader, storm, sizeof(storm) - 1, &event);
        }
        now_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID);
    }
    return speed_of(lines, lines * sizeof(storm), events, now_ns - begin_ns);
}

static void bench_add(struct json_object *root, const char *name, double value)
{
    json_object_object_add(root, name, json_object_new_int64((int64_t)value));
}

static void bench_kmsg_print_json(const struct speed *mixed, const struct speed *equal,
                                  const struct speed *ceiling)
{
    struct json_object *root = json_object_new_object();

    bench_add(root, "lines_per_second", mixed->lines);
    bench_add(root, "bytes_per_second", mixed->bytes);
    bench_add(root, "storm_lines_per_second", equal->lines);
    bench_add(root, "ceiling_lines_per_second", ceiling->lines);
    bench_add(root, "limit_lines_per_second", LIMIT);
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    json_object_put(root);
}

int bench_kmsg_main(int argc, char **argv)
{
    struct bench_kmsg_settings settings = { .seconds = 2 };
    struct speed mixed, equal, ceiling;
    struct made_log log = { 0 };
    int parsed = opt_parse_all(&command_bench_kmsg, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (log_make(&log) < 0) {
        log_error("out of memory");
        return 2;
    }
    mixed = bench_classify(&log, settings.seconds, true);
    ceiling = bench_classify(&log, settings.seconds / 4, false);
    equal = bench_classify_storm(settings.seconds / 2);
    free(log.text);
    if (settings.json)
        bench_kmsg_print_json(&mixed, &equal, &ceiling);
    else
        printf("kernel log      %10.0f lines/s  %6.1f MB/s, one in twenty is a fault\n"
               "storm           %10.0f lines/s\n"
               "ends of lines   %10.0f lines/s\n"
               "limit           %10.0f lines/s: %s\n",
               mixed.lines, mixed.bytes / 1e6, equal.lines, ceiling.lines, LIMIT,
               mixed.lines >= LIMIT ? "met" : "missed");
    return mixed.lines >= LIMIT ? 0 : 1;
}
