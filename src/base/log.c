/* log.c - one line, one write(2), so that lines of several processes do not mix.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"

/* The only variables of the program that are not const (see the style): what a line
 * begins with is the same everywhere in a process.
 */
static const char *log_command;
static int log_errors_only;

void log_name(const char *name)
{
    log_command = name;
}

void log_quiet(int quiet)
{
    log_errors_only = quiet;
}

static void __attribute__((format(printf, 1, 0))) log_line(const char *format, va_list args)
{
    char line[2048];
    const int room = (int)sizeof(line) - 1; /* one byte is the newline's */
    int saved = errno;
    int used, more;

    used = snprintf(line, (size_t)room, "lockstep%s%s: ", log_command ? " " : "",
                    log_command ? log_command : "");
    if (used < 0 || used >= room)
        used = 0;
    errno = saved; /* for %m */
    more = vsnprintf(line + used, (size_t)(room - used), format, args);
    if (more < 0)
        more = 0;
    used += more;
    if (used >= room) {
        used = room - 1;
        memcpy(line + used - 3, "...", 3);
    }
    used = (int)text_clean(line, (size_t)used, false); /* names and words of others are in it */
    line[used++] = '\n';
    /* A lost stderr cannot be reported. */
    if (write(STDERR_FILENO, line, (size_t)used) < 0)
        errno = saved;
    errno = saved;
}

void log_info(const char *format, ...)
{
    va_list args;

    if (log_errors_only)
        return;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line(format, args);
    va_end(args);
}
