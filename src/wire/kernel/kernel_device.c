/* kernel_device.c - lines about PCIe, network adapters, disks and file systems.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"
#include "wire/verdict.h"

#define BOOT_NS (90 * NS_PER_S) /* links come and go until then */

static bool kernel_begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Of "mlx5_core 0000:81:00.0 ens2np0: Link down" the words are the last ones; the name ends before them. */
static void kernel_word_before(const struct kernel_scan *scan, const char *at, char *out,
                               size_t room)
{
    const char *end = at, *from;

    while (end > scan->text && (end[-1] == ' ' || end[-1] == ':'))
        end--;
    for (from = end; from > scan->text && from[-1] != ' ';)
        from--;
    scan_word(from, end, "", out, room);
}

/* The device that had the error stands behind the words if a port reports it, else before them. */
bool device_aer(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *colon = scan_find(scan->after, scan->end, "received"), *text = scan->found;

    if (scan_find(text, scan->end, "Fatal)") && !scan_find(text, scan->end, "Non-Fatal)")) {
        event->what = "fatal PCIe error";
        event->severity = FINDING_FATAL;
        event->action = ACTION_REBOOT;
    } else if (scan_find(text, scan->end, "Uncorrect")) {
        event->what = "uncorrected PCIe error";
        event->severity = FINDING_ERROR;
        event->action = ACTION_INSPECT;
    } else if (scan_find(text, scan->end, "orrect")) {
        event->what = "corrected PCIe errors";
        event->severity = FINDING_WARN;
        event->action = ACTION_NONE;
        event->layer = LAYER_UNKNOWN;
    } else {
        return false;
    }
    if (!colon || !scan_pci_in(colon, scan->end, true, event->device))
        scan_pci_in(scan->text, scan->end, true, event->device);
    return true;
}

bool device_pci(const struct kernel_scan *scan, struct kernel_event *event)
{
    scan_pci_in(scan->text, scan->end, true, event->device);
    return true;
}

/* "nvme 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible" */
bool device_power(const struct kernel_scan *scan, struct kernel_event *event)
{
    return scan_find(scan->text, scan->found, "change power state") &&
           scan_pci_in(scan->text, scan->found, true, event->device);
}

/* Interfaces of containers, bridges and virtual machines come and go with these. */
static bool kernel_is_virtual(const char *name)
{
    static const char *const prefixes[] = { "veth", "docker", "br-",  "virbr", "cali",
                                            "cni",  "lo",     "tap",  "vnet",  "flannel",
                                            "tun",  "dummy",  "vlan", "usb",   "wl",
                                            "ovs",  "cilium", "lxc",  "phy",   "vmnet" };

    for (size_t i = 0; i < COUNT(prefixes); i++) {
        if (kernel_begins(name, prefixes[i]))
            return true;
    }
    return false;
}

/* "mlx5_core 0000:5c:00.0 ens1: ...", "infiniband mlx5_0: ...": the interface if there is one, else the address. */
static void kernel_nic_name(const struct kernel_scan *scan, struct kernel_event *event)
{
    char word[KERNEL_DEVICE];
    const char *at = memchr(scan->text, ' ', (size_t)(scan->end - scan->text)), *behind;

    if (!at)
        return;
    at++;
    behind = scan_pci(at, scan->end, true, word);
    if (!behind) {
        scan_word(at, scan->end, " :", event->device, sizeof(event->device));
        return;
    }
    memcpy(event->device, word, sizeof(word));
    if (behind < scan->end && *behind == ' ') {
        scan_word(behind + 1, scan->end, " ", word, sizeof(word));
        if (strlen(word) > 2 && word[strlen(word) - 1] == ':' && !memchr(word, '(', strlen(word))) {
            word[strlen(word) - 1] = '\0';
            if (!strchr(word, ':'))
                memcpy(event->device, word, sizeof(word));
        }
    }
}

static bool kernel_line_begins(const struct kernel_scan *scan, const char *words)
{
    size_t bytes = strlen(words);

    return (size_t)(scan->end - scan->text) > bytes && memcmp(scan->text, words, bytes) == 0;
}

static bool kernel_is_nic(const struct kernel_scan *scan)
{
    static const char *const drivers[] = {
        "mlx5",  "mlx4", "infiniband", "ib",    "bnxt",  "ice ",     "i40e",  "ixgbe",    "igb",
        "e1000", "tg3",  "efa",        "irdma", "hns",   "qed",      "ionic", "ena",      "be2net",
        "igc",   "ice:", "cxgb4",      "hfi1",  "gv",    "virtio_n", "enic",  "atlantic", "sfc",
        "bnx2x", "iavf", "idpf",       "mana",  "hinic", "r8169",    "erdma"
    };

    for (size_t i = 0; i < COUNT(drivers); i++) {
        if (kernel_line_begins(scan, drivers[i]))
            return true;
    }
    return false;
}

bool device_nic(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!kernel_is_nic(scan))
        return false;
    kernel_nic_name(scan, event);
    return true;
}

/* "1-1.3:1.0": an interface of a USB device */
static bool device_is_usb(const char *text)
{
    static const char digits[] = "0123456789", port[] = "0123456789.";
    size_t bus = strspn(text, digits), ports, configuration;

    if (!bus || text[bus] != '-')
        return false;
    ports = strspn(text + bus + 1, port);
    text += bus + 1 + ports;
    configuration = *text == ':' ? strspn(text + 1, digits) : 0;
    if (!ports || !configuration || text[1 + configuration] != '.')
        return false;
    text += configuration + 2;
    return isdigit((unsigned char)*text) && !text[strspn(text, digits)];
}

/* The name of a process that looks like it is cut after 15 bytes: no place and word of a fault fit into it. */
static bool device_is_place(const char *text)
{
    char address[KERNEL_DEVICE];

    return device_is_usb(text) || (scan_pci_in(text, text + strlen(text), true, address) &&
                                   strncmp(text, address, strlen(address)) == 0);
}

/* "r8152 1-1.3:1.0 eth1: ...", "atlantic 0000:81:00.0 enp129s0: ...": as the kernel begins the messages of any interface */
bool device_netdev(const struct kernel_scan *scan, struct kernel_event *event)
{
    char driver[KERNEL_DEVICE], place[KERNEL_DEVICE], name[KERNEL_DEVICE];
    const char *at = scan->text;
    size_t bytes;

    scan_word(at, scan->end, " ", driver, sizeof(driver));
    at += strlen(driver) + 1;
    if (!driver[0] || strchr(driver, ':') || at >= scan->end)
        return false;
    scan_word(at, scan->end, " ", place, sizeof(place));
    at += strlen(place) + 1;
    if (!device_is_place(place) || at >= scan->end)
        return false;
    scan_word(at, scan->end, " ", name, sizeof(name));
    bytes = strlen(name);
    if (bytes < 3 || name[bytes - 1] != ':' || !isalpha((unsigned char)name[0]))
        return false;
    name[bytes - 1] = '\0';
    if (kernel_is_virtual(name) || !(kernel_begins(name, "e") || kernel_begins(name, "ib")))
        return false;
    memcpy(event->device, name, sizeof(name));
    return true;
}

/* "e1000e: eno1 NIC Link is Down", "mlx5_core 0000:81:00.0 ens2np0: Link down", "mlx5_5: Port: 1 Link DOWN".  Ports of
 * disks say it, too, and every interface says it once while it is set up.
 */
bool device_carrier(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan->found;
    char name[KERNEL_DEVICE];
    uint8_t kind;

    if (scan->boot_ns && scan->boot_ns < BOOT_NS)
        return false;
    kind = kernel_grammar_kind(scan);
    if (kind && kind != FINDING_NIC)
        return false; /* disks and slots have links, too */
    if (scan_has(scan, "SATA") || scan_has(scan, "ata") || scan_has(scan, "Slot(") ||
        scan_has(scan, "usb ") || scan_has(scan, "NVRM") || scan_has(scan, "nvidia") ||
        scan_has(scan, " link down event")) /* of a virtual machine's own network */
        return false;
    if (at - scan->text >= 4 && memcmp(at - 4, "NIC ", 4) == 0)
        at -= 4;
    if (at - scan->text >= 8 && memcmp(at - 8, "Port: ", 6) == 0)
        at -= 8;
    kernel_word_before(scan, at, name, sizeof(name));
    if (!name[0] || kernel_is_virtual(name))
        return false;
    memcpy(event->device, name, sizeof(name));
    return true;
}

/* "NETDEV WATCHDOG: eth0 (r8169): transmit queue 0 timed out", "NETDEV WATCHDOG: CPU: 3: eth0 (mlx5_core): ..." */
bool device_watchdog(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan->after;

    while (at < scan->end && *at == ' ')
        at++;
    if (scan->end - at > 5 && memcmp(at, "CPU: ", 5) == 0) {
        at = memchr(at + 5, ':', (size_t)(scan->end - at - 5));
        at = at ? at + 1 + strspn(at + 1, " ") : scan->end;
    }
    scan_word(at, scan->end, " :(", event->device, sizeof(event->device));
    if (kernel_begins(event->device, "transmit")) /* newer kernels name the interface first */
        kernel_word_before(scan, scan->found, event->device, sizeof(event->device));
    return !kernel_is_virtual(event->device);
}

bool device_bond(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan_find(scan->found, scan->end, "interface ");
    const char *slave = scan_find(scan->text, scan->found, "(slave ");

    if (at)
        scan_word(at + 10, scan->end, " ,", event->device, sizeof(event->device));
    else if (slave)
        scan_word(slave + 7, scan->found, ")", event->device, sizeof(event->device));
    return true;
}

/* "mlx5_core 0000:5c:00.0: Port module event: module 0, Cable unplugged" */
bool device_module(const struct kernel_scan *scan, struct kernel_event *event)
{
    kernel_nic_name(scan, event);
    if (scan_find(scan->after, scan->end, "nplugged"))
        event->what = "cable unplugged";
    else if (scan_find(scan->after, scan->end, "emperature"))
        event->what = "cable or transceiver too hot";
    else if (!scan_find(scan->after, scan->end, "rror"))
        return false;
    return true;
}

/* "nvme nvme0: ...", "nvme0n1: Read(0x2) @ LBA ..." */
bool device_nvme(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan_find(scan->text, scan->end, "nvme");

    if (!at)
        return false;
    if (scan->end - at > 5 && at[4] == ' ')
        at += 5;
    scan_word(at, scan->end, " :", event->device, sizeof(event->device));
    return kernel_begins(event->device, "nvme") || scan_pci_in(at, scan->end, true, event->device);
}

static bool kernel_is_loop(const char *name)
{
    return kernel_begins(name, "loop");
}

/* Floppies and optical disks say nothing about the storage of a job. */
static bool kernel_is_disk(const char *name)
{
    return !(kernel_begins(name, "fd") && isdigit((unsigned char)name[2])) &&
           !(kernel_begins(name, "sr") && isdigit((unsigned char)name[2])) &&
           !kernel_begins(name, "ram") && !kernel_begins(name, "zram") &&
           !kernel_begins(name, "nbd");
}

bool device_matters(const char *name)
{
    return kernel_is_disk(name) && !kernel_is_loop(name) && !kernel_is_virtual(name);
}

/* "I/O error, dev sdb, sector 2048 ..." */
bool device_block(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan_find(scan->found, scan->end, " dev ");
    size_t skip = 5;

    if (!at) {
        at = scan_find(scan->found, scan->end, " device ");
        skip = 8;
    }
    if (!at)
        at = scan_find(scan->found, scan->end, " on ");
    if (!at)
        return false;
    if (scan_has(scan, "critical target error") &&
        (scan_has(scan, "(DISCARD)") || scan_has(scan, "(WRITE_ZEROES)")))
        return false; /* the disk does not know this request */
    if (skip == 8 && at[1] == 'o')
        skip = 4;
    scan_word(at + skip, scan->end, " ,:.", event->device, sizeof(event->device));
    if (kernel_is_loop(event->device) && !scan_has(scan, "(WRITE)"))
        return false; /* whoever detaches one gets errors of its last reads */
    return event->device[0] && kernel_is_disk(event->device);
}

/* "ata2.00: failed command: READ FPDMA QUEUED" */
bool device_ata(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (scan->end - scan->text < 4 || memcmp(scan->text, "ata", 3) != 0)
        return false;
    scan_word(scan->text, scan->end, " :", event->device, sizeof(event->device));
    return true;
}

/* "sd 0:0:21:0: [sdv] tag#0 Sense Key : Medium Error [current]" */
bool device_scsi(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = memchr(scan->text, '[', (size_t)(scan->end - scan->text));

    if (scan->end - scan->text < 5 ||
        (memcmp(scan->text, "sd ", 3) != 0 && memcmp(scan->text, "scsi", 4) != 0))
        return false;
    if (at && at + 2 < scan->end && at[1] == 's')
        scan_word(at + 1, scan->end, "]", event->device, sizeof(event->device));
    else
        scan_word(scan->text + (scan->text[1] == 'd' ? 3 : 0), scan->end, " ", event->device,
                  sizeof(event->device));
    return true;
}

/* "sd 4:0:1:0: attempting task abort! scmd(...)", "mpt3sas_cm0: fault_state(0x265d)!", "megaraid_sas 0000:03:00.0: ..." */
bool device_sas(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (device_scsi(scan, event))
        return true;
    if (!kernel_line_begins(scan, "mpt") && !kernel_line_begins(scan, "megaraid_sas"))
        return false;
    if (!scan_pci_in(scan->text, scan->end, true, event->device))
        scan_word(scan->text, scan->end, " :", event->device, sizeof(event->device));
    return true;
}

/* "nvme2n1: detected capacity change from 30003124224 to 0" */
bool device_vanished(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *to = scan_find(scan->after, scan->end, " to 0");

    if (!to || (to + 5 < scan->end && isdigit((unsigned char)to[5])))
        return false;
    scan_word(scan->text, scan->end, " :", event->device, sizeof(event->device));
    return kernel_is_disk(event->device) && !kernel_is_loop(event->device);
}

/* "EXT4-fs error (device sda1): ...", "XFS (nvme0n1p1): ...", "Aborting journal on device dm-0-8." */
bool device_filesystem(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = memchr(scan->text, '(', (size_t)(scan->end - scan->text));
    const char *on = scan_find(scan->found, scan->end, "on device ");

    if (on)
        scan_word(on + 10, scan->end, " :,", event->device, sizeof(event->device));
    else if (at && scan->end - at > 8 && memcmp(at + 1, "device ", 7) == 0)
        scan_word(at + 8, scan->end, " ):", event->device, sizeof(event->device));
    else if (at)
        scan_word(at + 1, scan->end, " ):", event->device, sizeof(event->device));
    return kernel_is_disk(event->device);
}

/* "EXT4-fs warning (device sdb1): ext4_end_bio:348: I/O error 10 writing to inode 29547"; others are about usage. */
bool device_ext4_io(const struct kernel_scan *scan, struct kernel_event *event)
{
    return (scan_find(scan->after, scan->end, "I/O error") ||
            scan_find(scan->after, scan->end, "missing '.") ||
            scan_find(scan->after, scan->end, "orrupt")) &&
           device_filesystem(scan, event);
}

/* "nfs: server nas1 not responding, still trying" */
bool device_nfs(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *server = scan_find(scan->text, scan->found, "server ");

    if (!server)
        return false;
    scan_word(server + 7, scan->found, " ", event->device, sizeof(event->device));
    return true;
}

/* "LustreError: 11-0: fs-OST0000-osc-...: operation ost_read to node 10.0.1.5@tcp failed: rc = -107" */
bool device_lustre(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan->after;
    char word[KERNEL_DEVICE];

    if (scan_find(scan->after, scan->end, "previous similar message"))
        return false;
    for (int i = 0; i < 3 && at < scan->end; i++) {
        while (at < scan->end && (*at == ' ' || *at == ':'))
            at++;
        scan_word(at, scan->end, " ", word, sizeof(word));
        if (strstr(word, "OST") || strstr(word, "MDT") || strstr(word, "MGC") ||
            strstr(word, "-mdc") || strstr(word, "-osc")) {
            word[strcspn(word, ":")] = '\0';
            memcpy(event->device, word, sizeof(word));
            return true;
        }
        at += strlen(word);
    }
    return true;
}

/* "Lustre: fs-OST0000-osc-...: Connection to fs-OST0000 (at ...) was lost; in progress operations ..." */
bool device_lustre_lost(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!scan_find(scan->after, scan->end, " was lost") &&
        !scan_find(scan->after, scan->end, "evicted by") &&
        !scan_find(scan->after, scan->end, "has failed due to") &&
        !scan_find(scan->after, scan->end, "has timed out"))
        return false;
    return device_lustre(scan, event);
}

/* "libceph: osd12 down", "libceph: mon0 (1)10.0.0.1:6789 session lost, hunting for new mon", "ceph: mds0 hung" */
bool device_ceph(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const char *const failures[] = { " down",
                                            "hung",
                                            "session lost",
                                            "socket closed",
                                            " error",
                                            "connection reset",
                                            "bad crc",
                                            "wrong peer",
                                            "timed out",
                                            "locklisted",
                                            "lacklisted",
                                            "reconnect denied",
                                            "dropping dirty",
                                            "closed our session",
                                            "feature set mismatch",
                                            "caps stale",
                                            "connect failed" };
    const char *name = scan_find(scan->found, scan->end, ": "), *bracket;
    bool failed = false;

    for (size_t i = 0; i < COUNT(failures); i++)
        failed |= scan_find(scan->after, scan->end, failures[i]) != NULL;
    if (!failed)
        return false;
    if (name && name + 2 < scan->end && name[2] == '[') { /* "ceph: [FSID 4242]: mds0 hung" */
        bracket = scan_find(name, scan->end, "]: ");
        name = bracket ? bracket + 1 : name;
    }
    if (name)
        scan_word(name + 2, scan->end, " ", event->device, sizeof(event->device));
    return true;
}

/* "CIFS: VFS: \\nas1 has not responded in 180 seconds. Reconnecting..." */
bool device_cifs(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!scan_has(scan, "CIFS"))
        return false;
    kernel_word_before(scan, scan->found, event->device, sizeof(event->device));
    return true;
}

bool device_xfs(const struct kernel_scan *scan, struct kernel_event *event)
{
    return scan_find(scan->text, scan->found, "XFS (") && device_filesystem(scan, event);
}

/* "pciehp 0000:00:1c.0:pcie004: Slot(0): Link Down" */
bool device_slot(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *slot = scan_find(scan->text, scan->found, "lot("); /* older kernels: "slot(6)" */

    if (!slot || slot == scan->text || !scan_has(scan, "pcie") || scan_has(scan, "ignored"))
        return false;
    if (!scan_pci_in(scan->text, slot, true, event->device))
        scan_word(slot - 1, scan->found, ":", event->device, sizeof(event->device));
    return true;
}

/* "vfio-pci 0000:3b:00.0: not ready 65535ms after FLR; giving up"; before that it waits. */
bool device_not_ready(const struct kernel_scan *scan, struct kernel_event *event)
{
    return scan_find(scan->after, scan->end, "giving up") &&
           scan_pci_in(scan->text, scan->found, true, event->device);
}

/* "sd 0:2:6:0: [sdg]  Result: hostbyte=DID_BAD_TARGET driverbyte=DRIVER_OK"; requests that the disk refuses have DID_OK. */
bool device_host_byte(const struct kernel_scan *scan, struct kernel_event *event)
{
    return !scan_find(scan->found, scan->end, "hostbyte=DID_OK") && device_scsi(scan, event);
}

/* "mlx5_core: probe of 0000:41:00.0 failed with error -22", "nvme 0000:41:00.0: probe with driver nvme failed with error -5";
 * drivers of other devices hurt no job.
 */
bool device_probe(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct {
        const char *driver;
        uint8_t kind, class, layer;
    } drivers[] = {
        { "nvme", FINDING_NVME, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "nvidia", FINDING_NVRM, FINDING_CLASS_DRIVER, LAYER_GPU },
        { "amdgpu", FINDING_NVRM, FINDING_CLASS_DRIVER, LAYER_GPU },
        { "habanalabs", FINDING_NVRM, FINDING_CLASS_DRIVER, LAYER_GPU },
        { "megaraid_sas", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "mpt3sas", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "hpsa", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "smartpqi", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "aacraid", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "qla2xxx", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
        { "lpfc", FINDING_BLOCK, FINDING_CLASS_STORAGE, LAYER_STORAGE },
    };
    bool known = kernel_is_nic(scan);

    if (!scan_find(scan->after, scan->end, " failed with error"))
        return false;
    for (size_t i = 0; i < COUNT(drivers) && !known; i++) {
        if (!kernel_line_begins(scan, drivers[i].driver))
            continue;
        event->kind = drivers[i].kind;
        event->class = drivers[i].class;
        event->layer = drivers[i].layer;
        known = true;
    }
    scan_pci_in(scan->text, scan->end, event->kind != FINDING_NVRM, event->device);
    return known;
}

/* "synd 0x1: firmware internal error"; 0x0 is none. */
bool device_syndrome(const struct kernel_scan *scan, struct kernel_event *event)
{
    uint64_t syndrome;

    return scan_number(scan->after, scan->end, 16, &syndrome) && syndrome &&
           device_nic(scan, event);
}
