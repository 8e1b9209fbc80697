/* http_listen.c - a socket that listens. */
#include "base/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/http.h"
#include "core/clean.h"

bool http_address_is_loopback(const char *listen, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;

    return address_listen(listen, &address, &size, err) == 0 &&
           sockaddr_is_loopback((const struct sockaddr *)&address);
}

int http_listen(const char *listen_on, unsigned *port, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size;
    CLEAN(fd_clean) int fd = -1;
    int one = 1, result = address_listen(listen_on, &address, &size, err);

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
