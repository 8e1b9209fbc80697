/* kernel_line.h - what a line of a kernel log means: text in, event out.
 *
 * The one classifier of kernel messages.  Live sensors and the reader of dead jobs share it.  It reads lines as /dev/kmsg,
 * dmesg, journalctl and syslog print them.  Messages of a normal boot, recoveries and look-alikes are no events.
 *
 * A reader keeps a few bytes between the lines of one log, because some messages span lines.  Nothing here allocates,
 * and no line costs more than one pass over its bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_KERNEL_KERNEL_LINE_H
#define LOCKSTEP_WIRE_KERNEL_KERNEL_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_DEVICE 48
#define KERNEL_CODE_NONE 0
#define KERNEL_WORDS 2048

/* What stands before the message. */
struct kernel_prefix {
    const char *message; /* into the line */
    size_t message_bytes;
    bool user;        /* the facility or the tag is not the kernel's: a program wrote the line */
    bool raw;         /* a record of /dev/kmsg: seq is valid */
    uint64_t seq;     /* number of the record */
    int64_t boot_ns;  /* since boot, by the kernel's clock; 0: the line does not say */
    const char *host; /* into the line; NULL: none */
    size_t host_bytes;
};

/* `more` of an OOM kill: which memory was used up. */
#define KERNEL_OOM_CGROUP "the limit of its cgroup"
#define KERNEL_OOM_NODE "the node has no memory left"
#define KERNEL_OOM_NUMA "its NUMA nodes have no memory left"

struct kernel_event {
    uint8_t kind, class, severity; /* enum finding_kind, finding_class, finding_severity */
    uint8_t origin, action; /* enum finding_origin, enum action; a user's line suggests none */
    uint8_t layer;          /* enum verdict_layer; unknown: explains no failure of a job */
    uint8_t follows;        /* in a burst of one device the event with the lowest is the root */
    bool process_only;      /* matters only to a job that process `pid` belongs to */
    bool opens;             /* announces another event, which says more */
    uint32_t code, pid;
    const char *what;   /* our words, constant */
    const char *more;   /* constant, or NULL */
    uint32_t caused_by; /* the number of an earlier Xid that the line names; 0: none */
    uint32_t link;      /* of NVLink, plus 1; 0: none */
    int64_t boot_ns;
    char device[KERNEL_DEVICE]; /* "0000:3b:00", "nvme0", "ens2np0", "nas1"; "": none */
    char process[24];           /* its name; "": none */
    char node[64];              /* the host of a syslog line; "": none */
};

struct kernel_reader {
    uint16_t head[256]; /* rules by the first two characters of their words: 1 + index, 0: none */
    uint16_t next[512]; /* further rules with the same characters */
    uint16_t subject[128];       /* who may begin a line, by first character: 1 + index, 0: none */
    uint16_t word[KERNEL_WORDS]; /* of the vocabulary, by hash: 1 + index, 0: none */
    char gpu[KERNEL_DEVICE];     /* of the last "The NVIDIA GPU ..." line */
    char sxid_device[KERNEL_DEVICE];
    uint32_t sxid_code; /* whose data lines may follow */
};

void kernel_reader_init(struct kernel_reader *reader);
/* `line` need not end with NUL; a newline at its end is ignored.  false: no event.  *ret is set only for an event. */
bool kernel_line_read(struct kernel_reader *reader, const char *line, size_t bytes,
                      struct kernel_event *ret);
/* The words of the n-th rule; NULL: there are no more.  A reader of large logs searches for these first: a line without
 * any of them is no event.
 */
const char *kernel_line_words(size_t n);
void kernel_prefix_read(const char *line, size_t bytes, struct kernel_prefix *ret);

/* "Xid 79: GPU has fallen off the bus", without device and process. */
void kernel_event_cause(const struct kernel_event *event, char *out, size_t room);
/* One sentence with device and process. */
void kernel_event_text(const struct kernel_event *event, char *out, size_t room);

/* When the line was written (kernel_prefix.c).  Without a year it is the one nearest to `near_real_ns`; without a zone
 * this machine's.  false: the line does not say.
 */
struct kernel_when {
    int64_t real_ns; /* 0: only boot_ns is known */
    int64_t boot_ns; /* since boot; 0: only real_ns is known */
};
bool kernel_when_read(const char *line, size_t bytes, int64_t near_real_ns,
                      struct kernel_when *ret);

#endif
