/* expected.c - the devices that a node shows without their drivers: on the PCI bus, as device files, and in the profile.
 *
 * A device that its driver does not show is still on the bus, so the bus is what a sensor without devices is compared with.
 * Where the bus itself cannot be listed nothing is known to be absent, and everything is expected.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/expected.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "sense/tree.h"
#include "verify/machine_profile.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

struct expected_bus { /* what is on it */
    const struct tree *tree;
    unsigned nvidia, amd, adapters;
};

static bool expected_class_is(const char *class, const char *begin)
{
    return strncmp(class, begin, strlen(begin)) == 0;
}

static void expected_device(void *user, const char *name)
{
    struct expected_bus *bus = user;
    char class[16] = "", vendor[16] = "";

    tree_read(bus->tree, class, sizeof(class), PCI_DEVICES "/%s/class", name);
    tree_read(bus->tree, vendor, sizeof(vendor), PCI_DEVICES "/%s/vendor", name);
    bus->nvidia += strcmp(vendor, "0x10de") == 0 && expected_class_is(class, "0x03");
    /* Accelerators only: many servers show their console on a small GPU of AMD. */
    bus->amd += strcmp(vendor, "0x1002") == 0 &&
                (expected_class_is(class, "0x0380") || expected_class_is(class, "0x1200"));
    bus->adapters += expected_class_is(class, "0x02");
}

static bool expected_file(const struct tree *tree, const char *path)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", tree->root, path);
    return access(full, F_OK) == 0;
}

static unsigned expected_learnt(const struct machine_profile *profile, const char *name)
{
    const char *value = profile ? machine_profile_fact(profile, name) : NULL;

    return value ? (unsigned)strtoul(value, NULL, 10) : 0;
}

/* ---- one for each kind of sensor ---- */

struct expected_place {
    const struct tree *tree;
    const struct machine_profile *profile;
    struct expected_bus bus;
    bool listed; /* the bus could be */
};

typedef bool expected_rule(const struct expected_place *place, char *why, size_t room);

static bool expected_always(const struct expected_place *place, char *why, size_t room)
{
    (void)place;
    snprintf(why, room, "every node has it");
    return true;
}

static bool expected_gpu(const struct expected_place *place, char *why, size_t room)
{
    unsigned learnt = expected_learnt(place->profile, "gpu count");

    if (place->bus.nvidia)
        snprintf(why, room, "%u NVIDIA GPU%s on the PCI bus", place->bus.nvidia,
                 place->bus.nvidia == 1 ? " is" : "s are");
    else if (place->bus.amd)
        snprintf(why, room, "%u AMD GPU%s on the PCI bus, which no sensor can look at",
                 place->bus.amd, place->bus.amd == 1 ? " is" : "s are");
    else if (learnt)
        snprintf(why, room, "the profile has %u GPU%s", learnt, learnt == 1 ? "" : "s");
    else if (expected_file(place->tree, "/dev/nvidia0") ||
             expected_file(place->tree, "/sys/module/nvidia"))
        snprintf(why, room, "the NVIDIA driver is loaded");
    else if (!place->listed)
        snprintf(why, room, "the PCI bus could not be listed");
    else {
        snprintf(why, room, "no GPU is on the PCI bus");
        return false;
    }
    return true;
}

static bool expected_network(const struct expected_place *place, char *why, size_t room)
{
    unsigned learnt = expected_learnt(place->profile, "infiniband count");

    if (place->bus.adapters)
        snprintf(why, room, "%u network adapter%s on the PCI bus", place->bus.adapters,
                 place->bus.adapters == 1 ? " is" : "s are");
    else if (learnt)
        snprintf(why, room, "the profile has %u InfiniBand adapter%s", learnt,
                 learnt == 1 ? "" : "s");
    else if (!expected_file(place->tree, "/sys/class/net"))
        snprintf(why, room, "/sys/class/net is not there");
    else {
        snprintf(why, room, "no network adapter is on the PCI bus, and no physical port is there");
        return false;
    }
    return true;
}

static bool expected_pci(const struct expected_place *place, char *why, size_t room)
{
    unsigned learnt = expected_learnt(place->profile, "gpu count") +
                      expected_learnt(place->profile, "infiniband count") +
                      expected_learnt(place->profile, "nvme count");

    if (learnt)
        snprintf(why, room, "the profile has %u GPUs, adapters and disks", learnt);
    else if (!place->listed && !expected_file(place->tree, "/sys/bus"))
        snprintf(why, room, "/sys/bus is not there");
    else {
        snprintf(why, room, "no GPU, network adapter or disk is on the PCI bus");
        return false;
    }
    return true;
}

static const struct {
    const char *sensor;
    expected_rule *rule;
} expected_rules[] = {
    { "gpu", expected_gpu },
    { "leftovers", expected_gpu }, /* it looks for processes that hold GPUs */
    { "fabric", expected_network },
    { "pcie", expected_pci },
};

bool expected_on_node(const char *sensor, const char *root, const struct machine_profile *profile,
                      char *why, size_t room)
{
    const struct tree tree = { .root = root };
    struct expected_place place = { .tree = &tree, .profile = profile, .bus.tree = &tree };

    place.listed = tree_list(&tree, PCI_DEVICES, expected_device, &place.bus) >= 0;
    for (size_t i = 0; i < COUNT(expected_rules); i++) {
        if (strcmp(expected_rules[i].sensor, sensor) == 0)
            return expected_rules[i].rule(&place, why, room);
    }
    return expected_always(&place, why, room);
}

unsigned expected_gpus(const char *root)
{
    const struct tree tree = { .root = root };
    struct expected_bus bus = { .tree = &tree };

    tree_list(&tree, PCI_DEVICES, expected_device, &bus);
    return bus.nvidia;
}
