/* sent.h - up to which frame a spool was ever sent: SPOOL/.NAME.lsf.sent beside SPOOL/NAME.lsf.
 *
 * Frames that may have reached the controller must not be merged (shrink.h): they would count twice, once singly and
 * once in a merged frame whose number the controller has not seen.  So the position is written before a body is
 * sent.  It is then in the page cache, which survives every kill.  It is not synced to disk, because that would cost
 * a sync for each body on a disk that the job needs: after a crash of the machine, or if the file is missing or
 * incomplete, the whole spool counts as sent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_SENT_H
#define LOCKSTEP_AGENT_SEND_SENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct sent {
    char file[PATH_MAX];
    char machine[40]; /* the boot id of the kernel; "": not known */
    bool any;         /* some frame was sent, or may have been */
    uint64_t number;  /* up to this one */
};

void sent_open(struct sent *sent, const char *spool);
void sent_note(struct sent *sent, uint64_t number);

#endif
