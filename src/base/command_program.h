/* command_program.h - a program of several commands: how words become one of them.
 *
 * A command's name is one word or two ("bench probe"); the first word alone lists what there is
 * under it.  stdout is the answer, stderr the conversation.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_COMMAND_PROGRAM_H
#define LOCKSTEP_BASE_COMMAND_PROGRAM_H

#include "base/opt.h"

/* A line of the help before the command with which a topic begins. */
struct command_topic {
    const struct command *first;
    const char *title;
    bool brief; /* only the names of its commands */
};

struct command_program {
    const char *name;    /* "lockstep" */
    const char *summary; /* one line */
    const char *more;    /* last lines of the help */
    const struct command *const
        *commands; /* in the order in which they are listed; ends with NULL */
    const struct command_topic
        *topics; /* in that order, the last without `first`; NULL: one list */
    /* Called before a command that is not hidden begins, argv[0] being the last word of its name.
     * -errno: a line was written, exit 2.  NULL: nothing to check.
     */
    int (*check)(const struct command *command, int argc, char **argv);
    /* Runs a command whose table has no function, with the words of the whole command line; returns
     * the exit status.  NULL where all have one.
     */
    int (*run_elsewhere)(char **argv);
};

/* All of main(). */
int program_main(const struct command_program *program, int argc, char **argv);

#endif
