/* environment_storage.c - what a rank reaches its files through: file servers, mount options, network adapters.
 *
 * Storage and collectives on one adapter slow each other during saves, which no number of either shows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "sense/environment/environment.h"
#include "sense/job/job_mounts.h"
#include "sense/tree.h"

#define MOUNTS_MAX 16
#define INTERFACES_MAX 4
#define ADAPTERS_MAX 16
#define INTERFACE_BYTES 16

static const char *const remote_types[] = { "nfs",  "nfs4", "lustre", "ceph",  "beegfs",
                                            "cifs", "smb3", "gpfs",   "wekafs" };
/* Options that differ between nodes by design. */
static const char *const own_options[] = { "addr=", "clientaddr=", "mountaddr=", "cookie=" };

struct storage_adapters {
    struct environment *environment;
    const struct tree *tree;
    unsigned count;
    char name[INTERFACE_BYTES * 2]; /* of the first one */
};

static bool storage_is_remote(const char *type)
{
    for (size_t i = 0; i < COUNT(remote_types); i++) {
        if (strcmp(type, remote_types[i]) == 0)
            return true;
    }
    return false;
}

static bool storage_is_own_option(const char *option)
{
    for (size_t i = 0; i < COUNT(own_options); i++) {
        if (strncmp(option, own_options[i], strlen(own_options[i])) == 0)
            return true;
    }
    return false;
}

/* "nfs4 rw,vers=4.2,hard" */
static void storage_mount(struct environment *environment, const struct job_mount *mount)
{
    size_t left = strcspn(mount->options, "\n");
    const char *at = mount->options;
    char name[FACT_NAME], value[128], option[64];

    if ((size_t)snprintf(name, sizeof(name), "mount %s", mount->point) >= sizeof(name))
        return;
    snprintf(value, sizeof(value), "%s ", mount->type);
    while (left) {
        size_t bytes = MIN(strcspn(at, ",\n"), left), used = strlen(value);

        snprintf(option, sizeof(option), "%.*s", (int)bytes, at);
        if (!storage_is_own_option(option) && !environment_is_secret(option) &&
            used + strlen(option) + 2 < sizeof(value))
            snprintf(value + used, sizeof(value) - used, "%s%s", value[used - 1] == ' ' ? "" : ",",
                     option);
        at += bytes;
        left -= bytes;
        if (left) {
            at++;
            left--;
        }
    }
    environment_pair_add(environment, name, value, false);
}

/* "addr=10.0.0.5" of NFS; "10.1.1.1@o2ib:/fs" of Lustre, "10.0.0.1:6789:/" of Ceph.  0: not known. */
static uint32_t storage_server(const struct job_mount *mount)
{
    const char *at = memmem(mount->options, strcspn(mount->options, "\n"), ",addr=", 6);
    char text[INET_ADDRSTRLEN];
    struct in_addr address;

    at = at ? at + 6 : mount->source;
    snprintf(text, sizeof(text), "%.*s", (int)MIN(strspn(at, "0123456789."), sizeof(text) - 1), at);
    return inet_pton(AF_INET, text, &address) == 1 ? address.s_addr : 0;
}

/* "eth0 0000A8C0 00000000 0001 0 0 100 00FFFFFF ...", numbers as they lie in memory. */
static bool storage_route(const char *routes, uint32_t server, char out[INTERFACE_BYTES])
{
    uint32_t longest = 0;
    bool found = false;

    for (const char *line = strchr(routes, '\n'); line; line = strchr(line + 1, '\n')) {
        unsigned target, mask;
        char name[INTERFACE_BYTES];

        if (sscanf(line + 1, "%15s %x %*x %*x %*d %*d %*d %x", name, &target, &mask) != 3 ||
            (server & mask) != target || (found && ntohl(mask) <= longest))
            continue;
        found = true;
        longest = ntohl(mask);
        memcpy(out, name, INTERFACE_BYTES);
    }
    return found;
}

static void storage_adapter_name(void *user, const char *name)
{
    struct storage_adapters *adapters = user;

    if (!adapters->count++)
        snprintf(adapters->name, sizeof(adapters->name), "%s", name);
}

/* "eth0", or "ib0 mlx5_0" where the interface belongs to such an adapter. */
static void storage_interface(struct environment *environment, const struct tree *tree,
                              const char *interface)
{
    struct storage_adapters adapters = { .count = 0 };
    char folder[96], value[sizeof(((struct environment_pair *)0)->value)];
    unsigned known = 0;

    snprintf(folder, sizeof(folder), "/sys/class/net/%s/device/infiniband", interface);
    tree_list(tree, folder, storage_adapter_name, &adapters);
    snprintf(value, sizeof(value), "%s%s%s", interface, adapters.name[0] ? " " : "", adapters.name);
    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].name, ENVIRONMENT_STORAGE) != 0)
            continue;
        if (strcmp(environment->pair[i].value, value) == 0 || ++known == INTERFACES_MAX)
            return;
    }
    environment_pair_add(environment, ENVIRONMENT_STORAGE, value, false);
}

static void storage_firmware(void *user, const char *name)
{
    struct storage_adapters *adapters = user;
    char label[FACT_NAME], text[64];

    if (adapters->count++ == ADAPTERS_MAX ||
        tree_read(adapters->tree, text, sizeof(text), "/sys/class/infiniband/%s/fw_ver", name) <= 0)
        return;
    snprintf(label, sizeof(label), "firmware %.40s", name);
    environment_pair_add(adapters->environment, label, text, false);
}

void environment_add_storage(struct environment *environment, const char *root,
                             const char *mountinfo, const char *routes)
{
    const struct tree tree = { root };
    struct storage_adapters adapters = { .environment = environment, .tree = &tree };
    unsigned mounts = 0;

    tree_list(&tree, "/sys/class/infiniband", storage_firmware, &adapters);
    for (const char *line = mountinfo; line && *line && mounts < MOUNTS_MAX;
         line = strchr(line, '\n')) {
        char interface[INTERFACE_BYTES];
        struct job_mount mount;
        uint32_t server;

        line += *line == '\n';
        if (!job_mount_read(line, &mount) || !storage_is_remote(mount.type))
            continue;
        mounts++;
        storage_mount(environment, &mount);
        server = storage_server(&mount);
        if (server && storage_route(routes, server, interface))
            storage_interface(environment, &tree, interface);
    }
}
