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

static int slurp_grow(struct slurp *slurp)
{
    size_t want = slurp->room ? slurp->room + slurp->room / 2 : SLURP_FIRST;
    char *grown;

    if (!budget_take(slurp->budget, want - slurp->room))
        return -EFBIG;
    grown = realloc(slurp->data, want);
    if (!grown) {
        budget_give(slurp->budget, want - slurp->room);
        return -ENOMEM;
    }
    slurp->data = grown;
    slurp->room = want;
    return 0;
}

/* What the last growth took too much is for the file's values. */
static void slurp_fit(struct slurp *slurp)
{
    char *fitting = realloc(slurp->data, slurp->size + 1);

    if (!fitting)
        return;
    budget_give(slurp->budget, slurp->room - (slurp->size + 1));
    slurp->data = fitting;
    slurp->room = slurp->size + 1;
}

static int slurp_gz(gzFile file, struct slurp *slurp, struct err *err)
{
    for (;;) {
        int got, code;

        if (slurp->size + 1 >= slurp->room && slurp_grow(slurp) < 0)
            return budget_error(slurp->budget, err);
        got = gzread(file, slurp->data + slurp->size,
                     (unsigned)MIN(slurp->room - 1 - slurp->size, 1u << 30));
        if (got < 0) {
            const char *what = gzerror(file, &code);

            return err_set(err, code == Z_ERRNO ? -errno : -EPROTO,
                           "damaged gzip after %zu bytes: %s", slurp->size,
                           code == Z_ERRNO ? strerror(errno) : what);
        }
        if (got == 0)
            break;
        slurp->size += (size_t)got;
    }
    slurp->data[slurp->size] = '\0';
    slurp_fit(slurp);
    return 0;
}

static int slurp_fd(int fd, struct budget *budget, struct slurp *ret, struct err *err)
{
    CLEAN(slurp_fini) struct slurp slurp = { .budget = budget };
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
    result = slurp_gz(file, &slurp, err);
    if (result < 0)
        return result;
    gzerror(file, &code); /* a cut gzip reads as a short one, and says so only here */
    if (code == Z_BUF_ERROR)
        return err_set(err, -EPROTO, "gzip ends early, after %zu bytes", slurp.size);
    *ret = slurp;
    slurp = (struct slurp){ 0 };
    return 0;
}

int slurp_file(const char *path, struct budget *budget, struct slurp *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int result = fd < 0 ? err_set(err, -errno, "%m") : slurp_fd(fd, budget, ret, err);

    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

void slurp_fini(struct slurp *slurp)
{
    budget_free(slurp->budget, slurp->data, slurp->room, 1);
    *slurp = (struct slurp){ 0 };
}
