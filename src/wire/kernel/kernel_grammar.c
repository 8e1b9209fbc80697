/* kernel_grammar.c - lines that no rule knows: who speaks, and which words it uses.
 *
 * Drivers have tens of thousands of messages, and new kernels add some, so most faults of a known kind come in words that no
 * table has.  But a message names its driver or device first, and the words of faults are few: a timeout, a device that does
 * not respond, a failed reset, a lost connection.  So a line is read as a subject and a set of words, and a few combinations of
 * words are faults.  Which ones depends on the subject: drivers of GPUs and adapters refuse requests of programs in words that
 * for a disk mean a fault.
 *
 * Only words that the kernel chose count: kernel_trust() says where they end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"
#include "wire/verdict.h"

#define WORD_MOST 24
#define BOOT_NS (90 * NS_PER_S) /* links come and go until then */

/* ---- who speaks ---- */

enum grammar_group {
    GROUP_NONE,
    GROUP_NIC,
    GROUP_NVME,
    GROUP_DISK,
    GROUP_ATA,
    GROUP_FILES,
    GROUP_REMOTE,
    GROUP_GPU,
    GROUP_NVLINK,
    GROUP_PCI,
    GROUP_MEMORY,
    GROUP_CPU,
    GROUP_HEAT,
    GROUPS
};

enum grammar_follows {
    WHOLE,  /* the name ends */
    NUMBER, /* and then a digit */
    ANY
};

/* Names of drivers, subsystems and devices at the begin of a message; by their first character, and then the first that matches
 * counts.
 */
static const struct grammar_subject {
    const char *name;
    uint8_t follows, group;
} grammar_subjects[] = {
    { "3w-", ANY, GROUP_DISK },
    { "8139", ANY, GROUP_NIC },
    { "9p", ANY, GROUP_REMOTE },
    { "Buffer", WHOLE, GROUP_DISK },
    { "BTRFS", WHOLE, GROUP_FILES },
    { "Btrfs", WHOLE, GROUP_FILES },
    { "BeeGFS", WHOLE, GROUP_REMOTE },
    { "CacheFiles", WHOLE, GROUP_FILES },
    { "CIFS", WHOLE, GROUP_REMOTE },
    { "CPU", NUMBER, GROUP_HEAT },
    { "DVS", WHOLE, GROUP_REMOTE },
    { "EXT", ANY, GROUP_FILES },
    { "EDAC", WHOLE, GROUP_MEMORY },
    { "F2FS-fs", WHOLE, GROUP_FILES },
    { "GFS2", WHOLE, GROUP_FILES },
    { "GPFS", WHOLE, GROUP_REMOTE },
    { "GHES", WHOLE, GROUP_CPU },
    { "JBD", ANY, GROUP_FILES },
    { "LDISKFS-fs", WHOLE, GROUP_FILES },
    { "Lustre", ANY, GROUP_REMOTE },
    { "LNet", ANY, GROUP_REMOTE },
    { "Memory failure", WHOLE, GROUP_MEMORY },
    { "MCE", WHOLE, GROUP_CPU },
    { "NFSD", ANY, GROUP_NONE },
    { "NFS", ANY, GROUP_REMOTE },
    { "NVRM", WHOLE, GROUP_GPU },
    { "OCFS2", WHOLE, GROUP_FILES },
    { "REISERFS", WHOLE, GROUP_FILES },
    { "RPC", ANY, GROUP_REMOTE },
    { "SQUASHFS", WHOLE, GROUP_FILES },
    { "SMB", ANY, GROUP_REMOTE },
    { "WARNING: Pool", WHOLE, GROUP_FILES },
    { "XFS", WHOLE, GROUP_FILES },
    { "ZFS", WHOLE, GROUP_FILES },
    { "[drm", ANY, GROUP_GPU },
    { "[Hardware Error]", WHOLE, GROUP_CPU },
    { "atlantic", WHOLE, GROUP_NIC },
    { "alx", WHOLE, GROUP_NIC },
    { "atl1", ANY, GROUP_NIC },
    { "amd-xgbe", WHOLE, GROUP_NIC },
    { "ata", NUMBER, GROUP_ATA },
    { "ahci", WHOLE, GROUP_ATA },
    { "aacraid", WHOLE, GROUP_DISK },
    { "aac", ANY, GROUP_DISK },
    { "arcmsr", ANY, GROUP_DISK },
    { "alua", WHOLE, GROUP_DISK },
    { "amdgpu", ANY, GROUP_GPU },
    { "amdkfd", WHOLE, GROUP_GPU },
    { "bnxt", ANY, GROUP_NIC },
    { "bnx2", ANY, GROUP_NIC },
    { "be2net", WHOLE, GROUP_NIC },
    { "bna", WHOLE, GROUP_NIC },
    { "bcmgenet", WHOLE, GROUP_NIC },
    { "bond", NUMBER, GROUP_NIC },
    { "blk_", ANY, GROUP_DISK },
    { "blk-mq", WHOLE, GROUP_DISK },
    { "bcache", WHOLE, GROUP_DISK },
    { "bfa", WHOLE, GROUP_DISK },
    { "bnx2i", WHOLE, GROUP_DISK },
    { "bnx2fc", WHOLE, GROUP_DISK },
    { "btrfs", WHOLE, GROUP_FILES },
    { "bcachefs", WHOLE, GROUP_FILES },
    { "beegfs", WHOLE, GROUP_REMOTE },
    { "cxgb", ANY, GROUP_NIC },
    { "cxi", ANY, GROUP_NIC },
    { "cciss", WHOLE, GROUP_DISK },
    { "connection", NUMBER, GROUP_DISK },
    { "cachefiles", WHOLE, GROUP_FILES },
    { "cifs", ANY, GROUP_REMOTE },
    { "ceph", ANY, GROUP_REMOTE },
    { "coretemp", WHOLE, GROUP_HEAT },
    { "dm", WHOLE, GROUP_DISK },
    { "dm-", ANY, GROUP_DISK },
    { "device-mapper", WHOLE, GROUP_DISK },
    { "drbd", ANY, GROUP_DISK },
    { "e1000", ANY, GROUP_NIC },
    { "e100", WHOLE, GROUP_NIC },
    { "ena", WHOLE, GROUP_NIC },
    { "efa", WHOLE, GROUP_NIC },
    { "efa_", NUMBER, GROUP_NIC },
    { "enic", WHOLE, GROUP_NIC },
    { "erdma", WHOLE, GROUP_NIC },
    { "eth", NUMBER, GROUP_NIC },
    { "eno", NUMBER, GROUP_NIC },
    { "ens", NUMBER, GROUP_NIC },
    { "enp", NUMBER, GROUP_NIC },
    { "enP", NUMBER, GROUP_NIC },
    { "enx", ANY, GROUP_NIC },
    { "em", NUMBER, GROUP_NIC },
    { "end_request", WHOLE, GROUP_DISK },
    { "expander-", ANY, GROUP_DISK },
    { "ext4", ANY, GROUP_FILES },
    { "erofs", WHOLE, GROUP_FILES },
    { "fm10k", WHOLE, GROUP_NIC },
    { "forcedeth", WHOLE, GROUP_NIC },
    { "fnic", ANY, GROUP_DISK },
    { "fcoe", WHOLE, GROUP_DISK },
    { "fuse", WHOLE, GROUP_REMOTE },
    { "gve", WHOLE, GROUP_NIC },
    { "gvnic", WHOLE, GROUP_NIC },
    { "gfs2", WHOLE, GROUP_FILES },
    { "ghes", ANY, GROUP_CPU },
    { "hns", ANY, GROUP_NIC },
    { "hclge", ANY, GROUP_NIC },
    { "hinic", ANY, GROUP_NIC },
    { "hv_netvsc", WHOLE, GROUP_NIC },
    { "hfi1", ANY, GROUP_NIC },
    { "hv_storvsc", WHOLE, GROUP_DISK },
    { "hpsa", WHOLE, GROUP_DISK },
    { "hisi_sas", ANY, GROUP_DISK },
    { "habanalabs", WHOLE, GROUP_GPU },
    { "ice", WHOLE, GROUP_NIC },
    { "i40e", ANY, GROUP_NIC },
    { "i40iw", WHOLE, GROUP_NIC },
    { "iavf", WHOLE, GROUP_NIC },
    { "idpf", WHOLE, GROUP_NIC },
    { "ixgb", ANY, GROUP_NIC },
    { "igb", ANY, GROUP_NIC },
    { "igc", WHOLE, GROUP_NIC },
    { "iw_cxgb", ANY, GROUP_NIC },
    { "ionic", WHOLE, GROUP_NIC },
    { "irdma", WHOLE, GROUP_NIC },
    { "ib_", ANY, GROUP_NIC },
    { "ib", NUMBER, GROUP_NIC },
    { "ibs", NUMBER, GROUP_NIC },
    { "ibp", NUMBER, GROUP_NIC },
    { "ipoib", WHOLE, GROUP_NIC },
    { "infiniband", WHOLE, GROUP_NIC },
    { "isci", WHOLE, GROUP_DISK },
    { "ipr", WHOLE, GROUP_DISK },
    { "ips", WHOLE, GROUP_DISK },
    { "iscsi", ANY, GROUP_DISK },
    { "ibmvfc", WHOLE, GROUP_DISK },
    { "ibmvscsi", WHOLE, GROUP_DISK },
    { "i915", WHOLE, GROUP_GPU },
    { "jbd2", WHOLE, GROUP_FILES },
    { "kafs", WHOLE, GROUP_REMOTE },
    { "kfd", WHOLE, GROUP_GPU },
    { "lpfc", WHOLE, GROUP_DISK },
    { "libiscsi", WHOLE, GROUP_DISK },
    { "libfc", WHOLE, GROUP_DISK },
    { "lockd", WHOLE, GROUP_REMOTE },
    { "libceph", WHOLE, GROUP_REMOTE },
    { "mlx4", ANY, GROUP_NIC },
    { "mlx5", ANY, GROUP_NIC },
    { "mlx", ANY, GROUP_NIC },
    { "mana", ANY, GROUP_NIC },
    { "mvneta", WHOLE, GROUP_NIC },
    { "mvpp2", WHOLE, GROUP_NIC },
    { "macb", WHOLE, GROUP_NIC },
    { "md", NUMBER, GROUP_DISK },
    { "md", WHOLE, GROUP_DISK },
    { "mega", ANY, GROUP_DISK },
    { "mpt", ANY, GROUP_DISK },
    { "mpi3mr", ANY, GROUP_DISK },
    { "mvsas", WHOLE, GROUP_DISK },
    { "mtip32xx", WHOLE, GROUP_DISK },
    { "mmfs", ANY, GROUP_REMOTE },
    { "mce", WHOLE, GROUP_CPU },
    { "netxen", ANY, GROUP_NIC },
    { "nfp", WHOLE, GROUP_NIC },
    { "nicvf", WHOLE, GROUP_NIC },
    { "net", WHOLE, GROUP_NIC },
    { "nvmet", ANY, GROUP_NONE }, /* what others do with the disks of this node */
    { "nvme", ANY, GROUP_NVME },
    { "nd_pmem", WHOLE, GROUP_DISK },
    { "nd", WHOLE, GROUP_DISK },
    { "nfsd", ANY, GROUP_NONE }, /* what others do with the files of this node */
    { "nfs", ANY, GROUP_REMOTE },
    { "nvidia-nvlink", WHOLE, GROUP_NVLINK },
    { "nvidia-nvswitch", ANY, GROUP_NVLINK },
    { "nvidia-uvm", WHOLE, GROUP_GPU },
    { "nvidia", WHOLE, GROUP_GPU },
    { "neuron", ANY, GROUP_GPU },
    { "octeon", ANY, GROUP_NIC },
    { "opa", WHOLE, GROUP_NIC },
    { "ocrdma", ANY, GROUP_NIC },
    { "ocfs2", WHOLE, GROUP_FILES },
    { "orangefs", WHOLE, GROUP_REMOTE },
    { "pm80", ANY, GROUP_DISK },
    { "pmem", NUMBER, GROUP_DISK },
    { "ptlrpc", ANY, GROUP_REMOTE },
    { "pcieport", WHOLE, GROUP_PCI },
    { "pciehp", WHOLE, GROUP_PCI },
    { "pcie", WHOLE, GROUP_PCI },
    { "pci", WHOLE, GROUP_PCI },
    { "qed", ANY, GROUP_NIC },
    { "qlcnic", WHOLE, GROUP_NIC },
    { "qlge", WHOLE, GROUP_NIC },
    { "qib", ANY, GROUP_NIC },
    { "qla2xxx", WHOLE, GROUP_DISK },
    { "qla4xxx", WHOLE, GROUP_DISK },
    { "rvu_", ANY, GROUP_NIC },
    { "r8169", WHOLE, GROUP_NIC },
    { "r8168", WHOLE, GROUP_NIC },
    { "r8125", WHOLE, GROUP_NIC },
    { "r8126", WHOLE, GROUP_NIC },
    { "r8127", WHOLE, GROUP_NIC },
    { "rdma", ANY, GROUP_NIC },
    { "roce", ANY, GROUP_NIC },
    { "raid", NUMBER, GROUP_DISK },
    { "rbd", ANY, GROUP_DISK },
    { "rport-", ANY, GROUP_DISK },
    { "rpc", ANY, GROUP_REMOTE },
    { "radeon", WHOLE, GROUP_GPU },
    { "sfc", ANY, GROUP_NIC },
    { "sky2", WHOLE, GROUP_NIC },
    { "stmmac", ANY, GROUP_NIC },
    { "sd", NUMBER,
      GROUP_DISK }, /* "sd 2:0:0:0: [sdb]" has a blank first: see grammar_subject_is() */
    { "scsi", ANY, GROUP_DISK },
    { "sata_", ANY, GROUP_ATA },
    { "storvsc", ANY, GROUP_DISK },
    { "smartpqi", WHOLE, GROUP_DISK },
    { "snic", WHOLE, GROUP_DISK },
    { "session", NUMBER, GROUP_DISK },
    { "sas", WHOLE, GROUP_DISK },
    { "ses", WHOLE, GROUP_DISK },
    { "svc", WHOLE, GROUP_NONE },
    { "svcrdma", WHOLE, GROUP_NONE },
    { "switchtec", ANY, GROUP_PCI },
    { "tg3", WHOLE, GROUP_NIC },
    { "thermal", ANY, GROUP_HEAT },
    { "virtio_net", WHOLE, GROUP_NIC },
    { "vmxnet3", WHOLE, GROUP_NIC },
    { "vd", ANY, GROUP_DISK },
    { "virtio_blk", WHOLE, GROUP_DISK },
    { "virtio_scsi", WHOLE, GROUP_DISK },
    { "vmw_pvscsi", WHOLE, GROUP_DISK },
    { "virtiofs", WHOLE, GROUP_REMOTE },
    { "virtio_fs", WHOLE, GROUP_REMOTE },
    { "weka", ANY, GROUP_REMOTE },
    { "xvd", ANY, GROUP_DISK },
    { "xen-blkfront", WHOLE, GROUP_DISK },
    { "xfs", WHOLE, GROUP_FILES },
    { "xprtrdma", WHOLE, GROUP_REMOTE },
    { "xe", WHOLE, GROUP_GPU },
    { "zd", NUMBER, GROUP_DISK },
    { "zfcp", WHOLE, GROUP_DISK },
    { "zfs", WHOLE, GROUP_FILES },
};

static bool grammar_in_word(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '/' || c == '\'' || c == '_';
}

static bool grammar_subject_is(const struct grammar_subject *subject, const char *at,
                               const char *end)
{
    size_t bytes = strlen(subject->name);
    char next;

    if ((size_t)(end - at) <= bytes || memcmp(at, subject->name, bytes) != 0)
        return false;
    next = at[bytes];
    return subject->follows == ANY ||
           (subject->follows == NUMBER ? isdigit((unsigned char)next) != 0
                                       : !isalnum((unsigned char)next) && next != '_');
}

/* "sd 2:0:0:0: [sdb]", "sda: ", "sdb1: " */
static bool grammar_subject_is_disk(const char *at, const char *end)
{
    if (end - at < 5 || at[0] != 's' || at[1] != 'd')
        return false;
    if (at[2] == ' ')
        return isdigit((unsigned char)at[3]) != 0;
    for (at += 2; at < end && islower((unsigned char)*at);)
        at++;
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at < end && *at == ':';
}

/* "{1}[Hardware Error]: ", "block nvme0n1: ", "  pcieport ...": what may stand before a subject */
static const char *grammar_begin(const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    if (at < end && *at == '{') {
        const char *close = memchr(at, '}', (size_t)MIN(end - at, 8));

        at = close ? close + 1 : at;
    }
    if (end - at > 6 && memcmp(at, "block ", 6) == 0)
        at += 6;
    return at;
}

void kernel_grammar_index(uint16_t first[128])
{
    memset(first, 0, 128 * sizeof(*first));
    for (size_t i = COUNT(grammar_subjects); i-- > 0;)
        first[grammar_subjects[i].name[0] & 127] = (uint16_t)(i + 1);
}

/* Sets *at behind the name. */
static enum grammar_group grammar_subject_find(const struct kernel_scan *scan, const char **at)
{
    const char *name = grammar_begin(*at, scan->end);
    unsigned char letter = name < scan->end ? (unsigned char)*name : 128;
    size_t first = letter < 128 ? scan->reader->subject[letter] : 0;

    if (grammar_subject_is_disk(name, scan->end)) {
        *at = name + 2;
        return GROUP_DISK;
    }
    for (size_t i = first;
         i && i <= COUNT(grammar_subjects) && grammar_subjects[i - 1].name[0] == *name; i++) {
        if (grammar_subject_is(&grammar_subjects[i - 1], name, scan->end)) {
            for (name += strlen(grammar_subjects[i - 1].name);
                 name < scan->end && grammar_in_word(*name);)
                name++;
            *at = name;
            return grammar_subjects[i - 1].group;
        }
    }
    return GROUP_NONE;
}

/* ---- what it says ---- */

static int grammar_word_compare(const void *key, const void *entry)
{
    return strcmp(key, ((const struct kernel_word *)entry)->word);
}

static uint32_t grammar_word_bits(const char *word)
{
    const struct kernel_word *found = bsearch(word, kernel_vocabulary, kernel_vocabulary_count,
                                              sizeof(*kernel_vocabulary), grammar_word_compare);

    return found ? found->bits : 0;
}

/* The next word in small letters; false: there are no more.  Names of functions and of parameters ("timeout=30") are none. */
static bool grammar_word_next(const char **at, const char *end, char out[WORD_MOST])
{
    while (*at < end) {
        const char *from, *stop;
        bool plain = true;

        while (*at < end && !isalpha((unsigned char)**at))
            (*at)++;
        from = *at;
        while (*at < end && grammar_in_word(**at)) {
            plain &= **at != '_';
            (*at)++;
        }
        stop = *at;
        if (stop == from)
            break;
        if (!plain || stop - from >= WORD_MOST ||
            (stop < end && *stop == '=' && (end - stop < 2 || stop[1] != '-')))
            continue;
        for (size_t i = 0; i < (size_t)(stop - from); i++)
            out[i] = (char)tolower((unsigned char)from[i]);
        out[stop - from] = '\0';
        return true;
    }
    return false;
}

static uint32_t grammar_words_read(const char *text, const char *at, const char *end)
{
    char word[WORD_MOST], before[WORD_MOST] = "";
    uint32_t bits = 0;

    while (grammar_word_next(&at, end, word)) {
        size_t bytes = strlen(word);

        if (at - text <= KERNEL_NAME_MOST)
            ;
        else if (strcmp(word, "out") == 0 &&
                 (strcmp(before, "timed") == 0 || strcmp(before, "time") == 0))
            bits |= WORD_TIMEOUT;
        else if (strcmp(word, "up") == 0 && strcmp(before, "giving") == 0)
            bits |= WORD_ABORT | WORD_FAIL;
        else if (strcmp(word, "not") == 0 &&
                 (strcmp(before, "can") == 0 || strcmp(before, "could") == 0))
            bits = (bits & ~(uint32_t)WORD_GOOD) | WORD_NOT | WORD_FAIL;
        else if (bytes > 3 && strcmp(word + bytes - 3, "n't") == 0)
            bits |= WORD_NOT | (*word == 'c' ? WORD_FAIL : 0);
        else if (strcmp(before, "no") == 0 || strcmp(before, "without") == 0)
            bits |= grammar_word_bits(word) &
                    (WORD_RESPOND | WORD_PART | WORD_LINK | WORD_IO | WORD_REQUEST | WORD_GOOD);
        else
            bits |= grammar_word_bits(word);
        memcpy(before, word, sizeof(before));
    }
    return bits;
}

/* ---- whether that is a fault ---- */

#define HAS(bits, some) (((bits) & (some)) != 0)
#define BOTH(bits, one, other) (HAS(bits, one) && HAS(bits, other))

enum grammar_fault {
    FAULT_NONE,
    FAULT_SILENT, /* it does not answer */
    FAULT_FATAL,
    FAULT_LOST,
    FAULT_DAMAGED,
    FAULT_HEAT,
    FAULT_ERROR,
    FAULTS
};

static enum grammar_fault grammar_strong(uint32_t bits)
{
    if (HAS(bits, WORD_HANG) || (HAS(bits, WORD_TIMEOUT) && !HAS(bits, WORD_SETTING)) ||
        BOTH(bits, WORD_RESPOND, WORD_NOT | WORD_FAIL))
        return FAULT_SILENT;
    if (BOTH(bits, WORD_HEAT, WORD_HIGH))
        return FAULT_HEAT;
    if (HAS(bits, WORD_FATAL) || BOTH(bits, WORD_RESET, WORD_FAIL) ||
        BOTH(bits, WORD_CRASH, WORD_PART | WORD_FIRMWARE | WORD_ERROR))
        return FAULT_FATAL;
    if (BOTH(bits, WORD_LOST | WORD_OFFLINE, WORD_PART | WORD_LINK) ||
        BOTH(bits, WORD_DOWN, WORD_LINK | WORD_PART))
        return FAULT_LOST;
    if (HAS(bits, WORD_CORRUPT) || BOTH(bits, WORD_CHECK, WORD_ERROR | WORD_FAIL))
        return FAULT_DAMAGED;
    if (BOTH(bits, WORD_ABORT, WORD_IO | WORD_REQUEST | WORD_PART | WORD_FAIL) ||
        BOTH(bits, WORD_POWER, WORD_FAIL | WORD_LOST | WORD_ERROR) ||
        BOTH(bits, WORD_FIRMWARE, WORD_ERROR))
        return FAULT_ERROR;
    return FAULT_NONE;
}

#define ANYTHING UINT32_MAX

static const struct grammar_rule {
    uint8_t kind, class, layer;
    /* Whose failure or error is a fault.  Elsewhere such words tell of refused requests, too. */
    uint32_t weak;
    const char *what[FAULTS]; /* NULL: no such fault */
} grammar_rules[GROUPS] = {
    [GROUP_NIC] = { FINDING_NIC,
                    FINDING_CLASS_FABRIC,
                    LAYER_NIC,
                    WORD_START | WORD_FIRMWARE | WORD_RESET | WORD_LINK,
                    { NULL, "network adapter does not respond", "network adapter failed",
                      "network connection lost", "network adapter reports damaged data",
                      "network adapter too hot", "network adapter failed" } },
    [GROUP_NVME] = { FINDING_NVME,
                     FINDING_CLASS_STORAGE,
                     LAYER_STORAGE,
                     ANYTHING,
                     { NULL, "NVMe disk does not respond", "NVMe disk failed", "NVMe disk lost",
                       "data on an NVMe disk is damaged", "NVMe disk too hot",
                       "NVMe disk failed a request" } },
    [GROUP_DISK] = { FINDING_BLOCK,
                     FINDING_CLASS_STORAGE,
                     LAYER_STORAGE,
                     ANYTHING,
                     { NULL, "disk does not respond", "disk failed", "disk lost",
                       "data on a disk is damaged", "disk too hot", "disk failed a request" } },
    [GROUP_ATA] = { FINDING_BLOCK,
                    FINDING_CLASS_STORAGE,
                    LAYER_STORAGE,
                    0,
                    { NULL, "disk does not respond", "disk failed", NULL,
                      "data on a disk is damaged", "disk too hot", "disk failed a request" } },
    [GROUP_FILES] = { FINDING_FILESYSTEM,
                      FINDING_CLASS_STORAGE,
                      LAYER_STORAGE,
                      ANYTHING,
                      { NULL, "file system does not respond", "file system error",
                        "file system lost its disk", "file system is corrupt", "file system error",
                        "file system error" } },
    [GROUP_REMOTE] = { FINDING_REMOTE_FS,
                       FINDING_CLASS_STORAGE,
                       LAYER_STORAGE,
                       ANYTHING,
                       { NULL, "file server does not respond", "file server failed",
                         "connection to a file server lost", "data of a file server is damaged",
                         "file server failed", "file server failed a request" } },
    [GROUP_GPU] = { FINDING_NVRM,
                    FINDING_CLASS_DRIVER,
                    LAYER_GPU,
                    WORD_START,
                    { NULL, "GPU does not respond", "the GPU driver reports a failure of the GPU",
                      "GPU lost", "memory of the GPU is damaged", "GPU too hot", "GPU failed" } },
    [GROUP_NVLINK] = { FINDING_NVLINK,
                       FINDING_CLASS_FABRIC,
                       LAYER_NVLINK,
                       ANYTHING,
                       { NULL, "NVLink does not respond", "NVLink failed", "NVLink lost",
                         "NVLink error", "NVSwitch too hot", "NVLink error" } },
    [GROUP_PCI] = { FINDING_AER,
                    FINDING_CLASS_HARDWARE,
                    LAYER_PCIE,
                    0,
                    { NULL, "PCIe device does not answer", "PCIe error", "PCIe device lost",
                      "PCIe error", "PCIe device too hot", "PCIe error" } },
    [GROUP_MEMORY] = { FINDING_EDAC,
                       FINDING_CLASS_HARDWARE,
                       LAYER_HOST_MEMORY,
                       0,
                       { NULL, "memory error", "uncorrected memory error", "memory error",
                         "memory error", "memory too hot", "memory error" } },
    [GROUP_CPU] = { FINDING_MCE,
                    FINDING_CLASS_HARDWARE,
                    LAYER_CPU,
                    0,
                    { NULL, "hardware error", "uncorrected hardware error", "hardware error",
                      "hardware error", "CPU too hot", "hardware error" } },
    [GROUP_HEAT] = { FINDING_THERMAL,
                     FINDING_CLASS_HARDWARE,
                     LAYER_THERMAL,
                     0,
                     { NULL, NULL, NULL, NULL, NULL, "CPU too hot, its clock is throttled",
                       NULL } },
};

/* What drivers do without, report on request, or print beside a fault that another line names. */
static bool grammar_is_harmless(const struct kernel_scan *scan)
{
    static const char *const phrases[] = {
        "host memory buffer",
        "free space cache",
        "Enslaving",
        "bytes of corrupted",
        "request slot",
        "Cache data unavailable",
        "crash dump",
        "uevent",
        "nvAssert",
        "nvCheck",
        "SXid",
        "Xid error:",
        "SATA link down",
        "Direct firmware load",
        "stalled pool",
        "fallen off the bus", /* of which GPU another line says */
        "hw csum failure",    /* of any interface that a user made */
        "[Firmware Bug]",
        " PROCESSOR ",
        "flip_done",
        "page_pool",
        "error status/mask",
        "op_mod("
    };

    for (size_t i = 0; i < COUNT(phrases); i++) {
        if (scan_has(scan, phrases[i]))
            return true;
    }
    return false;
}

static enum grammar_fault grammar_fault_of(enum grammar_group group, uint32_t bits)
{
    const struct grammar_rule *rule = &grammar_rules[group];
    enum grammar_fault fault;

    if (HAS(bits, WORD_GOOD))
        return FAULT_NONE;
    fault = grammar_strong(bits);
    if (fault != FAULT_SILENT &&
        (HAS(bits, WORD_LOOKUP) || (group == GROUP_PCI && HAS(bits, WORD_SOFT))))
        return FAULT_NONE;
    if (!fault && BOTH(bits, WORD_IO, WORD_ERROR) && group != GROUP_GPU)
        fault = FAULT_ERROR;
    if (!fault && group == GROUP_DISK && BOTH(bits, WORD_RESETTING, WORD_PART))
        fault = FAULT_SILENT;
    if (!fault && !HAS(bits, WORD_SOFT) && BOTH(bits, WORD_FAIL | WORD_ERROR, rule->weak))
        fault = FAULT_ERROR;
    return rule->what[fault] ? fault : FAULT_NONE;
}

/* ---- of which device ---- */

static bool grammar_is_stop(char c)
{
    return strchr(" :,()[]", c) != NULL;
}

/* "0000:3b:00.0" or "eth0" behind the driver's name, "[sdb]", "(sda1)", "dev sdb"; else the subject itself. */
static void grammar_device_find(const struct kernel_scan *scan, const char *begin,
                                const char *after, struct kernel_event *event)
{
    static const char *const before[] = { "device ", "dev " };
    const char *at = after;

    while (at < scan->end && !isalnum((unsigned char)*at) && *at != ':')
        at++;
    if (scan_pci(at, scan->end, true, event->device))
        return;
    at = memchr(scan->text, '[', (size_t)(scan->end - scan->text));
    if (at && scan->end - at > 4 && at[1] == 's' && at[2] == 'd') {
        scan_word(at + 1, scan->end, "]", event->device, sizeof(event->device));
        return;
    }
    for (size_t i = 0; i < COUNT(before); i++) {
        at = scan_find(after, scan->end, before[i]);
        if (at && scan->end - at > 8 && islower((unsigned char)at[strlen(before[i])])) {
            scan_word(at + strlen(before[i]), scan->end, " ,:)]", event->device,
                      sizeof(event->device));
            return;
        }
    }
    for (at = begin; at < scan->end && !grammar_is_stop(*at);)
        at++;
    if (at < scan->end && *at == ' ' && at + 1 < scan->end && at[1] == '(')
        scan_word(at + 2, scan->end, " :)", event->device, sizeof(event->device));
    else if (at < scan->end && *at == ' ')
        scan_word(at + 1, scan->end, " :,", event->device, sizeof(event->device));
    else
        scan_word(begin, at, "", event->device, sizeof(event->device));
    if (!strpbrk(event->device, "0123456789")) /* a name of a driver is none of a device */
        event->device[0] = '\0';
}

uint8_t kernel_grammar_kind(const struct kernel_scan *scan)
{
    const char *at = scan->text;

    return grammar_rules[grammar_subject_find(scan, &at)].kind;
}

bool kernel_grammar(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const uint8_t severity[FAULTS] = {
        [FAULT_SILENT] = FINDING_ERROR, [FAULT_FATAL] = FINDING_FATAL,
        [FAULT_LOST] = FINDING_ERROR,   [FAULT_DAMAGED] = FINDING_ERROR,
        [FAULT_HEAT] = FINDING_WARN,    [FAULT_ERROR] = FINDING_ERROR
    };
    struct kernel_scan own = *scan;
    const char *at = scan->text;
    enum grammar_group group = grammar_subject_find(scan, &at);
    enum grammar_fault fault;

    if (group == GROUP_NONE)
        return false;
    kernel_trust(&own);
    if (own.trust_from != own.text)
        return false;
    fault = grammar_fault_of(group, grammar_words_read(scan->text, at, MIN(own.end, own.trust_to)));
    if (fault == FAULT_NONE || grammar_is_harmless(scan) ||
        (fault == FAULT_LOST && scan->boot_ns && scan->boot_ns < BOOT_NS))
        return false;
    *event = (struct kernel_event){ .boot_ns = scan->boot_ns,
                                    .kind = grammar_rules[group].kind,
                                    .class = grammar_rules[group].class,
                                    .severity = severity[fault],
                                    .action = ACTION_INSPECT,
                                    .layer = grammar_rules[group].layer,
                                    .what = grammar_rules[group].what[fault] };
    grammar_device_find(scan, grammar_begin(scan->text, scan->end), at, event);
    return device_matters(event->device);
}
