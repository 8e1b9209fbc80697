/* token.h - secrets that grant access; stored in files, never in argv or a log.
 *
 * A token is "lst_" and 64 hex digits: 256 bits from the kernel.  Its file has mode 0600 and one line, and belongs
 * to the reading user or to root; any other file is refused with a message.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_TOKEN_H
#define LOCKSTEP_BASE_NET_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define TOKEN_SIZE 68 /* characters */

struct token {
    char text[TOKEN_SIZE + 1]; /* "": none */
};

int token_make(struct token *ret, struct err *err);
/* Blanks around it are ignored.  -EINVAL; the sentence never repeats the text. */
int token_parse(const char *text, size_t size, struct token *ret, struct err *err);
/* In a time that depends on no byte of either.  Equal to nothing when it is "". */
bool token_equal(const struct token *token, const struct token *other);

/* -ENOENT: no file; -EACCES: others may read it; -EINVAL: no token in it. */
int token_read(const char *path, struct token *ret, struct err *err);
/* Reads it; makes one when there is no file.  Two that make it at once get the same. */
int token_read_or_make(const char *path, struct token *ret, struct err *err);
/* Stores a token that another program created. */
int token_write(const char *path, const struct token *token, struct err *err);

#endif
