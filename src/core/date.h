/* date.h - the date or time at the beginning of a line of a log.
 *
 * The notation depends on the program: seconds since boot in brackets (dmesg), a date in words (dmesg -T), one without a
 * year (syslog, journalctl, glog), ISO (journalctl, containers, Python's logging), microseconds since boot behind a level and a
 * number (/dev/kmsg).  A date without a zone is a local time of this machine; one without a year is in the year that brings it
 * nearest to `near_real_ns`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_DATE_H
#define LOCKSTEP_CORE_DATE_H

#include <stddef.h>
#include <stdint.h>

/* `text` ends with NUL.  Returns the bytes of the date, and sets *real_ns, or *boot_ns if it counts from the boot; 0: there is
 * none, and neither is set.
 */
size_t date_read(const char *text, int64_t near_real_ns, int64_t *real_ns, int64_t *boot_ns);

#endif
