/* value_tree.c - the tree that pickles and JSON are parsed into.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/value_tree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

void value_reset(struct value_tree *tree)
{
    tree->nodes = tree->cells = 0;
    tree->root = VALUE_NIL;
}

void value_fini(struct value_tree *tree)
{
    budget_free(tree->budget, tree->node, tree->node_room, sizeof(*tree->node));
    budget_free(tree->budget, tree->cell, tree->cell_room, sizeof(*tree->cell));
    *tree = (struct value_tree){ .root = VALUE_NIL, .budget = tree->budget };
}

static bool value_grow(struct budget *budget, void *array, uint32_t *room, size_t size)
{
    size_t wider = *room;

    if (*room > VALUE_NIL / 3 * 2 || budget_grow(budget, array, &wider, *room, size) < 0)
        return false;
    *room = (uint32_t)wider;
    return true;
}

uint32_t value_add(struct value_tree *tree, struct value_node node)
{
    if (tree->nodes == tree->node_room &&
        !value_grow(tree->budget, &tree->node, &tree->node_room, sizeof(node)))
        return VALUE_NIL;
    if (node.type >= VALUE_LIST && node.type <= VALUE_DICT)
        node.first = node.last = VALUE_NIL;
    tree->node[tree->nodes] = node;
    return tree->nodes++;
}

int value_append(struct value_tree *tree, uint32_t container, uint32_t node)
{
    struct value_node *into = &tree->node[container];

    if (tree->cells == tree->cell_room &&
        !value_grow(tree->budget, &tree->cell, &tree->cell_room, sizeof(*tree->cell)))
        return -ENOMEM;
    tree->cell[tree->cells] = (struct value_cell){ node, VALUE_NIL };
    if (into->first == VALUE_NIL)
        into->first = tree->cells;
    else
        tree->cell[into->last].next = tree->cells;
    into->last = tree->cells++;
    into->count++;
    return 0;
}

bool value_is(const struct value_tree *tree, uint32_t node, enum value_type type)
{
    return node != VALUE_NIL && tree->node[node].type == type;
}

bool value_is_list(const struct value_tree *tree, uint32_t node)
{
    return value_is(tree, node, VALUE_LIST) || value_is(tree, node, VALUE_TUPLE);
}

uint32_t value_first(const struct value_tree *tree, uint32_t container)
{
    if (container == VALUE_NIL || tree->node[container].type < VALUE_LIST ||
        tree->node[container].type > VALUE_DICT)
        return VALUE_NIL;
    return tree->node[container].first;
}

uint32_t value_item(const struct value_tree *tree, uint32_t list, uint32_t index)
{
    uint32_t cell = value_is_list(tree, list) ? value_first(tree, list) : VALUE_NIL;

    while (cell != VALUE_NIL && index--)
        cell = tree->cell[cell].next;
    return cell == VALUE_NIL ? VALUE_NIL : tree->cell[cell].node;
}

uint32_t value_get(const struct value_tree *tree, uint32_t dict, const char *key)
{
    uint32_t cell = value_is(tree, dict, VALUE_DICT) ? value_first(tree, dict) : VALUE_NIL;
    uint32_t found = VALUE_NIL; /* the last one counts, as in Python */

    while (cell != VALUE_NIL) {
        uint32_t value = tree->cell[cell].next;

        if (value_text_is(tree, tree->cell[cell].node, key))
            found = tree->cell[value].node;
        cell = tree->cell[value].next;
    }
    return found;
}

bool value_text_is(const struct value_tree *tree, uint32_t node, const char *text)
{
    size_t bytes = strlen(text);

    return value_is(tree, node, VALUE_TEXT) && tree->node[node].count == bytes &&
           memcmp(tree->node[node].text, text, bytes) == 0;
}

const char *value_text(const struct value_tree *tree, uint32_t node, char *out, size_t room)
{
    size_t bytes = 0;

    if (value_is(tree, node, VALUE_TEXT)) {
        bytes = MIN(tree->node[node].count, room - 1);
        memcpy(out, tree->node[node].text, bytes);
    }
    out[bytes] = '\0';
    return out;
}

static bool value_text_integer(const struct value_node *node, int64_t *ret)
{
    char text[24], *end;
    size_t bytes = node->count;

    if (!bytes || bytes >= sizeof(text) || !strchr("-0123456789", node->text[0]) || !node->text[0])
        return false;
    memcpy(text, node->text, bytes);
    text[bytes] = '\0';
    errno = 0;
    *ret = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0';
}

bool value_integer(const struct value_tree *tree, uint32_t node, int64_t *ret)
{
    const struct value_node *at = &tree->node[node];

    if (node == VALUE_NIL)
        return false;
    if (at->type == VALUE_TEXT)
        return value_text_integer(at, ret);
    if (at->type == VALUE_FLOAT) {
        if (!(fabs(at->real) < 9e18) || at->real != floor(at->real))
            return false;
        *ret = (int64_t)at->real;
        return true;
    }
    if (at->type != VALUE_INT && at->type != VALUE_BOOL)
        return false;
    *ret = at->integer;
    return true;
}

bool value_real(const struct value_tree *tree, uint32_t node, double *ret)
{
    int64_t integer;

    if (value_is(tree, node, VALUE_FLOAT)) {
        if (!isfinite(tree->node[node].real))
            return false;
        *ret = tree->node[node].real;
        return true;
    }
    if (!value_integer(tree, node, &integer))
        return false;
    *ret = (double)integer;
    return true;
}
