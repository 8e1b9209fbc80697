/* sent.h - up to which frame a spool was ever sent: SPOOL/.NAME.lsf.sent beside SPOOL/NAME.lsf.
 *
 * What may be with the controller must not be merged (shrink.h): it would be told twice, once singly and once in a
 * merged frame, whose number the controller has not seen.  So before a body goes out it is noted up to where; the
 * note is in the page cache then, where it outlives every kill.  It is not brought to disk, which would cost a sync for
 * each body on a disk that the job needs: when the machine itself went down, or the note is missing or not whole, it is
 * not believed, and all that is in the spool is taken for sent.
 */
#ifndef LOCKSTEP_AGENT_SEND_SENT_H
#define LOCKSTEP_AGENT_SEND_SENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct sent {
    char file[PATH_MAX];
    char machine[40]; /* the kernel's id of this life of the machine; "": cannot be told */
    bool any;         /* some frame was sent, or may have been */
    uint64_t number;  /* up to this one */
};

void sent_open(struct sent *sent, const char *spool);
void sent_note(struct sent *sent, uint64_t number);

#endif
