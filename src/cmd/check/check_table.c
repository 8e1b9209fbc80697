/* check_table.c - one row for each GPU, one column for each measurement, the odd value marked.
 *
 * A line for each value of eight GPUs would hide the one that differs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/check/check_table.h"

#include <stdio.h>
#include <string.h>

#include "core/clean.h"

#define ROW_WIDTH 8
#define CELL_WIDTH 12

static size_t check_table_row(struct check_table *table, const char *name)
{
    size_t i = 0;

    while (i < table->rows && strcmp(table->row[i], name) != 0)
        i++;
    if (i == table->rows && i < CHECK_TABLE_ROWS)
        snprintf(table->row[table->rows++], sizeof(table->row[0]), "%s", name);
    return i;
}

static size_t check_table_column(struct check_table *table, const struct check *result)
{
    char name[sizeof(table->column[0])];
    size_t i = 0;

    snprintf(name, sizeof(name), "%s %s", result->name, result->unit);
    while (i < table->columns && strcmp(table->column[i], name) != 0)
        i++;
    if (i == table->columns && i < CHECK_TABLE_COLUMNS)
        snprintf(table->column[table->columns++], sizeof(table->column[0]), "%s", name);
    return i;
}

bool check_table_take(struct check_table *table, const struct check *result)
{
    bool measured = strcmp(result->unit, "GB/s") == 0 || strcmp(result->unit, "C") == 0;
    size_t row, column;

    if (!measured || !result->has_value || strncmp(result->device, "gpu ", 4) != 0)
        return false;
    column = check_table_column(table, result);
    row = column < CHECK_TABLE_COLUMNS ? check_table_row(table, result->device) : CHECK_TABLE_ROWS;
    if (row == CHECK_TABLE_ROWS)
        return false;
    table->cell[row][column].known = true;
    table->cell[row][column].state = result->state;
    table->cell[row][column].value = result->value;
    return true;
}

static int check_table_width(const struct check_table *table, size_t column)
{
    return (int)MAX(strlen(table->column[column]), (size_t)CELL_WIDTH) + 3;
}

void check_table_print(const struct check_table *table, const struct show_style *style)
{
    if (!table->rows)
        return;
    printf("%-*s", ROW_WIDTH, "");
    for (size_t c = 0; c < table->columns; c++)
        printf("%*s ", check_table_width(table, c) - 1, table->column[c]);
    putchar('\n');
    for (size_t r = 0; r < table->rows; r++) {
        printf("%-*s", ROW_WIDTH, table->row[r]);
        for (size_t c = 0; c < table->columns; c++) {
            bool known = table->cell[r][c].known;
            bool odd = known && table->cell[r][c].state != CHECK_OK;
            char text[32] = "-";

            if (known)
                snprintf(text, sizeof(text), "%s%.1f", odd ? "* " : "", table->cell[r][c].value);
            printf("%s%*s%s ", show_begin(style, odd ? SHOW_BAD : SHOW_PLAIN),
                   check_table_width(table, c) - 1, text, show_end(style));
        }
        putchar('\n');
    }
}
