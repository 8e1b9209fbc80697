/* value_tree.h - plain data (numbers, strings, lists, dictionaries) of a pickle or a JSON text.
 *
 * Nodes are in one array and are referred to by index; containers are chains of cells, each with a node.  A
 * dictionary's cells are key, value, key, value.  Strings point into the input, which must live as long.  Memory is
 * bounded by the input (at most 32 bytes for each of its bytes) and by the budget.  A pickle may contain a list that
 * contains itself, so walk a tree only to a known depth.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_VALUE_TREE_H
#define LOCKSTEP_READ_VALUE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "read/budget.h"

enum value_type {
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_BYTES,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_SET,
    VALUE_DICT,
    VALUE_NAME, /* of a pickle: a class or function; never called */
    VALUE_BIG,  /* an integer of more than 64 bits: not kept */
};

#define VALUE_NIL UINT32_MAX

struct value_node {
    uint8_t type;
    uint32_t count; /* bytes of a text, cells of a container */
    union {
        int64_t integer;
        double real;
        const char *text; /* no NUL at its end */
        struct {
            uint32_t first, last; /* cells; VALUE_NIL: none */
        };
    };
};

struct value_cell {
    uint32_t node, next;
};

struct value_tree {
    struct value_node *node;
    struct value_cell *cell;
    uint32_t nodes, cells, node_room, cell_room;
    uint32_t root;
    struct budget *budget; /* of nodes and cells; NULL: no limit */
};

void value_reset(struct value_tree *tree); /* empties it, keeps the memory for the next file */
void value_fini(struct value_tree *tree);

/* For readers: a new node (VALUE_NIL: no memory), and one more cell of a container. */
uint32_t value_add(struct value_tree *tree, struct value_node node);
int value_append(struct value_tree *tree, uint32_t container, uint32_t node); /* -ENOMEM */

/* For users.  A node that is not there (VALUE_NIL) has no type, no members, and no value. */
bool value_is(const struct value_tree *tree, uint32_t node, enum value_type type);
bool value_is_list(const struct value_tree *tree, uint32_t node);        /* or a tuple */
uint32_t value_first(const struct value_tree *tree, uint32_t container); /* a cell, or VALUE_NIL */
uint32_t value_item(const struct value_tree *tree, uint32_t list, uint32_t index);
uint32_t value_get(const struct value_tree *tree, uint32_t dict, const char *key);
bool value_text_is(const struct value_tree *tree, uint32_t node, const char *text);
/* Copies, cut to the room; "" when it is no text. */
const char *value_text(const struct value_tree *tree, uint32_t node, char *out, size_t room);
/* Integers, booleans, whole floats, and texts of digits (as some writers of JSON have them). */
bool value_integer(const struct value_tree *tree, uint32_t node, int64_t *ret);
bool value_real(const struct value_tree *tree, uint32_t node, double *ret);

#endif
