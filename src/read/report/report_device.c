/* report_device.c - the text of `nvidia-smi -q`: devices with a fault.
 *
 * Only what is a fault in itself is reported: memory errors that were not corrected, rows that could not be remapped, slowdowns
 * by the hardware, a driver that asks for a reset.  A link below its best speed is not one: an idle device saves power.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/report/report_private.h"
#include "wire/verdict.h"

#define SECTION_DEPTH 8

struct device_text {
    struct report_reader *reader;
    char device[24];
    char section[SECTION_DEPTH][48]; /* the heads above the line at hand */
    size_t indent[SECTION_DEPTH], depth;
};

enum device_when {
    WHEN_COUNT, /* a number above 0 */
    WHEN_YES,
    WHEN_ACTIVE,
    WHEN_OTHER_THAN_NONE,
};

static const struct {
    const char *section, *key;
    enum device_when when;
    uint8_t layer;
    const char *what;
} faults[] = {
    { "Volatile", "DRAM Uncorrectable", WHEN_COUNT, LAYER_GPU_MEMORY,
      "memory errors that were not corrected" },
    { "Volatile", "SRAM Uncorrectable", WHEN_COUNT, LAYER_GPU,
      "SRAM errors that were not corrected" },
    { "Volatile", "SRAM Uncorrectable Parity", WHEN_COUNT, LAYER_GPU,
      "SRAM parity errors that were not corrected" },
    { "Volatile", "SRAM Uncorrectable SEC-DED", WHEN_COUNT, LAYER_GPU,
      "SRAM errors that were not corrected" },
    { "", "SRAM Threshold Exceeded", WHEN_YES, LAYER_GPU,
      "more SRAM errors than NVIDIA allows: replace it" },
    { "GPU Reset Status", "Reset Required", WHEN_YES, LAYER_GPU, "the driver asks for a reset" },
    { "GPU Reset Status", "Drain and Reset Recommended", WHEN_YES, LAYER_GPU,
      "the driver asks for a reset when its jobs have ended" },
    { "Retired Pages", "Pending Page Blacklist", WHEN_YES, LAYER_GPU_MEMORY,
      "pages of its memory are to be retired: reset it" },
    { "Volatile", "Double Bit", WHEN_COUNT, LAYER_GPU_MEMORY, "double-bit memory errors" },
    { "Remapped Rows", "Remapping Failure Occurred", WHEN_YES, LAYER_GPU_MEMORY,
      "rows of its memory could not be remapped: replace it" },
    { "Remapped Rows", "Pending", WHEN_YES, LAYER_GPU_MEMORY,
      "rows of its memory are to be remapped: reset it" },
    { "Slowdown", "HW Thermal Slowdown", WHEN_ACTIVE, LAYER_THERMAL,
      "the hardware lowers its clocks for the temperature" },
    { "Slowdown", "HW Power Brake Slowdown", WHEN_ACTIVE, LAYER_POWER,
      "the power brake lowers its clocks" },
    { "", "GPU Recovery Action", WHEN_OTHER_THAN_NONE, LAYER_GPU,
      "the driver asks for a recovery" },
};

static bool device_holds(enum device_when when, const char *value)
{
    switch (when) {
    case WHEN_COUNT:
        return strtoul(value, NULL, 10) > 0;
    case WHEN_YES:
        return strcmp(value, "Yes") == 0;
    case WHEN_ACTIVE:
        return strcmp(value, "Active") == 0;
    case WHEN_OTHER_THAN_NONE:
        return strcmp(value, "None") != 0 && strcmp(value, "N/A") != 0 && *value != '[';
    }
    return false;
}

static bool device_inside(const struct device_text *device, const char *section)
{
    for (size_t i = 0; i < device->depth; i++) {
        if (strcmp(device->section[i], section) == 0)
            return true;
    }
    return !*section || strcmp(section, "Slowdown") == 0; /* its section has had several names */
}

static int device_value(struct device_text *device, const char *key, const char *value)
{
    int result = 0;

    for (size_t i = 0; i < COUNT(faults) && result == 0; i++) {
        struct report report = { .kind = REPORT_DEVICE,
                                 .layer = faults[i].layer,
                                 .rank = REPORT_NO_RANK };

        if (strcmp(key, faults[i].key) != 0 || !device_inside(device, faults[i].section) ||
            !device_holds(faults[i].when, value))
            continue;
        snprintf(report.what, sizeof(report.what), "%s (%s: %s)", faults[i].what, key, value);
        snprintf(report.device, sizeof(report.device), "%s", device->device);
        result = report_put(device->reader, report);
    }
    return result;
}

/* A head closes those that are not less indented. */
static void device_head(struct device_text *device, const char *text)
{
    while (device->depth && device->indent[device->depth - 1] >= device->reader->blanks)
        device->depth--;
    if (device->depth == SECTION_DEPTH)
        return;
    device->indent[device->depth] = device->reader->blanks;
    snprintf(device->section[device->depth++], sizeof(device->section[0]), "%s", text);
}

static int device_line(struct device_text *device)
{
    const char *text = report_text(device->reader);
    const char *colon = strstr(text, " : ");
    char key[64];
    size_t size;

    if (device->reader->blanks == 0 && strncmp(text, "GPU ", 4) == 0) {
        device->depth = 0;
        snprintf(device->device, sizeof(device->device), "%s",
                 text + 4 + (strncmp(text + 4, "0000", 4) == 0 ? 4 : 0));
        return 0;
    }
    if (!colon) {
        device_head(device, text);
        return 0;
    }
    size = (size_t)(colon - text);
    while (size && text[size - 1] == ' ')
        size--;
    snprintf(key, sizeof(key), "%.*s", (int)MIN(size, sizeof(key) - 1), text);
    while (device->depth && device->indent[device->depth - 1] >= device->reader->blanks)
        device->depth--;
    return *device->device ? device_value(device, key, colon + 3) : 0;
}

int report_device(struct report_reader *reader)
{
    struct device_text device = { .reader = reader };
    int result = 0;

    while (result == 0 && report_next(reader))
        result = device_line(&device);
    return result;
}
