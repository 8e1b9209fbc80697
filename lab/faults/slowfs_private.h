/* slowfs_private.h - what the files of the slow file system share: the server's state and its answers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_SLOWFS_PRIVATE_H
#define LOCKSTEP_LAB_FAULTS_SLOWFS_PRIVATE_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/fuse.h>

#define SLOWFS_WRITE_MOST (128u << 10)
#define SLOWFS_BUFFER (SLOWFS_WRITE_MOST + 65536u)
#define SLOWFS_PATH 512

struct slowfs_node {        /* a file that the kernel knows; its number is its place, plus one */
    char path[SLOWFS_PATH]; /* below the backing directory; "": free */
    uint64_t looked_up;     /* so often told to the kernel, less what it forgot */
};

struct slowfs_handle { /* something open; its number is its place, plus one */
    int fd;            /* of a file; -1: none */
    DIR *dir;          /* of a directory; NULL: none */
};

struct slowfs_server {
    int fuse_fd, backing_fd;
    struct slowfs_node *node;
    size_t nodes, node_room;
    struct slowfs_handle *handle;
    size_t handles, handle_room;
};

struct slowfs_request {
    struct fuse_in_header head;
    const char *body; /* behind the header, ends with NUL */
    size_t size;
};

/* Carries a request out on the backing directory and answers it. */
void slowfs_serve(struct slowfs_server *server, const struct slowfs_request *request);
void slowfs_answer(const struct slowfs_server *server, uint64_t unique, int error, const void *data,
                   size_t size);
const char *slowfs_path(const struct slowfs_server *server, uint64_t node); /* NULL: unknown */

void slowfs_server_fini(
    struct slowfs_server *server); /* all but the two descriptors, which are the caller's */

/* slowfs_handle.c.  A number that was never given, or is closed, is -EBADF or NULL: nobody's word is taken for it. */
int slowfs_handle_add(struct slowfs_server *server, int fd, DIR *dir,
                      uint64_t *ret); /* takes them */
int slowfs_handle_fd(const struct slowfs_server *server, uint64_t number);
DIR *slowfs_handle_dir(const struct slowfs_server *server, uint64_t number);
int slowfs_handle_close(struct slowfs_server *server, uint64_t number);

#endif
