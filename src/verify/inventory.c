/* inventory.c - reads what is installed, and compares it with the profile.
 *
 * Fewer parts than expected is a fault of the hardware; another version is not, but it is the first thing to know when one node
 * behaves differently.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/inventory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/tree.h"
#include "verify/checks.h"

#define FACT_COUNT_END " count"
#define FACT_MOUNT "mount " /* and where */
#define MOUNTS 32

struct inventory_walk {
    const struct tree *tree;
    struct inventory *inventory;
    unsigned count;
    const char *prefix;
};

static void inventory_add(struct inventory *inventory, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void inventory_add(struct inventory *inventory, const char *name, const char *format, ...)
{
    struct inventory_fact *fact;
    va_list args;

    if (inventory->count == INVENTORY_FACTS)
        return;
    fact = &inventory->fact[inventory->count++];
    snprintf(fact->name, sizeof(fact->name), "%s", name);
    va_start(args, format);
    vsnprintf(fact->value, sizeof(fact->value), format, args);
    va_end(args);
}

/* NULL: none */
static const char *inventory_fact(const struct inventory *inventory, const char *name)
{
    for (size_t i = 0; i < inventory->count; i++) {
        if (strcmp(inventory->fact[i].name, name) == 0)
            return inventory->fact[i].value;
    }
    return NULL;
}

/* ---- reading ---- */

static void inventory_count_name(void *user, const char *name)
{
    struct inventory_walk *walk = user;

    if (strncmp(name, walk->prefix, strlen(walk->prefix)) == 0)
        walk->count++;
}

/* How many names in a folder begin so; a folder that is not there has none. */
static unsigned inventory_count(const struct tree *tree, const char *folder, const char *prefix)
{
    struct inventory_walk walk = { .tree = tree, .prefix = prefix };

    tree_list(tree, folder, inventory_count_name, &walk);
    return walk.count;
}

static void inventory_add_text(const struct tree *tree, struct inventory *inventory,
                               const char *name, const char *path)
{
    char text[PROFILE_TEXT];

    if (tree_read(tree, text, sizeof(text), "%s", path) > 0)
        inventory_add(inventory, name, "%s", text);
}

/* GPUs are display or 3D controllers of NVIDIA or AMD on the PCI bus, whether a driver is there or not. */
static void inventory_pci(void *user, const char *name)
{
    struct inventory_walk *walk = user;
    char class[16] = "", vendor[16] = "", fact[PROFILE_NAME];
    int64_t width = 0;

    tree_read(walk->tree, class, sizeof(class), "/sys/bus/pci/devices/%s/class", name);
    tree_read(walk->tree, vendor, sizeof(vendor), "/sys/bus/pci/devices/%s/vendor", name);
    if (strncmp(class, "0x03", 4) != 0 ||
        (strcmp(vendor, "0x10de") != 0 && strcmp(vendor, "0x1002") != 0))
        return;
    walk->count++;
    if (tree_number(walk->tree, &width, "/sys/bus/pci/devices/%s/max_link_width", name)) {
        snprintf(fact, sizeof(fact), "gpu %.40s lanes", name);
        inventory_add(walk->inventory, fact, "%" PRId64, width);
    }
}

static void inventory_port(void *user, const char *name)
{
    struct inventory_walk *walk = user;
    char fact[PROFILE_NAME], path[128];

    walk->count++;
    snprintf(fact, sizeof(fact), "infiniband %.30s firmware", name);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.60s/fw_ver", name);
    inventory_add_text(walk->tree, walk->inventory, fact, path);
    snprintf(fact, sizeof(fact), "infiniband %.30s rate", name);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.60s/ports/1/rate", name);
    inventory_add_text(walk->tree, walk->inventory, fact, path);
}

static void inventory_memory(const struct tree *tree, struct inventory *inventory)
{
    char text[4096];
    int64_t kib = 0;

    if (tree_read(tree, text, sizeof(text), "/proc/meminfo") > 0 &&
        tree_field(text, "MemTotal:", &kib))
        inventory_add(inventory, "memory GiB", "%" PRId64, (kib + (1 << 19)) >> 20);
}

static void inventory_machine(const struct tree *tree, struct inventory *inventory)
{
    char product[64] = "", cpuinfo[2048] = "", model[64] = "unknown cpu";
    const char *at;

    tree_read(tree, product, sizeof(product), "/sys/class/dmi/id/product_name");
    tree_read(tree, cpuinfo, sizeof(cpuinfo), "/proc/cpuinfo");
    at = strstr(cpuinfo, "model name");
    at = at ? strchr(at, ':') : NULL;
    if (at)
        snprintf(model, sizeof(model), "%.*s", (int)strcspn(at + 1, "\n"),
                 at + 1 + strspn(at + 1, " "));
    snprintf(inventory->machine, sizeof(inventory->machine), "%s, %s",
             product[0] ? product : "unknown product", model);
}

/* ---- mounts ---- */

struct inventory_mount {
    char source[256], target[256], type[64], options[64];
};

/* Of the machine's own disks, or of a site's file systems.  Not those of containers, users and snaps, which come and go. */
static bool inventory_mount_is_kept(const struct inventory_mount *mount)
{
    static const char *const networks[] = {
        "nfs",      "nfs4", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph",    "wekafs",
        "virtiofs", "9p",   "panfs",  "cifs", "smb3",   "daos",         "orangefs"
    };
    static const char *const passing[] = { "/run/",
                                           "/media/",
                                           "/snap/",
                                           "/proc/",
                                           "/sys/",
                                           "/var/lib/docker/",
                                           "/var/lib/containers/",
                                           "/var/lib/containerd/",
                                           "/var/lib/kubelet/" };

    for (size_t i = 0; i < COUNT(passing); i++) {
        if (strncmp(mount->target, passing[i], strlen(passing[i])) == 0)
            return false;
    }
    for (size_t i = 0; i < COUNT(networks); i++) {
        if (strcmp(mount->type, networks[i]) == 0)
            return true;
    }
    return strncmp(mount->source, "/dev/", 5) == 0 && strncmp(mount->source, "/dev/loop", 9) != 0 &&
           strncmp(mount->type, "fuse", 4) != 0;
}

/* The next line that is one; false: there are no more. */
static bool inventory_mount_next(const char **text, struct inventory_mount *ret)
{
    while (**text) {
        const char *line = *text;

        *text += strcspn(line, "\n");
        *text += **text == '\n';
        if (sscanf(line, "%255s %255s %63s %63[^, \n]", ret->source, ret->target, ret->type,
                   ret->options) == 4)
            return true;
    }
    return false;
}

/* What the automounter brings differs from node to node. */
static bool inventory_mount_is_automatic(const char *text, const struct inventory_mount *mount)
{
    struct inventory_mount other;

    while (inventory_mount_next(&text, &other)) {
        size_t length = strlen(other.target);

        if (strcmp(other.type, "autofs") == 0 &&
            strncmp(mount->target, other.target, length) == 0 &&
            (mount->target[length] == '/' || mount->target[length] == '\0'))
            return true;
    }
    return false;
}

/* "mount /scratch" is "lustre rw". */
static void inventory_mounts(const struct tree *tree, struct inventory *ret)
{
    static char text[1 << 16];
    const char *next = text;
    struct inventory_mount mount;
    unsigned kept = 0;

    if (tree_read(tree, text, sizeof(text), "/proc/mounts") < 0)
        return;
    while (kept < MOUNTS && inventory_mount_next(&next, &mount)) {
        char name[sizeof(mount.target) + sizeof(FACT_MOUNT)];

        snprintf(name, sizeof(name), FACT_MOUNT "%s", mount.target);
        if (strlen(name) >= PROFILE_NAME || !inventory_mount_is_kept(&mount) ||
            inventory_mount_is_automatic(text, &mount) || inventory_fact(ret, name))
            continue;
        kept++;
        inventory_add(ret, name, "%s %s", mount.type, mount.options);
    }
}

void inventory_read(const char *root, struct inventory *ret)
{
    const struct tree tree = { .root = root };
    struct inventory_walk gpus = { .tree = &tree, .inventory = ret };
    struct inventory_walk ports = { .tree = &tree, .inventory = ret };

    memset(ret, 0, sizeof(*ret));
    inventory_machine(&tree, ret);
    inventory_add(ret, "cpu" FACT_COUNT_END, "%u",
                  inventory_count(&tree, "/sys/bus/cpu/devices", "cpu"));
    inventory_add(ret, "numa node" FACT_COUNT_END, "%u",
                  inventory_count(&tree, "/sys/devices/system/node", "node"));
    inventory_memory(&tree, ret);
    tree_list(&tree, "/sys/bus/pci/devices", inventory_pci, &gpus);
    inventory_add(ret, "gpu" FACT_COUNT_END, "%u", gpus.count);
    tree_list(&tree, "/sys/class/infiniband", inventory_port, &ports);
    inventory_add(ret, "infiniband" FACT_COUNT_END, "%u", ports.count);
    inventory_add(ret, "nvme" FACT_COUNT_END, "%u",
                  inventory_count(&tree, "/sys/class/nvme", "nvme"));
    inventory_add_text(&tree, ret, "kernel", "/proc/sys/kernel/osrelease");
    inventory_add_text(&tree, ret, "nvidia driver", "/sys/module/nvidia/version");
    inventory_add_text(&tree, ret, "mlx5 driver", "/sys/module/mlx5_core/version");
    inventory_add_text(&tree, ret, "bios", "/sys/class/dmi/id/bios_version");
    inventory_mounts(&tree, ret);
}

/* ---- comparing ---- */

static bool inventory_is_count(const char *name)
{
    size_t length = strlen(name), end = strlen(FACT_COUNT_END);

    return (length > end && strcmp(name + length - end, FACT_COUNT_END) == 0) ||
           strcmp(name, "memory GiB") == 0;
}

static void inventory_differs(const char *name, const char *value, const char *expected,
                              struct verify_report *report)
{
    bool less = inventory_is_count(name) && (!value || atof(value) < atof(expected));

    verify_result(report, less ? CHECK_FAILED : CHECK_LIMITED, "", "%s: %s, the profile has %s",
                  name, value ? value : "not found", expected);
}

void inventory_compare(const struct inventory *inventory, const struct machine_profile *profile,
                       struct verify_report *report)
{
    const char *name, *expected;
    size_t facts = machine_profile_facts(profile);

    if (strcmp(machine_profile_machine(profile), inventory->machine) != 0) {
        verify_result(report, CHECK_UNKNOWN, "",
                      "the profile is of another type of machine: %s; this is %s",
                      machine_profile_machine(profile), inventory->machine);
        return;
    }
    for (size_t i = 0; i < facts && (name = machine_profile_fact_at(profile, i, &expected)); i++) {
        const char *value = inventory_fact(inventory, name);

        if (strncmp(name, VERIFY_DIGEST, strlen(VERIFY_DIGEST)) == 0)
            continue; /* not a part: gpu-arithmetic compares it */
        if (!value || strcmp(value, expected) != 0)
            inventory_differs(name, value, expected, report);
    }
    if (!report->count) {
        struct check *ok =
            verify_result(report, CHECK_OK, "", "all is installed as in the profile");

        ok->has_value = true;
        ok->value = (double)facts;
        snprintf(ok->unit, sizeof(ok->unit), "facts");
    }
}

static void inventory_run(const struct verify_place *place, struct verify_report *report)
{
    static struct inventory inventory;

    if (!place->profile) {
        verify_result(report, VERIFY_NOT_APPLICABLE, "", "no profile says what is expected");
        return;
    }
    inventory_read(place->root, &inventory);
    inventory_compare(&inventory, place->profile, report);
}

const struct verify_check check_inventory = {
    .name = "inventory",
    .summary = "parts, versions and mounts are those of the profile: GPUs, adapters, disks, "
               "memory, drivers, file systems",
    .why =
        "what is missing is a fault of the hardware; another version only explains other behaviour",
    .advice = "reseat or replace the missing part; bring the versions in line, or learn the "
              "profile again",
    .stage = VERIFY_QUICK,
    .limit_ns = { 4 * NS_PER_S, 4 * NS_PER_S, 4 * NS_PER_S, 4 * NS_PER_S },
    .run = inventory_run,
};
