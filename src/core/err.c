/* err.c - writes and extends the message of an error.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int result, const char *format, ...)
{
    int saved = errno;
    va_list args;

    if (!err)
        return result;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    errno = saved;
    return result;
}

int err_nomem(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory");
}

int err_wrap(struct err *err, int result, const char *format, ...)
{
    int saved = errno;
    struct err inner;
    va_list args;
    size_t used;

    if (!err)
        return result;
    inner = *err;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = strlen(err->text);
    if (inner.text[0])
        snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner.text);
    errno = saved;
    return result;
}
