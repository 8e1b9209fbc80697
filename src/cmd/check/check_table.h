/* check_table.h - measured values of the GPUs of this node, side by side.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_CHECK_CHECK_TABLE_H
#define LOCKSTEP_CMD_CHECK_CHECK_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "show/style.h"
#include "wire/finding.h"

#define CHECK_TABLE_ROWS 64 /* more GPUs than any machine has */
#define CHECK_TABLE_COLUMNS 8

struct check_table {
    char row[CHECK_TABLE_ROWS][FACT_NAME];
    char column[CHECK_TABLE_COLUMNS][2 * FACT_NAME]; /* name and unit */
    struct {
        bool known;
        unsigned state;
        double value;
    } cell[CHECK_TABLE_ROWS][CHECK_TABLE_COLUMNS];
    size_t rows, columns;
};

/* False: it is not a measured value of a GPU, or there is no room, so it needs a line of its own. */
bool check_table_take(struct check_table *table, const struct check *result);
/* Nothing without rows.  A value that is not as expected is marked. */
void check_table_print(const struct check_table *table, const struct show_style *style);

#endif
