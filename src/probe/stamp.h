/* stamp.h - times that the device itself records on the compute stream.
 *
 * A stamp is a kernel of one thread, launched on the stream where the program's own kernels go.  When the stream gets there it
 * writes the device's clock into the ring (struct ring_stamp), and whoever reads the ring compares it with the host's record of the
 * launch.  Nobody waits for the device, and what it wrote can be read while this process is stopped.
 *
 * Set up once, in a process that uses its device already: the driver's functions come from the library that the process has
 * loaded.  After that a stamp allocates nothing, takes no lock of ours and makes no system call of ours; it costs the launch of a
 * kernel, which is put off only when the driver's own queue is full.  An error of the driver switches stamps off for good.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_STAMP_H
#define LOCKSTEP_PROBE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda/symbols.h"
#include "probe/probe_private.h"

#define STAMPS_STEP_MAX 512 /* of a step; where there are more, only every n-th step has them */

/* Of the current context's device; `stream` is the program's compute stream.  `find` finds the driver's functions.  0, or -errno
 * with the reason; a second call after success does nothing.
 */
int stamps_open(struct lockstep_probe *probe, symbol_find *find, void *library, struct err *err);
bool stamps_are_on(void);
/* Why they were switched off after they were on, once; NULL: they were not, or it has been asked. */
const char *stamps_off_reason(void);

struct stamp {
    enum ring_stamp_what what;
    enum lockstep_phase phase; /* from here on */
    int comm;                  /* that is waited for; -1: not known */
    uint64_t colls, messages;  /* launched in it */
};

/* Launches one.  Those of steps say which stream computes: on another one nothing is launched, unless it is being captured into a
 * graph.  False: none was launched.
 */
bool stamp_put(struct lockstep_probe *probe, void *stream, const struct stamp *stamp);

/* The stream that computes, as the newest step said. */
void *stamps_stream(void);
/* This thread began it. */
bool stamps_thread_is_this(void);
uint64_t stamps_given(void); /* so far */

/* The device's clock in ours, as the stamps know it; 0: they do not. */
uint64_t stamps_host_ns(uint64_t device_ns);

/* ---- stamp_clock.c: the two clocks, by stamps on a stream of their own ----
 *
 * Such a stamp runs as soon as it is launched, unless the device is full: so device - host, host being the time just before the
 * launch, is never less than the true difference, and of many the smallest is larger by the shortest launch (some microseconds).
 */
#define STAMP_WINDOWS 8 /* of a second each */

struct stamp_clock {
    struct stamp_window {
        uint64_t host_ns; /* of the smallest difference in it; 0: none */
        int64_t offset_ns;
    } window[STAMP_WINDOWS];
    uint64_t begun_ns; /* of the newest window */
    uint32_t newest;
};

void stamp_clock_put(struct stamp_clock *clock, uint64_t host_ns, uint64_t device_ns);
/* False: nothing has been compared yet. */
bool stamp_clock_get(const struct stamp_clock *clock, struct ring_clock *ret);

#endif
