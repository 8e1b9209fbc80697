/* slowfs_serve.c - the requests of the kernel, carried out on a directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/slowfs_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clean.h"

void slowfs_answer(const struct slowfs_server *server, uint64_t unique, int error, const void *data,
                   size_t size)
{
    struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + size),
                                    .error = error,
                                    .unique = unique };
    struct iovec part[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)data, size } };

    while (writev(server->fuse_fd, part, size ? 2 : 1) < 0 && errno == EINTR)
        ; /* any other failure: whoever asked is gone */
}

/* ---- names ---- */

const char *slowfs_path(const struct slowfs_server *server, uint64_t node)
{
    if (node == FUSE_ROOT_ID)
        return ".";
    if (node < 2 || node - 2 >= server->nodes || !server->node[node - 2].path[0])
        return NULL;
    return server->node[node - 2].path;
}

/* The number of a path; 0: no memory. */
static uint64_t slowfs_node_of(struct slowfs_server *server, const char *path)
{
    struct slowfs_node *spare = NULL;

    for (size_t i = 0; i < server->nodes; i++) {
        if (strcmp(server->node[i].path, path) == 0)
            return i + 2;
        if (!server->node[i].path[0] && server->node[i].looked_up == 0)
            spare = &server->node[i];
    }
    if (!spare) {
        if (!ARRAY_FIT(server->node, server->node_room, server->nodes + 1))
            return 0;
        spare = &server->node[server->nodes++];
    }
    *spare = (struct slowfs_node){ 0 };
    snprintf(spare->path, sizeof(spare->path), "%s", path);
    return (uint64_t)(spare - server->node) + 2;
}

static void slowfs_node_forget(struct slowfs_server *server, uint64_t node, uint64_t count)
{
    struct slowfs_node *at;

    if (node < 2 || node - 2 >= server->nodes)
        return;
    at = &server->node[node - 2];
    at->looked_up -= MIN(count, at->looked_up);
    if (at->looked_up == 0)
        at->path[0] = '\0';
}

/* What lies below a directory that was moved has a new path, too. */
static void slowfs_node_move(struct slowfs_node *node, const char *from, const char *to)
{
    size_t size = strlen(from);
    char path[SLOWFS_PATH];

    if (strncmp(node->path, from, size) != 0 || (node->path[size] && node->path[size] != '/'))
        return;
    if (snprintf(path, sizeof(path), "%s%s", to, node->path + size) >= (int)sizeof(path))
        path[0] = '\0'; /* nobody can ask for it by that name either */
    memcpy(node->path, path, sizeof(path));
}

/* A file was moved or removed: the node of its old name is that file no more, or has a new name. */
static void slowfs_node_rename(struct slowfs_server *server, const char *from, const char *to)
{
    for (size_t i = 0; i < server->nodes; i++) {
        if (strcmp(server->node[i].path, to ? to : from) == 0)
            server->node[i].path[0] = '\0'; /* replaced; who has it open has its handle */
    }
    for (size_t i = 0; to && i < server->nodes; i++)
        slowfs_node_move(&server->node[i], from, to);
}

/* -errno, or 0 with the path of `name` in the directory `parent`. */
static int slowfs_child_path(const struct slowfs_server *server, uint64_t parent, const char *name,
                             char out[static SLOWFS_PATH])
{
    const char *above = slowfs_path(server, parent);
    int size;

    if (!above)
        return -ENOENT;
    if (strchr(name, '/') || strcmp(name, "..") == 0 || !name[0])
        return -EINVAL;
    size = parent == FUSE_ROOT_ID ? snprintf(out, SLOWFS_PATH, "%s", name)
                                  : snprintf(out, SLOWFS_PATH, "%s/%s", above, name);
    return size < SLOWFS_PATH ? 0 : -ENAMETOOLONG;
}

/* ---- what files are ---- */

static void slowfs_attr_of(const struct stat *st, struct fuse_attr *ret)
{
    *ret = (struct fuse_attr){ .ino = st->st_ino, /* a node's number may come again */
                               .size = (uint64_t)st->st_size,
                               .blocks = (uint64_t)st->st_blocks,
                               .atime = (uint64_t)st->st_atim.tv_sec,
                               .mtime = (uint64_t)st->st_mtim.tv_sec,
                               .ctime = (uint64_t)st->st_ctim.tv_sec,
                               .atimensec = (uint32_t)st->st_atim.tv_nsec,
                               .mtimensec = (uint32_t)st->st_mtim.tv_nsec,
                               .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
                               .mode = st->st_mode,
                               .nlink = (uint32_t)st->st_nlink,
                               .uid = st->st_uid,
                               .gid = st->st_gid,
                               .blksize = 4096 };
}

static int slowfs_entry_of(struct slowfs_server *server, const char *path,
                           struct fuse_entry_out *ret)
{
    struct stat st;
    uint64_t node;

    if (fstatat(server->backing_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    node = slowfs_node_of(server, path);
    if (!node)
        return -ENOMEM;
    server->node[node - 2].looked_up++;
    *ret = (struct fuse_entry_out){ .nodeid = node }; /* nothing stays valid: always asked again */
    slowfs_attr_of(&st, &ret->attr);
    return 0;
}

static int serve_attr(const struct slowfs_server *server, uint64_t node, int fd,
                      struct fuse_attr_out *ret)
{
    const char *path = slowfs_path(server, node);
    struct stat st;

    if (fd < 0 && !path)
        return -ENOENT;
    if (fd >= 0 ? fstat(fd, &st) : fstatat(server->backing_fd, path, &st, AT_SYMLINK_NOFOLLOW))
        return -errno;
    *ret = (struct fuse_attr_out){ 0 };
    slowfs_attr_of(&st, &ret->attr);
    return 0;
}

/* Only what a job's files need: sizes and modes. */
static int serve_setattr(const struct slowfs_server *server, uint64_t node,
                         const struct fuse_setattr_in *in, struct fuse_attr_out *ret)
{
    const char *path = slowfs_path(server, node);
    CLEAN(fd_clean) int fd = -1;

    if (!path)
        return -ENOENT;
    if (in->valid & FATTR_SIZE) {
        fd = openat(server->backing_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || ftruncate(fd, (off_t)in->size) < 0)
            return -errno;
    }
    if (in->valid & FATTR_MODE && fchmodat(server->backing_fd, path, in->mode & 07777, 0) < 0)
        return -errno;
    return serve_attr(server, node, -1, ret);
}

/* ---- directories ---- */

static int serve_readdir(DIR *dir, const struct fuse_read_in *in, char *out, size_t *size)
{
    size_t most = MIN(in->size, SLOWFS_WRITE_MOST);
    const struct dirent *entry;

    *size = 0;
    seekdir(dir, (long)in->offset);
    while ((entry = readdir(dir))) {
        size_t name = strlen(entry->d_name), room = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name);
        struct fuse_dirent head = { .ino = entry->d_ino,
                                    .off = (uint64_t)entry->d_off,
                                    .namelen = (uint32_t)name,
                                    .type = entry->d_type };

        if (*size + room > most)
            break;
        memset(out + *size, 0, room);
        memcpy(out + *size, &head, FUSE_NAME_OFFSET);
        memcpy(out + *size + FUSE_NAME_OFFSET, entry->d_name, name);
        *size += room;
    }
    return 0;
}

static int serve_opendir(struct slowfs_server *server, uint64_t node, struct fuse_open_out *ret)
{
    const char *path = slowfs_path(server, node);
    int fd = path ? openat(server->backing_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (!dir) {
        int result = path ? -errno : -ENOENT;

        fd_clean(&fd);
        return result;
    }
    *ret = (struct fuse_open_out){ 0 };
    return slowfs_handle_add(server, -1, dir, &ret->fh);
}

static int serve_rename(struct slowfs_server *server, uint64_t from_dir, uint64_t to_dir,
                        const char *names, size_t size)
{
    char from[SLOWFS_PATH], to[SLOWFS_PATH];
    size_t first = strnlen(names, size);
    int result = first + 1 < size ? slowfs_child_path(server, from_dir, names, from) : -EINVAL;

    if (result == 0)
        result = slowfs_child_path(server, to_dir, names + first + 1, to);
    if (result == 0 && renameat(server->backing_fd, from, server->backing_fd, to) < 0)
        result = -errno;
    if (result == 0)
        slowfs_node_rename(server, from, to);
    return result;
}

static int serve_remove(struct slowfs_server *server, uint64_t parent, const char *name, int flag)
{
    char path[SLOWFS_PATH];
    int result = slowfs_child_path(server, parent, name, path);

    if (result == 0 && unlinkat(server->backing_fd, path, flag) < 0)
        result = -errno;
    if (result == 0)
        slowfs_node_rename(server, path, NULL);
    return result;
}

static int serve_mkdir(struct slowfs_server *server, uint64_t parent, const char *name,
                       uint32_t mode, struct fuse_entry_out *ret)
{
    char path[SLOWFS_PATH];
    int result = slowfs_child_path(server, parent, name, path);

    if (result == 0 && mkdirat(server->backing_fd, path, mode & 07777) < 0)
        result = -errno;
    return result == 0 ? slowfs_entry_of(server, path, ret) : result;
}

/* Another name for the file `node`. */
static int serve_link(struct slowfs_server *server, uint64_t parent, uint64_t node,
                      const char *name, struct fuse_entry_out *ret)
{
    const char *from = slowfs_path(server, node);
    char path[SLOWFS_PATH];
    int result = from ? slowfs_child_path(server, parent, name, path) : -ENOENT;

    if (result == 0 && linkat(server->backing_fd, from, server->backing_fd, path, 0) < 0)
        result = -errno;
    return result == 0 ? slowfs_entry_of(server, path, ret) : result;
}

/* ---- files ---- */

/* Never from the page cache: each read of a job shall reach its storage. */
static int serve_open(struct slowfs_server *server, const char *path, int flags, mode_t mode,
                      struct fuse_open_out *ret)
{
    int fd = openat(server->backing_fd, path,
                    (flags & ~(O_APPEND | O_DIRECT)) | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0)
        return -errno;
    *ret = (struct fuse_open_out){ .open_flags = FOPEN_DIRECT_IO };
    return slowfs_handle_add(server, fd, NULL, &ret->fh);
}

static int serve_read(const struct slowfs_server *server, const struct fuse_read_in *in, char *out,
                      size_t *size)
{
    int fd = slowfs_handle_fd(server, in->fh);
    ssize_t got = pread(fd, out, MIN(in->size, SLOWFS_WRITE_MOST), (off_t)in->offset);

    *size = got > 0 ? (size_t)got : 0;
    return got < 0 ? -errno : 0;
}

static int serve_write(const struct slowfs_server *server, const struct fuse_write_in *in,
                       const char *data, size_t size, struct fuse_write_out *ret)
{
    int fd = slowfs_handle_fd(server, in->fh);
    ssize_t put = pwrite(fd, data, MIN(in->size, size), (off_t)in->offset);

    if (put < 0)
        return -errno;
    *ret = (struct fuse_write_out){ .size = (uint32_t)put };
    return 0;
}

static int serve_statfs(const struct slowfs_server *server, struct fuse_statfs_out *ret)
{
    struct statvfs st;

    if (fstatvfs(server->backing_fd, &st) < 0)
        return -errno;
    *ret = (struct fuse_statfs_out){ .st = { .blocks = st.f_blocks,
                                             .bfree = st.f_bfree,
                                             .bavail = st.f_bavail,
                                             .files = st.f_files,
                                             .ffree = st.f_ffree,
                                             .bsize = (uint32_t)st.f_bsize,
                                             .namelen = (uint32_t)st.f_namemax,
                                             .frsize = (uint32_t)st.f_frsize } };
    return 0;
}

static int serve_init(const struct fuse_init_in *in, struct fuse_init_out *ret)
{
    *ret = (struct fuse_init_out){ .major = FUSE_KERNEL_VERSION,
                                   .minor = FUSE_KERNEL_MINOR_VERSION,
                                   .max_readahead = in->max_readahead,
                                   .flags = in->flags & FUSE_BIG_WRITES,
                                   .max_background = 64,
                                   .congestion_threshold = 48,
                                   .max_write = SLOWFS_WRITE_MOST,
                                   .time_gran = 1 };
    return in->major == FUSE_KERNEL_VERSION ? 0 : -EPROTO;
}

/* ---- all of them ---- */

struct reply {
    size_t size;
    union {
        struct fuse_entry_out entry;
        struct fuse_attr_out attr;
        struct fuse_open_out open;
        struct fuse_write_out write;
        struct fuse_statfs_out statfs;
        struct fuse_init_out init;
        struct {
            struct fuse_entry_out entry;
            struct fuse_open_out open;
        } created;
        char bytes[SLOWFS_WRITE_MOST];
    };
};

static int serve_create(struct slowfs_server *server, uint64_t parent,
                        const struct fuse_create_in *in, const char *name, struct reply *reply)
{
    char path[SLOWFS_PATH];
    int result = slowfs_child_path(server, parent, name, path);

    if (result == 0)
        result = serve_open(server, path, (int)in->flags | O_CREAT, in->mode & 07777,
                            &reply->created.open);
    if (result < 0)
        return result;
    reply->size = sizeof(reply->created);
    result = slowfs_entry_of(server, path, &reply->created.entry);
    if (result < 0)
        slowfs_handle_close(server, reply->created.open.fh);
    return result;
}

static void serve_batch_forget(struct slowfs_server *server, const struct slowfs_request *request)
{
    const struct fuse_batch_forget_in *in = (const void *)request->body;
    const struct fuse_forget_one *one = (const void *)(in + 1);

    for (uint32_t i = 0; i < in->count && sizeof(*in) + (i + 1) * sizeof(*one) <= request->size;
         i++)
        slowfs_node_forget(server, one[i].nodeid, one[i].nlookup);
}

/* Requests about names and what files are. */
static int serve_names(struct slowfs_server *server, const struct slowfs_request *request,
                       struct reply *reply)
{
    const void *body = request->body;
    uint64_t node = request->head.nodeid;
    char path[SLOWFS_PATH];
    int result;

    switch (request->head.opcode) {
    case FUSE_LOOKUP:
        reply->size = sizeof(reply->entry);
        result = slowfs_child_path(server, node, body, path);
        return result == 0 ? slowfs_entry_of(server, path, &reply->entry) : result;
    case FUSE_GETATTR: {
        const struct fuse_getattr_in *in = body;

        reply->size = sizeof(reply->attr);
        return serve_attr(server, node,
                          in->getattr_flags & FUSE_GETATTR_FH ? slowfs_handle_fd(server, in->fh)
                                                              : -1,
                          &reply->attr);
    }
    case FUSE_SETATTR:
        reply->size = sizeof(reply->attr);
        return serve_setattr(server, node, body, &reply->attr);
    case FUSE_MKDIR:
        reply->size = sizeof(reply->entry);
        return serve_mkdir(server, node, (const char *)body + sizeof(struct fuse_mkdir_in),
                           ((const struct fuse_mkdir_in *)body)->mode, &reply->entry);
    case FUSE_LINK:
        reply->size = sizeof(reply->entry);
        return serve_link(server, node, ((const struct fuse_link_in *)body)->oldnodeid,
                          (const char *)body + sizeof(struct fuse_link_in), &reply->entry);
    case FUSE_UNLINK:
        return serve_remove(server, node, body, 0);
    case FUSE_RMDIR:
        return serve_remove(server, node, body, AT_REMOVEDIR);
    case FUSE_RENAME:
        return serve_rename(server, node, ((const struct fuse_rename_in *)body)->newdir,
                            (const char *)body + sizeof(struct fuse_rename_in),
                            request->size - sizeof(struct fuse_rename_in));
    case FUSE_STATFS:
        reply->size = sizeof(reply->statfs);
        return serve_statfs(server, &reply->statfs);
    case FUSE_INIT:
        reply->size = sizeof(reply->init);
        return serve_init(body, &reply->init);
    default:
        return -ENOSYS;
    }
}

/* Requests about what is open. */
static int serve_open_files(struct slowfs_server *server, const struct slowfs_request *request,
                            struct reply *reply)
{
    const void *body = request->body;
    uint64_t node = request->head.nodeid;
    const char *path = slowfs_path(server, node);

    switch (request->head.opcode) {
    case FUSE_OPEN:
        reply->size = sizeof(reply->open);
        return path ? serve_open(server, path, (int)((const struct fuse_open_in *)body)->flags, 0,
                                 &reply->open)
                    : -ENOENT;
    case FUSE_CREATE:
        return serve_create(server, node, body, (const char *)body + sizeof(struct fuse_create_in),
                            reply);
    case FUSE_READ:
        return serve_read(server, body, reply->bytes, &reply->size);
    case FUSE_WRITE:
        reply->size = sizeof(reply->write);
        return serve_write(server, body, (const char *)body + sizeof(struct fuse_write_in),
                           request->size - sizeof(struct fuse_write_in), &reply->write);
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
        return fsync(slowfs_handle_fd(server, ((const struct fuse_fsync_in *)body)->fh)) < 0
                   ? -errno
                   : 0;
    case FUSE_FLUSH:
        return 0;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        return slowfs_handle_close(server, ((const struct fuse_release_in *)body)->fh);
    case FUSE_OPENDIR:
        reply->size = sizeof(reply->open);
        return serve_opendir(server, node, &reply->open);
    case FUSE_READDIR: {
        const struct fuse_read_in *in = body;
        DIR *dir = slowfs_handle_dir(server, in->fh);

        return dir ? serve_readdir(dir, in, reply->bytes, &reply->size) : -EBADF;
    }
    default:
        return serve_names(server, request, reply);
    }
}

/* What a request has at least behind its header; names, which end with NUL, come after it. */
static size_t least_size(uint32_t opcode)
{
    static const struct least {
        uint32_t opcode;
        size_t size;
    } leasts[] = {
        { FUSE_LOOKUP, 1 },
        { FUSE_FORGET, sizeof(struct fuse_forget_in) },
        { FUSE_BATCH_FORGET, sizeof(struct fuse_batch_forget_in) },
        { FUSE_GETATTR, sizeof(struct fuse_getattr_in) },
        { FUSE_SETATTR, sizeof(struct fuse_setattr_in) },
        { FUSE_MKDIR, sizeof(struct fuse_mkdir_in) + 1 },
        { FUSE_LINK, sizeof(struct fuse_link_in) + 1 },
        { FUSE_UNLINK, 1 },
        { FUSE_RMDIR, 1 },
        { FUSE_RENAME, sizeof(struct fuse_rename_in) + 1 },
        { FUSE_INIT, offsetof(struct fuse_init_in, flags) + sizeof(uint32_t) }, /* old kernels */
        { FUSE_OPEN, sizeof(struct fuse_open_in) },
        { FUSE_CREATE, sizeof(struct fuse_create_in) + 1 },
        { FUSE_READ, sizeof(struct fuse_read_in) },
        { FUSE_WRITE, sizeof(struct fuse_write_in) },
        { FUSE_FSYNC, sizeof(struct fuse_fsync_in) },
        { FUSE_FSYNCDIR, sizeof(struct fuse_fsync_in) },
        { FUSE_RELEASE, sizeof(struct fuse_release_in) },
        { FUSE_RELEASEDIR, sizeof(struct fuse_release_in) },
        { FUSE_READDIR, sizeof(struct fuse_read_in) },
    };

    for (size_t i = 0; i < COUNT(leasts); i++) {
        if (leasts[i].opcode == opcode)
            return leasts[i].size;
    }
    return 0;
}

void slowfs_serve(struct slowfs_server *server, const struct slowfs_request *request)
{
    CLEAN(free_clean) struct reply *reply = NULL;
    int result;

    if (request->size < least_size(request->head.opcode)) {
        slowfs_answer(server, request->head.unique, -EINVAL, NULL, 0);
        return;
    }
    switch (request->head.opcode) { /* those that nobody waits for */
    case FUSE_FORGET:
        slowfs_node_forget(server, request->head.nodeid,
                           ((const struct fuse_forget_in *)(const void *)request->body)->nlookup);
        return;
    case FUSE_BATCH_FORGET:
        serve_batch_forget(server, request);
        return;
    case FUSE_INTERRUPT:
    case FUSE_DESTROY:
        return;
    default:
        break;
    }
    reply = malloc(sizeof(*reply));
    if (!reply) {
        slowfs_answer(server, request->head.unique, -ENOMEM, NULL, 0);
        return;
    }
    reply->size = 0;
    result = serve_open_files(server, request, reply);
    slowfs_answer(server, request->head.unique, result, reply->bytes,
                  result == 0 ? reply->size : 0);
}
