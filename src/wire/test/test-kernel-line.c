/* test-kernel-line.c - what lines of kernel logs mean: a collection of real ones (kernel-lines.tsv), in every form in
 * which tools print them, and lines that only look like faults.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_line.h"
#include "wire/kernel/xid.h"
#include "wire/verdict.h"

#define XID "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus."
#define FIELDS 8

enum field {
    KIND,
    CLASS,
    CODE,
    SEVERITY,
    DEVICE,
    PID,
    SOURCE,
    LINE
};

static const char *corpus;

static bool is_event(const char *line, struct kernel_event *event)
{
    struct kernel_reader reader;

    kernel_reader_init(&reader);
    memset(event, 0, sizeof(*event));
    return kernel_line_read(&reader, line, strlen(line), event) && !event->process_only;
}

static bool split(char *line, char *field[FIELDS])
{
    for (int i = 0; i < FIELDS; i++) {
        field[i] = line;
        line += strcspn(line, i + 1 < FIELDS ? "\t" : "\n");
        if (i + 1 < FIELDS && *line != '\t')
            return false;
        *line++ = '\0';
    }
    return true;
}

static bool fits(const char *expected, const char *found)
{
    return strcmp(expected, "*") == 0 ||
           strcmp(strcmp(expected, "-") == 0 ? "" : expected, found) == 0;
}

static const char *number(uint32_t value, char out[16])
{
    snprintf(out, 16, "%u", value);
    return value ? out : "";
}

static bool row_is_right(char *field[FIELDS])
{
    struct kernel_event event;
    char code[16], pid[16], text[200] = "";
    bool found = is_event(field[LINE], &event);
    bool right = strcmp(field[KIND], "-") == 0
                     ? !found
                     : found && strcmp(field[KIND], finding_kind_name(event.kind)) == 0 &&
                           fits(field[CLASS], finding_class_name(event.class)) &&
                           fits(field[CODE], number(event.code, code)) &&
                           fits(field[SEVERITY], finding_severity_name(event.severity)) &&
                           fits(field[DEVICE], event.device) &&
                           fits(field[PID], number(event.pid, pid)) && event.class;

    if (found)
        kernel_event_text(&event, text, sizeof(text));
    if (!right)
        print_error("%s\n  wanted %s %s %s %s %s %s\n  found  %s %s %s %s %s %s: %s\n", field[LINE],
                    field[KIND], field[CLASS], field[CODE], field[SEVERITY], field[DEVICE],
                    field[PID], found ? finding_kind_name(event.kind) : "-",
                    found ? finding_class_name(event.class) : "-", number(event.code, code),
                    finding_severity_name(event.severity), event.device, number(event.pid, pid),
                    text);
    return right;
}

static void every_collected_line_is_classified(void **state)
{
    CLEAN(file_clean) FILE *file = fopen(corpus, "re");
    CLEAN(free_clean) char *line = NULL;
    size_t room = 0, faults = 0, benign = 0, wrong = 0;
    char *field[FIELDS] = { NULL };

    (void)state;
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        if (*line == '#')
            continue;
        assert_true(split(line, field));
        faults += strcmp(field[KIND], "-") != 0;
        benign += strcmp(field[KIND], "-") == 0;
        wrong += !row_is_right(field);
    }
    assert_int_equal(wrong, 0);
    assert_true(faults >= 250);
    assert_true(2 * benign >= faults);
}

static void every_form_of_a_line_is_the_same_event(void **state)
{
    static const char *const prefixes[] = {
        "",
        "6,1234,98712345678,-;",
        "4,1234,98712345678,-,caller=T1946;",
        "<4>",
        "<6>[98712.345678] ",
        "[98712.345678] ",
        "[98712.345678] [ T1946] ",
        "[98712.345678][  C0] ",
        "[   12.345678][ 3] [T96407] ",
        "[Sun Nov 15 15:41:03 2026] ",
        "[  +0.000016] ",
        "[Nov15 15:41] ",
        "kern  :warn  : [98712.345678] ",
        "kern  :err   : 2026-11-15T15:41:03,145363-04:00 ",
        "2026-11-15T15:41:03,145363-04:00 ",
        "2026-11-15T15:41:03.145363+00:00 n7 kernel: ",
        "2026-11-15T15:41:03+0000 n7 kernel: ",
        "2026-11-15 15:41:03 n7 kernel: [98712.345678] ",
        "Nov 15 15:41:03 n7 kernel: ",
        "Nov 15 15:41:03 n7 kernel: [98712.345678] ",
        "Nov 15 15:41:03.561319 n7 WARNING kernel: [98712.345678] ",
        "Sun Nov 15 15:41:03 2026 kern.info kernel: [98712.345678] ",
        "2026-11-15T15:41:03.145363+00:00 n7 kernel - - - ",
        "<4>1 2026-11-15T15:41:03.145363+00:00 n7 kernel - - - ",
        "[2026-11-15 15:41:03.145363][98712.345678] ",
        "nov. 15 15:41:03 n7 kernel: ",
        "Okt 06 17:59:27 n7 kernel: ",
        "déc. 15 10:11:12 n7 kernel: ",
        "11月 15 15:41:03 n7 kernel: ",
        "n7 kernel: ",
        "kernel: ",
        "               ",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        struct kernel_event event;
        char line[256];

        snprintf(line, sizeof(line), "%s%s\n", prefixes[i], XID);
        if (!is_event(line, &event) || event.code != 79 || event.pid != 4242 ||
            strcmp(event.device, "0000:3b:00") != 0 || event.origin != FINDING_FROM_KERNEL ||
            (strstr(prefixes[i], " n7 ") && strcmp(event.node, "n7") != 0))
            fail_msg("%s: code %u, node '%s', origin %s", line, event.code, event.node,
                     finding_origin_name(event.origin));
    }
}

static void a_line_of_a_program_is_marked_and_suggests_nothing(void **state)
{
    static const char *const prefixes[] = {
        "12,1234,98712345678,-;",
        "14,1234,98712345678,-;kernel: ",
        "<12>",
        "user  :notice: [98712.345678] ",
        "Nov 15 15:41:03 n7 root: ",
        "Nov 15 15:41:03 n7 python3[123]: ",
        "2026-11-15T15:41:03.145363+00:00 n7 kernelish[1]: ",
        "2026-11-15T15:41:03.145363+00:00 n7 python3 4242 - - ",
        "<14>1 2026-11-15T15:41:03.145363+00:00 n7 kernel - - - ",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        struct kernel_event event;
        char line[256], text[200];

        snprintf(line, sizeof(line), "%s%s", prefixes[i], XID);
        if (!is_event(line, &event) || event.origin != FINDING_FROM_USER)
            fail_msg("%s", line);
        assert_int_equal(event.action, ACTION_NONE);
        kernel_event_text(&event, text, sizeof(text));
        assert_non_null(strstr(text, "program"));
    }
}

static void a_gpu_that_left_the_bus_is_named_over_several_lines(void **state)
{
    static const char *const lines[] = {
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "               NVRM: fallen off the bus and is not responding to commands.",
    };
    static const char record[] =
        "3,88,1843308145,-;NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: (PCI ID: 10de:26b5) "
        "installed "
        "in this system has\\x0aNVRM: fallen off the bus and is not responding to commands.";
    struct kernel_reader reader;
    struct kernel_event event;

    (void)state;
    kernel_reader_init(&reader);
    for (size_t i = 0; i + 1 < COUNT(lines); i++)
        assert_false(kernel_line_read(&reader, lines[i], strlen(lines[i]), &event));
    assert_true(kernel_line_read(&reader, lines[2], strlen(lines[2]), &event));
    assert_int_equal(event.code, 79);
    assert_string_equal(event.device, "0000:b3:00");
    assert_true(is_event(record, &event));
    assert_string_equal(event.device, "0000:b3:00");
    assert_false(is_event(lines[2], &event)); /* without a device it is nobody's */
}

static void the_data_of_an_nvswitch_error_is_no_second_one(void **state)
{
    static const char *const lines[] = {
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 0 Engine instance 46",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Data {0x00140004, 0x00100000}",
    };
    struct kernel_reader reader;
    struct kernel_event event;

    (void)state;
    kernel_reader_init(&reader);
    assert_true(kernel_line_read(&reader, lines[0], strlen(lines[0]), &event));
    assert_int_equal(event.link, 47);
    assert_false(kernel_line_read(&reader, lines[1], strlen(lines[1]), &event));
    assert_false(kernel_line_read(&reader, lines[2], strlen(lines[2]), &event));
    assert_true(is_event(lines[2], &event));
}

static void a_follower_names_what_it_follows(void **state)
{
    struct kernel_event event;
    char text[200];

    (void)state;
    assert_true(
        is_event("NVRM: Xid (PCI:0000:5f:00): 45, pid=7, name=python, channel 0x4, caused by "
                 "previous Xid 149",
                 &event));
    assert_int_equal(event.caused_by, 149);
    assert_true(event.follows > 0);
    kernel_event_text(&event, text, sizeof(text));
    assert_non_null(strstr(text, "caused by Xid 149"));
}

static void only_the_number_of_154_counts(void **state)
{
    static const struct {
        const char *words;
        uint8_t action;
    } cases[] = {
        { "0x0 (GPU Reset Required)", ACTION_NONE },
        { "0x1 (None)", ACTION_RESET_GPU },
        { "0x2 (PF FLR)", ACTION_REBOOT },
        { "0x3 (anything)", ACTION_DRAIN },
        { "0x5 (IMEX)", ACTION_INSPECT },
        { "0x9 (new)", ACTION_INSPECT },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct kernel_event event;
        char line[200];

        snprintf(
            line, sizeof(line),
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to %s",
            cases[i].words);
        assert_true(is_event(line, &event));
        assert_int_equal(event.action, cases[i].action);
    }
}

static void bits_of_link_errors_are_decoded(void **state)
{
    static const struct {
        uint32_t code, info, status;
        const char *unit;
        uint8_t severity;
    } cases[] = {
        { 144, 0x21, 0x2, "SAW_MVB", FINDING_FATAL },
        { 144, 0x21, 0x4, "SAW_MVB", FINDING_WARN },
        { 144, 0x1, 0x10, "", FINDING_FATAL },
        { 145, 0x82, 0x1, "RLW_REMAP", FINDING_ERROR },
        { 145, 0x82, 0x40, "RLW_REMAP", FINDING_FATAL },
        { 145, 0xe2, 0x1, "RLW_SRC_TRACK", FINDING_FATAL },
        { 146, 0x123, 0x4, "TLW_CTRL", FINDING_FATAL },
        { 149, 0x021001c6, 0, "NETIR_LINK_EVT", FINDING_FATAL },
        { 149, 0x026001c6, 0, "NETIR_LINK_DOWN", FINDING_ERROR },
        { 149, 0x226, 0x2, "NETIR_BER_EVENT", FINDING_WARN },
        { 149, 0x246, 0x3, "NETIR_MFDE_EVENT", FINDING_WARN },
        { 149, 0x246, 0x7, "NETIR_MFDE_EVENT", FINDING_FATAL },
        { 150, 0, 0, "MSE_WATCHDOG", FINDING_FATAL },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct xid_link *link = xid_link_decode(
            cases[i].code, cases[i].unit, strlen(cases[i].unit), cases[i].info, cases[i].status);

        if (!link || link->severity != cases[i].severity)
            fail_msg("%u %s 0x%x", cases[i].code, cases[i].unit, cases[i].status);
    }
    assert_null(xid_link_decode(149, "NETIR_LINK_EVT", 14, 0x03f001c6, 0)); /* no such state */
}

static void every_xid_of_the_catalogue_has_a_row(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= XID_MAX; code++) {
        const struct xid *xid = xid_find(code);

        assert_non_null(xid);
        assert_true(xid->class > 0 && xid->class < FINDING_CLASS_COUNT);
        assert_true(xid->severity > 0 && xid->severity < FINDING_SEVERITY_COUNT);
        assert_true(xid->action < ACTION_COUNT);
    }
    assert_null(xid_find(0));
    assert_null(xid_find(XID_MAX + 1));
}

static void a_crash_of_another_program_matters_only_to_its_own_job(void **state)
{
    static const char *const lines[] = {
        "traps: gsd-wacom[1855] general protection fault ip:7fed sp:7fff error:0 in libglib-2.0.so",
        "gnome-shell[2210]: segfault at 10 ip 00007f9c sp 00007ffd error 4 in libgobject-2.0.so.0",
    };
    struct kernel_reader reader;

    (void)state;
    kernel_reader_init(&reader);
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct kernel_event event;

        assert_true(kernel_line_read(&reader, lines[i], strlen(lines[i]), &event));
        assert_true(event.process_only);
        assert_true(event.pid > 0);
    }
}

#define FORGED "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."

static void assert_none_is_event(const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kernel_event event;

        if (is_event(lines[i], &event))
            fail_msg("line %zu: %s of class %s", i, finding_kind_name(event.kind),
                     finding_class_name(event.class));
    }
}

/* A user names processes, files, cgroups and options of mounts; the kernel prints them. */
static void words_that_a_user_chose_are_no_fault(void **state)
{
    static const char *const lines[] = {
        "a[43]: segfault at 0 ip 00007f sp 00007ff error 4 in " FORGED "[400000+1000]",
        "a[43]: segfault at 0 ip 00007f sp 00007ff error 4 in mlx5_core 0000:3b:00.0: Port module "
        "event: module 0, Cable error[400000+1000]",
        "a[43]: segfault at 0 ip 7f error 4 in x mce: [Hardware Error]: CPU 3: Machine Check: 0 "
        "Bank 5: bea0000000000108[400000+1000]",
        "Oops: [43]: segfault at 0 ip 00007f sp 00007ff error 4 in x[400000+1000]",
        "a[1]: Oops: [43]: segfault at 0 ip 00007f sp 00007ff error 4 in x[400000+1000]",
        "a[43]: unhandled exception: DABT (lower EL), ESR 0x0, level 2 in " FORGED "[400000+1000]",
        "traps: Oops: [43] trap invalid opcode ip:40 sp:7f error:0 in " FORGED "[400000+1000]",
        "process '/home/u/" FORGED "' started with executable stack",
        "tmpfs: Unknown parameter '" FORGED "'",
        "cgroup: fork rejected by pids controller in /user/" FORGED,
        "Tasks in /user/" FORGED " are going to be killed due to memory.oom.group set",
        "Memory cgroup stats for /user/" FORGED ":",
        "6,113,5000013,-;usb 1-1: Product: " FORGED,
        "CPU: 3 PID: 43 Comm: Oops:  Not tainted 6.1.0 #1",
        "[   1234]  1000  1234    33554    12345   151552        0             0 Oops: ",
        "task:Oops:            state:D stack:0     pid:43    ppid:1      flags:0x00000002",
    };

    (void)state;
    assert_none_is_event(lines, COUNT(lines));
}

/* Sentences that begin with the name of a process, or of an interface that somebody made in a namespace of his own. */
static void a_sentence_about_a_program_is_no_fault_whatever_its_name_is(void **state)
{
    static const char *const lines[] = {
        "6,1,5000013,-;NVRM: GPU lost uses obsolete (PF_INET,SOCK_PACKET)",
        "6,1,5000013,-;forced readonly (17228): attempted to duplicate a private mapping with "
        "mremap.  This is not supported.",
        "6,1,5000013,-;i915 GPU HANG (17228): /proc/17228/oom_adj is deprecated, please use "
        "/proc/17228/oom_score_adj instead.",
        "6,1,5000013,-;mmap: BTRFS critical (17228) uses deprecated remap_file_pages() syscall. "
        "See Documentation/mm/remap_file_pages.rst.",
        "6,1,5000013,-;BTRFS critical (17228) uses deprecated remap_file_pages() syscall. "
        "See Documentation/vm/remap_file_pages.rst.",
        "6,1,5000013,-;mmap: amdgpu wedged (17228): VmData 75563008 exceed data ulimit 1048576. "
        "Update limits or use boot option ignore_rlimit_data.",
        "6,1,5000013,-;mmap: :0 e0: timeout (17228): VmData 75563008 exceed data ulimit 1048576.",
        "6,1,5000013,-;a :0 e0: fatal uses obsolete (PF_INET,SOCK_PACKET)",
        "6,1,5000013,-;xe VRAM is lost: page allocation failure: order:4, mode:0x40dc0",
        "6,1,5000013,-;xe wedged: vmalloc error: size 4096, page order 0, failed to allocate pages",
        "6,1,5000013,-;hugetlbfs: log I/O error (42): Using mlock ulimits for SHM_HUGETLB is "
        "obsolete",
        "6,1,5000013,-;nvme0 lost/42: potentially unexpected fatal signal 11.",
        "6,1,5000013,-;mlx5: timed out (42): drop_caches: 3",
        "6,1,5000013,-;nvme dead: a sentence that nobody knows",
        "6,1,5000013,-;sda: I/O error: a sentence that nobody knows",
        "6,1,5000013,-;ib0: timed out: a sentence that nobody knows",
        "6,1,5000013,-;XFS: corrupt: a sentence that nobody knows",
        "6,1,5000013,-;raw_sendmsg: forced readonly forgot to set AF_INET. Fix it!",
        "6,1,5000013,-;amdgpu wedged (pid 42) is setting deprecated v1 encryption policy; "
        "recommend upgrading to v2.",
        "6,1,5000013,-;cgroup: BTRFS critical (42) created nested cgroup for controller \"memory\" "
        "which has incomplete hierarchy support.",
        "6,1,5000013,-;x86/split lock detection: #AC: forced readonly/42 took a split_lock trap at "
        "address: 0x401234",
        "6,1,5000013,-;XFS: I/O error(42) possible memory allocation deadlock size 65552 in "
        "kmem_alloc (mode:0x2d0)",
        "6,1,5000013,-;EXT4-fs warning (device sda1): ext4_dx_add_entry:2571: inode #12: comm "
        "BTRFS "
        "critical: Directory index full, reach max htree level :2",
        "6,1,5000013,-;SELinux: unrecognized netlink message: protocol=0 nlmsg_type=0 "
        "sclass=netlink_route_socket pid=42 comm=forced readonly",
        "6,1,5000013,-;amdgpu 0000:03:00.0: amdgpu:  for process VRAM is lost pid 42 thread VRAM "
        "is "
        "lost pid 42",
        "6,1,5000013,-;amdgpu: port 1(wedged) entered disabled state",
        "6,1,5000013,-;amdgpu: renamed from wedged",
        "6,1,5000013,-;amdgpu: (slave wedged): Enslaving as a backup interface with a down link",
        "6,1,5000013,-;Invalid argument reading file caps for ./x BTRFS critical (device sda)",
    };

    (void)state;
    assert_none_is_event(lines, COUNT(lines));
}

static void a_process_is_named_as_it_likes_and_its_fault_stays_its_own(void **state)
{
    static const struct {
        const char *line;
        unsigned kind;
        uint32_t pid;
    } rows[] = {
        { "python3[4242]: segfault at 0 ip 7f error 4 in " FORGED "[400000+1000]", FINDING_SEGFAULT,
          4242 },
        { "Oops:  invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0", FINDING_OOM, 0 },
        { "Memory cgroup out of memory: Killed process 99 (Oops: ) total-vm:1kB", FINDING_OOM, 99 },
        { "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
          "oom_memcg=/u/,task=x,pid=1,uid=0" FORGED ",task=python3,pid=77,uid=1000",
          FINDING_OOM, 77 },
        { "INFO: task Oops: :55 blocked for more than 120 seconds.", FINDING_HUNG_TASK, 55 },
        { "NVRM: Xid (PCI:0000:3b:00): 31, pid=43, name=ACPI: , Ch 00000010", FINDING_XID, 43 },
        { "NVRM: Xid (PCI:0000:3b:00): 31, pid=43, name=oom_reaper: , Ch 00000010", FINDING_XID,
          43 },
        { "NVRM: Xid (PCI:0000:3b:00): 79, pid=43, name=: renamed from , GPU has fallen off the "
          "bus.",
          FINDING_XID, 43 },
        { "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm : renamed from : "
          "reading directory lblock 0",
          FINDING_FILESYSTEM, 0 },
        { "bond0: (slave ens1f0): link status definitely down, disabling slave", FINDING_NIC, 0 },
        { "F2FS-fs (sda8): inconsistent node block comm page_pool recovered", FINDING_FILESYSTEM,
          0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct kernel_event event;

        assert_true(is_event(rows[i].line, &event));
        assert_int_equal(event.kind, rows[i].kind);
        if (rows[i].pid)
            assert_int_equal(event.pid, rows[i].pid);
    }
}

/* Names that the kernel prints without quotes, and any user can choose. */
static void no_words_of_a_rule_in_a_name_without_quotes_are_a_fault(void **state)
{
    static const char *const carriers[] = {
        "request_module: kmod_concurrent_max (0) close to 0 (max_modprobes: 50), for module "
        "crypto-%s, throttling...",
        "request_module: modprobe fs-%s cannot be processed, kernel busy with 50 threads for "
        "more than 5 seconds now",
        "request_module: modprobe fs- %s cannot be processed, kernel busy with 50 threads",
        "request_module: runaway loop modprobe fs-%s",
        "usb 1-1: Product: %s",
        "usb 1-1: Manufacturer: %s",
        "usb 1-1: SerialNumber: %s",
        "input: %s as /devices/virtual/input/input7",
        "hid-generic 0003:046D:C31C.0001: input,hidraw0: USB HID v1.11 Keyboard [%s] on "
        "usb-0000:00:14.0-1/input0",
        "BTRFS: device label %s devid 1 transid 5 /dev/sdb scanned by systemd-udevd (123)",
        "BTRFS: device label %s devid 1 transid 5 /dev/sdb (8:16) scanned by mount (123)",
        "scsi 6:0:0:0: Direct-Access     %s 1.00 PQ: 0 ANSI: 6",
        "scsi 6:0:0:0: Enclosure         %s 1.00 PQ: 0 ANSI: 6",
        "scsi 6:0:0:0: CD-ROM            %s 1.00 PQ: 0 ANSI: 6",
        "tmpfs: Bad mount option %s",
        "unheard: of a name %s and more",
    };
    size_t unknown = COUNT(carriers) - 1, wrong = 0;

    (void)state;
    for (size_t i = 0; kernel_line_words(i); i++) {
        for (size_t one = 0; one < COUNT(carriers); one++) {
            const char *name = strstr(carriers[one], "%s");
            struct kernel_event event;
            char line[512];

            snprintf(line, sizeof(line), "4,1234,900000000,-;%.*s%s%s", (int)(name - carriers[one]),
                     carriers[one], kernel_line_words(i), name + 2);
            if (!is_event(line, &event) ||
                (one == unknown && event.severity < FINDING_FATAL &&
                 (event.class == FINDING_CLASS_APP || event.class == FINDING_CLASS_HOST)))
                continue;
            print_error("%s\n", line);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void a_record_of_a_known_driver_is_a_fault_in_its_middle_too(void **state)
{
    static const char *const lines[] = {
        "NVRM: GPU at 0000:01:00.0 has fallen off the bus.",
        "0000:50:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
        "pcieport 0000:80:1b.4: AER: device recovery failed",
        "vfio-pci 0000:01:00.1: Unable to change power state from D3cold to D0, device "
        "inaccessible",
        "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3",
        "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3",
        "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data "
        "fabric sync flood event",
        "thermal thermal_zone0: critical temperature reached (105 C), shutting down",
        "bond-mgmt: (slave ens1f0): link status definitely down, disabling slave",
        "CPU 3: Machine Check Exception: 4 Bank 5: be00000000800400",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct kernel_event event;
        char line[256];

        snprintf(line, sizeof(line), "4,1234,900000000,-;%s", lines[i]);
        if (!is_event(line, &event))
            print_error("%s\n", line);
        assert_true(is_event(line, &event));
        assert_true(event.severity >= FINDING_ERROR);
    }
}

static void what_a_disk_calls_itself_is_no_fault(void **state)
{
    static const char *const lines[] = {
        "scsi 6:0:0:0: Direct-Access     Dead     Failed Timeout   1.00 PQ: 0 ANSI: 6",
        "scsi 6:0:0:0: Enclosure         Dead     Failed Timeout   1.00 PQ: 0 ANSI: 6",
        "BTRFS: device label failed corrupt devid 1 transid 5 /dev/sdb scanned by mount (123)",
        "BTRFS: device fsid 1234 devid 1 transid 5 /dev/sdb scanned by sda1: corrupted (123)",
        "Btrfs: device label failed corrupt devid 1 transid 5 /dev/sdb",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct kernel_event event;
        char line[256];

        assert_false(is_event(lines[i], &event));
        snprintf(line, sizeof(line), "4,1234,900000000,-;%s", lines[i]);
        assert_false(is_event(line, &event));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collected_line_is_classified),
        cmocka_unit_test(every_form_of_a_line_is_the_same_event),
        cmocka_unit_test(a_line_of_a_program_is_marked_and_suggests_nothing),
        cmocka_unit_test(a_gpu_that_left_the_bus_is_named_over_several_lines),
        cmocka_unit_test(the_data_of_an_nvswitch_error_is_no_second_one),
        cmocka_unit_test(a_follower_names_what_it_follows),
        cmocka_unit_test(only_the_number_of_154_counts),
        cmocka_unit_test(bits_of_link_errors_are_decoded),
        cmocka_unit_test(every_xid_of_the_catalogue_has_a_row),
        cmocka_unit_test(a_crash_of_another_program_matters_only_to_its_own_job),
        cmocka_unit_test(words_that_a_user_chose_are_no_fault),
        cmocka_unit_test(a_sentence_about_a_program_is_no_fault_whatever_its_name_is),
        cmocka_unit_test(a_process_is_named_as_it_likes_and_its_fault_stays_its_own),
        cmocka_unit_test(no_words_of_a_rule_in_a_name_without_quotes_are_a_fault),
        cmocka_unit_test(a_record_of_a_known_driver_is_a_fault_in_its_middle_too),
        cmocka_unit_test(what_a_disk_calls_itself_is_no_fault),
    };

    if (argc < 2)
        return 2;
    corpus = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
