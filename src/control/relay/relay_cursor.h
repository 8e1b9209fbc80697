/* relay_cursor.h - the file that says how far each source was delivered.
 *
 *     lockstep-relay-cursor 1
 *     log INODE AT EVENT-AT EVENT-ID NAME
 *     audit NUMBER NAME
 *     end LINES
 *
 * It is replaced as a whole, after a sync: a kill at any time leaves the old one or the new one.  A file that is damaged is
 * refused, since starting over would send years of events again without anybody having asked for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RELAY_RELAY_CURSOR_H
#define LOCKSTEP_CONTROL_RELAY_RELAY_CURSOR_H

#include <stddef.h>

#include "control/relay/relay_source.h"

struct relay_mark {
    enum relay_source_kind kind;
    char name[RELAY_SOURCE_NAME];
    struct relay_place place;
};

struct relay_cursor {
    struct relay_mark *mark;
    size_t count, room;
};

void relay_cursor_fini(struct relay_cursor *cursor);
/* -EINVAL with the line that is wrong. */
int relay_cursor_parse(const char *text, size_t size, struct relay_cursor *ret, struct err *err);
int relay_cursor_add(struct relay_cursor *cursor, const struct relay_mark *mark);
void relay_cursor_print(const struct relay_cursor *cursor, struct buf *out);
const struct relay_mark *relay_cursor_find(const struct relay_cursor *cursor, const char *name);

/* -ENOENT: there is none yet. */
int relay_cursor_read(const char *path, struct relay_cursor *ret, struct err *err);
int relay_cursor_write(const char *path, const struct relay_cursor *cursor, struct err *err);

#endif
