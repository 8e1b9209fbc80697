/* xid.c - what the error numbers of the GPU driver mean for a job.
 *
 * Severity and action are those of the maker's catalogue where it lists a number; a number that it calls unused is a
 * warning.  The layer is our own reading: LAYER_UNKNOWN marks numbers that explain no failure of a job, because they
 * follow others or announce something.
 *
 * Numbers 144 to 150 carry the unit of the link that failed, an information word and a status word; the bits of these
 * decide whether the link or the GPU is lost.  The information word has the unit in bits 9 to 5 before driver 575 and
 * in bits 6 to 0 since, so the name of the unit in the line comes first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kernel/xid.h"

#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/verdict.h"

/* clang-format off */
#define X(code, layer, class, severity, action, follows, what)                                     \
    [code] = { what, LAYER_##layer, FINDING_CLASS_##class, FINDING_##severity, ACTION_##action, follows }
static const struct xid xids[] = {
    X(1, UNKNOWN, DRIVER, WARN, INSPECT, 0, "unused driver error"),
    X(2, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error sw method"),
    X(3, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error unk method"),
    X(4, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error channel busy"),
    X(5, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error runout overflow"),
    X(6, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error parse err"),
    X(7, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error pte err"),
    X(8, USER_CODE, APP, ERROR, RESTART, 0, "GPU channel idle timeout"),
    X(9, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: gr error instance"),
    X(10, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: gr error single step"),
    X(11, USER_CODE, APP, ERROR, RESTART, 0, "gr error missing hw"),
    X(12, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: gr error sw method"),
    X(13, USER_CODE, APP, ERROR, RESTART, 0, "graphics engine exception"),
    X(14, UNKNOWN, DRIVER, WARN, NONE, 0, "unused driver error"),
    X(15, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: scanline timeout"),
    X(16, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: vblank callback timeout"),
    X(17, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: parameter error"),
    X(18, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: bus master timeout error"),
    X(19, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: disp missed notifier"),
    X(20, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: mpeg error sw method"),
    X(21, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: me error sw method"),
    X(22, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: vp error sw method"),
    X(23, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: rc logging enabled"),
    X(24, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: gr semaphore timeout"),
    X(25, USER_CODE, APP, ERROR, RESTART, 0, "gr illegal notify"),
    X(26, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: fifo error fbistate timeout"),
    X(27, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: vp error"),
    X(28, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: vp2 error"),
    X(29, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: bsp error"),
    X(30, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: bad addr access"),
    X(31, USER_CODE, APP, ERROR, RESTART, 0, "GPU memory page fault"),
    X(32, USER_CODE, APP, ERROR, RESTART, 0, "invalid or corrupted push buffer"),
    X(33, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: sec error"),
    X(34, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: msvld error"),
    X(35, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: mspdec error"),
    X(36, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: msppp error"),
    X(37, UNKNOWN, DRIVER, WARN, NONE, 0, "driver firmware error"),
    X(38, UNKNOWN, DRIVER, WARN, NONE, 0, "driver firmware watchdog timeout"),
    X(39, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 0"),
    X(40, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 1"),
    X(41, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 2"),
    X(42, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: vic error"),
    X(43, USER_CODE, APP, WARN, NONE, 1, "GPU stopped processing"),
    X(44, UNKNOWN, DRIVER, WARN, NONE, 0, "graphics engine fault during context switch"),
    X(45, UNKNOWN, APP, INFO, INSPECT, 3, "channels of the GPU were removed"),
    X(46, GPU, DRIVER, FATAL, RESET_GPU, 0, "GPU stopped responding"),
    X(47, UNKNOWN, DRIVER, WARN, INSPECT, 0, "error of video encoder 0"),
    X(48, GPU_MEMORY, HARDWARE, FATAL, RESET_GPU, 0, "double-bit ECC error"),
    X(49, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: constant level set by registry"),
    X(50, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: level transition due to rc error"),
    X(51, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: stress test failure"),
    X(52, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: level trans due to temp rise"),
    X(53, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: temp reduced clocking"),
    X(54, POWER, HARDWARE, ERROR, INSPECT, 0, "auxiliary power is not connected"),
    X(55, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: temperature read error"),
    X(56, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: display channel exception"),
    X(57, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "memory link training failed"),
    X(58, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "memory error"),
    X(59, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: pmu error"),
    X(60, USER_CODE, APP, ERROR, RESTART, 0, "security processor error"),
    X(61, GPU, DRIVER, WARN, INSPECT, 0, "internal micro-controller breakpoint"),
    X(62, GPU, HARDWARE, FATAL, RESET_GPU, 0, "internal micro-controller halt"),
    X(63, UNKNOWN, HARDWARE, WARN, NONE, 1, "a memory row or page was recorded for retirement"),
    X(64, GPU_MEMORY, HARDWARE, FATAL, RESET_GPU, 1, "row remapping failed"),
    X(65, UNKNOWN, DRIVER, WARN, INSPECT, 0, "error of video encoder 1"),
    X(66, UNKNOWN, DRIVER, WARN, NONE, 0, "illegal register access by the firmware"),
    X(67, UNKNOWN, DRIVER, WARN, NONE, 0, "firmware verification violation"),
    X(68, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 0"),
    X(69, USER_CODE, APP, ERROR, RESTART, 0, "graphics engine class error"),
    X(70, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 3"),
    X(71, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 4"),
    X(72, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 5"),
    X(73, UNKNOWN, DRIVER, WARN, INSPECT, 0, "error of video encoder 2"),
    X(74, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error"),
    X(75, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 6"),
    X(76, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 7"),
    X(77, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 8"),
    X(78, GPU, DRIVER, ERROR, INSPECT, 0, "vGPU start failed"),
    X(79, PCIE, HARDWARE, FATAL, REBOOT, 0, "GPU has fallen off the bus"),
    X(80, USER_CODE, APP, ERROR, RESTART, 0, "push buffer checksum mismatch"),
    X(81, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "VGA subsystem error"),
    X(82, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 0"),
    X(83, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 1"),
    X(84, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 2"),
    X(85, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 9"),
    X(86, USER_CODE, APP, ERROR, RESTART, 0, "error of optical flow engine 0"),
    X(87, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: nvtelemetry driver report"),
    X(88, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 3"),
    X(89, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 4"),
    X(90, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "cache error"),
    X(91, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: reserved xid"),
    X(92, GPU_MEMORY, HARDWARE, WARN, NONE, 0, "many single-bit ECC errors"),
    X(93, UNKNOWN, HARDWARE, WARN, NONE, 0, "too many erase cycles of the InfoROM"),
    X(94, GPU_MEMORY, HARDWARE, ERROR, RESTART, 1, "contained ECC error"),
    X(95, GPU_MEMORY, HARDWARE, FATAL, RESET_GPU, 1, "uncontained ECC error"),
    X(96, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 5"),
    X(97, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 6"),
    X(98, USER_CODE, APP, ERROR, RESTART, 0, "error of video decoder 7"),
    X(99, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 1"),
    X(100, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 2"),
    X(101, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 3"),
    X(102, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 4"),
    X(103, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 5"),
    X(104, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 6"),
    X(105, USER_CODE, APP, ERROR, RESTART, 0, "error of JPEG engine 7"),
    X(106, UNKNOWN, DRIVER, INFO, NONE, 0, "test message"),
    X(107, UNKNOWN, DRIVER, INFO, NONE, 0, "test message"),
    X(108, UNKNOWN, FABRIC, WARN, NONE, 0, "NVLink remote translation error"),
    X(109, GPU, DRIVER, FATAL, RESET_GPU, 0, "context switch timeout"),
    X(110, GPU, DRIVER, FATAL, RESET_GPU, 0, "security fault"),
    X(111, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: bundle error event"),
    X(112, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: disp supervisor error"),
    X(113, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: dp lt failure"),
    X(114, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: head rg underflow"),
    X(115, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: core channel regs"),
    X(116, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: window channel regs"),
    X(117, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: cursor channel regs"),
    X(118, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: head regs"),
    X(119, GPU, DRIVER, FATAL, RESET_GPU, 0, "GSP does not respond"),
    X(120, GPU, DRIVER, FATAL, RESET_GPU, 0, "GSP error"),
    X(121, UNKNOWN, FABRIC, WARN, NONE, 0, "chip-to-chip link error"),
    X(122, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: spi pmu rpc read fail"),
    X(123, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: spi pmu rpc write fail"),
    X(124, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: spi pmu rpc erase fail"),
    X(125, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "InfoROM file system error"),
    X(126, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 10"),
    X(127, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 11"),
    X(128, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 12"),
    X(129, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 13"),
    X(130, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 14"),
    X(131, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 15"),
    X(132, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 16"),
    X(133, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 17"),
    X(134, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 18"),
    X(135, USER_CODE, APP, ERROR, RESTART, 0, "error of copy engine 19"),
    X(136, NVLINK, FABRIC, FATAL, RESET_GPU, 0, "NVLink training failed"),
    X(137, USER_CODE, APP, ERROR, NONE, 0, "NVLink privilege error"),
    X(138, UNKNOWN, DRIVER, WARN, INSPECT, 0, "driver error: dla error"),
    X(139, USER_CODE, APP, ERROR, RESTART, 0, "error of optical flow engine 1"),
    X(140, GPU_MEMORY, HARDWARE, FATAL, RESET_GPU, 0, "unrecovered ECC error"),
    X(141, UNKNOWN, APP, WARN, NONE, 0, "fast path error"),
    X(142, USER_CODE, APP, ERROR, INSPECT, 0, "error of video encoder 3"),
    X(143, GPU, HARDWARE, FATAL, RESET_GPU, 0, "GPU initialisation failed"),
    X(144, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (SAW)"),
    X(145, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (RLW)"),
    X(146, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (TLW)"),
    X(147, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (TREX)"),
    X(148, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (NVLPW)"),
    X(149, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (NETIR)"),
    X(150, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink error (MSE)"),
    X(151, GPU, DRIVER, ERROR, REBOOT, 0, "key rotation error"),
    X(152, UNKNOWN, DRIVER, WARN, NONE, 0, "driver error: dla smmu error"),
    X(153, UNKNOWN, DRIVER, WARN, NONE, 0, "driver error: dla timeout"),
    X(154, UNKNOWN, DRIVER, WARN, NONE, 2, "the recovery action of the GPU changed"),
    X(155, NVLINK, FABRIC, FATAL, RESET_GPU, 0, "NVLink error defined by software"),
    X(156, GPU_MEMORY, HARDWARE, FATAL, RESET_GPU, 0, "memory was retired"),
    X(157, UNKNOWN, HARDWARE, WARN, NONE, 0, "memory could not be retired"),
    X(158, GPU, HARDWARE, FATAL, RESET_GPU, 0, "GPU fatal timeout"),
    X(159, NVLINK, FABRIC, WARN, INSPECT, 0, "chip-to-chip interconnect error"),
    X(160, UNKNOWN, HARDWARE, WARN, NONE, 0, "a memory channel was retired"),
    X(161, UNKNOWN, HARDWARE, WARN, NONE, 0, "a memory channel could not be retired"),
    X(162, UNKNOWN, HARDWARE, INFO, NONE, 0, "power smoothing was enabled again"),
    X(163, UNKNOWN, HARDWARE, WARN, INSPECT, 0, "power smoothing was disabled"),
    X(164, GPU, HARDWARE, WARN, INSPECT, 0, "power smoothing hardware has little lifetime left"),
    X(165, GPU, HARDWARE, WARN, INSPECT, 0, "power smoothing hardware has no lifetime left"),
    X(166, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink encryption error"),
    X(167, PCIE, HARDWARE, FATAL, INSPECT, 0, "PCIe fatal timeout"),
    X(168, GPU_MEMORY, HARDWARE, WARN, INSPECT, 0, "GPU memory capacity is reduced"),
    X(169, GPU, HARDWARE, FATAL, INSPECT, 0, "security processor halt"),
    X(170, NVLINK, FABRIC, ERROR, INSPECT, 0, "NVLink security error"),
    X(171, GPU_MEMORY, HARDWARE, INFO, INSPECT, 0, "uncorrectable DRAM error"),
    X(172, GPU_MEMORY, HARDWARE, INFO, INSPECT, 0, "uncorrectable SRAM error"),
};
#undef X
/* clang-format on */
_Static_assert(COUNT(xids) == XID_MAX + 1, "the last number of the table");

const struct xid *xid_find(uint32_t code)
{
    return code < COUNT(xids) && xids[code].what ? &xids[code] : NULL;
}

/* One row for each unit: which bits of the status ask for a reset of the GPU, which leave it to number 154, and which
 * need nothing.  Statuses of the last two units are values, not bits.
 */
enum link_outcome {
    LINK_IGNORE,
    LINK_WAIT, /* for number 154 */
    LINK_RESET,
    LINK_OUTCOMES
};

static const struct link_unit {
    uint16_t code;
    uint8_t old_sub, sub; /* bits 9 to 5 before driver 575, bits 6 to 0 since */
    const char *name, *other_name;
    uint32_t reset, wait, ignore;
    bool values; /* the masks are sets of values, not of bits */
} units[] = {
    { 144, 1, 1, "SAW_MVB", "", 0x12, 0, 0x2d, false },
    { 145, 3, 3, "RLW_CTRL", "", 0, 0, 0x80000000, false },
    { 145, 4, 4, "RLW_REMAP", "", 0xc0, 0x3f, 0x80000300, false },
    { 145, 5, 5, "RLW_RSPCOL", "", 0x2, 0, 0x80000001, false },
    { 145, 6, 6, "RLW_RXPIPE", "", 0, 0, 0x8000000f, false },
    { 145, 7, 7, "RLW_SRC_TRACK", "", 0x31, 0xc, 0x80000002, false },
    { 145, 8, 8, "RLW_TAGSTATE", "", 0x120002, 0, 0x80010001, false },
    { 146, 9, 9, "TLW_CTRL", "", 0x4, 0, 0x80000003, false },
    { 146, 10, 10, "TLW_RX", "TLW_RX_PIPE0", 0x4, 0, 0x80000003, false },
    { 146, 10, 11, "TLW_RX_PIPE1", "", 0x4, 0, 0x80000003, false },
    { 146, 11, 12, "TLW_TX", "TLW_TX_PIPE0", 0x4, 0, 0x80000003, false },
    { 146, 11, 13, "TLW_TX_PIPE1", "", 0x4, 0, 0x80000003, false },
    { 147, 12, 14, "TREX", "", 0, 0, 0x80000001, false },
    { 148, 0, 15, "NVLPW_CTRL", "NVLPW", 0, 0, 0x80000000, false },
    { 149, 17, 19, "NETIR_BER_EVENT", "", 0, 0, 0xf, true },
    { 149, 18, 20, "NETIR_MFDE_EVENT", "", 0xb2, 0, 0x8, true },
};

static const struct xid_link outcomes[LINK_OUTCOMES] = {
    [LINK_IGNORE] = { "not fatal", FINDING_WARN, ACTION_NONE },
    [LINK_WAIT] = { "not fatal, Xid 154 decides", FINDING_ERROR, ACTION_INSPECT },
    [LINK_RESET] = { "fatal", FINDING_FATAL, ACTION_RESET_GPU },
};

/* Link events of number 149 by the state of the link, bits 25 to 20 of the information word. */
static const struct link_state {
    uint8_t state;
    struct xid_link link;
} states[] = {
    { 0, { "link lost, no reason given", FINDING_FATAL, ACTION_RESET_GPU } },
    { 1, { "link lost, reason unknown", FINDING_FATAL, ACTION_RESET_GPU } },
    { 2, { "link lost, bad signal", FINDING_FATAL, ACTION_RESET_GPU } },
    { 4, { "link lost, bad signal", FINDING_FATAL, ACTION_RESET_GPU } },
    { 10, { "link lost, bad signal", FINDING_FATAL, ACTION_RESET_GPU } },
    { 15, { "link disabled by software", FINDING_FATAL, ACTION_RESET_GPU } },
    { 16, { "link lost, bad signal or software", FINDING_FATAL, ACTION_RESET_GPU } },
    { 17, { "link disabled by software", FINDING_FATAL, ACTION_RESET_GPU } },
    { 18, { "link lost, bad signal or software", FINDING_FATAL, ACTION_RESET_GPU } },
    { 21, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 22, { "link disabled by software", FINDING_FATAL, ACTION_RESET_GPU } },
    { 32, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 33, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 34, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 35, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 36, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 37, { "link lost by the peer device", FINDING_FATAL, ACTION_RESET_GPU } },
    { 38, { "link disabled by software", FINDING_ERROR, ACTION_NONE } },
    { 40, { "link lost by the host", FINDING_FATAL, ACTION_NONE } },
    { 42, { "link lost, bad signal or cable", FINDING_FATAL, ACTION_RESET_GPU } },
    { 43, { "link lost, bad signal or cable", FINDING_FATAL, ACTION_RESET_GPU } },
};

static const struct xid_link link_interrupt = { "link lost", FINDING_FATAL, ACTION_RESET_GPU };
static const struct xid_link management = { "management engine failed", FINDING_FATAL,
                                            ACTION_RESET_GPU };

static bool unit_is(const char *unit, size_t bytes, const char *name)
{
    return bytes && strlen(name) == bytes && memcmp(unit, name, bytes) == 0;
}

static const struct xid_link *link_state_find(uint32_t info)
{
    for (size_t i = 0; i < COUNT(states); i++) {
        if (states[i].state == ((info >> 20) & 0x3f))
            return &states[i].link;
    }
    return NULL;
}

static const struct xid_link *unit_outcome(const struct link_unit *unit, uint32_t status)
{
    uint32_t bits = unit->values ? (status < 32 ? UINT32_C(1) << status : 0) : status;

    if (bits & unit->reset)
        return &outcomes[LINK_RESET];
    if (bits & unit->wait)
        return &outcomes[LINK_WAIT];
    return bits & unit->ignore ? &outcomes[LINK_IGNORE] : NULL;
}

/* By the name in the line; without one by the bits, newer drivers first. */
static const struct link_unit *unit_find(uint32_t code, const char *name, size_t bytes,
                                         uint32_t info)
{
    const struct link_unit *by_old = NULL;

    for (size_t i = 0; i < COUNT(units); i++) {
        const struct link_unit *unit = &units[i];

        if (unit->code != code)
            continue;
        if (unit_is(name, bytes, unit->name) || unit_is(name, bytes, unit->other_name) ||
            (!bytes && unit->sub == (info & 0x7f)))
            return unit;
        if (!bytes && !by_old && unit->old_sub == ((info >> 5) & 0x1f))
            by_old = unit;
    }
    return by_old;
}

const struct xid_link *xid_link_decode(uint32_t code, const char *unit, size_t unit_bytes,
                                       uint32_t info, uint32_t status)
{
    const struct link_unit *found;

    if (code == 150)
        return &management;
    if (code == 149) {
        if (unit_is(unit, unit_bytes, "NETIR_LINK_EVT") ||
            unit_is(unit, unit_bytes, "NETIR_LINK_DOWN") ||
            (!unit_bytes && ((info & 0x7f) == 17 || (info & 0x3ff) == 0x1c6)))
            return link_state_find(info);
        if (unit_is(unit, unit_bytes, "NETIR") || unit_is(unit, unit_bytes, "NETIR_INT") ||
            (!unit_bytes && (info & 0x7f) == 24))
            return &link_interrupt;
    }
    found = unit_find(code, unit, unit_bytes, info);
    return found ? unit_outcome(found, status) : NULL;
}

static const struct xid_recovery recoveries[] = {
    { "none", FINDING_INFO, ACTION_NONE },
    { "reset the GPU", FINDING_FATAL, ACTION_RESET_GPU },
    { "reboot the node", FINDING_FATAL, ACTION_REBOOT },
    { "drain work from the peers of the GPU", FINDING_ERROR, ACTION_DRAIN },
    { "drain the node, then reset the GPU", FINDING_FATAL, ACTION_DRAIN },
    { "recover the IMEX domain", FINDING_ERROR, ACTION_INSPECT },
};

const struct xid_recovery *xid_recovery_find(uint32_t number)
{
    return number < COUNT(recoveries) ? &recoveries[number] : NULL;
}
