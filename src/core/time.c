/* time.c - times in the notation of users.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/time.h"

#include <stdio.h>

#define LONGEST_S 9e9 /* nearly three hundred years */

int64_t time_local_ns(struct tm *date)
{
    time_t seconds;

    date->tm_isdst = -1;
    seconds = mktime(date);
    return seconds <= 0 || (double)seconds > LONGEST_S ? 0 : (int64_t)seconds * NS_PER_S;
}

void time_format_utc(int64_t real_ns, char out[static 32])
{
    int64_t rest = (real_ns % NS_PER_S + NS_PER_S) % NS_PER_S; /* also before 1970 */
    time_t seconds = (real_ns - rest) / NS_PER_S;
    struct tm tm;
    char date[24];

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 32, "%s.%03dZ", date, (int)(rest / NS_PER_MS));
}
