/* kernel_private.h - shared by the files of the classifier of kernel lines.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_KERNEL_KERNEL_PRIVATE_H
#define LOCKSTEP_WIRE_KERNEL_KERNEL_PRIVATE_H

#include "wire/kernel/kernel_line.h"

struct kernel_scan {
    struct kernel_reader *reader;
    const char *text, *end; /* the message, without what stands before it */
    const char *found;      /* the words of the rule */
    const char *after;      /* what follows them */
    int64_t boot_ns;        /* 0: not known */
    bool record;            /* of /dev/kmsg: nothing stands before the message */
    const char *trust_from,
        *trust_to; /* words of rules begin only here; NULL: not looked for yet */
};

/* The first of several matching rules of the table counts.  `words` begin at the begin of a word. */
struct kernel_rule {
    const char *words;
    uint8_t bytes; /* of the words */
    uint8_t kind, class, severity, action, layer;
    const char *what;
    /* Reads more from the message and may change the event; false: it is not what it seems.  NULL: nothing to read. */
    bool (*read)(const struct kernel_scan *scan, struct kernel_event *event);
};

#define KERNEL_RULES 500 /* at most; a reader has room for so many */
extern const struct kernel_rule kernel_rules[];
extern const size_t kernel_rule_count;

/* Bytes of the name of a process or of an interface, which may stand first in a message and hold any words. */
#define KERNEL_NAME_MOST 15

/* What a word speaks of. */
enum {
    WORD_TIMEOUT = 1 << 0,
    WORD_HANG = 1 << 1,
    WORD_RESPOND = 1 << 2,
    WORD_NOT = 1 << 3,
    WORD_FATAL = 1 << 4,
    WORD_FAIL = 1 << 5,
    WORD_ERROR = 1 << 6,
    WORD_LOST = 1 << 7,
    WORD_DOWN = 1 << 8,
    WORD_RESET = 1 << 9,
    WORD_ABORT = 1 << 10,
    WORD_CORRUPT = 1 << 11,
    WORD_CRASH = 1 << 12,
    WORD_IO = 1 << 13,
    WORD_REQUEST = 1 << 14,
    WORD_PART = 1 << 15, /* of the machine */
    WORD_LINK = 1 << 16,
    WORD_START = 1 << 17,
    WORD_HEAT = 1 << 18,
    WORD_HIGH = 1 << 19,
    WORD_POWER = 1 << 20,
    WORD_GOOD = 1 << 21,
    WORD_SOFT = 1 << 22,    /* an option, a feature, a request that is refused */
    WORD_SETTING = 1 << 23, /* "timeout set to 30": a number, no event */
    WORD_OFFLINE = 1 << 24,
    WORD_READY = 1 << 25,
    WORD_CHECK = 1 << 26, /* a checksum, a parity: what can be wrong */
    WORD_FIRMWARE = 1 << 27,
    WORD_RESETTING = 1 << 29,
    WORD_LOOKUP = 1 << 28, /* what a driver asks for and can do without */
};

struct kernel_word {
    const char *word;
    uint32_t bits;
};
extern const struct kernel_word kernel_vocabulary[];
extern const size_t kernel_vocabulary_count;

/* A line that no rule knows, by its subject and its words (kernel_grammar.c). */
bool kernel_grammar(const struct kernel_scan *scan, struct kernel_event *event);
/* enum finding_kind of faults of whoever speaks first; 0: the grammar does not know it */
uint8_t kernel_grammar_kind(const struct kernel_scan *scan);
void kernel_grammar_index(struct kernel_reader *reader); /* empty before */

/* Sets the part of the message that no program chose. */
void kernel_trust(struct kernel_scan *scan);
bool kernel_speaker_is_known(const struct kernel_scan *scan);

/* ---- kernel_scan.c ---- */
bool scan_has(const struct kernel_scan *scan, const char *words); /* anywhere in the message */
const char *scan_find(const char *at, const char *end, const char *words);
bool scan_number(const char *at, const char *end, int base, uint64_t *ret); /* after blanks */
/* A word from `at` to the first of `stops`, copied. */
void scan_word(const char *at, const char *end, const char *stops, char *out, size_t room);
/* "0000:3b:00" or "0000:3b:00.0" if `function`; a missing domain is 0000.  Returns what follows, NULL: no address. */
const char *scan_pci(const char *at, const char *end, bool function, char out[KERNEL_DEVICE]);
/* The first address from `at` on; false: none. */
bool scan_pci_in(const char *at, const char *end, bool function, char out[KERNEL_DEVICE]);
void scan_pid(const char *at, const char *end, struct kernel_event *event); /* of a number */

/* ---- readers of the rules ---- */
bool gpu_xid(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_sxid(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_named(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_fallen(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_driver(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_amd(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_init(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_assertion(const struct kernel_scan *scan, struct kernel_event *event);
bool gpu_link(const struct kernel_scan *scan, struct kernel_event *event);
/* Not a floppy, an optical disk, a loop device, or an interface of containers and virtual machines. */
bool device_matters(const char *name);
bool device_aer(const struct kernel_scan *scan, struct kernel_event *event);
bool device_pci(const struct kernel_scan *scan, struct kernel_event *event);
bool device_nic(const struct kernel_scan *scan, struct kernel_event *event);
bool device_carrier(const struct kernel_scan *scan, struct kernel_event *event);
bool device_watchdog(const struct kernel_scan *scan, struct kernel_event *event);
bool device_bond(const struct kernel_scan *scan, struct kernel_event *event);
bool device_module(const struct kernel_scan *scan, struct kernel_event *event);
bool device_nvme(const struct kernel_scan *scan, struct kernel_event *event);
bool device_block(const struct kernel_scan *scan, struct kernel_event *event);
bool device_ata(const struct kernel_scan *scan, struct kernel_event *event);
bool device_sas(const struct kernel_scan *scan, struct kernel_event *event);
bool device_scsi(const struct kernel_scan *scan, struct kernel_event *event);
bool device_vanished(const struct kernel_scan *scan, struct kernel_event *event);
bool device_power(const struct kernel_scan *scan, struct kernel_event *event);
bool device_ext4_io(const struct kernel_scan *scan, struct kernel_event *event);
bool device_filesystem(const struct kernel_scan *scan, struct kernel_event *event);
bool device_nfs(const struct kernel_scan *scan, struct kernel_event *event);
bool device_lustre(const struct kernel_scan *scan, struct kernel_event *event);
bool device_lustre_lost(const struct kernel_scan *scan, struct kernel_event *event);
bool device_ceph(const struct kernel_scan *scan, struct kernel_event *event);
bool device_cifs(const struct kernel_scan *scan, struct kernel_event *event);
bool device_xfs(const struct kernel_scan *scan, struct kernel_event *event);
bool device_slot(const struct kernel_scan *scan, struct kernel_event *event);
bool device_not_ready(const struct kernel_scan *scan, struct kernel_event *event);
bool device_host_byte(const struct kernel_scan *scan, struct kernel_event *event);
bool device_probe(const struct kernel_scan *scan, struct kernel_event *event);
bool device_syndrome(const struct kernel_scan *scan, struct kernel_event *event);
bool words_dpc(const struct kernel_scan *scan, struct kernel_event *event);
bool words_ata(const struct kernel_scan *scan, struct kernel_event *event);
bool words_jbd2(const struct kernel_scan *scan, struct kernel_event *event);
bool words_drm(const struct kernel_scan *scan, struct kernel_event *event);
bool words_nvrm(const struct kernel_scan *scan, struct kernel_event *event);
/* A line that no rule knows: by the form that the kernel gives it.  Sets all of `event`. */
bool words_unlisted(const struct kernel_scan *scan, struct kernel_event *event);
bool words_sense(const struct kernel_scan *scan, struct kernel_event *event);
bool words_xfs_alone(const struct kernel_scan *scan, struct kernel_event *event);
bool host_oom_limit(const struct kernel_scan *scan, struct kernel_event *event);
bool device_netdev(const struct kernel_scan *scan, struct kernel_event *event);
bool words_nic(const struct kernel_scan *scan, struct kernel_event *event);
bool words_writeback(const struct kernel_scan *scan, struct kernel_event *event);
bool words_md(const struct kernel_scan *scan, struct kernel_event *event);
bool words_dm(const struct kernel_scan *scan, struct kernel_event *event);
bool words_scsi(const struct kernel_scan *scan, struct kernel_event *event);
bool words_iscsi(const struct kernel_scan *scan, struct kernel_event *event);
bool words_hba(const struct kernel_scan *scan, struct kernel_event *event);
bool words_remote_fs(const struct kernel_scan *scan, struct kernel_event *event);
bool words_lnet(const struct kernel_scan *scan, struct kernel_event *event);
bool words_nvme(const struct kernel_scan *scan, struct kernel_event *event);
bool words_nvme_path(const struct kernel_scan *scan, struct kernel_event *event);
bool words_ext4(const struct kernel_scan *scan, struct kernel_event *event);
bool words_xfs(const struct kernel_scan *scan, struct kernel_event *event);
bool words_btrfs_error(const struct kernel_scan *scan, struct kernel_event *event);
bool words_btrfs_warning(const struct kernel_scan *scan, struct kernel_event *event);
bool host_mce(const struct kernel_scan *scan, struct kernel_event *event);
bool host_reset_reason(const struct kernel_scan *scan, struct kernel_event *event);
bool host_mce_status(const struct kernel_scan *scan, struct kernel_event *event);
bool host_cper(const struct kernel_scan *scan, struct kernel_event *event);
bool host_edac(const struct kernel_scan *scan, struct kernel_event *event);
bool host_memory(const struct kernel_scan *scan, struct kernel_event *event);
bool host_killed(const struct kernel_scan *scan, struct kernel_event *event);
bool host_oom(const struct kernel_scan *scan, struct kernel_event *event);
bool host_oom_begins(const struct kernel_scan *scan, struct kernel_event *event);
bool host_blocked(const struct kernel_scan *scan, struct kernel_event *event);
bool host_lockup(const struct kernel_scan *scan, struct kernel_event *event);
bool host_thermal(const struct kernel_scan *scan, struct kernel_event *event);
bool host_segfault(const struct kernel_scan *scan, struct kernel_event *event);
bool host_trap(const struct kernel_scan *scan, struct kernel_event *event);
bool host_internal(const struct kernel_scan *scan, struct kernel_event *event);
bool host_panic(const struct kernel_scan *scan, struct kernel_event *event);

#endif
