/* fuzz-slowfs.c - requests as they come from /dev/fuse, one after the other.
 *
 * They are carried out on a directory of our own, and must neither leave it nor touch a descriptor that they did not
 * open.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "lab/faults/slowfs_private.h"

#define REQUESTS_MOST 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Each gets a copy that ends with it, so that the sanitizers see a byte read beyond; and a NUL, as the server has. */
static size_t serve_one(struct slowfs_server *server, const uint8_t *data, size_t left)
{
    struct slowfs_request request;
    CLEAN(free_clean) char *body = NULL;
    size_t whole;

    memcpy(&request.head, data, sizeof(request.head));
    whole = MIN(MAX(request.head.len, sizeof(request.head)), left);
    request.size = whole - sizeof(request.head);
    body = malloc(request.size + 1);
    if (!body)
        return left;
    memcpy(body, data + sizeof(request.head), request.size);
    body[request.size] = '\0';
    request.body = body;
    slowfs_serve(server, &request);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* In memory where it can be: thousands of directories and their syncs take minutes on a busy disk. */
    char place[64], below[80], canary[80];
    struct slowfs_server server = { .fuse_fd = open("/dev/null", O_WRONLY | O_CLOEXEC) };
    struct stat st;

    snprintf(place, sizeof(place), "%s/lockstep-fuzz-slowfs-XXXXXX",
             access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(place))
        abort();
    snprintf(below, sizeof(below), "%s/below", place);
    snprintf(canary, sizeof(canary), "%s/canary", place);
    if (mkdir(below, 0700) < 0 || mkdir(canary, 0700) < 0)
        abort();
    server.backing_fd = open(below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < REQUESTS_MOST && size >= sizeof(struct fuse_in_header); i++) {
        size_t used = serve_one(&server, data, size);

        data += used;
        size -= used;
    }
    slowfs_server_fini(&server);
    if (fcntl(server.fuse_fd, F_GETFD) < 0 || fcntl(server.backing_fd, F_GETFD) < 0 ||
        fcntl(STDERR_FILENO, F_GETFD) < 0)
        abort(); /* closed what is not theirs */
    close(server.fuse_fd);
    close(server.backing_fd);
    if (stat(canary, &st) < 0 || (st.st_mode & 0777) != 0700 || rmdir(canary) < 0)
        abort(); /* left their directory */
    chmod(below, 0700);
    nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
