/* probe_file.c - makes the ring's file: where it goes, whose it is, that it is really there.
 *
 * Blocks are allocated now (posix_fallocate): a full tmpfs must say so here, not with SIGBUS
 * in the middle of training.  A file that could not be finished is removed again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/probe_private.h"
#include "wire/ring_format.h"

#define FILE_NUMBER_MAX 100000u
#define FILE_INTERRUPTS_MAX 1000 /* a profiler's timer may interrupt fallocate again and again */

/* glibc's fstat() has been a symbol of its own only since 2.33; on the 64-bit machines that we
 * build for its struct is the kernel's.
 */
_Static_assert(sizeof(void *) == 8, "the system call fills in glibc's struct stat");
static int file_stat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

struct file_size {
    uint32_t lanes, records;
};

static const char *probe_env_text(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] ? text : NULL;
}

static int probe_env_number(const char *name, uint32_t fallback, uint32_t *ret, struct err *err)
{
    const char *text = probe_env_text(name);
    char *end;
    unsigned long value;

    *ret = fallback;
    if (!text)
        return 0;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char)text[0]) || value > UINT32_MAX)
        return err_set(err, -EINVAL, "%s is \"%.40s\", expected a number", name, text);
    *ret = (uint32_t)value;
    return 0;
}

static int file_size_get(struct file_size *size, struct err *err)
{
    int result = probe_env_number("LOCKSTEP_RING_LANES", RING_LANES_DEFAULT, &size->lanes, err);

    if (result == 0)
        result =
            probe_env_number("LOCKSTEP_RING_RECORDS", RING_RECORDS_DEFAULT, &size->records, err);
    if (result < 0)
        return result;
    if (!ring_size_valid(size->lanes, size->records))
        return err_set(err, -EINVAL,
                       "%u lanes of %u records: expected 1 to %u lanes, a power of two of %u to %u "
                       "records",
                       size->lanes, size->records, RING_LANES_MAX, RING_RECORDS_MIN,
                       RING_RECORDS_MAX);
    return 0;
}

/* ---- the directory ---- */

/* Others must not be able to put files or links under our names: the directory is ours or
 * root's, and where more may write, it is sticky.
 */
static int probe_dir_open(const char *path, int *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || file_stat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(err, -EPERM, "%s: owner is user %u", path, st.st_uid);
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
        return err_set(err, -EPERM, "%s: others may write there", path);
    *ret = TAKE_FD(fd);
    return 0;
}

/* A run's name as one step of a path. */
static void probe_dir_run_name(char *out, size_t room)
{
    const char *run = probe_env_text("LOCKSTEP_RUN");

    snprintf(out, room, "%s", run ? run : "default");
    for (char *at = out; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("_-.", *at))
            *at = '_';
    if (out[0] == '.')
        out[0] = '_';
}

static int probe_dir_open_default(const char *base, char *path, size_t room, int *ret,
                                  struct err *err)
{
    CLEAN(fd_clean) int parent = -1;
    char run[64];
    int used, result;

    used = snprintf(path, room, "%s/lockstep-%u", base, (unsigned)geteuid());
    if (used < 0 || (size_t)used + sizeof(run) + 1 > room)
        return err_set(err, -ENAMETOOLONG, "%.60s…: too long", base);
    result = probe_dir_open(path, &parent, err);
    if (result < 0)
        return result;
    probe_dir_run_name(run, sizeof(run));
    snprintf(path + used, room - (size_t)used, "/%s", run);
    return probe_dir_open(path, ret, err);
}

/* ---- this process ---- */

/* What /proc says about this process, so that the agent can find it.
 *
 * A pid alone names nobody: containers have pids of their own, and pids come again.  With
 * the namespace and the start time it does. */

#define STAT_START_FIELD 22 /* proc(5); counted from 1, the name is field 2 */

static int probe_self_read(const char *path, char *out, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return -1;
    got = read(fd, out, room - 1);
    if (got <= 0)
        return -1;
    out[got] = 0;
    return 0;
}

static uint64_t probe_self_pid_ns(void) /* the link says "pid:[4026531836]" */
{
    char link[64];
    ssize_t size = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    const char *open;

    if (size <= 0)
        return 0;
    link[size] = 0;
    open = strchr(link, '[');
    return open ? strtoull(open + 1, NULL, 10) : 0;
}

/* The program's name may hold blanks and parentheses, so fields are counted from the last ')'. */
static uint64_t probe_self_start(void)
{
    char text[1024];
    const char *at;

    if (probe_self_read("/proc/self/stat", text, sizeof(text)) < 0)
        return 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < STAT_START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void probe_self_program(char *out, size_t room)
{
    char text[64];

    out[0] = 0;
    if (probe_self_read("/proc/self/comm", text, sizeof(text)) < 0)
        return;
    text[strcspn(text, "\n")] = 0;
    snprintf(out, room, "%s", text);
}

/* ---- the file ---- */

/* A file beyond the user's limit does not only fail: SIGXFSZ would end the program. */
static int file_allocate(int fd, off_t bytes)
{
    struct rlimit limit;
    int result = EINTR;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < (rlim_t)bytes)
        return -EFBIG;
    for (int i = 0; i < FILE_INTERRUPTS_MAX && result == EINTR; i++)
        result = posix_fallocate(fd, 0, bytes);
    return -result;
}

static void probe_text_put(char *out, size_t room, const char *text)
{
    snprintf(out, room, "%s", text ? text : "");
}

static int probe_header_fill(struct ring_header *header, uint32_t rank, uint32_t world,
                             const struct file_size *size, struct err *err)
{
    int result = probe_env_number("LOCKSTEP_RESTART", 0, &header->attempt, err);

    if (result < 0)
        return result;
    header->version = RING_VERSION;
    header->header_bytes = sizeof(*header);
    header->file_bytes = ring_file_bytes(size->lanes, size->records, RING_STAMPS_DEFAULT);
    header->lanes = size->lanes;
    header->lane_records = size->records;
    header->stamps = RING_STAMPS_DEFAULT;
    header->rank = rank;
    header->world = world;
    header->pid = (uint32_t)getpid();
    header->pid_ns_inode = probe_self_pid_ns();
    header->pid_start = probe_self_start();
    header->uid = geteuid();
    header->clock_id = CLOCK_MONOTONIC;
    header->open_mono_ns = (uint64_t)time_mono_ns();
    header->open_real_ns = (uint64_t)time_real_ns();
    probe_text_put(header->run, sizeof(header->run), getenv("LOCKSTEP_RUN"));
    probe_self_program(header->program, sizeof(header->program));
    header->crc = ring_header_crc(header);
    atomic_store_explicit(&header->step, RING_NO_STEP, memory_order_relaxed);
    return 0;
}

static int file_fill(int fd, uint32_t rank, uint32_t world, const struct file_size *size,
                     struct probe_file *file, struct err *err)
{
    uint64_t bytes = ring_file_bytes(size->lanes, size->records, RING_STAMPS_DEFAULT);
    struct ring_header *header;
    int result;

    fchmod(fd, 0600); /* whatever the umask took away */
    result = file_allocate(fd, (off_t)bytes);
    if (result < 0) {
        errno = -result;
        return err_set(err, result, "%s: %m", file->path);
    }
    header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (header == MAP_FAILED)
        return err_set(err, -errno, "%s: %m", file->path);
    result = probe_header_fill(header, rank, world, size, err);
    if (result < 0) {
        munmap(header, bytes);
        return result;
    }
    atomic_store_explicit(&header->magic, RING_MAGIC, memory_order_release);
    file->map = header;
    file->bytes = bytes;
    return 0;
}

/* The first free number: an earlier attempt's ring stays as it is. */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int file_create_in(int dir, const char *dir_path, uint32_t rank, uint32_t world,
                          const struct file_size *size, struct probe_file *file, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    char name[64];
    int result;

    for (unsigned number = 0; fd < 0 && number < FILE_NUMBER_MAX; number++) {
        snprintf(name, sizeof(name), RING_NAME_FORMAT, rank, number);
        snprintf(file->path, sizeof(file->path), "%s/%s", dir_path, name);
        fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return err_set(err, -errno, "%s: %m", file->path);
    }
    if (fd < 0)
        return err_set(err, -EEXIST, "%s: no free number", file->path);
    result = file_fill(fd, rank, world, size, file, err);
    if (result < 0)
        unlinkat(dir, name, 0);
    return result;
}

static int file_create_default(const char *base, uint32_t rank, uint32_t world,
                               const struct file_size *size, struct probe_file *file,
                               struct err *err)
{
    CLEAN(fd_clean) int dir = -1;
    char path[256];
    int result = probe_dir_open_default(base, path, sizeof(path), &dir, err);

    return result < 0 ? result : file_create_in(dir, path, rank, world, size, file, err);
}

int probe_file_create(uint32_t rank, uint32_t world, struct probe_file *ret, struct err *err)
{
    const char *given = probe_env_text("LOCKSTEP_DIR"), *tmp = probe_env_text("TMPDIR");
    CLEAN(fd_clean) int dir = -1;
    struct file_size size;
    int result = file_size_get(&size, err);

    if (result < 0)
        return result;
    if (!given) {
        if (file_create_default("/dev/shm", rank, world, &size, ret, err) == 0)
            return 0;
        return file_create_default(tmp ? tmp : "/tmp", rank, world, &size, ret, err);
    }
    if (strlen(given) > sizeof(ret->path) - 64)
        return err_set(err, -ENAMETOOLONG, "LOCKSTEP_DIR: too long");
    result = probe_dir_open(given, &dir, err);
    return result < 0 ? result : file_create_in(dir, given, rank, world, &size, ret, err);
}
