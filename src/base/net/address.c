/* address.c - strict parsing of HOST:PORT, and a socket that listens there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "core/clean.h"

#define PORT_DIGITS 5

static int address_port_parse(const char *text, size_t size, uint16_t *ret)
{
    uint32_t port = 0;

    if (size < 1 || size > PORT_DIGITS)
        return -EINVAL;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > UINT16_MAX)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

/* Letters, digits, dots, dashes and underscores of a name; hex digits, colons, dots and a zone in brackets. */
static int address_host_copy(const char *text, size_t size, bool brackets,
                             char ret[static ADDRESS_HOST])
{
    const char *others = brackets ? ":.%" : ".-_";

    if (size < 1 || size >= ADDRESS_HOST)
        return -EINVAL;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x80 || (!isalnum(c) && (!c || !strchr(others, c))))
            return -EINVAL;
        ret[i] = (char)tolower(c);
    }
    ret[size] = '\0';
    return 0;
}

int address_parse(const char *text, size_t size, struct address *ret)
{
    const char *end = text + size, *host = text, *host_end, *rest;
    bool brackets = size && text[0] == '[';
    struct address address = { .has_port = false };

    if (brackets) {
        host_end = memchr(text, ']', size);
        if (!host_end)
            return -EINVAL;
        host++;
        rest = host_end + 1;
    } else {
        rest = host_end = memchr(text, ':', size);
        if (!rest)
            rest = host_end = end;
    }
    if (address_host_copy(host, (size_t)(host_end - host), brackets, address.host) < 0)
        return -EINVAL;
    if (rest < end) {
        if (*rest != ':' ||
            address_port_parse(rest + 1, (size_t)(end - rest - 1), &address.port) < 0)
            return -EINVAL;
        address.has_port = true;
    }
    *ret = address;
    return 0;
}

int address_url_parse(const char *text, struct address_url *ret)
{
    struct address_url url = { .tls = strncmp(text, "https://", 8) == 0, .size = strlen(text) };
    size_t scheme = url.tls ? 8 : 7;

    if (!url.tls && strncmp(text, "http://", 7) != 0)
        return -EINVAL;
    while (url.size > scheme && text[url.size - 1] == '/')
        url.size--;
    if (address_parse(text + scheme, url.size - scheme, &url.at) < 0 ||
        (url.at.has_port && url.at.port == 0))
        return -EINVAL;
    *ret = url;
    return 0;
}

static bool address_v4(const char *host, struct in_addr *ret)
{
    return inet_pton(AF_INET, host, ret) == 1;
}

static bool address_v6(const char *host, struct in6_addr *ret)
{
    return inet_pton(AF_INET6, host, ret) == 1;
}

int address_listen(const char *text, struct sockaddr_storage *ret, socklen_t *size, struct err *err)
{
    struct address at;
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    if (address_parse(text, strlen(text), &at) < 0 || !at.has_port)
        return err_set(err, -EINVAL,
                       "'%s': expected ADDRESS:PORT, such as 127.0.0.1:8787 or [::1]:8787, with a "
                       "port from 0 to 65535",
                       text);
    memset(ret, 0, sizeof(*ret));
    if (address_v4(strcmp(at.host, "localhost") == 0 ? "127.0.0.1" : at.host, &v4.sin_addr)) {
        v4.sin_port = htons(at.port);
        memcpy(ret, &v4, sizeof(v4));
        *size = sizeof(v4);
    } else if (address_v6(at.host, &v6.sin6_addr)) {
        v6.sin6_port = htons(at.port);
        memcpy(ret, &v6, sizeof(v6));
        *size = sizeof(v6);
    } else {
        return err_set(err, -EINVAL,
                       "'%s': expected a numeric address, such as 127.0.0.1, or localhost",
                       at.host);
    }
    return 0;
}

bool sockaddr_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    }
    return false;
}

bool address_is_loopback(const char *host)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    if (strcmp(host, "localhost") == 0)
        return true;
    if (address_v4(host, &v4.sin_addr))
        return sockaddr_is_loopback((const struct sockaddr *)&v4);
    return address_v6(host, &v6.sin6_addr) && sockaddr_is_loopback((const struct sockaddr *)&v6);
}

bool address_is(const char *host, const struct sockaddr *address)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (address->sa_family == AF_INET)
        return address_v4(host, &v4) &&
               v4.s_addr == ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *own =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        if (IN6_IS_ADDR_V4MAPPED(own) && address_v4(host, &v4))
            return memcmp(&v4, own->s6_addr + 12, 4) == 0;
        return address_v6(host, &v6) && memcmp(&v6, own, sizeof(v6)) == 0;
    }
    return false;
}

static bool address_text(const struct sockaddr *address, char ret[static ADDRESS_NUMBER])
{
    if (address->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
                         ret, ADDRESS_NUMBER) != NULL;
    return address->sa_family == AF_INET6 &&
           inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
                     ret, ADDRESS_NUMBER) != NULL;
}

/* Those of a link alone have no meaning elsewhere. */
static bool address_is_wanted(const struct sockaddr *address, int family)
{
    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        (family == AF_INET && address->sa_family != AF_INET))
        return false;
    return address->sa_family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static bool address_sockaddr_is_any(const struct sockaddr *address)
{
    return address_is("0.0.0.0", address) || address_is("::", address);
}

int address_socket(const char *text, int backlog, unsigned *port, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;
    CLEAN(fd_clean) int fd = -1;
    int one = 1, result = address_listen(text, &address, &size, err);

    if (result < 0)
        return result;
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %m");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, backlog) < 0)
        return err_set(err, -errno, "%s: %m", text);
    size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return err_set(err, -errno, "getsockname: %m");
    *port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                               : ((struct sockaddr_in6 *)&address)->sin6_port);
    return TAKE_FD(fd);
}

size_t address_own(const char *listen, char (*ret)[ADDRESS_NUMBER], size_t room)
{
    struct sockaddr_storage at;
    struct ifaddrs *all = NULL;
    socklen_t size;
    size_t count = 0;

    if (!room || address_listen(listen, &at, &size, NULL) < 0)
        return 0;
    if (!address_sockaddr_is_any((const struct sockaddr *)&at))
        return address_text((const struct sockaddr *)&at, ret[0]) ? 1 : 0;
    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *one = all; one && count < room; one = one->ifa_next) {
        if (address_is_wanted(one->ifa_addr, at.ss_family) &&
            address_text(one->ifa_addr, ret[count]))
            count++;
    }
    freeifaddrs(all);
    return count;
}
