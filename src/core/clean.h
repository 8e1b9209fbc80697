/* clean.h - let go on every way out.
 *
 * CLEAN(fn) calls fn(&variable) when the variable leaves its scope; TAKE gives the
 * value away, so that nothing is left to let go.
 */
#ifndef LOCKSTEP_CORE_CLEAN_H
#define LOCKSTEP_CORE_CLEAN_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLEAN(fn) __attribute__((cleanup(fn)))
#define TAKE(pointer)                                                                              \
    __extension__({                                                                                \
        __typeof__(pointer) taken_ = (pointer);                                                    \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    __extension__({                                                                                \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static inline void free_clean(void *pointer)
{
    free(*(void **)pointer);
}

static inline void fd_clean(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void file_clean(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void dir_clean(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

#endif
