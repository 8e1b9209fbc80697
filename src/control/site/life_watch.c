/* life_watch.c - one connection for each launcher, on which nothing is ever sent.
 *
 * A reset alone would not do: a machine between may reset what is idle for long.  A refusal alone would not do either: a machine
 * between may begin to refuse.  Both, one after the other, and only after a connection was there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/life_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net/address.h"
#include "core/clean.h"
#include "core/time.h"

#define LIFE_AGAIN_NS NS_PER_S         /* after a connection that did not come about */
#define LIFE_CONNECT_NS (2 * NS_PER_S) /* how long one may take */

enum life_state {
    LIFE_NONE, /* no connection */
    LIFE_CONNECTS,
    LIFE_OPEN,
    LIFE_ASKS, /* it was reset; a new one is tried */
    LIFE_GONE,
};

struct life {
    struct life_watch *watch;
    struct member member;
    enum life_state state;
    int fd;        /* -1: none */
    int64_t at_ns; /* none: try again then; connects, asks: give up then */
    bool wanted;
};

struct life_watch {
    struct loop *loop;
    life_gone *gone;
    void *arg;
    struct life **life;
    size_t count, room;
};

static void life_on_event(void *arg, int fd, uint32_t events);

static void life_shut(struct life *life)
{
    if (life->fd < 0)
        return;
    loop_forget(life->watch->loop, life->fd);
    fd_clean(&life->fd);
}

static void life_put_off(struct life *life, int64_t now_ns)
{
    life_shut(life);
    life->state = LIFE_NONE;
    life->at_ns = now_ns + LIFE_AGAIN_NS;
}

static void life_is_gone(struct life *life)
{
    life_shut(life);
    life->state = LIFE_GONE;
    life->watch->gone(life->watch->arg, &life->member);
}

/* -errno of the connection, or of the try to make one. */
static int life_connect(struct life *life)
{
    struct sockaddr_storage at;
    socklen_t size;
    char text[ADDRESS_NUMBER + 8];

    snprintf(text, sizeof(text), strchr(life->member.life_host, ':') ? "[%.45s]:%u" : "%.45s:%u",
             life->member.life_host, life->member.life_port);
    if (address_listen(text, &at, &size, NULL) < 0)
        return -EINVAL;
    life->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (life->fd < 0)
        return -errno;
    if (connect(life->fd, (const struct sockaddr *)&at, size) < 0 && errno != EINPROGRESS)
        return -errno;
    return loop_watch(life->watch->loop, life->fd, EPOLLIN | EPOLLOUT, life_on_event, life);
}

static void life_begin(struct life *life, enum life_state state, int64_t now_ns)
{
    int r;

    life_shut(life);
    life->state = state;
    life->at_ns = now_ns + LIFE_CONNECT_NS;
    r = life_connect(life);
    if (r == -ECONNREFUSED && state == LIFE_ASKS)
        life_is_gone(life);
    else if (r < 0)
        life_put_off(life, now_ns);
}

static void life_connected(struct life *life, int64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(life->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == ECONNREFUSED && life->state == LIFE_ASKS) {
        life_is_gone(life);
    } else if (error) {
        life_put_off(life, now_ns);
    } else {
        life->state = LIFE_OPEN;
        if (loop_watch(life->watch->loop, life->fd, EPOLLIN, life_on_event, life) < 0)
            life_put_off(life, now_ns);
    }
}

static void life_on_event(void *arg, int fd, uint32_t events)
{
    struct life *life = arg;
    int64_t now_ns = time_mono_ns();
    ssize_t got;
    char byte;

    (void)events;
    if (life->state == LIFE_CONNECTS || life->state == LIFE_ASKS) {
        life_connected(life, now_ns);
        return;
    }
    got = recv(fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0 && errno == ECONNRESET)
        life_begin(life, LIFE_ASKS, now_ns);
    else /* nobody says anything there, or ends a connection in order */
        life_put_off(life, now_ns);
}

static void life_turn(struct life *life, int64_t now_ns)
{
    if (life->at_ns > now_ns)
        return;
    if (life->state == LIFE_NONE)
        life_begin(life, LIFE_CONNECTS, now_ns);
    else if (life->state == LIFE_CONNECTS || life->state == LIFE_ASKS)
        life_put_off(life, now_ns);
}

/* ---- all of them ---- */

static struct life *life_find(const struct life_watch *watch, const struct member *member)
{
    for (size_t i = 0; i < watch->count; i++) {
        const struct member *one = &watch->life[i]->member;

        if (one->life == member->life && one->life_port == member->life_port &&
            strcmp(one->node, member->node) == 0)
            return watch->life[i];
    }
    return NULL;
}

static struct life *life_add(struct life_watch *watch)
{
    struct life *life;

    if (!ARRAY_FIT(watch->life, watch->room, watch->count + 1))
        return NULL;
    life = calloc(1, sizeof(*life));
    if (!life)
        return NULL;
    *life = (struct life){ .watch = watch, .fd = -1 };
    return watch->life[watch->count++] = life;
}

static void life_free(struct life *life)
{
    life_shut(life);
    free(life);
}

void life_watch_set(struct life_watch *watch, const struct member *member, size_t count,
                    int64_t now_ns)
{
    for (size_t i = 0; i < watch->count; i++)
        watch->life[i]->wanted = false;
    for (size_t i = 0; i < count; i++) {
        struct life *life = life_find(watch, &member[i]);

        if (!life)
            life = life_add(watch);
        if (!life)
            continue;
        life->member = member[i];
        life->wanted = true;
    }
    for (size_t i = 0; i < watch->count;) {
        struct life *life = watch->life[i];

        if (life->wanted) {
            life_turn(life, now_ns);
            i++;
        } else {
            life_free(life);
            watch->life[i] = watch->life[--watch->count];
        }
    }
}

int life_watch_create(struct loop *loop, life_gone *gone, void *arg, struct life_watch **ret)
{
    struct life_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return -ENOMEM;
    *watch = (struct life_watch){ .loop = loop, .gone = gone, .arg = arg };
    *ret = watch;
    return 0;
}

void life_watch_destroy(struct life_watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < watch->count; i++)
        life_free(watch->life[i]);
    free(watch->life);
    free(watch);
}
