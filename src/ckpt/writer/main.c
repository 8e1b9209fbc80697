/* main.c - the program lockstep-ckpt-writer, which the checkpoint library starts.
 *
 * A process of its own, in a session of its own: it finishes the last image when the trainer has crashed.  It needs libc
 * only, so that it starts wherever the library was loaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ckpt/writer/serve.h"
#include "core/clean.h"

#define SOCKET 3

static int writer_usage(FILE *out, int code)
{
    fputs(
        "usage: lockstep-ckpt-writer [--help | --version]\n"
        "\n"
        "Writes checkpoints to disk for a program that uses liblockstep-ckpt.so, which starts it\n"
        "with a socket as descriptor 3.  It is not meant to be started by hand: see\n"
        "lockstep_ckpt(3).\n",
        out);
    return code;
}

static int writer_signals_open(void)
{
    static const int ignored[] = { SIGPIPE, SIGHUP, SIGINT };
    sigset_t set;

    for (size_t i = 0; i < COUNT(ignored); i++)
        signal(ignored[i], SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Nothing of the trainer stays open here but the socket and stderr: a port, a pipe or a device would be held. */
static void writer_files_close(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    close_range(SOCKET + 1, ~0u, 0);
}

int main(int argc, char **argv)
{
    struct err err = { "" };
    int signals, trainer, result;

    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return writer_usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("lockstep-ckpt-writer " LOCKSTEP_VERSION) < 0;
    if (argc != 1)
        return writer_usage(stderr, 2);
    if (fcntl(SOCKET, F_GETFD) < 0) {
        fputs("lockstep-ckpt-writer: descriptor 3 is not open; see --help\n", stderr);
        return 2;
    }
    writer_files_close();
    trainer = (int)syscall(SYS_pidfd_open, getppid(),
                           0); /* before Linux 5.3: the socket alone says when it ends */
    switch (fork()) {          /* so that the trainer has no child that it does not know */
    case 0:
        break;
    case -1:
        fprintf(stderr, "lockstep-ckpt-writer: fork: %m\n");
        return 3;
    default:
        return 0;
    }
    prctl(PR_SET_NAME, "ckpt-writer");
    signals = writer_signals_open();
    if (signals < 0 || chdir("/") < 0) {
        fprintf(stderr, "lockstep-ckpt-writer: %m\n");
        return 3;
    }
    result = writer_serve(SOCKET, trainer, signals, &err);
    if (result < 0 && err.text[0])
        fprintf(stderr, "lockstep-ckpt-writer: %s\n", err.text);
    return result < 0;
}
