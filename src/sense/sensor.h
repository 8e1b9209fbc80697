/* sensor.h - a source of node evidence; sensors.c is the list.
 *
 * A sensor reads files below a root directory, so that tests run over captured trees.  It never blocks.  What it observes
 * goes to sense_report() (an event, once) or sense_hold() (a condition, for as long as it lasts).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_SENSOR_H
#define LOCKSTEP_SENSE_SENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/finding.h"

#define SENSE_JOBS 512

struct sense_jobs { /* processes of jobs on this node: ranks, or all of users who run one */
    uint32_t pid[SENSE_JOBS];
    size_t count; /* 0: none is known */
    bool cut;     /* there are more */
};

struct sense_place {  /* where to read; the texts outlive the sensors */
    const char *root; /* stands before /proc, /sys and /dev; "" here */
    /* A file, FIFO or device of kernel records, or a directory that has one with the name of the node; NULL: root/dev/kmsg */
    const char *kmsg;
    const char *nvml;              /* library; NULL: the usual one */
    const char *node;              /* name of this node */
    const struct sense_jobs *jobs; /* as they are now; set by sense_create() */
    bool from_start;               /* records that were written before now count, too */
    bool foreign; /* files of another machine: what does not name its node has none */
};

struct sense_now {
    int64_t mono_ns, real_ns;
};

struct sense_report;

struct sensor {
    const char *name;
    const char *summary; /* what it observes */
    const char *fix;     /* the line of configuration that lets it read */
    int64_t period_ns;
    /* -ENODEV: not on this node, which is no error; -EACCES: no permission.  -EBUSY, also of read: it does not answer
     * now; its state stays, and it is read again.
     */
    int (*open)(const struct sense_place *place, void **state, struct err *err);
    int (*read)(void *state, const struct sense_now *now, struct sense_report *report);
    int (*fd)(void *state); /* readable when there is something to read; NULL: none */
    void (*close)(void *state);
};

extern const struct sensor *const sensors[];
extern const size_t sensor_count;

/* Fills node and id.  `line` is that of a file; 0: none.  A finding with an id that was reported before replaces it. */
void sense_report(struct sense_report *report, struct finding *finding, uint32_t line);
/* Reports a condition that lasts once, and again only after it was absent in between. */
void sense_hold(struct sense_report *report, struct finding *finding);
/* Counts events of a device, and reports a leading indicator while they become more and more (trend.h). */
struct sense_trend;
struct sense_events {
    uint8_t kind, class;
    const char *device, *what;
    int64_t least; /* in half of the time; fewer are normal */
};
void sense_rising(struct sense_report *report, const struct sense_now *now,
                  struct sense_trend *trend, int64_t events, const struct sense_events *of);
/* A finding of a sensor with its text. */
struct finding sense_finding(const struct sense_now *now, unsigned kind, unsigned class,
                             unsigned severity, const char *device, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
