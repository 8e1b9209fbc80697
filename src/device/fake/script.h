/* script.h - what drives a fake library: a file of rules, named by $LOCKSTEP_FAKE_DEVICE.
 *
 *     KEY value NUMBER          an answer
 *     KEY text WORDS            an answer in words
 *     KEY error NUMBER          the library's own error code
 *     KEY delay 250ms           before the answer
 *     KEY hang                  no answer, ever
 *
 * A key is "nvml.0.power" or "cuda.launch"; '*' and '?' match as in a shell.  " after N" at the end of a line lets the
 * first N calls pass, " times N" ends the rule after N.  Of several rules for the same thing the last one holds.  A file
 * that changes is read again, so that a test can make a GPU fail while a program runs.  '#' begins a comment.  A line that
 * cannot be read ends the program: a fake must not be kinder than the script.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_FAKE_SCRIPT_H
#define LOCKSTEP_DEVICE_FAKE_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

struct script_answer {
    int error;      /* 0: none */
    bool has_value; /* the script gives one */
    int64_t value;
    char text[96]; /* empty: none */
};

/* Waits as long as the script says, and for ever where it says "hang". */
void script_ask(struct script_answer *ret, const char *key, ...)
    __attribute__((format(printf, 2, 3)));

/* The common cases: an error, or the script's value, or else the usual one. */
int script_number(int64_t *ret, int64_t usual, const char *key, ...)
    __attribute__((format(printf, 3, 4)));

#endif
