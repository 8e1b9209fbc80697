/* held.c - the image that a writer still has in memory after its trainer died.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/held.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/format/tensor.h"
#include "ckpt/store/small_file.h"
#include "core/clean.h"
#include "core/hash.h"

#define MAGIC UINT64_C(0x31444c4548534b4c) /* "LKSHELD1" */
#define VERSION 1
#define RECORD_BYTES 84
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK)

static void held_name(uint32_t rank, const char *ending, char *out, size_t room)
{
    snprintf(out, room, ".held-rank-%05" PRIu32 "%s", rank, ending);
}

void held_encode(const struct held_image *held, struct buf *out)
{
    size_t begin = out->size;

    buf_put_u64(out, MAGIC);
    buf_put_u32(out, VERSION);
    buf_put_u32(out, held->rank);
    buf_put_u32(out, held->pid);
    buf_put_u32(out, held->fd);
    buf_put_u64(out, held->pid_start);
    buf_put_u64(out, held->pid_ns);
    buf_put_u64(out, held->boot);
    buf_put_u64(out, held->offset);
    buf_put_u64(out, held->file_bytes);
    buf_put_u64(out, held->step);
    buf_put_u64(out, held->job);
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + begin, out->size - begin));
}

int held_parse(const void *data, size_t size, struct held_image *ret, struct err *err)
{
    struct reader in = reader_of(data, size);
    struct held_image held = { .rank = 0 };
    uint64_t magic = reader_get_u64(&in);
    uint32_t version = reader_get_u32(&in), crc;

    held.rank = reader_get_u32(&in);
    held.pid = reader_get_u32(&in);
    held.fd = reader_get_u32(&in);
    held.pid_start = reader_get_u64(&in);
    held.pid_ns = reader_get_u64(&in);
    held.boot = reader_get_u64(&in);
    held.offset = reader_get_u64(&in);
    held.file_bytes = reader_get_u64(&in);
    held.step = reader_get_u64(&in);
    held.job = reader_get_u64(&in);
    crc = reader_get_u32(&in);
    if (in.bad || size != RECORD_BYTES || magic != MAGIC || version != VERSION ||
        crc != crc32c(0, data, RECORD_BYTES - 4))
        return err_set(err, -EPROTO, "not a record of this version");
    if (held.rank >= CKPT_RANKS_MAX || !held.pid || held.pid > INT32_MAX || held.fd > INT32_MAX ||
        held.offset % CKPT_PAGE || held.offset > UINT64_C(1) << 61 || !held.file_bytes ||
        held.file_bytes > UINT64_C(1) << 61)
        return err_set(err, -EPROTO, "a number is out of range");
    *ret = held;
    return 0;
}

/* ---- processes ---- */

static uint64_t held_boot(void)
{
    CLEAN(file_clean) FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char text[64] = "";

    return file && fgets(text, sizeof(text), file) ? hash64(0, text, strlen(text)) | 1 : 0;
}

static uint64_t held_pid_ns(void)
{
    struct statx st;

    return statx(AT_FDCWD, "/proc/self/ns/pid", 0, STATX_INO, &st) < 0 ? 0 : st.stx_ino;
}

/* Field 22 of its stat, behind the name, which may hold anything. */
static int held_start(int proc_fd, uint64_t *ret)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, "stat", O_RDONLY | O_CLOEXEC);
    char text[1024], *at;
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (size <= 0)
        return -ESRCH;
    text[size] = '\0';
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at && sscanf(at, " %" SCNu64, ret) == 1 ? 0 : -ESRCH;
}

/* The directory of the process in /proc: it stays that of this process, whoever gets the number later. */
static int held_process_open(const struct held_image *held, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct statx st;
    uint64_t start;
    char path[32];

    snprintf(path, sizeof(path), "/proc/%" PRIu32, held->pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -ESRCH, "its process is gone");
    if (statx(fd, "", AT_EMPTY_PATH, STATX_UID, &st) < 0 || st.stx_uid != geteuid())
        return err_set(err, -EPERM, "its process belongs to another user");
    if (held_start(fd, &start) < 0 || start != held->pid_start)
        return err_set(err, -ESRCH, "its process is gone");
    return TAKE_FD(fd);
}

bool held_is_alive(const struct held_image *held)
{
    CLEAN(fd_clean) int fd = held_process_open(held, NULL);

    return fd >= 0;
}

int held_self(struct held_image *held, struct err *err)
{
    CLEAN(fd_clean) int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    held->pid = (uint32_t)getpid();
    held->pid_ns = held_pid_ns();
    held->boot = held_boot();
    if (fd < 0 || held_start(fd, &held->pid_start) < 0 || !held->boot || !held->pid_ns)
        return err_set(err, -ENOENT, "/proc does not show the identity of this process");
    return 0;
}

/* ---- the record ---- */

int held_put(int dir_fd, const struct held_image *held, struct err *err)
{
    CLEAN(buf_fini) struct buf bytes = { .data = NULL };
    char name[64], temporary[64];

    held_name(held->rank, "", name, sizeof(name));
    held_name(held->rank, ".tmp", temporary, sizeof(temporary));
    held_encode(held, &bytes);
    if (bytes.failed)
        return err_nomem(err);
    unlinkat(dir_fd, temporary, 0); /* of a writer that was killed */
    return small_file_replace(dir_fd, name, temporary, &bytes, err);
}

static int held_read(int dir_fd, uint32_t rank, struct held_image *ret, struct err *err)
{
    CLEAN(buf_fini) struct buf bytes = { .data = NULL };
    char name[64];
    int result;

    held_name(rank, "", name, sizeof(name));
    result = small_file_read(dir_fd, name, RECORD_BYTES, &bytes, err);
    if (result == 0)
        result = held_parse(bytes.data, bytes.size, ret, err);
    if (result == 0 && ret->rank != rank)
        result = err_set(err, -EPROTO, "it is of another rank");
    return result;
}

bool held_is_there(int dir_fd, const struct held_image *held)
{
    struct held_image now;

    return held_read(dir_fd, held->rank, &now, NULL) == 0 && now.pid == held->pid &&
           now.pid_start == held->pid_start && now.boot == held->boot && now.pid_ns == held->pid_ns;
}

void held_remove(int dir_fd, uint32_t rank)
{
    char name[64];

    held_name(rank, "", name, sizeof(name));
    unlinkat(dir_fd, name, 0);
}

int held_find(int dir_fd, uint32_t rank, struct held_image *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct held_image held;
    int result = held_read(dir_fd, rank, &held, err);

    if (result < 0)
        return result;
    if (held.boot != held_boot() || held.pid_ns != held_pid_ns())
        return err_set(err, -EXDEV, "it is on another machine, or in another container");
    fd = held_process_open(&held, err);
    if (fd < 0)
        return fd;
    *ret = held;
    return 0;
}

int held_map_open(const struct held_image *held, struct held_map *ret, struct err *err)
{
    CLEAN(fd_clean) int process = held_process_open(held, err), fd = -1;
    size_t size = (size_t)held->file_bytes;
    struct statx st;
    char name[32];
    void *at;
    int seals;

    if (process < 0)
        return process;
    snprintf(name, sizeof(name), "fd/%" PRIu32, held->fd);
    if (statx(process, name, 0, STATX_TYPE | STATX_SIZE, &st) < 0 || !S_ISREG(st.stx_mode) ||
        st.stx_size < held->offset || st.stx_size - held->offset < held->file_bytes)
        return err_set(err, -EPROTO, "its memory is not there");
    fd = openat(process, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return err_set(err, -EPROTO, "its memory can still change");
    at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)held->offset);
    if (at == MAP_FAILED)
        return err_set(err, -errno, "mmap: %m");
    *ret = (struct held_map){ .data = at, .size = size };
    return 0;
}

void held_map_close(struct held_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct held_map){ .data = NULL };
}
