/* log_event.c - frees the table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/log_event.h"

#include <stdlib.h>

void logs_fini(struct logs *logs)
{
    free(logs->note);
    free(logs->rank);
    *logs = (struct logs){ 0 };
}
