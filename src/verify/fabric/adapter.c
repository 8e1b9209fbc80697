/* adapter.c - the counters of adapters, from /proc/net/dev, which is that of the namespace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/adapter.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"

#define TEXT_MAX (256 * 1024)

static bool adapter_has(const struct ifaddrs *entry, const char *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    const void *at = NULL;

    if (!entry->ifa_addr)
        return false;
    if (entry->ifa_addr->sa_family == AF_INET)
        at = &((const struct sockaddr_in *)entry->ifa_addr)->sin_addr;
    else if (entry->ifa_addr->sa_family == AF_INET6)
        at = &((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr;
    return at && inet_ntop(entry->ifa_addr->sa_family, at, text, sizeof(text)) &&
           strcmp(text, address) == 0;
}

static bool adapter_name(const char *address, char ret[static IF_NAMESIZE])
{
    struct ifaddrs *list = NULL;
    bool found = false;

    if (getifaddrs(&list) < 0)
        return false;
    for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next) {
        found = adapter_has(entry, address) && !(entry->ifa_flags & IFF_LOOPBACK);
        if (found)
            snprintf(ret, IF_NAMESIZE, "%s", entry->ifa_name);
    }
    freeifaddrs(list);
    return found;
}

uint64_t adapter_bytes_in(const char *text, const char *name, bool sent)
{
    size_t size = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        uint64_t in = 0, out = 0;

        line += strspn(line, "\n ");
        if (strncmp(line, name, size) != 0 || line[size] != ':')
            continue;
        if (sscanf(line + size + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &in,
                   &out) != 2)
            return 0;
        return sent ? out : in;
    }
    return 0;
}

uint64_t adapter_bytes(const char *address, bool sent)
{
    CLEAN(fd_clean) int fd = -1;
    CLEAN(free_clean) char *text = NULL;
    char name[IF_NAMESIZE];
    size_t size = 0;
    ssize_t got;

    if (!adapter_name(address, name))
        return 0;
    fd = open("/proc/self/net/dev", O_RDONLY | O_CLOEXEC);
    text = malloc(TEXT_MAX);
    if (fd < 0 || !text)
        return 0;
    while (size < TEXT_MAX - 1 && (got = read(fd, text + size, TEXT_MAX - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    return adapter_bytes_in(text, name, sent);
}
