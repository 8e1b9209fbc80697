/* clean.h - cleanup on every way out of a scope.
 *
 * CLEAN(fn) calls fn(&variable) when the variable leaves its scope; TAKE passes the value on, so that nothing is
 * left to clean up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_CLEAN_H
#define LOCKSTEP_CORE_CLEAN_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLEAN(fn) __attribute__((cleanup(fn)))
#define TAKE(pointer)                                                                              \
    __extension__({                                                                                \
        __typeof__(pointer) *from_ = &(pointer), taken_ = *from_;                                  \
        *from_ = NULL;                                                                             \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    __extension__({                                                                                \
        int *from_ = &(fd), taken_ = *from_;                                                       \
        *from_ = -1;                                                                               \
        taken_;                                                                                    \
    })

/* Each argument is evaluated once: one may read a clock, draw a number or call what must not be called twice.  The
 * result has the type of `1 ? a : b`, so a constant needs no suffix; not __auto_type, with which MIN(size, 8) compares
 * signed with unsigned.  The comparison that is never made lets the compiler warn of mixed signs as it does elsewhere.
 * Not for constant expressions.
 */
#define MIN(a, b) PICK_(a, <, b, __COUNTER__)
#define MAX(a, b) PICK_(a, >, b, __COUNTER__)
#define PICK_(a, order, b, number) PICK_AS_(a, order, b, number)
#define PICK_AS_(a, order, b, number)                                                              \
    __extension__({                                                                                \
        __typeof__(1 ? (a) : (b)) pick_a_##number = (a);                                           \
        __typeof__(1 ? (a) : (b)) pick_b_##number = (b);                                           \
        if (0)                                                                                     \
            (void)((a)order(b));                                                                   \
        pick_a_##number order pick_b_##number ? pick_a_##number : pick_b_##number;                 \
    })

/* Makes room for NEED members in a growing array and its number of members ROOM, any unsigned integer: at least
 * doubled when it grows.  Without memory, or beyond what ROOM can count, false, and nothing has changed.  With ZERO
 * the members that are new are zero.
 */
#define ARRAY_FIT(array, room, need) ARRAY_FIT_AS_(array, room, need, false)
#define ARRAY_FIT_ZERO(array, room, need) ARRAY_FIT_AS_(array, room, need, true)
#define ARRAY_FIT_AS_(array, room, need, zero)                                                     \
    __extension__({                                                                                \
        _Static_assert((__typeof__(room))-1 > 0, "the room of an array is unsigned");              \
        size_t fit_room_ = (room);                                                                 \
        void *fit_at_ = (array);                                                                   \
        bool fits_ = array_fit_(&fit_at_, sizeof(*(array)), &fit_room_, (need),                    \
                                (__typeof__(room))-1, (zero));                                     \
        if (fits_) {                                                                               \
            (array) = fit_at_;                                                                     \
            (room) = (__typeof__(room))fit_room_;                                                  \
        }                                                                                          \
        fits_;                                                                                     \
    })
bool array_fit_(void **array, size_t each, size_t *room, size_t need, uint64_t most, bool zero);

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
