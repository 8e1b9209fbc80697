/* output.h - what ranks print: each line with its rank to the terminal, every byte to a file.
 *
 * A carriage return ends what is shown at once, as a newline does: progress bars have no other.  Of a line
 * that has not ended, such as a prompt, what is there is shown when nothing more comes for a moment.
 *
 * Nothing here ever makes a rank wait for a person's terminal or for a pipe that nobody reads
 * (sink.h); the files have everything.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_OUTPUT_H
#define LOCKSTEP_ACT_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define OUTPUT_LINE_MAX 8192 /* longer lines are shown in pieces */

struct output;

/* `directory` ("": nothing is kept) gets rank-N.log for each rank; when `ranks` is 0 there is one command, its file is
 * command.log, and its lines have no prefix.  Quiet: only files, and our own words.
 */
int output_create(const char *directory, uint32_t ranks, bool quiet, struct output **ret,
                  struct err *err);
void output_destroy(struct output *output); /* flushes, patiently; NULL is fine */

/* The first rank here has this number from now on, and the files are in that directory. */
void output_number(struct output *output, const char *directory, uint32_t first);

/* New pipes for a rank's stdout and stderr; the writing ends are the caller's: output_close().  Without descriptors for pipes the
 * rank gets our own stdout and stderr, and what it prints is not kept.
 */
void output_open(struct output *output, uint32_t rank, int ret_fd[2]);
void output_close(int fd[2]);
/* A line in every rank's file: between one attempt and the next. */
void output_mark(struct output *output, const char *text);
/* The last lines that it wrote to stderr, with what is still in the pipe: at most room-1 bytes (last_words.h). */
void output_words(struct output *output, uint32_t rank, char *ret, size_t room);
/* Reads what is still in the pipes, shows unfinished lines, and closes. */
void output_drain(struct output *output);

size_t output_poll(struct output *output, struct pollfd *ret); /* at most output_poll_max() */
size_t output_poll_max(const struct output *output);
void output_serve(struct output *output, const struct pollfd *fd, size_t count);
/* When somebody's unfinished line wants to be shown; INT64_MAX: nobody's does. */
int64_t output_due_ns(const struct output *output);
void output_show_due(struct output *output, int64_t now_ns);

/* A line of our own on stderr, without waiting. */
void output_message(struct output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
