/* rendezvous.c - rendezvous at rank 0, then a connection per pair and channel.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/socket.h"

#define RENDEZVOUS_MAGIC UINT64_C(0x315445454d534c4b) /* "KLSMEET1" */
#define RENDEZVOUS_RETRY_NS (20 * NS_PER_MS)

struct rendezvous_hello { /* what whoever connects says first */
    uint64_t magic, job, channel;
    uint32_t rank, world;
    uint32_t port; /* where it listens itself, at the rendezvous only */
    uint32_t reserved;
};
_Static_assert(sizeof(struct rendezvous_hello) == 40, "sent as it lies in memory");

struct rendezvous_place {
    struct sockaddr_storage addr;
    socklen_t size; /* 0: has not come yet */
};

struct rendezvous_guest { /* came before we asked for it */
    uint32_t rank;
    uint64_t channel;
    int fd;
};

struct rendezvous {
    struct rendezvous_config config;
    int listen_fd;
    int64_t deadline_ns;
    struct rendezvous_place *place; /* by rank */
    struct rendezvous_guest *guest;
    size_t guests, guest_room;
};

static void rendezvous_fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void rendezvous_close(struct rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    for (size_t i = 0; i < rendezvous->guests; i++)
        rendezvous_fd_close(&rendezvous->guest[i].fd);
    rendezvous_fd_close(&rendezvous->listen_fd);
    free(rendezvous->guest);
    free(rendezvous->place);
    free(rendezvous);
}

void rendezvous_clean(struct rendezvous **rendezvous)
{
    rendezvous_close(*rendezvous);
}

static void rendezvous_addrinfo_clean(struct addrinfo **info)
{
    if (*info)
        freeaddrinfo(*info);
}

static struct socket_wait rendezvous_wait(const struct rendezvous *rendezvous)
{
    int64_t left = rendezvous->deadline_ns - time_mono_ns();

    return (struct socket_wait){ -1, (int)MAX(left / NS_PER_MS, 1) };
}

static void rendezvous_addr_port_set(struct sockaddr_storage *addr, uint16_t port)
{
    if (addr->ss_family == AF_INET)
        ((struct sockaddr_in *)addr)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

static uint16_t rendezvous_addr_port(const struct sockaddr_storage *addr)
{
    return ntohs(addr->ss_family == AF_INET ? ((const struct sockaddr_in *)addr)->sin_port
                                            : ((const struct sockaddr_in6 *)addr)->sin6_port);
}

static int rendezvous_listen(struct rendezvous *rendezvous, const struct rendezvous_place *place,
                             struct err *err)
{
    int one = 1;

    rendezvous->listen_fd =
        socket(place->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (rendezvous->listen_fd < 0)
        return err_set(err, -errno, "socket: %m");
    setsockopt(rendezvous->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(rendezvous->listen_fd, (const struct sockaddr *)&place->addr, place->size) < 0 ||
        listen(rendezvous->listen_fd, 1024) < 0)
        return err_set(err, -errno, "cannot listen on port %u: %m",
                       rendezvous_addr_port(&place->addr));
    return 0;
}

static int rendezvous_resolve(const struct rendezvous_config *config, struct rendezvous_place *ret,
                              struct err *err)
{
    struct addrinfo hint = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    CLEAN(rendezvous_addrinfo_clean) struct addrinfo *info = NULL;
    int result = getaddrinfo(config->addr, config->port, &hint, &info);

    if (result != 0)
        return err_set(err, -EINVAL, "%s:%s: %s", config->addr, config->port, gai_strerror(result));
    memcpy(&ret->addr, info->ai_addr, info->ai_addrlen);
    ret->size = info->ai_addrlen;
    return 0;
}

/* The next caller that speaks for this job; strangers and earlier attempts are turned away. */
static int rendezvous_accept(struct rendezvous *rendezvous, struct rendezvous_hello *hello,
                             int *ret_fd, struct err *err)
{
    for (;;) {
        struct socket_wait wait = rendezvous_wait(rendezvous);
        CLEAN(fd_clean) int fd = -1;
        int result = socket_poll(rendezvous->listen_fd, POLLIN, &wait);

        errno = -result;
        if (result < 0)
            return err_set(err, result, "cannot wait for connections from other ranks: %m");
        fd = accept4(rendezvous->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0)
            return err_set(err, -errno, "accept: %m");
        wait.timeout_ms = MIN(wait.timeout_ms, 1000); /* a silent caller must not hold the rest */
        if (socket_prepare(fd) < 0 || socket_recv(fd, hello, sizeof(*hello), &wait) < 0)
            continue;
        if (hello->magic != RENDEZVOUS_MAGIC || hello->job != rendezvous->config.job ||
            hello->world != rendezvous->config.world || hello->rank >= hello->world)
            continue;
        *ret_fd = TAKE_FD(fd);
        return 0;
    }
}

static int rendezvous_missing(const struct rendezvous *rendezvous, struct err *err)
{
    char list[128] = "";
    size_t used = 0;
    uint32_t missing = 0;

    for (uint32_t rank = 1; rank < rendezvous->config.world; rank++) {
        if (rendezvous->place[rank].size)
            continue;
        missing++;
        if (used < sizeof(list) - 16)
            used += (size_t)snprintf(list + used, sizeof(list) - used, " %u", rank);
    }
    return err_set(err, -ETIMEDOUT, "%u of %u ranks did not connect within %g s:%s", missing,
                   rendezvous->config.world, rendezvous->config.timeout_ms / 1e3, list);
}

static void rendezvous_fds_close(int **fd_of_rank)
{
    for (int *fd = *fd_of_rank; fd && *fd != -2; fd++)
        rendezvous_fd_close(fd);
    free(*fd_of_rank);
}

static int rendezvous_host(struct rendezvous *rendezvous, struct err *err) /* rank 0 */
{
    uint32_t world = rendezvous->config.world;
    CLEAN(rendezvous_fds_close) int *fd = calloc(world + 1, sizeof(*fd));
    size_t bytes = world * sizeof(*rendezvous->place);

    if (!fd)
        return err_nomem(err);
    memset(fd, 0xff, world * sizeof(*fd));
    fd[world] = -2;
    for (uint32_t come = 1; come < world; come++) {
        struct rendezvous_hello hello;
        int guest, result = rendezvous_accept(rendezvous, &hello, &guest, err);
        struct rendezvous_place *place;

        if (result == -ETIMEDOUT)
            return rendezvous_missing(rendezvous, err);
        if (result < 0)
            return result;
        place = &rendezvous->place[hello.rank];
        if (hello.rank == 0 || place->size) {
            close(guest);
            return err_set(err, -EEXIST, "rank %u connected twice", hello.rank);
        }
        fd[hello.rank] = guest;
        place->size = sizeof(place->addr);
        if (getpeername(guest, (struct sockaddr *)&place->addr, &place->size) < 0)
            return err_set(err, -errno, "rank %u: %m", hello.rank);
        rendezvous_addr_port_set(&place->addr, (uint16_t)hello.port);
    }
    for (uint32_t rank = 1; rank < world; rank++) {
        struct socket_wait wait = rendezvous_wait(rendezvous);
        int result = socket_send(fd[rank], rendezvous->place, bytes, &wait);

        errno = -result;
        if (result < 0)
            return err_set(err, result, "lost rank %u at the rendezvous: %m", rank);
    }
    return 0;
}

/* Connects once; -ECONNREFUSED and the like are for the caller to judge. */
static int rendezvous_dial(const struct rendezvous_place *place, int *ret_fd,
                           const struct socket_wait *wait)
{
    CLEAN(fd_clean) int fd = socket(place->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failure = 0, result;
    socklen_t size = sizeof(failure);

    if (fd < 0)
        return -errno;
    result = socket_prepare(fd);
    if (result < 0)
        return result;
    if (connect(fd, (const struct sockaddr *)&place->addr, place->size) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        result = socket_poll(fd, POLLOUT, wait);
        if (result < 0)
            return result;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
            return -errno;
    }
    if (failure)
        return -failure;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Rank 0 may not listen yet, or the way to it has been down until now: what the kernel has learnt about neighbours
 * that did not answer it forgets only after some seconds.
 */
static bool rendezvous_may_pass(int result)
{
    return result == -ECONNREFUSED || result == -ECONNRESET || result == -ETIMEDOUT ||
           result == -EHOSTUNREACH || result == -ENETUNREACH;
}

static int rendezvous_dial_master(struct rendezvous *rendezvous,
                                  const struct rendezvous_place *master, int *ret_fd,
                                  struct err *err)
{
    for (;;) {
        struct socket_wait wait = rendezvous_wait(rendezvous);
        int result = rendezvous_dial(master, ret_fd, &wait);

        if (result == 0)
            return 0;
        errno = -result;
        if (time_mono_ns() >= rendezvous->deadline_ns || !rendezvous_may_pass(result))
            return err_set(err, result, "rank 0 at %s:%s: %m", rendezvous->config.addr,
                           rendezvous->config.port);
        nanosleep(&(struct timespec){ .tv_nsec = RENDEZVOUS_RETRY_NS }, NULL);
    }
}

static int rendezvous_join(struct rendezvous *rendezvous, const struct rendezvous_place *master,
                           struct err *err)
{
    struct rendezvous_hello hello = { RENDEZVOUS_MAGIC,
                                      rendezvous->config.job,
                                      0,
                                      rendezvous->config.rank,
                                      rendezvous->config.world,
                                      0,
                                      0 };
    struct rendezvous_place own = { .size = sizeof(own.addr) };
    CLEAN(fd_clean) int fd = -1;
    struct socket_wait wait;
    int result = rendezvous_dial_master(rendezvous, master, &fd, err);

    if (result < 0)
        return result;
    /* We listen at the address by which rank 0 sees us, at any free port. */
    if (getsockname(fd, (struct sockaddr *)&own.addr, &own.size) < 0)
        return err_set(err, -errno, "getsockname: %m");
    rendezvous_addr_port_set(&own.addr, 0);
    result = rendezvous_listen(rendezvous, &own, err);
    if (result < 0)
        return result;
    if (getsockname(rendezvous->listen_fd, (struct sockaddr *)&own.addr, &own.size) < 0)
        return err_set(err, -errno, "getsockname: %m");
    hello.port = rendezvous_addr_port(&own.addr);
    wait = rendezvous_wait(rendezvous);
    result = socket_send(fd, &hello, sizeof(hello), &wait);
    if (result == 0)
        result = socket_recv(fd, rendezvous->place,
                             rendezvous->config.world * sizeof(*rendezvous->place), &wait);
    errno = -result;
    if (result < 0)
        return err_set(err, result, "lost rank 0 at the rendezvous: %m");
    rendezvous->place[0] = *master;
    return 0;
}

int rendezvous_open(const struct rendezvous_config *config, struct rendezvous **ret,
                    struct err *err)
{
    CLEAN(rendezvous_clean) struct rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    struct rendezvous_place master = { 0 };
    int result;

    if (!rendezvous)
        return err_nomem(err);
    rendezvous->config = *config;
    rendezvous->listen_fd = -1;
    rendezvous->deadline_ns = time_mono_ns() + config->timeout_ms * NS_PER_MS;
    rendezvous->place = calloc(config->world, sizeof(*rendezvous->place));
    if (!rendezvous->place)
        return err_nomem(err);
    result = rendezvous_resolve(config, &master, err);
    if (result == 0 && config->rank == 0)
        result = rendezvous_listen(rendezvous, &master, err);
    if (result == 0)
        result = config->rank == 0 ? rendezvous_host(rendezvous, err)
                                   : rendezvous_join(rendezvous, &master, err);
    if (result < 0)
        return result;
    *ret = TAKE(rendezvous);
    return 0;
}

static int rendezvous_guest_find(struct rendezvous *rendezvous, uint32_t peer, uint64_t channel,
                                 int *ret_fd)
{
    for (size_t i = 0; i < rendezvous->guests; i++) {
        struct rendezvous_guest *guest = &rendezvous->guest[i];

        if (guest->rank == peer && guest->channel == channel) {
            *ret_fd = guest->fd;
            *guest = rendezvous->guest[--rendezvous->guests];
            return 0;
        }
    }
    return -ENOENT;
}

static int rendezvous_guest_add(struct rendezvous *rendezvous, const struct rendezvous_hello *hello,
                                int fd, struct err *err)
{
    if (!ARRAY_FIT(rendezvous->guest, rendezvous->guest_room, rendezvous->guests + 1)) {
        close(fd);
        return err_nomem(err);
    }
    rendezvous->guest[rendezvous->guests++] =
        (struct rendezvous_guest){ hello->rank, hello->channel, fd };
    return 0;
}

static int rendezvous_await(struct rendezvous *rendezvous, uint32_t peer, uint64_t channel,
                            int *ret_fd, struct err *err)
{
    while (rendezvous_guest_find(rendezvous, peer, channel, ret_fd) < 0) {
        struct rendezvous_hello hello;
        int fd, result = rendezvous_accept(rendezvous, &hello, &fd, err);

        if (result == -ETIMEDOUT)
            return err_set(err, result, "rank %u did not connect within %g s", peer,
                           rendezvous->config.timeout_ms / 1e3);
        if (result == 0)
            result = rendezvous_guest_add(rendezvous, &hello, fd, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int rendezvous_connect(struct rendezvous *rendezvous, uint32_t peer, uint64_t channel, int *ret_fd,
                       struct err *err)
{
    const struct rendezvous_config *config = &rendezvous->config;
    struct rendezvous_hello hello = { RENDEZVOUS_MAGIC, config->job, channel, config->rank,
                                      config->world,    0,           0 };
    struct socket_wait wait = rendezvous_wait(rendezvous);
    CLEAN(fd_clean) int fd = -1;
    int result;

    if (config->rank < peer)
        return rendezvous_await(rendezvous, peer, channel, ret_fd, err);
    result = rendezvous_dial(&rendezvous->place[peer], &fd, &wait);
    if (result == 0)
        result = socket_send(fd, &hello, sizeof(hello), &wait);
    errno = -result;
    if (result < 0)
        return err_set(err, result, "cannot connect to rank %u: %m", peer);
    *ret_fd = TAKE_FD(fd);
    return 0;
}
