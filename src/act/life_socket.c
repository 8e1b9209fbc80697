/* life_socket.c - opens the socket, with a number that programs do not use for files of their own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/life_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"

#define LIFE_BACKLOG 256 /* connections stay there: one for each controller that the job ever had */
#define LIFE_FD_LEAST 200

int life_socket_host(const char *url, char *ret, size_t room)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
    CLEAN(fd_clean) int fd = -1;
    struct addrinfo *found = NULL;
    struct sockaddr_storage own;
    socklen_t size = sizeof(own);
    struct address_url control;
    int r = -1;

    if (!url || address_url_parse(url, &control) < 0 ||
        getaddrinfo(control.at.host, "9", &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &size) == 0)
        r = getnameinfo((struct sockaddr *)&own, size, ret, (socklen_t)room, NULL, 0,
                        NI_NUMERICHOST);
    freeaddrinfo(found);
    return r == 0 ? 0 : -EADDRNOTAVAIL;
}

int life_socket_open(const char *url, struct life_socket *ret)
{
    struct life_socket life = { 0 };
    CLEAN(fd_clean) int fd = -1;
    char text[ADDRESS_NUMBER + 8];
    unsigned port;
    int r = life_socket_host(url, life.host, sizeof(life.host));

    if (r < 0)
        return r;
    snprintf(text, sizeof(text), strchr(life.host, ':') ? "[%s]:0" : "%s:0", life.host);
    fd = address_socket(text, LIFE_BACKLOG, &port, NULL);
    if (fd < 0)
        return fd;
    life.fd = fcntl(fd, F_DUPFD_CLOEXEC, LIFE_FD_LEAST);
    if (life.fd < 0)
        return -errno;
    life.port = (uint16_t)port;
    *ret = life;
    return 0;
}

void life_socket_close(struct life_socket *life)
{
    if (life->fd)
        close(life->fd);
    *life = (struct life_socket){ 0 };
}
