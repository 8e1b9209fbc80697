/* kernel_trust.c - which part of a message the kernel itself chose.
 *
 * Any user can make the kernel print a text: the name of a process, of a file that crashed, of a cgroup, or the option of a
 * mount.  Words of faults in such a text are no fault.  Foreign text is in quotes, begins as a path, or has a known
 * place in the lines about processes and devices.  And in the middle of a record, words of a fault of the machine count only
 * if a known driver or part of the kernel speaks: of others nobody knows which text they print.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <string.h>

#include "core/clean.h"
#include "wire/kernel/kernel_private.h"

#define NAME_MOST                                                                                  \
    40 /* bytes in which a process's name and number end: the kernel cuts names at 15 */

/* What follows "[4242]: " or "[4242] " near the begin; the last one, since a name may contain another.  NULL: none. */
static const char *kernel_process_end(const char *text, const char *end)
{
    const char *found = NULL;

    end = MIN(end, text + NAME_MOST);
    for (const char *at = text; (at = memchr(at, '[', (size_t)(end - at)));) {
        const char *digits = ++at;

        while (at < end && isdigit((unsigned char)*at))
            at++;
        if (at == digits || end - at < 3 || *at != ']')
            continue;
        at += at[1] == ':' ? 2 : 1;
        if (*at == ' ')
            found = at + 1;
    }
    return found;
}

static bool kernel_begins(const char *text, const char *end, const char *words)
{
    size_t bytes = strlen(words);

    return (size_t)(end - text) >= bytes && memcmp(text, words, bytes) == 0;
}

/* Sentences about a process or about an interface that anybody can make, whose name stands before these words.  They are no
 * faults, whatever the name says.  The words count near the begin only: a name further behind must silence nothing.
 */
static bool kernel_tells_of_name(const char *text, const char *end)
{
    static const struct {
        const char *before, *behind;
    } sentences[] = {
        { "", " uses obsolete (" },
        { "", "): attempted to duplicate " },
        { "", "): /proc/" },
        { "", " uses deprecated " },
        { "", "): VmData " },
        { "", "): Using mlock " },
        { "", " is setting deprecated " },
        { "", ": page allocation " },
        { "", ": vmalloc" },
        { "", ": renamed from " },
        { "", ") entered " },
        { "", " forgot to set AF_INET" },
        { "", ": potentially unexpected fatal signal " },
        { "", "): drop_caches: " },
        { "", " calls setitimer() with " },
        { "", " sent an empty control message " },
        { "cgroup: ", " created nested cgroup " },
        { "XFS: ", ") possible memory allocation " },
        { "x86/split lock detection: #", "_lock trap " },
        { "Invalid argument reading file caps for ", "" },
    };

    for (size_t i = 0; i < COUNT(sentences); i++) {
        const char *from = text + strlen(sentences[i].before);

        if (kernel_begins(text, end, sentences[i].before) &&
            scan_find(from, MIN(end, from + NAME_MOST + strlen(sentences[i].behind)),
                      sentences[i].behind))
            return true;
    }
    return false;
}

/* "bond0: (slave eth1): ": what follows these two names; NULL: it does not begin with them. */
static const char *kernel_slave_end(const char *text, const char *end)
{
    static const char words[] = ": (slave ";
    const char *slave = scan_find(text, MIN(end, text + NAME_MOST), words);

    return slave ? scan_find(slave, MIN(end, slave + NAME_MOST), "): ") : NULL;
}

/* "1000 4242 131072 ...": a row of the table that follows an OOM, which ends with the name of a process. */
static bool kernel_is_row(const char *text, const char *end)
{
    int numbers = 0;

    while (text < end && numbers < 3) {
        const char *from = text;

        while (text < end && isdigit((unsigned char)*text))
            text++;
        if (text == from || text == end || *text != ' ')
            return false;
        while (text < end && *text == ' ')
            text++;
        numbers++;
    }
    return numbers == 3;
}

static const char *kernel_path_or_quote(const char *text, const char *end)
{
    for (const char *at = text; at < end; at++) {
        if ((*at == '\'' || *at == '"' || *at == '`') &&
            (at == text || !isalnum((unsigned char)at[-1]))) /* "can't" quotes nothing */
            return at;
        if (*at == '/' && at > text && (at[-1] == ' ' || at[-1] == '='))
            return at;
    }
    return end;
}

/* Behind these words stands the name of a process or of a file. */
static const char *kernel_name_begin(const char *text, const char *end, bool of_process)
{
    static const char *const words[] = { " Comm: ",       " comm ",
                                         " comm=",        " process ",
                                         "INFO: task ",   "Killed process ",
                                         "Kill process ", "Sending SIGBUS to ",
                                         "Killing " };
    const char *first = end;

    for (size_t i = 0; i < COUNT(words); i++) {
        const char *at = scan_find(text, end, words[i]);

        if (at)
            first = MIN(first, at + strlen(words[i]));
    }
    if (of_process) {
        const char *at = scan_find(text, end, " in ");

        first = at ? MIN(first, at) : first;
    }
    return first;
}

/* "WARNING: Pool 'tank' has encountered ...": what follows the name, which has no quotes; NULL: another sentence. */
static const char *kernel_pool_end(const char *text, const char *end)
{
    static const char words[] = "WARNING: Pool '";
    const char *quote =
        kernel_begins(text, end, words)
            ? memchr(text + sizeof(words) - 1, '\'', (size_t)(end - text) - (sizeof(words) - 1))
            : NULL;

    return quote ? quote + 1 : NULL;
}

/* "request_module: modprobe NAME cannot be processed", "usb 1-1: Product: NAME", "scsi 6:0:0:0: Direct-Access VENDOR MODEL 1.00
 * PQ: 0 ANSI: 6": lines that carry a name without quotes and report no fault.
 */
static bool kernel_carries_name(const char *text, const char *end)
{
    static const struct {
        const char *begin, *behind;
    } lines[] = {
        { "request_module: ", "" },
        { "input: ", "" },
        { "tmpfs: ", "" },
        { "usb ", ": Product: " },
        { "usb ", ": Manufacturer: " },
        { "usb ", ": SerialNumber: " },
        { "hid", ": input" },
        { "hid", ": hid" },
        { "scsi ", " PQ: " },
        { "BTRFS: device label ", "" },
        { "btrfs: device label ", "" },
        { "Btrfs: device label ", "" },
        { "device label ", "" },
        { "BTRFS: device fsid ", " scanned by " },
    };

    if (text == end || !strchr("rituhsBbd", *text)) /* as most lines */
        return false;
    for (size_t i = 0; i < COUNT(lines); i++)
        if (kernel_begins(text, end, lines[i].begin) && scan_find(text, end, lines[i].behind))
            return true;
    return false;
}

/* "bond-mgmt: (slave eth1): ", "mgmt: link status down": names of interfaces, which hold no blanks */
static bool kernel_is_bond(const char *text, const char *end)
{
    const char *blank = memchr(text, ' ', MIN((size_t)(end - text), (size_t)NAME_MOST));

    return blank && blank > text && blank[-1] == ':' &&
           (kernel_begins(blank, end, " (slave ") || kernel_begins(blank, end, " link status ") ||
            kernel_begins(blank, end, " now running "));
}

/* A driver or a part of the kernel that names itself first and prints no foreign text without quotes. */
bool kernel_speaker_is_known(const struct kernel_scan *scan)
{
    static const char *const speakers[] = {
        "watchdog: ",      "NMI watchdog: ", "Watchdog ",    "CPU ",   "AEST: ",      "EEH: ",
        "print_req_error", "recoverable ",   "reboot: ",     "x86/",   "gim ",        "bonding: ",
        "trusted_key: ",   "brcm-pcie ",     "mtk_soc_eth ", "mt7530", "ib_mlx5_log", "nvidia",
        "core: [Hardware",
    };
    const char *text = scan->text, *end = scan->end;
    const char *blank = memchr(text, ' ', MIN((size_t)(end - text), (size_t)NAME_MOST));
    const char *address;
    char device[KERNEL_DEVICE];

    if (kernel_grammar_kind(scan))
        return true;
    for (size_t i = 0; i < COUNT(speakers); i++)
        if (kernel_begins(text, end, speakers[i]))
            return true;
    if (kernel_is_bond(text, end))
        return true;
    address = scan_pci(text, end, true, device);
    if (address && kernel_begins(address, end, ": "))
        return true;
    return blank && scan_pci(blank + 1, end, true, device); /* the driver, and then the address */
}

void kernel_trust(struct kernel_scan *scan)
{
    const char *pool = kernel_pool_end(scan->text, scan->end);
    const char *text = scan->text, *end = scan->end;
    const char *process = kernel_process_end(text, end);
    const char *oom = scan_find(text, MIN(end, text + NAME_MOST), " invoked oom-killer");
    const char *slave = kernel_slave_end(text, end);

    scan->trust_from = process ? process : text;
    if (kernel_begins(text, end, "traps: ")) /* its words stand before the name */
        scan->trust_from = text;
    if (oom)
        scan->trust_from = oom + 1;
    if (slave)
        scan->trust_from = slave + 1;
    if (kernel_begins(text, end, "task:") || kernel_is_row(text, end) ||
        kernel_carries_name(text, end) || kernel_tells_of_name(text, end))
        scan->trust_from = end;
    scan->trust_to = kernel_path_or_quote(text, end);
    scan->trust_to = MIN(scan->trust_to, kernel_name_begin(text, end, process != NULL));
    if (kernel_begins(text, end, "traps: "))
        scan->trust_to = text + 1;
    if (pool) {
        scan->trust_from = pool;
        scan->trust_to = end;
    }
}
