/* pystack.c - from _PyRuntime to a thread's frames, one pointer after the other.
 *
 * The first thread is the one that trains.  Where another one holds the GIL and does not let go, that is why the
 * first does not go on: then its frames come first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/pystack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "core/untrusted.h"
#include "wire/facts.h"

/* A thread that works moves on between two looks, or gives the GIL away.  A short loop is often found at the same
 * instruction again: at a third of its time there, five looks in a row would agree once in a hundred. */
#define GIL_LOOKS 20
#define GIL_BETWEEN_NS (15 * NS_PER_MS)
#define FRAMES_MAX 32
#define THREADS_MAX 1024
#define TABLE_MAX 65536
#define TEXT_MAX 120
#define OWNED_BY_C 3 /* a frame between Python and C, without code */
#define NONE (-1)

/* Where things are, by version (offsets in bytes; NONE: it has no such thing).  Computed from the headers of
 * each on x86-64; 3.13 and later say it themselves.
 */
struct python_layout {
    int minor;
    int runtime_head, interp_threads; /* first interpreter, its newest thread */
    int thread_next, thread_frame;
    int cframe_frame; /* thread_frame is of a C frame, which has the current frame here */
    int thread_native;
    int frame_code, frame_back, frame_at; /* at: offset or pointer of the instruction */
    int frame_owner;
    int code_file, code_name, code_first, code_table;
    int code_bytes; /* of the code object: what frame_at points into; NONE: it is an offset */
    int text_bytes; /* of an ASCII string */
    /* Who holds the GIL: until 3.11 a thread of the runtime, later the lock's last holder while it is locked.  The
     * lock lies in the interpreter, or behind a pointer there.
     */
    int runtime_holder, interp_gil, gil_holder, gil_locked;
};
static const struct python_layout
    layouts[] = {
        { 9,   32,  8,  8,   24,   NONE, NONE, 32,   24,   104, NONE,
          104, 112, 40, 120, NONE, 48,   568,  NONE, NONE, NONE },
        { 10,  32,  8,  8,   24,   NONE, NONE, 32,   24,   96,  NONE,
          104, 112, 40, 120, NONE, 48,   568,  NONE, NONE, NONE },
        { 11,  40,  16, 8,   56,  8,  160, 32,   48,   56,  69,
          112, 128, 72, 136, 184, 48, 576, NONE, NONE, NONE },
        { 12, 40, 72, 8, 56, 0, 144, 0, 8, 56, 70, 112, 128, 68, 136, 192, 40, NONE, 384, 8, 16 },
    };

struct python {
    pid_t pid;
    uint64_t runtime;
    struct python_layout at;
};

/* ---- its memory ---- */

static int pystack_memory_read(const struct python *python, uint64_t address, void *ret,
                               size_t size)
{
    struct iovec here = { ret, size };
    struct iovec there = { (void *)(uintptr_t)address, size };
    ssize_t got = process_vm_readv(python->pid, &here, 1, &there, 1, 0);

    if (got < 0)
        return -errno;
    return (size_t)got == size ? 0 : -EFAULT;
}

static int pystack_pointer_read(const struct python *python, uint64_t address, int offset,
                                uint64_t *ret)
{
    return pystack_memory_read(python, address + (uint64_t)offset, ret, sizeof(*ret));
}

static int pystack_number_read(const struct python *python, uint64_t address, int offset)
{
    int32_t value = 0;

    pystack_memory_read(python, address + (uint64_t)offset, &value, sizeof(value));
    return value;
}

/* An ASCII string; the end of a long one.  Anything else is "?". */
static void python_text_read(const struct python *python, uint64_t address,
                             char ret[static TEXT_MAX])
{
    uint64_t length = 0, skip;
    size_t size;

    snprintf(ret, TEXT_MAX, "?");
    if (pystack_pointer_read(python, address, 16, &length) < 0 || length == 0 || length > PATH_MAX)
        return;
    size = MIN(length, TEXT_MAX - 1);
    skip = length - size;
    if (pystack_memory_read(python, address + (uint64_t)python->at.text_bytes + skip, ret, size) <
        0)
        size = 0;
    for (size_t i = 0; i < size; i++) {
        if (ret[i] < ' ' || ret[i] > '~')
            size = 0;
    }
    if (size)
        ret[size] = '\0';
    else
        snprintf(ret, TEXT_MAX, "?");
}

/* ---- finding Python ---- */

static bool pystack_symbol_in_file(int root_fd, const char *path, uint64_t *value, uint64_t *base)
{
    CLEAN(fd_clean) int fd = untrusted_open_inside(root_fd, path, NULL);
    struct stat st;
    void *data;
    bool found;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
        return false;
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return false;
    found = elf_symbol(data, (size_t)st.st_size, "_PyRuntime", value, base) == 0;
    munmap(data, (size_t)st.st_size);
    return found;
}

/* A line of maps that is the beginning of a Python binary or library. */
static bool line_is_python(const char *line, uint64_t *begin, char path[static PATH_MAX],
                           unsigned *minor)
{
    unsigned long long from, to, offset;
    int at = 0;

    if (sscanf(line, "%llx-%llx %*4s %llx %*s %*u %n", &from, &to, &offset, &at) < 3 || at == 0 ||
        offset != 0 || line[at] != '/')
        return false;
    snprintf(path, PATH_MAX, "%s", line + at);
    path[strcspn(path, "\n")] = '\0';
    *begin = from;
    *minor = python_minor(path);
    return *minor >= 9;
}

static int python_find(struct python *python, int proc_fd, unsigned *ret_minor, struct err *err)
{
    CLEAN(fd_clean) int root = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEAN(free_clean) char *line = NULL;
    char path[PATH_MAX];
    size_t room = 0;
    int fd = openat(proc_fd, "maps", O_RDONLY | O_CLOEXEC);
    CLEAN(file_clean) FILE *maps = fd < 0 ? NULL : fdopen(fd, "re");

    if (!maps) {
        int result = err_set(err, -errno, "its memory map cannot be read: %m");

        fd_clean(&fd);
        return result;
    }
    while (getline(&line, &room, maps) > 0) {
        uint64_t begin, value, base;
        unsigned minor;

        if (!line_is_python(line, &begin, path, &minor) ||
            !pystack_symbol_in_file(root, path, &value, &base))
            continue;
        python->runtime = begin + value - base;
        *ret_minor = minor;
        return 0;
    }
    return err_set(err, -ENOENT, "no Python in it");
}

/* What 3.13 and later carry at the beginning of _PyRuntime, in words behind the cookie. */
enum debug_word {
    DEBUG_VERSION = 1,
    DEBUG_RUNTIME_HEAD = 5,
    DEBUG_INTERP_THREADS = 9,
    DEBUG_GIL_LOCKED = 17, /* both from the interpreter's beginning */
    DEBUG_GIL_HOLDER = 18,
    DEBUG_THREAD_NEXT = 21,
    DEBUG_THREAD_FRAME = 23,
    DEBUG_THREAD_NATIVE = 25,
    DEBUG_FRAME_BACK = 29,
    DEBUG_FRAME_CODE = 30,
    DEBUG_FRAME_AT = 31,
    DEBUG_FRAME_OWNER = 33,
    DEBUG_CODE_FILE = 35,
    DEBUG_CODE_QUALNAME = 37,
    DEBUG_CODE_TABLE = 38,
    DEBUG_CODE_FIRST = 39,
    DEBUG_CODE_BYTES = 43,
    DEBUG_WORDS = 44
};

static int layout_carried(struct python *python, unsigned minor)
{
    uint64_t word[DEBUG_WORDS];
    int result = pystack_memory_read(python, python->runtime, word, sizeof(word));

    if (result < 0)
        return result;
    if (memcmp(word, "xdebugpy", 8) != 0 || word[DEBUG_VERSION] >> 16 != (0x300u | minor))
        return -EPROTO;
    for (int i = DEBUG_RUNTIME_HEAD; i < DEBUG_WORDS; i++) {
        if (word[i] > 1 << 20)
            return -EPROTO;
    }
    python->at = (struct python_layout){
        .minor = (int)minor,
        .runtime_head = (int)word[DEBUG_RUNTIME_HEAD],
        .interp_threads = (int)word[DEBUG_INTERP_THREADS],
        .thread_next = (int)word[DEBUG_THREAD_NEXT],
        .thread_frame = (int)word[DEBUG_THREAD_FRAME],
        .cframe_frame = NONE,
        .thread_native = (int)word[DEBUG_THREAD_NATIVE],
        .frame_code = (int)word[DEBUG_FRAME_CODE],
        .frame_back = (int)word[DEBUG_FRAME_BACK],
        .frame_at = (int)word[DEBUG_FRAME_AT],
        .frame_owner = (int)word[DEBUG_FRAME_OWNER],
        .code_file = (int)word[DEBUG_CODE_FILE],
        .code_name = (int)word[DEBUG_CODE_QUALNAME],
        .code_first = (int)word[DEBUG_CODE_FIRST],
        .code_table = (int)word[DEBUG_CODE_TABLE],
        .code_bytes = (int)word[DEBUG_CODE_BYTES],
        .text_bytes = 40,
        .runtime_holder = NONE,
        .interp_gil = NONE,
        .gil_holder = (int)word[DEBUG_GIL_HOLDER],
        .gil_locked = (int)word[DEBUG_GIL_LOCKED],
    };
    return 0;
}

static int python_layout(struct python *python, unsigned minor, struct err *err)
{
    uint64_t probe;
    int result = pystack_memory_read(python, python->runtime, &probe, sizeof(probe));

    if (result < 0) {
        errno = -result;
        return err_set(err, result, "its memory may not be read: %m (kernel.yama.ptrace_scope?)");
    }
    for (size_t i = 0; i < COUNT(layouts); i++) {
        if (layouts[i].minor == (int)minor) {
            python->at = layouts[i];
            return 0;
        }
    }
    if (minor < 13 || layout_carried(python, minor) < 0)
        return err_set(err, -EPROTO, "Python 3.%u is laid out in a way not known here", minor);
    return 0;
}

/* ---- threads and frames ---- */

/* The first thread: by its id where threads have one, else the oldest, which is the last of the list. */
static int pystack_thread_first(const struct python *python, uint64_t *ret)
{
    uint64_t interpreter, thread, next;
    int result =
        pystack_pointer_read(python, python->runtime, python->at.runtime_head, &interpreter);

    if (result == 0)
        result = pystack_pointer_read(python, interpreter, python->at.interp_threads, &thread);
    if (result < 0 || thread == 0)
        return result < 0 ? result : -ENOENT;
    for (int i = 0; i < THREADS_MAX; i++) {
        uint64_t native = 0;

        if (python->at.thread_native != NONE &&
            pystack_pointer_read(python, thread, python->at.thread_native, &native) == 0 &&
            native == (uint64_t)python->pid)
            break;
        if (pystack_pointer_read(python, thread, python->at.thread_next, &next) < 0 || next == 0)
            break;
        thread = next;
    }
    *ret = thread;
    return 0;
}

/* 0: nobody, or it cannot be told. */
static uint64_t pystack_gil_holder(const struct python *python)
{
    uint64_t lock, holder = 0;

    if (python->at.runtime_holder != NONE) {
        pystack_pointer_read(python, python->runtime, python->at.runtime_holder, &holder);
        return holder;
    }
    if (pystack_pointer_read(python, python->runtime, python->at.runtime_head, &lock) < 0 ||
        (python->at.interp_gil != NONE &&
         pystack_pointer_read(python, lock, python->at.interp_gil, &lock) < 0) ||
        pystack_number_read(python, lock, python->at.gil_locked) != 1)
        return 0;
    pystack_pointer_read(python, lock, python->at.gil_holder, &holder);
    return holder;
}

static bool pystack_thread_is_known(const struct python *python, uint64_t wanted)
{
    uint64_t thread;

    if (pystack_pointer_read(python, python->runtime, python->at.runtime_head, &thread) < 0 ||
        pystack_pointer_read(python, thread, python->at.interp_threads, &thread) < 0)
        return false;
    for (int i = 0; i < THREADS_MAX && thread != 0 && thread != wanted; i++) {
        if (pystack_pointer_read(python, thread, python->at.thread_next, &thread) < 0)
            return false;
    }
    return thread == wanted && thread != 0;
}

static int pystack_frame_line(const struct python *python, uint64_t frame, uint64_t code)
{
    unsigned char table[TABLE_MAX];
    uint64_t bytes = 0, size = 0, at = 0;
    int first = pystack_number_read(python, code, python->at.code_first);

    if (python->at.code_bytes == NONE) {
        at = (uint64_t)pystack_number_read(python, frame, python->at.frame_at);
        at *= python->at.minor == 10 ? 2 : 1; /* it counts instructions, not bytes */
    } else if (pystack_pointer_read(python, frame, python->at.frame_at, &at) == 0) {
        at -= code + (uint64_t)python->at.code_bytes;
    }
    if (pystack_pointer_read(python, code, python->at.code_table, &bytes) < 0 ||
        pystack_pointer_read(python, bytes, 16, &size) < 0 || size > sizeof(table) ||
        pystack_memory_read(python, bytes + 32, table, size) < 0)
        return first;
    return python_line((unsigned)python->at.minor, table, size, first, at);
}

static bool pystack_frame_has_code(const struct python *python, uint64_t frame)
{
    uint8_t owner = 0;

    if (python->at.frame_owner == NONE || python->at.minor < 12)
        return true;
    pystack_memory_read(python, frame + (uint64_t)python->at.frame_owner, &owner, sizeof(owner));
    return owner != OWNED_BY_C;
}

static bool pystack_frame_text(const struct python *python, uint64_t frame, char *ret, size_t room)
{
    char name[TEXT_MAX], file[TEXT_MAX];
    uint64_t code, text;

    if (pystack_pointer_read(python, frame, python->at.frame_code, &code) < 0 || code == 0 ||
        pystack_pointer_read(python, code, python->at.code_name, &text) < 0)
        return false;
    python_text_read(python, text, name);
    if (pystack_pointer_read(python, code, python->at.code_file, &text) < 0)
        return false;
    python_text_read(python, text, file);
    snprintf(ret, room, "%s (%s:%d)", name, file, pystack_frame_line(python, frame, code));
    return true;
}

static int pystack_thread_frame(const struct python *python, uint64_t thread, uint64_t *ret)
{
    int result = pystack_pointer_read(python, thread, python->at.thread_frame, ret);

    if (result == 0 && python->at.cframe_frame != NONE)
        result = pystack_pointer_read(python, *ret, python->at.cframe_frame, ret);
    return result;
}

struct moment { /* where the holder of the GIL is */
    uint64_t thread, frame, at;
};

static struct moment gil_moment(const struct python *python)
{
    struct moment now = { .thread = pystack_gil_holder(python) };

    if (now.thread && pystack_thread_frame(python, now.thread, &now.frame) == 0)
        pystack_pointer_read(python, now.frame, python->at.frame_at, &now.at);
    return now;
}

/* The thread other than the first that holds the GIL all the time, at one place; 0: none. */
static uint64_t pystack_gil_keeper(const struct python *python, uint64_t first)
{
    struct moment then = gil_moment(python);

    if (!then.thread || !then.frame || then.thread == first ||
        !pystack_thread_is_known(python, then.thread))
        return 0;
    for (int i = 1; i < GIL_LOOKS; i++) {
        const struct timespec between = { .tv_nsec = GIL_BETWEEN_NS };
        struct moment now;

        nanosleep(&between, NULL);
        now = gil_moment(python);
        if (memcmp(&now, &then, sizeof(now)) != 0)
            return 0;
    }
    return then.thread;
}

static void pystack_frames_write(const struct python *python, uint64_t frame, char *ret,
                                 size_t room)
{
    size_t used = 0;

    ret[0] = '\0';
    for (int i = 0; i < FRAMES_MAX && frame; i++) {
        char text[2 * TEXT_MAX + 16];

        if (pystack_frame_has_code(python, frame)) {
            if (!pystack_frame_text(python, frame, text, sizeof(text)) ||
                used + strlen(text) + 2 > room)
                return;
            used += (size_t)snprintf(ret + used, room - used, "%s%s", used ? "\n" : "", text);
        }
        if (pystack_pointer_read(python, frame, python->at.frame_back, &frame) < 0)
            return;
    }
}

/* Its innermost frame says what it does; then the first thread, as far as there is room. */
static void pystack_keeper_write(const struct python *python, uint64_t keeper, uint64_t first,
                                 char *ret, size_t room)
{
    char own[FACT_STACK / 2], others[FACT_STACK / 2];
    uint64_t frame = 0;
    size_t line;

    pystack_thread_frame(python, keeper, &frame);
    pystack_frames_write(python, frame, own, sizeof(own));
    pystack_frames_write(python, first, others, sizeof(others));
    line = strcspn(own, "\n");
    snprintf(ret, room, "%.*s, which holds the GIL%s\nfirst thread: %s", (int)line, own, own + line,
             others);
}

int pystack_read(const struct proc_ref *proc, char *ret, size_t room, struct err *err)
{
    struct python python = { .pid = proc->pid };
    uint64_t thread, frame, keeper;
    unsigned minor;
    int result = python_find(&python, proc->dir_fd, &minor, err);

    if (result == 0)
        result = python_layout(&python, minor, err);
    if (result < 0)
        return result;
    result = pystack_thread_first(&python, &thread);
    if (result == 0)
        result = pystack_thread_frame(&python, thread, &frame);
    if (result < 0)
        return err_set(err, result, "Python is there, but has no thread yet or any more");
    keeper = pystack_gil_keeper(&python, thread);
    if (keeper)
        pystack_keeper_write(&python, keeper, frame, ret, room);
    else
        pystack_frames_write(&python, frame, ret, room);
    return 0;
}
