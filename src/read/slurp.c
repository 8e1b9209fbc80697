/* slurp.c - reads a whole file through zlib, which passes on what is not gzip.
 *
 * Fifos, devices and sockets are refused before they are opened for reading: a directory that a dead
 * job left may hold anything, and nobody may be able to make us wait.
 */
#include "read/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/clean.h"

#define SLURP_FIRST ((size_t)64 << 10)

static void gz_clean(gzFile *file)
{
    if (*file)
        gzclose(*file);
}

static int slurp_grow(struct slurp *slurp, size_t *room, size_t limit)
{
    size_t want = *room ? 2 * *room : SLURP_FIRST;
    char *grown;

    if (want > limit + 1)
        want = limit + 1; /* one more byte shows that there is more */
    grown = realloc(slurp->data, want + 1);
    if (!grown)
        return -ENOMEM;
    slurp->data = grown;
    *room = want;
    return 0;
}

static int slurp_gz(gzFile file, size_t limit, struct slurp *slurp, struct err *err)
{
    size_t room = 0;

    for (;;) {
        int got, code;

        if (slurp->size == room && slurp_grow(slurp, &room, limit) < 0)
            return err_set(err, -ENOMEM, "no memory for it");
        got = gzread(file, slurp->data + slurp->size, (unsigned)MIN(room - slurp->size, 1u << 30));
        if (got < 0) {
            const char *what = gzerror(file, &code);

            return err_set(err, code == Z_ERRNO ? -errno : -EPROTO,
                           "damaged gzip after %zu bytes: %s", slurp->size,
                           code == Z_ERRNO ? strerror(errno) : what);
        }
        if (got == 0)
            break;
        slurp->size += (size_t)got;
        if (slurp->size > limit)
            return err_set(err, -EFBIG, "longer than %zu bytes", limit);
    }
    slurp->data[slurp->size] = '\0';
    return 0;
}

static int slurp_fd(int fd, size_t limit, struct slurp *ret, struct err *err)
{
    CLEAN(slurp_fini) struct slurp slurp = { 0 };
    CLEAN(gz_clean) gzFile file = NULL;
    struct stat stat;
    int result, code;

    if (fstat(fd, &stat) < 0)
        return err_set(err, -errno, "%m");
    if (!S_ISREG(stat.st_mode))
        return err_set(err, -EINVAL, "not a plain file");
    if (fcntl(fd, F_SETFL, 0) < 0)
        return err_set(err, -errno, "%m");
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    file = fd < 0 ? NULL : gzdopen(fd, "rb");
    if (!file) {
        if (fd >= 0)
            close(fd);
        return err_set(err, -ENOMEM, "cannot read it: no memory or no file descriptor left");
    }
    result = slurp_gz(file, limit, &slurp, err);
    if (result < 0)
        return result;
    gzerror(file, &code); /* a cut gzip reads as a short one, and says so only here */
    if (code == Z_BUF_ERROR)
        return err_set(err, -EPROTO, "gzip ends early, after %zu bytes", slurp.size);
    *ret = slurp;
    slurp.data = NULL;
    return 0;
}

int slurp_at(int directory, const char *name, size_t limit, struct slurp *ret, struct err *err)
{
    CLEAN(fd_clean)
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    return fd < 0 ? err_set(err, -errno, "%m") : slurp_fd(fd, limit, ret, err);
}

int slurp_file(const char *path, size_t limit, struct slurp *ret, struct err *err)
{
    int result = slurp_at(AT_FDCWD, path, limit, ret, err);

    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

void slurp_fini(struct slurp *slurp)
{
    free(slurp->data);
    *slurp = (struct slurp){ 0 };
}
