/* tree.h - small files and folders of /proc and /sys below a root directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_TREE_H
#define LOCKSTEP_SENSE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree {
    const char *root; /* "" here */
};

/* The begin of a file, without blanks at its end.  Returns its length or -errno; `out` is always a text. */
int tree_read(const struct tree *tree, char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The first number of a file; false: there is none. */
bool tree_number(const struct tree *tree, int64_t *ret, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The number behind a word at the begin of a line, as in "nr_throttled 12"; false: there is none. */
bool tree_field(const char *text, const char *word, int64_t *ret);

/* Calls `each` for every name in a folder that does not begin with a dot, sorted by name.  Returns their number or
 * -errno.
 */
typedef void tree_each(void *user, const char *name);
int tree_list(const struct tree *tree, const char *folder, tree_each *each, void *user);

/* The same for the first `most` names, in any order: for folders whose size another user decides.  -E2BIG: there are more. */
int tree_list_some(const struct tree *tree, const char *folder, unsigned most, tree_each *each,
                   void *user);

/* A number that only grows, or begins again when its device does. */
struct tree_counter {
    bool known;
    int64_t last;
};
/* How much it has grown since the last call; 0 at the first call, and after a reset the new value. */
int64_t tree_counter_grown(struct tree_counter *counter, int64_t value);

#endif
