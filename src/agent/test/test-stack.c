/* test-stack.c - what another process is doing: Python, native, kernel; and that it goes on unharmed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/nativestack.h"
#include "agent/proc/pystack.h"
#include "agent/proc/ras_look.h"
#include "agent/proc/stack.h"
#include "core/clean.h"
#include "core/time.h"

/* Calls us back through stdout once it is where it shall be found. */
static const char program[] = "import sys, time, ctypes, threading\n"               /* line 1 */
                              "class Loader:\n"                                     /* 2 */
                              "    def load(self, n):\n"                            /* 3 */
                              "        if n:\n"                                     /* 4 */
                              "            return self.load(n - 1)\n"               /* 5 */
                              "        sys.stdout.write('x')\n"                     /* 6 */
                              "        sys.stdout.flush()\n"                        /* 7 */
                              "        if sys.argv[1] == 'gil':\n"                  /* 8 */
                              "            ctypes.PyDLL(None).sleep(\n"             /* 9 */
                              "                1000)\n"                             /* 10 */
                              "        if sys.argv[1] == 'thread':\n"               /* 11 */
                              "            threading.Thread(target=keep).start()\n" /* 12 */
                              "        if sys.argv[1] == 'busy':\n"                 /* 13 */
                              "            threading.Thread(target=work).start()\n" /* 14 */
                              "        time.sleep(1000)\n"                          /* 15 */
                              "def keep():\n"                                       /* 16 */
                              "    sys.stdout.write('y')\n"                         /* 17 */
                              "    sys.stdout.flush()\n"                            /* 18 */
                              "    ctypes.PyDLL(None).sleep(1000)\n"                /* 19 */
                              "def work():\n"                                       /* 20 */
                              "    sys.stdout.write('y')\n"                         /* 21 */
                              "    sys.stdout.flush()\n"                            /* 22 */
                              "    n = 0\n"                                         /* 23 */
                              "    while True:\n"                                   /* 24 */
                              "        n = n * n % 1000003 + 1\n"                   /* 25 */
                              "def main():\n"                                       /* 26 */
                              "    Loader().load(2)\n"                              /* 27 */
                              "main()\n";                                           /* 28 */

static pid_t python_start(const char *method)
{
    int fd[2];
    char ready;
    pid_t pid;

    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails must not leave it behind */
        dup2(fd[1], STDOUT_FILENO);
        const char *python = getenv("PYTHON"); /* to try other versions by hand */

        execl(python ? python : "/usr/bin/python3", "python3", "-c", program, method, (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    /* A thread says so, too. */
    if (read(fd[0], &ready, 1) != 1 ||
        ((strcmp(method, "thread") == 0 || strcmp(method, "busy") == 0) &&
         read(fd[0], &ready, 1) != 1)) {
        waitpid(pid, NULL, 0);
        pid = 0;
    }
    close(fd[0]);
    return pid;
}

static struct proc_ref ref_of(pid_t pid)
{
    struct proc_ref ref = { .pid = pid, .owner = geteuid() };
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    ref.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(ref.dir_fd >= 0);
    return ref;
}

static int pystack_of(pid_t pid, char *text, size_t room, struct err *err)
{
    struct proc_ref ref = ref_of(pid);
    int result = pystack_read(&ref, text, room, err);

    close(ref.dir_fd);
    return result;
}

static void child_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void python_is_read(const char *method, int sig)
{
    pid_t pid = python_start(method);
    char text[FACT_STACK] = "";
    struct err err = { "" };

    if (!pid)
        skip(); /* no Python here */
    if (sig)
        kill(pid, sig);
    assert_int_equal(pystack_of(pid, text, sizeof(text), &err), 0);
    assert_non_null(strstr(text, "load (<string>:"));
    assert_non_null(strstr(text, "load (<string>:5)\n"));
    assert_non_null(strstr(text, "main (<string>:27)\n<module> (<string>:28)"));
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it lives */
    child_end(pid);
}

static void the_python_stack_is_read_from_outside(void **state)
{
    (void)state;
    python_is_read("sleep", 0);
}

static void also_while_the_gil_is_held(void **state)
{
    (void)state;
    python_is_read("gil", 0);
}

/* Looks until the thread is where it shall be: it speaks just before. */
static void who_keeps_the_gil_comes_first(void **state)
{
    const struct timespec soon = { .tv_nsec = 20 * 1000000 };
    pid_t pid = python_start("thread");
    char text[FACT_STACK] = "";
    struct err err = { "" };

    (void)state;
    if (!pid)
        skip();
    for (int i = 0; i < 250 && strncmp(text, "keep ", 5) != 0; i++) {
        nanosleep(&soon, NULL);
        assert_int_equal(pystack_of(pid, text, sizeof(text), &err), 0);
    }
    assert_non_null(strstr(text, "keep (<string>:19), which holds the GIL\n"));
    assert_non_null(strstr(text, "\nfirst thread: ")); /* in start(), or past it */
    assert_non_null(strstr(text, "load (<string>:5)\n"));
    assert_non_null(strstr(text, "main (<string>:27)\n<module> (<string>:28)"));
    child_end(pid);
}

static int64_t cpu_of(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return used.tv_sec * NS_PER_S + used.tv_nsec;
}

/* One that gets no cpu while it is looked at stays where it is: that look says nothing. */
static void a_thread_that_works_does_not_keep_it(void **state)
{
    pid_t pid = python_start("busy");
    char text[FACT_STACK] = "";
    struct err err = { "" };

    (void)state;
    if (!pid)
        skip();
    for (int i = 0; i < 20; i++) {
        int64_t before = cpu_of(pid);

        assert_int_equal(pystack_of(pid, text, sizeof(text), &err), 0);
        if (cpu_of(pid) - before > 150 * NS_PER_MS)
            assert_null(strstr(text, "GIL")); /* the rest may be torn: it moves */
    }
    child_end(pid);
}

static void also_while_it_is_stopped(void **state)
{
    (void)state;
    python_is_read("sleep", SIGSTOP);
}

static void a_program_without_python_is_told_as_such(void **state)
{
    char text[64];
    struct err err = { "" };

    (void)state;
    assert_int_equal(pystack_of(getpid(), text, sizeof(text), &err), -ENOENT);
}

/* ---- NCCL's RAS, version 2.28.9, as it answered ---- */

static const char ras_stopped[] =
    "SERVER PROTOCOL 2\nOK\nNCCL version 2.28.9 compiled with CUDA 13.0\n\nJob "
    "summary\n===========\n\n"
    "Communicators... (4.005s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    0         1         1         3         4         3   RUNNING  INCOMPLETE,ERROR\n\n"
    "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n"
    "  Process 3860 on node 127.0.0.1 managing GPU 0\n\n"
    "#0-0 (33c30bd37f087937) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    "  Rank 2 -- GPU 0 managed by process 3860 on node 127.0.0.1\n\n"
    "#0-0 (33c30bd37f087937) ERROR\n  Asynchronous error on 1 rank\n"
    "  Rank 3 reported Remote process error -- GPU 0 managed by process 3861 on node 127.0.0.1\n\n";
static const char ras_apart[] =
    "Warnings\n========\n\n#0-0 (2d631d5a5f6c7c27) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  30 ranks have launched up to operation 640\n"
    "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 3870 on node 127.0.0.1\n"
    "  Rank 8 has launched \033[31m up -- GPU 3 managed by process 3871 on node 127.0.0.1\n"
    "  Rank 9 -- GPU 3 managed by process 3872 on node 127.0.0.1\n";

static void ras_says_what_is_wrong_with_one_process(void **state)
{
    char said[FACT_WORDS];

    (void)state;
    ras_parse(ras_stopped, 3860, said, sizeof(said));
    assert_string_equal(said, "does not answer");
    ras_parse(ras_stopped, 3861, said, sizeof(said));
    assert_string_equal(said, "reported Remote process error");
    ras_parse(ras_stopped, 386, said, sizeof(said));
    assert_string_equal(said, "");
    ras_parse(ras_apart, 3870, said, sizeof(said));
    assert_string_equal(said, "has launched up to operation 60");
    ras_parse(ras_apart, 3871, said, sizeof(said));
    assert_string_equal(said, "");
    ras_parse(ras_apart, 3872, said, sizeof(said)); /* one of a list that is no list of the dead */
    assert_string_equal(said, "");
    ras_parse("", 1, said, sizeof(said));
    assert_string_equal(said, "");
}

static void ras_takes_no_other_nodes_process_for_ours(void **state)
{
    char said[FACT_WORDS];

    (void)state;
    ras_parse("#0-0 (1) INCOMPLETE\n  Rank 9 -- GPU 0 managed by process 60 on node 192.0.2.1\n",
              60, said, sizeof(said)); /* an address that no machine has */
    assert_string_equal(said, "");
    ras_parse("#0-0 (1) INCOMPLETE\n  Rank 9 -- GPU 0 managed by process 60 on node 127.0.0.1\n"
              "\n#0-0 (1) ERROR\n"
              "  Rank 3 reported System error -- GPU 0 managed by process 60 on node 192.0.2.1\n",
              60, said, sizeof(said)); /* two of that number */
    assert_string_equal(said, "");
}

static void ras_takes_only_sentences_of_nccl(void **state)
{
    static const char text[] =
        "#0-0 (1) INCOMPLETE\n"
        "  Rank 3 was killed by user bob -- GPU 0 managed by process 60 on node 127.0.0.1\n"
        "  Rank 3 has launched up to operation 6 of bob -- GPU 0 managed by process 60 on node "
        "127.0.0.1\n"
        "  Rank 3 reported bob's error -- GPU 0 managed by process 60 on node 127.0.0.1\n";
    char said[FACT_WORDS];

    (void)state;
    ras_parse(text, 60, said, sizeof(said));
    assert_string_equal(said, "");
}

/* A process that answers as RAS does, and a rank of which that is told. */
static void ras_ask_at(unsigned long more, bool ours, int64_t wait_ns, char *said, size_t room)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ready[2];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    char variable[64], go;
    struct proc_ref rank;
    pid_t server, pid;

    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    snprintf(variable, sizeof(variable), "NCCL_RAS_ADDR=localhost:%lu", ntohs(at.sin_port) + more);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execle("/bin/sleep", "sleep", "60", (char *)NULL, (char *const[]){ variable, NULL });
        _exit(127);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &go, 1), 0); /* it runs its program */
    close(ready[0]);
    server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        char asked[64];
        int one;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        one = accept(listener, NULL, NULL);
        if (read(one, asked, sizeof(asked)) > 0)
            dprintf(one,
                    "SERVER PROTOCOL 2\n#0-0 (1) INCOMPLETE\n"
                    "  Rank 3 -- GPU 0 managed by process %d on node 127.0.0.1\n",
                    (int)pid);
        close(one);
        pause();
        _exit(0);
    }
    close(listener);
    rank = ref_of(pid);
    rank.owner += !ours;
    ras_look(&rank, time_mono_ns() + wait_ns, said, room);
    kill(server, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(server, NULL, 0);
    waitpid(pid, NULL, 0);
    close(rank.dir_fd);
}

static void ras_is_asked_only_where_the_ranks_user_listens(void **state)
{
    char said[FACT_WORDS];

    (void)state;
    ras_ask_at(0, true, NS_PER_S, said, sizeof(said));
    assert_string_equal(said, "does not answer");
    ras_ask_at(0, false, NS_PER_S, said, sizeof(said));
    assert_string_equal(said, "");
    ras_ask_at(65536, true, NS_PER_S, said, sizeof(said)); /* no port has that number */
    assert_string_equal(said, "");
    ras_ask_at(0, true, 0, said, sizeof(said)); /* no time is left */
    assert_string_equal(said, "");
}

/* ---- native ---- */

__attribute__((noinline)) static void stuck_here(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static pid_t native_start(void)
{
    int fd[2];
    char ready;
    pid_t pid;

    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        stuck_here(fd[1]);
    }
    assert_int_equal(read(fd[0], &ready, 1), 1);
    close(fd[0]);
    close(fd[1]);
    return pid;
}

static char state_of(pid_t pid, char *traced, size_t room)
{
    char path[64], line[256], state = '?';

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        sscanf(line, "State: %c", &state);
        if (strncmp(line, "TracerPid:", 10) == 0)
            snprintf(traced, room, "%s", line + 10 + strspn(line + 10, " \t"));
    }
    return state;
}

/* Reads in a child, as the agent does: a sanitizer in this process does not like foreign threads. */
static void the_whole_look_names_where_it_is_and_lets_it_go(void **state)
{
    struct stack_ask ask = {
        .proc = ref_of(native_start()), .rank = 3, .attempt = 1, .state = 'S', .native = true
    };
    struct fact_stack fact = { 0 };
    struct proc_look *stack;
    char traced[32] = "";
    int result;

    (void)state;
    assert_int_equal(stack_begin(&ask, time_mono_ns(), &stack), 0);
    while ((result = stack_poll(stack, time_mono_ns(), &fact)) == 0)
        usleep(10000);
    proc_look_end(stack);
    assert_int_equal(result, 1);
    assert_int_equal(fact.rank, 3);
    assert_int_equal(fact.attempt, 1);
    if (fact.native[0]) /* where libdw is and tracing is allowed */
        assert_non_null(strstr(fact.native, "stuck_here"));
    else
        assert_non_null(strstr(fact.why_not, "native stack"));
    /* It needs a cpu to go back to sleep. */
    for (int i = 0; i < 500 && state_of(ask.proc.pid, traced, sizeof(traced)) == 'R'; i++)
        usleep(10000);
    assert_int_equal(state_of(ask.proc.pid, traced, sizeof(traced)), 'S');
    assert_string_equal(traced, "0\n");
    child_end(ask.proc.pid);
}

static void one_that_is_gone_has_no_stack(void **state)
{
    struct stack_ask ask = { .proc = ref_of(native_start()), .native = true };
    struct fact_stack fact;

    (void)state;
    child_end(ask.proc.pid);
    stack_look(&ask, &fact);
    assert_string_equal(fact.native, "");
    assert_string_equal(fact.python, "");
    assert_true(fact.why_not[0]);
}

/* As a forged ring would ask for it: the process is there, but not the ring owner's. */
static void another_users_process_is_neither_read_nor_stopped(void **state)
{
    struct stack_ask ask = { .proc = ref_of(native_start()), .state = 'S', .native = true };
    struct fact_stack fact = { 0 };
    struct proc_look *stack;
    char traced[32] = "";
    int result;

    (void)state;
    ask.proc.owner++;
    assert_int_equal(stack_begin(&ask, time_mono_ns(), &stack), 0);
    while ((result = stack_poll(stack, time_mono_ns(), &fact)) == 0) {
        char now = state_of(ask.proc.pid, traced, sizeof(traced));

        assert_true(now == 'S' || now == 'R'); /* it may not sleep yet */
        assert_string_equal(traced, "0\n");
        usleep(1000);
    }
    proc_look_end(stack);
    assert_int_equal(result, 1);
    assert_string_equal(fact.channel, "");
    assert_string_equal(fact.kernel, "");
    assert_string_equal(fact.python, "");
    assert_string_equal(fact.native, "");
    assert_string_equal(fact.why_not, "its process belongs to another user");
    child_end(ask.proc.pid);
    close(ask.proc.dir_fd);
}

/* ---- the parsers ---- */

static void kernel_frames_lose_their_addresses(void **state)
{
    char text[64];

    (void)state;
    stack_parse_kernel("[<0>] folio_wait_bit+0x1/0x2\n[<0>] filemap_read+0xab/0xcd\n\njunk\n", text,
                       sizeof(text));
    assert_string_equal(text, "folio_wait_bit\nfilemap_read");
    stack_parse_kernel("", text, sizeof(text));
    assert_string_equal(text, "");
}

static void pythons_are_known_by_their_names(void **state)
{
    (void)state;
    assert_int_equal(python_minor("/usr/bin/python3.11"), 11);
    assert_int_equal(python_minor("/opt/lib/libpython3.9.so.1.0"), 9);
    assert_int_equal(python_minor("/usr/bin/python3"), 0);
    assert_int_equal(python_minor("/usr/lib/python3.11/lib-dynload/_json.so"), 0);
    assert_int_equal(python_minor("/bin/python3.x"), 0);
}

static void lines_are_found_in_each_versions_table(void **state)
{
    const unsigned char lnotab[] = { 4, 1, 6, 2, 2, 0xff };      /* 3.9 */
    const unsigned char pairs[] = { 4, 1, 6, 2, 2, 0x80, 4, 1 }; /* 3.10 */
    /* 3.11: 2 units on the first line, 1 unit a line later, 3 units 5 lines later. */
    const unsigned char entries[] = { 0x80 | 0 << 3 | 1,  0x00, 0x80 | 11 << 3 | 0, 0x01, 0x02,
                                      0x80 | 13 << 3 | 2, 10 };

    (void)state;
    assert_int_equal(python_line(9, lnotab, sizeof(lnotab), 10, 0), 10);
    assert_int_equal(python_line(9, lnotab, sizeof(lnotab), 10, 4), 11);
    assert_int_equal(python_line(9, lnotab, sizeof(lnotab), 10, 11), 13);
    assert_int_equal(python_line(9, lnotab, sizeof(lnotab), 10, 12), 12);
    assert_int_equal(python_line(10, pairs, sizeof(pairs), 10, 0), 11);
    assert_int_equal(python_line(10, pairs, sizeof(pairs), 10, 5), 13);
    assert_int_equal(python_line(10, pairs, sizeof(pairs), 10, 13), 14);
    assert_int_equal(python_line(11, entries, sizeof(entries), 10, 2), 10);
    assert_int_equal(python_line(11, entries, sizeof(entries), 10, 4), 11);
    assert_int_equal(python_line(11, entries, sizeof(entries), 10, 8), 16);
}

static void a_damaged_elf_file_is_refused(void **state)
{
    unsigned char bytes[256];
    uint64_t value, base;

    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(elf_symbol(bytes, sizeof(bytes), "x", &value, &base), -EPROTO);
    memcpy(bytes, "\177ELF\2\1\1", 7);
    assert_int_equal(elf_symbol(bytes, sizeof(bytes), "x", &value, &base), -EPROTO);
    assert_int_equal(elf_symbol(bytes, 3, "x", &value, &base), -EPROTO);
}

/* ---- where something is used up ---- */

static bool no_streams;

/* In the place of the C library's. */
FILE *fdopen(int fd, const char *mode)
{
    FILE *(*real)(int, const char *) = (__typeof__(real))dlsym(RTLD_NEXT, "fdopen");

    errno = ENOMEM;
    return no_streams ? NULL : real(fd, mode);
}

static unsigned descriptors(void)
{
    CLEAN(dir_clean) DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    return count;
}

static void without_memory_no_descriptor_is_left(void **state)
{
    char text[FACT_STACK] = "";
    struct err err = { "" };
    unsigned before = descriptors();

    (void)state;
    no_streams = true;
    assert_int_equal(pystack_of(getpid(), text, sizeof(text), &err), -ENOMEM);
    no_streams = false;
    assert_non_null(strstr(err.text, "memory map"));
    assert_int_equal(descriptors(), before);
}

/* All descriptors are in use but so many. */
static void table_fill(int from, int spare, rlim_t size)
{
    int fd;

    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ size, size });
    while ((fd = fcntl(from, F_DUPFD_CLOEXEC, 0)) >= 0)
        ;
    for (fd = (int)size - spare; fd < (int)size; fd++)
        close(fd);
}

/* In a process of its own, whose input is the pipe's: 0: nothing was looked at. */
static int full_table_look(const struct stack_ask *ask, const int pipe_fd[static 2])
{
    struct fact_stack fact;
    struct proc_look *stack;
    int result;

    dup2(pipe_fd[1], STDIN_FILENO);
    table_fill(pipe_fd[1], 2, 64); /* the pipe of the look, and none more */
    if (stack_begin(ask, time_mono_ns(), &stack) < 0)
        return 1;
    while ((result = stack_poll(stack, time_mono_ns(), &fact)) == 0)
        usleep(10000);
    return result == -EIO ? 0 : 2;
}

static void a_look_without_descriptors_writes_nowhere_else(void **state)
{
    struct stack_ask ask = { .proc = ref_of(native_start()), .state = 'S' };
    int fd[2], status;
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(full_table_look(&ask, fd));
    close(fd[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(fd[0], &byte, 1), 0);
    close(fd[0]);
    child_end(ask.proc.pid);
    close(ask.proc.dir_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ras_says_what_is_wrong_with_one_process),
        cmocka_unit_test(ras_takes_no_other_nodes_process_for_ours),
        cmocka_unit_test(ras_takes_only_sentences_of_nccl),
        cmocka_unit_test(ras_is_asked_only_where_the_ranks_user_listens),
        cmocka_unit_test(the_python_stack_is_read_from_outside),
        cmocka_unit_test(also_while_the_gil_is_held),
        cmocka_unit_test(who_keeps_the_gil_comes_first),
        cmocka_unit_test(a_thread_that_works_does_not_keep_it),
        cmocka_unit_test(also_while_it_is_stopped),
        cmocka_unit_test(a_program_without_python_is_told_as_such),
        cmocka_unit_test(the_whole_look_names_where_it_is_and_lets_it_go),
        cmocka_unit_test(one_that_is_gone_has_no_stack),
        cmocka_unit_test(another_users_process_is_neither_read_nor_stopped),
        cmocka_unit_test(kernel_frames_lose_their_addresses),
        cmocka_unit_test(pythons_are_known_by_their_names),
        cmocka_unit_test(lines_are_found_in_each_versions_table),
        cmocka_unit_test(a_damaged_elf_file_is_refused),
        cmocka_unit_test(without_memory_no_descriptor_is_left),
        cmocka_unit_test(a_look_without_descriptors_writes_nowhere_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
