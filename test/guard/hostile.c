/* hostile.c - what a hostile user does, and what the tests need to see it.
 *
 *   hostile ring FILE RANK PID      a valid ring with some steps that claims to be of process PID
 *   hostile exchange DIR TARGET     in DIR, a directory with the names of TARGET and a link to TARGET change places
 *   hostile trace                   tries to take over every agent of the same user; a line for each success
 *   hostile seen PID                a line when somebody traces or stops the process
 *
 * The last three go on until they are killed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "wire/ring_format.h"

#define RECORDS 64u

/* ---- ring ---- */

static bool text_of(const char *path, char *text, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, room - 1);

    text[MAX(size, 0)] = '\0';
    for (ssize_t i = 0; i < size; i++)
        text[i] = text[i] ? text[i] : ' ';
    return size > 0;
}

static uint64_t start_of(int pid)
{
    char path[64], text[1024];
    unsigned long long start = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (!text_of(path, text, sizeof(text)) || !strrchr(text, ')') ||
        sscanf(strrchr(text, ')') + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &start) != 1)
        return 0;
    return start;
}

static void record_put(struct ring_record *record, uint64_t number, uint64_t step, uint8_t kind)
{
    record->seq = 2 * number + 2;
    record->word[0] = (uint64_t)time_mono_ns() + number * 1000;
    record->word[1] = step;
    record->word[2] = ring_pack(kind, 0, 0, -1);
}

static int ring(const char *path, uint32_t rank, int pid)
{
    static struct {
        struct ring_header header;
        unsigned char comms[RING_COMMS * 128];
        struct ring_lane lane;
        struct ring_record record[RECORDS];
    } file;
    struct stat ns = { 0 };
    CLEAN(fd_clean) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    stat("/proc/self/ns/pid", &ns);
    file.header = (struct ring_header){ .version = RING_VERSION,
                                        .header_bytes = sizeof(file.header),
                                        .file_bytes = ring_file_bytes(1, RECORDS, 0),
                                        .lanes = 1,
                                        .lane_records = RECORDS,
                                        .rank = rank,
                                        .world = rank + 1,
                                        .pid = (uint32_t)pid,
                                        .pid_ns_inode = ns.st_ino,
                                        .pid_start = start_of(pid),
                                        .uid = geteuid(),
                                        .clock_id = CLOCK_MONOTONIC,
                                        .open_mono_ns = (uint64_t)time_mono_ns(),
                                        .open_real_ns = (uint64_t)time_real_ns() };
    file.header.crc = ring_header_crc(&file.header);
    for (uint64_t i = 0; i < 8; i++)
        record_put(&file.record[i], i, 1 + i / 2, i % 2 ? RING_STEP_END : RING_STEP_BEGIN);
    record_put(&file.record[8], 8, 5, RING_STEP_BEGIN);
    file.lane.head = 9;
    file.header.lanes_used = 1;
    file.header.step = 5;
    file.header.magic = RING_MAGIC;
    return fd >= 0 && write(fd, &file, sizeof(file)) == (ssize_t)sizeof(file) ? 0 : 1;
}

/* ---- exchange ---- */

static void names_copy(const char *from, int to_fd)
{
    CLEAN(dir_clean) DIR *dir = opendir(from);

    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        int fd = openat(to_fd, entry->d_name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        fd_clean(&fd);
    }
}

static int exchange(const char *directory, const char *target)
{
    char dir[512], link[512];

    snprintf(dir, sizeof(dir), "%s/dir", directory);
    snprintf(link, sizeof(link), "%s/link", directory);
    while (mkdir(dir, 0700) < 0 && errno != EEXIST)
        usleep(1000);
    for (;;) {
        CLEAN(fd_clean) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        names_copy(target, fd);
        if (symlink(target, link) < 0 && errno != EEXIST)
            return 0; /* all of it is gone */
        for (int i = 0; i < 50; i++) {
            syscall(SYS_renameat2, AT_FDCWD, dir, AT_FDCWD, link, 2 /* RENAME_EXCHANGE */);
            usleep(20);
        }
    }
}

/* ---- trace ---- */

static void report(int pid, const char *what)
{
    printf("%s of process %d\n", what, pid);
    fflush(stdout);
}

static void attack(int pid, bool trace)
{
    static const char *const files[] = { "mem", "environ", "maps", "auxv" };
    static const char *const links[] = { "cwd", "exe", "root", "fd/3", "fd/4", "fd/5" };
    char path[64], text[256];

    for (size_t i = 0; i < COUNT(files); i++) {
        CLEAN(fd_clean) int fd = -1;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && (strcmp(files[i], "mem") == 0 || read(fd, text, sizeof(text)) > 0))
            report(pid, files[i]);
    }
    for (size_t i = 0; i < COUNT(links); i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", pid, links[i]);
        if (readlink(path, text, sizeof(text)) > 0)
            report(pid, links[i]);
    }
    if (trace && ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
        report(pid, "trace");
    if (trace && ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0)
        report(pid, "attach");
}

static bool is_agent(const char *name)
{
    char path[300], text[512];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%s", name);
    if (name[0] < '0' || name[0] > '9' || stat(path, &st) < 0 || st.st_uid != geteuid())
        return false;
    snprintf(path, sizeof(path), "/proc/%s/cmdline", name);
    return text_of(path, text, sizeof(text)) && strstr(text, "agent ");
}

__attribute__((noreturn)) static void trace(void)
{
    bool any = false;

    for (;;) {
        CLEAN(dir_clean) DIR *dir = opendir("/proc");

        for (const struct dirent *entry; dir && (entry = readdir(dir));) {
            if (!is_agent(entry->d_name))
                continue;
            if (!any)
                report(atoi(entry->d_name), "sight");
            any = true;
            attack(atoi(entry->d_name), true);
        }
    }
}

/* ---- seen ---- */

static int seen(int pid)
{
    char path[64], text[4096];

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    while (text_of(path, text, sizeof(text))) {
        const char *tracer = strstr(text, "\nTracerPid:"), *state = strstr(text, "\nState:");

        if (!tracer || !state || atoi(tracer + strlen("\nTracerPid:")) != 0 ||
            strchr("tT", state[strspn(state, "\nState:\t ")])) {
            report(pid, "trace");
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "ring") == 0)
        return ring(argv[2], (uint32_t)atoi(argv[3]), atoi(argv[4]));
    if (argc == 4 && strcmp(argv[1], "exchange") == 0)
        return exchange(argv[2], argv[3]);
    if (argc == 2 && strcmp(argv[1], "trace") == 0)
        trace();
    if (argc == 3 && strcmp(argv[1], "seen") == 0)
        return seen(atoi(argv[2]));
    fprintf(stderr, "usage: hostile ring FILE RANK PID | exchange DIR TARGET | trace | seen PID\n");
    return 2;
}
