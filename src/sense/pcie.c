/* pcie.c - GPUs, network adapters and disks: link speed and width, counted PCIe errors.
 *
 * An idle GPU lowers the speed of its link, so speed counts only for devices that keep it: network adapters and disks.
 * Width never falls without a fault.  A device that was narrower than its maximum from the first read on may sit in a
 * narrow slot: that is reported as a warning, a fall as an error.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "sense/trend.h"
#include "wire/decision.h"

#define DEVICES_MAX 128
#define LIST_READS 6           /* reads after which devices are looked for again */
#define CORRECTED_PER_READ 100 /* in a read of the sensor; fewer are normal on long cables */

enum pcie_class {
    PCIE_OTHER,
    PCIE_GPU,
    PCIE_NIC,
    PCIE_DISK
};

struct pcie_device {
    char name[32];
    enum pcie_class class;
    bool virtual;  /* made and removed by its driver */
    bool seen;     /* in the newest list */
    int64_t width; /* at the first read */
    struct tree_counter corrected, nonfatal, fatal;
    struct sense_trend trend; /* of corrected errors */
};

struct pcie {
    struct tree tree;
    struct pcie_device device[DEVICES_MAX];
    size_t devices;
    unsigned reads;
    const struct sense_now *now;
    struct sense_report *report;
};

static const char *const class_names[] = { "device", "GPU", "network adapter", "disk" };

static enum pcie_class pcie_class_of(const struct tree *tree, const char *name)
{
    char text[32];
    unsigned long class;

    if (tree_read(tree, text, sizeof(text), "/sys/bus/pci/devices/%s/class", name) <= 0)
        return PCIE_OTHER;
    class = strtoul(text, NULL, 16);
    if (class >> 8 == 0x0302 || class >> 8 == 0x0300) {
        tree_read(tree, text, sizeof(text), "/sys/bus/pci/devices/%s/vendor", name);
        return strtoul(text, NULL, 16) == 0x10de ? PCIE_GPU : PCIE_OTHER;
    }
    if (class >> 8 == 0x0200 || class >> 8 == 0x0207)
        return PCIE_NIC;
    return class >> 8 == 0x0108 ? PCIE_DISK : PCIE_OTHER;
}

static void pcie_ignore(void *user, const char *name)
{
    (void)user;
    (void)name;
}

static struct pcie_device *pcie_find(struct pcie *pcie, const char *name)
{
    for (size_t i = 0; i < pcie->devices; i++) {
        if (strcmp(pcie->device[i].name, name) == 0)
            return &pcie->device[i];
    }
    return NULL;
}

static void pcie_found(void *user, const char *name)
{
    struct pcie *pcie = user;
    struct pcie_device *device = pcie_find(pcie, name);
    char folder[96];
    enum pcie_class class;

    if (device) {
        device->seen = true;
        return;
    }
    class = pcie_class_of(&pcie->tree, name);
    device = &pcie->device[pcie->devices];
    if (class == PCIE_OTHER || pcie->devices == DEVICES_MAX || strlen(name) >= sizeof(device->name))
        return;
    *device = (struct pcie_device){ .class = class, .seen = true };
    snprintf(device->name, sizeof(device->name), "%s", name);
    snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s/physfn", name);
    device->virtual = tree_list(&pcie->tree, folder, pcie_ignore, NULL) >= 0;
    pcie->devices++;
}

static int pcie_open(const struct sense_place *place, void **state, struct err *err)
{
    struct pcie *pcie = calloc(1, sizeof(*pcie));
    int result;

    if (!pcie)
        return err_nomem(err);
    pcie->tree.root = place->root;
    result = tree_list(&pcie->tree, "/sys/bus/pci/devices", pcie_found, pcie);
    if (result < 0 || !pcie->devices) {
        free(pcie);
        return err_set(err, result < 0 && result != -ENOENT ? result : -ENODEV,
                       "/sys/bus/pci/devices: no GPU, network adapter or disk");
    }
    *state = pcie;
    return 0;
}

/* "16.0 GT/s PCIe" in tenths; 0: not known. */
static int64_t pcie_speed_read(const struct tree *tree, const char *name, const char *which)
{
    char text[64];

    if (tree_read(tree, text, sizeof(text), "/sys/bus/pci/devices/%s/%s_link_speed", name, which) <=
        0)
        return 0;
    return (int64_t)(strtod(text, NULL) * 10 + 0.5);
}

static void pcie_link(struct pcie *pcie, struct pcie_device *device)
{
    int64_t width = 0, most = 0;
    int64_t speed = pcie_speed_read(&pcie->tree, device->name, "current");
    int64_t speed_most = pcie_speed_read(&pcie->tree, device->name, "max");
    struct finding finding;

    if (!tree_number(&pcie->tree, &width, "/sys/bus/pci/devices/%s/current_link_width",
                     device->name) ||
        !tree_number(&pcie->tree, &most, "/sys/bus/pci/devices/%s/max_link_width", device->name))
        return;
    if (!device->width)
        device->width = width;
    if (width > 0 && most > 0 && width < most) {
        bool fell = width < device->width;

        finding = sense_finding(
            pcie->now, FINDING_PCIE, FINDING_CLASS_HARDWARE, fell ? FINDING_ERROR : FINDING_WARN,
            device->name, "PCIe link of %s %s is x%lld, its maximum is x%lld",
            class_names[device->class], device->name, (long long)width, (long long)most);
        finding.action = ACTION_INSPECT;
        sense_hold(pcie->report, &finding);
    }
    if (device->class != PCIE_GPU && speed > 0 && speed_most > 0 && speed < speed_most) {
        finding = sense_finding(
            pcie->now, FINDING_PCIE, FINDING_CLASS_HARDWARE, FINDING_WARN, device->name,
            "PCIe link of %s %s runs at %.1f GT/s, its maximum is %.1f", class_names[device->class],
            device->name, (double)speed / 10, (double)speed_most / 10);
        finding.code = 1; /* another condition than the width */
        sense_hold(pcie->report, &finding);
    }
}

static int64_t pcie_aer_total(const struct tree *tree, const char *name, const char *which,
                              const char *word)
{
    char text[1024];
    int64_t total;

    if (tree_read(tree, text, sizeof(text), "/sys/bus/pci/devices/%s/aer_dev_%s", name, which) <=
            0 ||
        !tree_field(text, word, &total))
        return -1;
    return total;
}

static void pcie_errors(struct pcie *pcie, struct pcie_device *device)
{
    static const struct {
        const char *file, *word, *what;
        uint8_t severity;
        int64_t least;
    } kinds[] = {
        { "correctable", "TOTAL_ERR_COR", "corrected", FINDING_WARN, CORRECTED_PER_READ },
        { "nonfatal", "TOTAL_ERR_NONFATAL", "uncorrected", FINDING_ERROR, 1 },
        { "fatal", "TOTAL_ERR_FATAL", "fatal", FINDING_FATAL, 1 },
    };
    struct tree_counter *counters[] = { &device->corrected, &device->nonfatal, &device->fatal };

    for (size_t i = 0; i < COUNT(kinds); i++) {
        int64_t total = pcie_aer_total(&pcie->tree, device->name, kinds[i].file, kinds[i].word),
                grown;
        struct finding finding;

        if (total < 0)
            continue;
        grown = tree_counter_grown(counters[i], total);
        if (i == 0)
            sense_rising(pcie->report, pcie->now, &device->trend, grown,
                         &(struct sense_events){ FINDING_AER, FINDING_CLASS_HARDWARE, device->name,
                                                 "corrected PCIe errors", CORRECTED_PER_READ });
        if (grown < kinds[i].least)
            continue;
        finding = sense_finding(pcie->now, FINDING_AER, FINDING_CLASS_HARDWARE, kinds[i].severity,
                                device->name, "%lld %s PCIe errors of %s %s", (long long)grown,
                                kinds[i].what, class_names[device->class], device->name);
        finding.count = (uint32_t)MIN(grown, (int64_t)UINT32_MAX);
        finding.action = kinds[i].severity > FINDING_WARN ? ACTION_INSPECT : ACTION_NONE;
        sense_report(pcie->report, &finding, 0);
    }
}

/* Devices come and go.  A list that cannot be read says nothing. */
static void pcie_list(struct pcie *pcie)
{
    for (size_t i = 0; i < pcie->devices; i++)
        pcie->device[i].seen = false;
    if (tree_list(&pcie->tree, "/sys/bus/pci/devices", pcie_found, pcie) >= 0)
        return;
    for (size_t i = 0; i < pcie->devices; i++)
        pcie->device[i].seen = true;
}

static void pcie_gone(struct pcie *pcie, struct pcie_device *device)
{
    struct finding finding =
        sense_finding(pcie->now, FINDING_PCIE, FINDING_CLASS_HARDWARE, FINDING_ERROR, device->name,
                      "%s %s is gone from the PCI bus", class_names[device->class], device->name);

    finding.code = 2;
    finding.action = ACTION_INSPECT;
    if (!device->virtual)
        sense_hold(pcie->report, &finding);
}

static int pcie_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct pcie *pcie = state;

    pcie->now = now;
    pcie->report = report;
    if (pcie->reads++ % LIST_READS == LIST_READS - 1)
        pcie_list(pcie);
    for (size_t i = 0; i < pcie->devices; i++) {
        if (!pcie->device[i].seen) {
            pcie_gone(pcie, &pcie->device[i]);
            continue;
        }
        pcie_link(pcie, &pcie->device[i]);
        pcie_errors(pcie, &pcie->device[i]);
    }
    return 0;
}

static void pcie_close(void *state)
{
    free(state);
}

const struct sensor sensor_pcie = {
    .name = "pcie",
    .summary = "PCIe link width and speed, counted errors",
    .fix = "mount /sys; in a container, the host's",
    .period_ns = 10 * NS_PER_S,
    .open = pcie_open,
    .read = pcie_read,
    .close = pcie_close,
};
