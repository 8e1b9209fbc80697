/* http_listen.c - "ADDRESS:PORT" as people write it, and a socket there. */
#include "base/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http.h"
#include "core/clean.h"

static int address_get(const char *listen, struct sockaddr_storage *ret, socklen_t *size,
                       struct err *err)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                              .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(listen, ':');
    struct addrinfo *found = NULL;
    char host[64];
    size_t length = colon ? (size_t)(colon - listen) : 0;

    if (!colon || length >= sizeof(host) || !colon[1])
        return err_set(err, -EINVAL, "'%s': expected ADDRESS:PORT, such as 127.0.0.1:8787", listen);
    if (length >= 2 && listen[0] == '[' && listen[length - 1] == ']') {
        listen++;
        length -= 2;
    }
    memcpy(host, listen, length);
    host[length] = '\0';
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    if (!length || getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return err_set(err, -EINVAL, "'%s': expected ADDRESS:PORT in numbers", host);
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    *size = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

bool http_address_is_loopback(const char *listen, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;

    if (address_get(listen, &address, &size, err) < 0)
        return false;
    if (address.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
}

int http_listen(const char *listen_on, unsigned *port, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;
    CLEAN(fd_clean) int fd = -1;
    int one = 1, result = address_get(listen_on, &address, &size, err);

    if (result < 0)
        return result;
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %m");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* inherited */
    if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 4096) < 0)
        return err_set(err, -errno, "%s: %m", listen_on);
    size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return err_set(err, -errno, "getsockname: %m");
    *port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                               : ((struct sockaddr_in6 *)&address)->sin6_port);
    return TAKE_FD(fd);
}
