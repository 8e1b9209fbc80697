/* err.h - errors: a number for the program, a sentence for the user.
 *
 * Functions return 0 (or a count) or -errno.  If more is known, a struct err is the last argument and may be NULL.
 * The first function that knows the cause writes it with err_set(); its callers add context with err_wrap().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_ERR_H
#define LOCKSTEP_CORE_ERR_H

struct err {
    char text[512]; /* one line, no newline at the end */
};

/* Both return `result`, so that `return err_set(err, -EINVAL, ...)` reads well.
 * errno is kept, so %m may be used.  err_wrap() puts "text: " before what is there.
 */
int err_set(struct err *err, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int err_wrap(struct err *err, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int err_nomem(struct err *err); /* -ENOMEM, "out of memory" */

#endif
