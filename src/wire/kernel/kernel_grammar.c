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
#include <assert.h>
#include <ctype.h>
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
    GROUP_RDMA, /* requests of programs go to these directly */
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

#define SUBJECT(name, follows, group)                                                              \
    {                                                                                              \
        name, sizeof(name) - 1, follows, group                                                     \
    }

/* Names of drivers, subsystems and devices at the begin of a message; by their first character, and then the first that matches
 * counts.
 */
static const struct grammar_subject {
    const char *name;
    uint8_t bytes, follows, group;
} grammar_subjects[] = {
    SUBJECT("3w-", ANY, GROUP_DISK),
    SUBJECT("8139", ANY, GROUP_NIC),
    SUBJECT("9p", ANY, GROUP_REMOTE),
    SUBJECT("Buffer", WHOLE, GROUP_DISK),
    SUBJECT("BTRFS", WHOLE, GROUP_FILES),
    SUBJECT("Btrfs", WHOLE, GROUP_FILES),
    SUBJECT("BeeGFS", WHOLE, GROUP_REMOTE),
    SUBJECT("CacheFiles", WHOLE, GROUP_FILES),
    SUBJECT("CIFS", WHOLE, GROUP_REMOTE),
    SUBJECT("CPU", NUMBER, GROUP_HEAT),
    SUBJECT("DVS", WHOLE, GROUP_REMOTE),
    SUBJECT("EXT", ANY, GROUP_FILES),
    SUBJECT("EDAC", WHOLE, GROUP_MEMORY),
    SUBJECT("F2FS-fs", WHOLE, GROUP_FILES),
    SUBJECT("GFS2", WHOLE, GROUP_FILES),
    SUBJECT("GPFS", WHOLE, GROUP_REMOTE),
    SUBJECT("GHES", WHOLE, GROUP_CPU),
    SUBJECT("JBD", ANY, GROUP_FILES),
    SUBJECT("LDISKFS-fs", WHOLE, GROUP_FILES),
    SUBJECT("Lustre", ANY, GROUP_REMOTE),
    SUBJECT("LNet", ANY, GROUP_REMOTE),
    SUBJECT("Memory failure", WHOLE, GROUP_MEMORY),
    SUBJECT("MCE", WHOLE, GROUP_CPU),
    SUBJECT("NFSD", ANY, GROUP_NONE),
    SUBJECT("NFS", ANY, GROUP_REMOTE),
    SUBJECT("NVRM", WHOLE, GROUP_GPU),
    SUBJECT("OCFS2", WHOLE, GROUP_FILES),
    SUBJECT("REISERFS", WHOLE, GROUP_FILES),
    SUBJECT("RPC", ANY, GROUP_REMOTE),
    SUBJECT("SQUASHFS", WHOLE, GROUP_FILES),
    SUBJECT("SMB", ANY, GROUP_REMOTE),
    SUBJECT("WARNING: Pool", WHOLE, GROUP_FILES),
    SUBJECT("XFS", WHOLE, GROUP_FILES),
    SUBJECT("ZFS", WHOLE, GROUP_FILES),
    SUBJECT("[drm", ANY, GROUP_GPU),
    SUBJECT("[Hardware Error]", WHOLE, GROUP_CPU),
    SUBJECT("atlantic", WHOLE, GROUP_NIC),
    SUBJECT("alx", WHOLE, GROUP_NIC),
    SUBJECT("atl1", ANY, GROUP_NIC),
    SUBJECT("amd-xgbe", WHOLE, GROUP_NIC),
    SUBJECT("ata", NUMBER, GROUP_ATA),
    SUBJECT("ahci", WHOLE, GROUP_ATA),
    SUBJECT("aacraid", WHOLE, GROUP_DISK),
    SUBJECT("aac", ANY, GROUP_DISK),
    SUBJECT("arcmsr", ANY, GROUP_DISK),
    SUBJECT("alua", WHOLE, GROUP_DISK),
    SUBJECT("amdgpu", ANY, GROUP_GPU),
    SUBJECT("amdkfd", WHOLE, GROUP_GPU),
    SUBJECT("bnxt", ANY, GROUP_NIC),
    SUBJECT("bnx2", ANY, GROUP_NIC),
    SUBJECT("be2net", WHOLE, GROUP_NIC),
    SUBJECT("bna", WHOLE, GROUP_NIC),
    SUBJECT("bcmgenet", WHOLE, GROUP_NIC),
    SUBJECT("bond", NUMBER, GROUP_NIC),
    SUBJECT("blk_", ANY, GROUP_DISK),
    SUBJECT("blk-mq", WHOLE, GROUP_DISK),
    SUBJECT("bcache", WHOLE, GROUP_DISK),
    SUBJECT("bfa", WHOLE, GROUP_DISK),
    SUBJECT("bnx2i", WHOLE, GROUP_DISK),
    SUBJECT("bnx2fc", WHOLE, GROUP_DISK),
    SUBJECT("btrfs", WHOLE, GROUP_FILES),
    SUBJECT("bcachefs", WHOLE, GROUP_FILES),
    SUBJECT("beegfs", WHOLE, GROUP_REMOTE),
    SUBJECT("cxgb", ANY, GROUP_NIC),
    SUBJECT("cxi", ANY, GROUP_NIC),
    SUBJECT("cciss", WHOLE, GROUP_DISK),
    SUBJECT("connection", NUMBER, GROUP_DISK),
    SUBJECT("cachefiles", WHOLE, GROUP_FILES),
    SUBJECT("cifs", ANY, GROUP_REMOTE),
    SUBJECT("ceph", ANY, GROUP_REMOTE),
    SUBJECT("coretemp", WHOLE, GROUP_HEAT),
    SUBJECT("dm", WHOLE, GROUP_DISK),
    SUBJECT("dm-", ANY, GROUP_DISK),
    SUBJECT("device-mapper", WHOLE, GROUP_DISK),
    SUBJECT("drbd", ANY, GROUP_DISK),
    SUBJECT("e1000", ANY, GROUP_NIC),
    SUBJECT("e100", WHOLE, GROUP_NIC),
    SUBJECT("ena", WHOLE, GROUP_NIC),
    SUBJECT("efa", WHOLE, GROUP_NIC),
    SUBJECT("efa_", NUMBER, GROUP_NIC),
    SUBJECT("enic", WHOLE, GROUP_NIC),
    SUBJECT("erdma", WHOLE, GROUP_NIC),
    SUBJECT("eth", NUMBER, GROUP_NIC),
    SUBJECT("eno", NUMBER, GROUP_NIC),
    SUBJECT("ens", NUMBER, GROUP_NIC),
    SUBJECT("enp", NUMBER, GROUP_NIC),
    SUBJECT("enP", NUMBER, GROUP_NIC),
    SUBJECT("enx", ANY, GROUP_NIC),
    SUBJECT("em", NUMBER, GROUP_NIC),
    SUBJECT("end_request", WHOLE, GROUP_DISK),
    SUBJECT("expander-", ANY, GROUP_DISK),
    SUBJECT("ext4", ANY, GROUP_FILES),
    SUBJECT("erofs", WHOLE, GROUP_FILES),
    SUBJECT("fm10k", WHOLE, GROUP_NIC),
    SUBJECT("forcedeth", WHOLE, GROUP_NIC),
    SUBJECT("fnic", ANY, GROUP_DISK),
    SUBJECT("fcoe", WHOLE, GROUP_DISK),
    SUBJECT("fuse", WHOLE, GROUP_REMOTE),
    SUBJECT("gve", WHOLE, GROUP_NIC),
    SUBJECT("gvnic", WHOLE, GROUP_NIC),
    SUBJECT("gfs2", WHOLE, GROUP_FILES),
    SUBJECT("ghes", ANY, GROUP_CPU),
    SUBJECT("hns", ANY, GROUP_NIC),
    SUBJECT("hclge", ANY, GROUP_NIC),
    SUBJECT("hinic", ANY, GROUP_NIC),
    SUBJECT("hv_netvsc", WHOLE, GROUP_NIC),
    SUBJECT("hfi1", ANY, GROUP_NIC),
    SUBJECT("hv_storvsc", WHOLE, GROUP_DISK),
    SUBJECT("hpsa", WHOLE, GROUP_DISK),
    SUBJECT("hisi_sas", ANY, GROUP_DISK),
    SUBJECT("habanalabs", WHOLE, GROUP_GPU),
    SUBJECT("ice", WHOLE, GROUP_NIC),
    SUBJECT("i40e", ANY, GROUP_NIC),
    SUBJECT("i40iw", WHOLE, GROUP_NIC),
    SUBJECT("iavf", WHOLE, GROUP_NIC),
    SUBJECT("idpf", WHOLE, GROUP_NIC),
    SUBJECT("ixgb", ANY, GROUP_NIC),
    SUBJECT("igb", ANY, GROUP_NIC),
    SUBJECT("igc", WHOLE, GROUP_NIC),
    SUBJECT("iw_cxgb", ANY, GROUP_NIC),
    SUBJECT("ionic", WHOLE, GROUP_NIC),
    SUBJECT("irdma", WHOLE, GROUP_NIC),
    SUBJECT("ib_", ANY, GROUP_NIC),
    SUBJECT("ib", NUMBER, GROUP_NIC),
    SUBJECT("ibs", NUMBER, GROUP_NIC),
    SUBJECT("ibp", NUMBER, GROUP_NIC),
    SUBJECT("ipoib", WHOLE, GROUP_NIC),
    SUBJECT("infiniband", WHOLE, GROUP_RDMA),
    SUBJECT("isci", WHOLE, GROUP_DISK),
    SUBJECT("ipr", WHOLE, GROUP_DISK),
    SUBJECT("ips", WHOLE, GROUP_DISK),
    SUBJECT("iscsi", ANY, GROUP_DISK),
    SUBJECT("ibmvfc", WHOLE, GROUP_DISK),
    SUBJECT("ibmvscsi", WHOLE, GROUP_DISK),
    SUBJECT("i915", WHOLE, GROUP_GPU),
    SUBJECT("jbd2", WHOLE, GROUP_FILES),
    SUBJECT("kafs", WHOLE, GROUP_REMOTE),
    SUBJECT("kfd", WHOLE, GROUP_GPU),
    SUBJECT("lpfc", WHOLE, GROUP_DISK),
    SUBJECT("libiscsi", WHOLE, GROUP_DISK),
    SUBJECT("libfc", WHOLE, GROUP_DISK),
    SUBJECT("lockd", WHOLE, GROUP_REMOTE),
    SUBJECT("libceph", WHOLE, GROUP_REMOTE),
    SUBJECT("mlx4", ANY, GROUP_NIC),
    SUBJECT("mlx5", ANY, GROUP_NIC),
    SUBJECT("mlx", ANY, GROUP_NIC),
    SUBJECT("mana", ANY, GROUP_NIC),
    SUBJECT("mvneta", WHOLE, GROUP_NIC),
    SUBJECT("mvpp2", WHOLE, GROUP_NIC),
    SUBJECT("macb", WHOLE, GROUP_NIC),
    SUBJECT("md", NUMBER, GROUP_DISK),
    SUBJECT("md", WHOLE, GROUP_DISK),
    SUBJECT("mega", ANY, GROUP_DISK),
    SUBJECT("mpt", ANY, GROUP_DISK),
    SUBJECT("mpi3mr", ANY, GROUP_DISK),
    SUBJECT("mvsas", WHOLE, GROUP_DISK),
    SUBJECT("mtip32xx", WHOLE, GROUP_DISK),
    SUBJECT("mmfs", ANY, GROUP_REMOTE),
    SUBJECT("mce", WHOLE, GROUP_CPU),
    SUBJECT("netxen", ANY, GROUP_NIC),
    SUBJECT("nfp", WHOLE, GROUP_NIC),
    SUBJECT("nicvf", WHOLE, GROUP_NIC),
    SUBJECT("net", WHOLE, GROUP_NIC),
    SUBJECT("nvmet", ANY, GROUP_NONE), /* what others do with the disks of this node */
    SUBJECT("nvme", ANY, GROUP_NVME),
    SUBJECT("nd_pmem", WHOLE, GROUP_DISK),
    SUBJECT("nd", WHOLE, GROUP_DISK),
    SUBJECT("nfsd", ANY, GROUP_NONE), /* what others do with the files of this node */
    SUBJECT("nfs", ANY, GROUP_REMOTE),
    SUBJECT("nvidia-nvlink", WHOLE, GROUP_NVLINK),
    SUBJECT("nvidia-nvswitch", ANY, GROUP_NVLINK),
    SUBJECT("nvidia-uvm", WHOLE, GROUP_GPU),
    SUBJECT("nvidia", WHOLE, GROUP_GPU),
    SUBJECT("neuron", ANY, GROUP_GPU),
    SUBJECT("octeon", ANY, GROUP_NIC),
    SUBJECT("opa", WHOLE, GROUP_NIC),
    SUBJECT("ocrdma", ANY, GROUP_NIC),
    SUBJECT("ocfs2", WHOLE, GROUP_FILES),
    SUBJECT("orangefs", WHOLE, GROUP_REMOTE),
    SUBJECT("pm80", ANY, GROUP_DISK),
    SUBJECT("pmem", NUMBER, GROUP_DISK),
    SUBJECT("ptlrpc", ANY, GROUP_REMOTE),
    SUBJECT("pcieport", WHOLE, GROUP_PCI),
    SUBJECT("pciehp", WHOLE, GROUP_PCI),
    SUBJECT("pcie", WHOLE, GROUP_PCI),
    SUBJECT("pci", WHOLE, GROUP_PCI),
    SUBJECT("qed", ANY, GROUP_NIC),
    SUBJECT("qlcnic", WHOLE, GROUP_NIC),
    SUBJECT("qlge", WHOLE, GROUP_NIC),
    SUBJECT("qib", ANY, GROUP_NIC),
    SUBJECT("qla2xxx", WHOLE, GROUP_DISK),
    SUBJECT("qla4xxx", WHOLE, GROUP_DISK),
    SUBJECT("rvu_", ANY, GROUP_NIC),
    SUBJECT("r8169", WHOLE, GROUP_NIC),
    SUBJECT("r8168", WHOLE, GROUP_NIC),
    SUBJECT("r8125", WHOLE, GROUP_NIC),
    SUBJECT("r8126", WHOLE, GROUP_NIC),
    SUBJECT("r8127", WHOLE, GROUP_NIC),
    SUBJECT("rdma", ANY, GROUP_NIC),
    SUBJECT("roce", ANY, GROUP_NIC),
    SUBJECT("raid", NUMBER, GROUP_DISK),
    SUBJECT("rbd", ANY, GROUP_DISK),
    SUBJECT("rport-", ANY, GROUP_DISK),
    SUBJECT("rpc", ANY, GROUP_REMOTE),
    SUBJECT("radeon", WHOLE, GROUP_GPU),
    SUBJECT("sfc", ANY, GROUP_NIC),
    SUBJECT("sky2", WHOLE, GROUP_NIC),
    SUBJECT("stmmac", ANY, GROUP_NIC),
    SUBJECT("scsi", ANY, GROUP_DISK),
    SUBJECT("sata_", ANY, GROUP_ATA),
    SUBJECT("storvsc", ANY, GROUP_DISK),
    SUBJECT("smartpqi", WHOLE, GROUP_DISK),
    SUBJECT("snic", WHOLE, GROUP_DISK),
    SUBJECT("session", NUMBER, GROUP_DISK),
    SUBJECT("sas", WHOLE, GROUP_DISK),
    SUBJECT("ses", WHOLE, GROUP_DISK),
    SUBJECT("svc", WHOLE, GROUP_NONE),
    SUBJECT("svcrdma", WHOLE, GROUP_NONE),
    SUBJECT("switchtec", ANY, GROUP_PCI),
    SUBJECT("tg3", WHOLE, GROUP_NIC),
    SUBJECT("thermal", ANY, GROUP_HEAT),
    SUBJECT("virtio_net", WHOLE, GROUP_NIC),
    SUBJECT("vmxnet3", WHOLE, GROUP_NIC),
    SUBJECT("vd", ANY, GROUP_DISK),
    SUBJECT("virtio_blk", WHOLE, GROUP_DISK),
    SUBJECT("virtio_scsi", WHOLE, GROUP_DISK),
    SUBJECT("vmw_pvscsi", WHOLE, GROUP_DISK),
    SUBJECT("virtiofs", WHOLE, GROUP_REMOTE),
    SUBJECT("virtio_fs", WHOLE, GROUP_REMOTE),
    SUBJECT("weka", ANY, GROUP_REMOTE),
    SUBJECT("xvd", ANY, GROUP_DISK),
    SUBJECT("xen-blkfront", WHOLE, GROUP_DISK),
    SUBJECT("xfs", WHOLE, GROUP_FILES),
    SUBJECT("xprtrdma", WHOLE, GROUP_REMOTE),
    SUBJECT("xe", WHOLE, GROUP_GPU),
    SUBJECT("zd", NUMBER, GROUP_DISK),
    SUBJECT("zfcp", WHOLE, GROUP_DISK),
    SUBJECT("zfs", WHOLE, GROUP_FILES),
};

static bool grammar_in_word(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '/' || c == '\'' || c == '_';
}

static bool grammar_subject_is(const struct grammar_subject *subject, const char *at,
                               const char *end)
{
    size_t bytes = subject->bytes;
    char next;

    if ((size_t)(end - at) <= bytes || at[1] != subject->name[1] ||
        memcmp(at, subject->name, bytes) != 0)
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
            for (name += grammar_subjects[i - 1].bytes; name < scan->end && grammar_in_word(*name);)
                name++;
            if (scan->end - name > 1 && name[0] == '.' && name[1] == 'c')
                return GROUP_NONE; /* "ib_log.c:246": a library's log */
            *at = name;
            return grammar_subjects[i - 1].group;
        }
    }
    return GROUP_NONE;
}

/* ---- what it says ---- */

static uint32_t grammar_hash(uint32_t hash, char c)
{
    return (hash ^ (unsigned char)c) * 16777619u;
}

#define HASH_BEGIN 2166136261u
#define SLOT(hash) (((hash) ^ (hash) >> 15) % KERNEL_WORDS)

static uint32_t grammar_word_bits(const struct kernel_reader *reader, const char *word,
                                  uint32_t hash)
{
    for (uint32_t slot = SLOT(hash); reader->word[slot]; slot = (slot + 1) % KERNEL_WORDS) {
        const struct kernel_word *one = &kernel_vocabulary[reader->word[slot] - 1];

        if (strcmp(one->word, word) == 0)
            return one->bits;
    }
    return 0;
}

/* "temperature/speed" has the bits of both words, unless it is one of its own, as "i/o". */
static uint32_t grammar_bits(const struct kernel_reader *reader, char *word, uint32_t hash)
{
    uint32_t bits = grammar_word_bits(reader, word, hash), first = HASH_BEGIN, second = HASH_BEGIN;
    char *slash = bits ? NULL : strchr(word, '/');

    if (!slash)
        return bits;
    *slash = '\0';
    for (const char *c = word; *c; c++)
        first = grammar_hash(first, *c);
    for (const char *c = slash + 1; *c; c++)
        second = grammar_hash(second, *c);
    return grammar_word_bits(reader, word, first) | grammar_word_bits(reader, slash + 1, second);
}

static void grammar_index_words(struct kernel_reader *reader)
{
    assert(kernel_vocabulary_count < KERNEL_WORDS / 2);
    for (size_t i = 0; i < kernel_vocabulary_count; i++) {
        uint32_t hash = HASH_BEGIN, slot;

        for (const char *c = kernel_vocabulary[i].word; *c; c++)
            hash = grammar_hash(hash, *c);
        for (slot = SLOT(hash); reader->word[slot];)
            slot = (slot + 1) % KERNEL_WORDS;
        reader->word[slot] = (uint16_t)(i + 1);
    }
}

void kernel_grammar_index(struct kernel_reader *reader)
{
    for (size_t i = COUNT(grammar_subjects); i-- > 0;)
        reader->subject[grammar_subjects[i].name[0] & 127] = (uint16_t)(i + 1);
    grammar_index_words(reader);
}

/* The next word in small letters; false: there are no more.  Names of functions and of parameters ("timeout=30") are none. */
static bool grammar_word_next(const char **at, const char *end, char out[WORD_MOST], uint32_t *hash)
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
        *hash = HASH_BEGIN;
        for (size_t i = 0; i < (size_t)(stop - from); i++) {
            out[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] | 32) : from[i];
            *hash = grammar_hash(*hash, out[i]);
        }
        out[stop - from] = '\0';
        return true;
    }
    return false;
}

/* Words that make no fault by themselves. */
#define NO_FAULT                                                                                   \
    (WORD_GOOD | WORD_SOFT | WORD_SETTING | WORD_LOOKUP | WORD_PART | WORD_LINK | WORD_IO |        \
     WORD_REQUEST | WORD_START | WORD_FIRMWARE | WORD_CHECK)

enum grammar_before { /* a word that changes the next one */
    BEFORE_ANY,
    BEFORE_OUT, /* "timed" */
    BEFORE_UP,  /* "giving" */
    BEFORE_NOT, /* "could" */
    BEFORE_NONE /* "no" */
};

static enum grammar_before grammar_before_of(const char *word, size_t bytes)
{
    static const struct {
        const char *word;
        enum grammar_before before;
    } words[] = { { "timed", BEFORE_OUT }, { "time", BEFORE_OUT },  { "giving", BEFORE_UP },
                  { "can", BEFORE_NOT },   { "could", BEFORE_NOT }, { "did", BEFORE_NOT },
                  { "does", BEFORE_NOT },  { "no", BEFORE_NONE },   { "without", BEFORE_NONE } };

    for (size_t i = 0; i < COUNT(words) && bytes <= 7; i++) {
        if (words[i].word[0] == word[0] && strcmp(words[i].word, word) == 0)
            return words[i].before;
    }
    return BEFORE_ANY;
}

static uint32_t grammar_words_read(const struct kernel_scan *scan, const char *at, const char *end)
{
    char word[WORD_MOST];
    enum grammar_before before = BEFORE_ANY;
    uint32_t bits = 0, hash;

    while (grammar_word_next(&at, end, word, &hash)) {
        size_t bytes = strlen(word);

        if (at - scan->text <= KERNEL_NAME_MOST) /* a name may be harmless, but no fault */
            bits |= grammar_bits(scan->reader, word, hash) & NO_FAULT;
        else if (before == BEFORE_OUT && strcmp(word, "out") == 0)
            bits |= WORD_TIMEOUT;
        else if (before == BEFORE_UP && strcmp(word, "up") == 0)
            bits |= WORD_ABORT | WORD_FAIL;
        else if (before == BEFORE_NOT && strcmp(word, "not") == 0)
            bits = (bits & ~(uint32_t)WORD_GOOD) | WORD_NOT | WORD_FAIL;
        else if (bytes > 3 && word[bytes - 2] == '\'' && word[bytes - 1] == 't')
            bits |= WORD_NOT | (*word == 'c' ? WORD_FAIL : 0);
        else if (before == BEFORE_NONE)
            bits |= grammar_bits(scan->reader, word, hash) &
                    (WORD_RESPOND | WORD_PART | WORD_LINK | WORD_IO | WORD_REQUEST | WORD_GOOD);
        else
            bits |= grammar_bits(scan->reader, word, hash);
        before = grammar_before_of(word, bytes);
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
    FAULT_REFUSED, /* something failed, in words that refusals have, too */
    FAULTS
};

static enum grammar_fault grammar_strong(uint32_t bits)
{
    if (HAS(bits, WORD_HANG) || (HAS(bits, WORD_TIMEOUT) && !HAS(bits, WORD_SETTING)) ||
        BOTH(bits, WORD_RESPOND, WORD_NOT | WORD_FAIL))
        return FAULT_SILENT;
    if (BOTH(bits, WORD_HEAT, WORD_HIGH) && !HAS(bits, WORD_SOFT))
        return FAULT_HEAT;
    if (HAS(bits, WORD_FATAL) || BOTH(bits, WORD_RESET, WORD_FAIL) ||
        BOTH(bits, WORD_CRASH, WORD_PART | WORD_FIRMWARE | WORD_ERROR))
        return FAULT_FATAL;
    if (BOTH(bits, WORD_LOST | WORD_OFFLINE, WORD_PART | WORD_LINK) ||
        BOTH(bits, WORD_DOWN, WORD_LINK | WORD_PART))
        return FAULT_LOST;
    if (HAS(bits, WORD_CORRUPT) || BOTH(bits, WORD_CHECK, WORD_ERROR | WORD_FAIL))
        return FAULT_DAMAGED;
    if (BOTH(bits, WORD_ABORT, WORD_IO | WORD_REQUEST | WORD_PART | WORD_FAIL | WORD_FIRMWARE) ||
        BOTH(bits, WORD_POWER, WORD_LOST) || BOTH(bits, WORD_FIRMWARE, WORD_ERROR))
        return FAULT_ERROR;
    return FAULT_NONE;
}

#define ANYTHING UINT32_MAX
#define ANY_FAULT                                                                                  \
    (WORD_TIMEOUT | WORD_HANG | WORD_RESPOND | WORD_FATAL | WORD_FAIL | WORD_ERROR | WORD_LOST |   \
     WORD_OFFLINE | WORD_DOWN | WORD_RESET | WORD_RESETTING | WORD_ABORT | WORD_CORRUPT |          \
     WORD_CRASH | WORD_HEAT | WORD_READY)

static const struct grammar_rule {
    uint8_t kind, class, layer;
    /* Whose failure or error is a fault.  Elsewhere such words tell of refused requests, too. */
    uint32_t weak;
    const char *what[FAULT_REFUSED]; /* NULL: no such fault */
} grammar_rules[GROUPS] = {
    [GROUP_NIC] = { FINDING_NIC,
                    FINDING_CLASS_FABRIC,
                    LAYER_NIC,
                    WORD_START | WORD_FIRMWARE | WORD_RESET | WORD_LINK,
                    { NULL, "network adapter does not respond", "network adapter failed",
                      "network connection lost", "network adapter reports damaged data",
                      "network adapter too hot", "network adapter failed" } },
    [GROUP_RDMA] = { FINDING_NIC,
                     FINDING_CLASS_FABRIC,
                     LAYER_NIC,
                     WORD_FIRMWARE | WORD_RESET | WORD_LINK,
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
                      "data on a disk is damaged", "disk too hot", NULL } },
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
                    0,
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
                    WORD_LINK,
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
static bool grammar_is_harmless(const char *text, const char *end)
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
        "load firmware",
        "FW provided",
        "load DMC firmware",
        "Detection failed",
        "Power-on",
        "Fail to log",
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
        if (scan_find(text, end, phrases[i]))
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
    if (group == GROUP_RDMA && HAS(bits, WORD_REQUEST) && fault != FAULT_SILENT)
        return FAULT_NONE; /* a queue of a program */
    if (!fault && BOTH(bits, WORD_IO, WORD_ERROR) && group != GROUP_GPU)
        fault = FAULT_ERROR;
    if (!fault && (group == GROUP_DISK || group == GROUP_NVME || group == GROUP_ATA) &&
        ((BOTH(bits, WORD_READY, WORD_NOT) && HAS(bits, WORD_PART)) ||
         BOTH(bits, WORD_LOST, WORD_REQUEST)))
        fault = FAULT_SILENT;
    if (!fault && group == GROUP_DISK && !HAS(bits, WORD_SOFT) &&
        (HAS(bits, WORD_RESETTING) || BOTH(bits, WORD_RESET, WORD_PART)))
        fault = FAULT_SILENT;
    if (!fault && !HAS(bits, WORD_SOFT) && BOTH(bits, WORD_FAIL | WORD_ERROR, rule->weak))
        return FAULT_REFUSED;
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
        if (!at)
            continue;
        scan_word(at + strlen(before[i]), scan->end, " ,:)]", event->device, sizeof(event->device));
        if (strpbrk(event->device, "0123456789") ||
            (event->device[0] == 's' && event->device[1] == 'd'))
            return;
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

/* "divide error: 0000 [#1] SMP", "general protection fault: 0000 [1] SMP": what the kernel calls each of its exceptions.  No
 * name of a process is so long.
 */
static bool grammar_is_exception(const struct kernel_scan *scan)
{
    const char *at = scan->text, *end = scan->end;

    while (at < end && (islower((unsigned char)*at) || *at == ' ' || *at == '-'))
        at++;
    if (at - scan->text < 8 || end - at < 10 || *at++ != ':' || *at++ != ' ')
        return false;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)*at++))
            return false;
    }
    if (*at++ != ' ' || *at++ != '[')
        return false;
    at += *at == '#';
    return at - scan->text > KERNEL_NAME_MOST && isdigit((unsigned char)*at);
}

static bool grammar_exception(const struct kernel_scan *scan, struct kernel_event *event)
{
    *event = (struct kernel_event){ .boot_ns = scan->boot_ns,
                                    .kind = FINDING_PANIC,
                                    .class = FINDING_CLASS_HOST,
                                    .severity = FINDING_FATAL,
                                    .action = ACTION_REBOOT,
                                    .layer = LAYER_CPU,
                                    .what = "kernel fault" };
    return true;
}

bool kernel_grammar(const struct kernel_scan *scan, struct kernel_event *event)
{
    /* Nobody has read such a line, so it takes no node out of service. */
    static const uint8_t severity[FAULTS] = {
        [FAULT_SILENT] = FINDING_ERROR, [FAULT_FATAL] = FINDING_ERROR,
        [FAULT_LOST] = FINDING_ERROR,   [FAULT_DAMAGED] = FINDING_ERROR,
        [FAULT_HEAT] = FINDING_WARN,    [FAULT_ERROR] = FINDING_ERROR,
        [FAULT_REFUSED] = FINDING_WARN
    };
    struct kernel_scan own = *scan;
    const char *at = scan->text;
    enum grammar_group group = grammar_subject_find(scan, &at);
    enum grammar_fault fault;

    if (grammar_is_exception(scan))
        return grammar_exception(scan, event);
    if (group == GROUP_NONE || !HAS(grammar_words_read(scan, at, scan->end), ANY_FAULT))
        return false; /* as most lines */
    kernel_trust(&own);
    if (own.trust_from != own.text)
        return false;
    own.end = MIN(own.end, own.trust_to); /* what follows silences nothing either */
    if (at >= own.end)
        return false;
    fault = grammar_fault_of(group, grammar_words_read(scan, at, own.end));
    if (fault == FAULT_NONE || grammar_is_harmless(own.text, own.end) ||
        (fault == FAULT_LOST && scan->boot_ns && scan->boot_ns < BOOT_NS))
        return false;
    *event = (struct kernel_event){ .boot_ns = scan->boot_ns,
                                    .kind = grammar_rules[group].kind,
                                    .class = grammar_rules[group].class,
                                    .severity = severity[fault],
                                    .action = ACTION_INSPECT,
                                    .layer = grammar_rules[group].layer,
                                    .what = grammar_rules[group].what[MIN(fault, FAULT_ERROR)] };
    grammar_device_find(scan, grammar_begin(scan->text, scan->end), at, event);
    return device_matters(event->device);
}
