/* inventory.h - what is installed on a node: counts, widths and versions, as names and texts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_INVENTORY_H
#define LOCKSTEP_VERIFY_INVENTORY_H

#include "verify/machine_profile.h"
#include "verify/verify.h"

#define INVENTORY_FACTS 128

struct inventory {
    size_t count;
    struct inventory_fact {
        char name[PROFILE_NAME];
        char value[PROFILE_TEXT];
    } fact[INVENTORY_FACTS];
    char machine[PROFILE_TEXT]; /* type of the machine: product and CPU */
};

void inventory_read(const char *root, struct inventory *ret);
/* A result for each difference, or one that nothing differs. */
void inventory_compare(const struct inventory *inventory, const struct machine_profile *profile,
                       struct verify_report *report);

#endif
