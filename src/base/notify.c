/* notify.c - datagrams to the service manager.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

/* '@' at the beginning stands for the NUL of an abstract name. */
static int notify_connect(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t size = strlen(name);
    CLEAN(fd_clean) int fd = -1;

    if ((name[0] != '/' && name[0] != '@') || size < 2 || size >= sizeof(address.sun_path))
        return -1;
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* The watchdog is for this process only if it names it, or no process. */
static int64_t notify_patience(void)
{
    const char *patience = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    unsigned long long us = patience ? strtoull(patience, NULL, 10) : 0;

    if (pid && strtol(pid, NULL, 10) != getpid())
        return 0;
    return us > 0 && us < UINT64_C(86400000000) ? (int64_t)us * NS_PER_US / 2 : 0;
}

void notify_open(struct notify *notify)
{
    const char *name = getenv("NOTIFY_SOCKET");

    *notify = (struct notify){ .fd = name ? notify_connect(name) : -1 };
    if (notify->fd >= 0)
        notify->every_ns = notify_patience();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

static void notify_send(const struct notify *notify, const char *text)
{
    if (notify->fd >= 0 && send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* a full or vanished manager is not our trouble */
}

void notify_ready(struct notify *notify, const char *status)
{
    char text[256];

    snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
    notify_send(notify, text);
}

void notify_alive(struct notify *notify, int64_t now_ns)
{
    if (!notify->every_ns || now_ns < notify->next_ns)
        return;
    notify->next_ns = now_ns + notify->every_ns;
    notify_send(notify, "WATCHDOG=1");
}

void notify_stopping(struct notify *notify)
{
    notify_send(notify, "STOPPING=1");
}
