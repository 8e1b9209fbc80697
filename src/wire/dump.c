/* dump.c - frees the tables.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/dump.h"

#include <stdlib.h>

void dumps_fini(struct dumps *dumps)
{
    for (size_t i = 0; i < dumps->ranks; i++) {
        free(dumps->rank[i].op);
        free(dumps->rank[i].status);
    }
    for (size_t i = 0; i < dumps->groups; i++)
        free(dumps->group[i].member);
    free(dumps->rank);
    free(dumps->group);
    free(dumps->what);
    *dumps = (struct dumps){ 0 };
}
