/* slowfs_handle.c - what is open on the slow file system, by the numbers that the kernel knows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clean.h"
#include "lab/faults/slowfs_private.h"

static struct slowfs_handle *handle_get(const struct slowfs_server *server, uint64_t number)
{
    return number >= 1 && number <= server->handles ? &server->handle[number - 1] : NULL;
}

int slowfs_handle_add(struct slowfs_server *server, int fd, DIR *dir, uint64_t *ret)
{
    size_t at = 0;

    while (at < server->handles && (server->handle[at].fd >= 0 || server->handle[at].dir))
        at++;
    if (at == server->handles) {
        if (!ARRAY_FIT(server->handle, server->handle_room, at + 1)) {
            fd_clean(&fd);
            if (dir)
                closedir(dir);
            return -ENOMEM;
        }
        server->handles++;
    }
    server->handle[at] = (struct slowfs_handle){ fd, dir };
    *ret = at + 1;
    return 0;
}

int slowfs_handle_fd(const struct slowfs_server *server, uint64_t number)
{
    const struct slowfs_handle *handle = handle_get(server, number);

    if (!handle || (handle->fd < 0 && !handle->dir))
        return -EBADF;
    return handle->dir ? dirfd(handle->dir) : handle->fd;
}

DIR *slowfs_handle_dir(const struct slowfs_server *server, uint64_t number)
{
    const struct slowfs_handle *handle = handle_get(server, number);

    return handle ? handle->dir : NULL;
}

int slowfs_handle_close(struct slowfs_server *server, uint64_t number)
{
    struct slowfs_handle *handle = handle_get(server, number);
    struct slowfs_handle was;

    if (!handle || (handle->fd < 0 && !handle->dir))
        return -EBADF;
    was = *handle;
    *handle = (struct slowfs_handle){ .fd = -1 };
    return (was.dir ? closedir(was.dir) : close(was.fd)) < 0 ? -errno : 0;
}

void slowfs_server_fini(struct slowfs_server *server)
{
    for (size_t i = 0; i < server->handles; i++)
        slowfs_handle_close(server, i + 1);
    free(server->handle);
    free(server->node);
}
