/* plain.h - plain data (numbers, texts, lists, dictionaries) as a pickle or a JSON text holds it.
 *
 * Nodes lie in one array and are named by their index; containers chain cells, each naming a node.  A
 * dictionary's cells are key, value, key, value.  Texts point into what was read, which must live as
 * long.  Memory is bounded by the input, 32 bytes for each of its bytes at most, and by the budget.  A pickle may hold a
 * list that holds itself: whoever walks a tree goes only as deep as what he looks for.
 */
#ifndef LOCKSTEP_READ_PLAIN_H
#define LOCKSTEP_READ_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "read/budget.h"

enum plain_type {
    PLAIN_NONE,
    PLAIN_BOOL,
    PLAIN_INT,
    PLAIN_FLOAT,
    PLAIN_TEXT,
    PLAIN_BYTES,
    PLAIN_LIST,
    PLAIN_TUPLE,
    PLAIN_SET,
    PLAIN_DICT,
    PLAIN_NAME, /* of a pickle: a class or function; never called */
    PLAIN_BIG,  /* an integer of more than 64 bits: not kept */
};

#define PLAIN_NIL UINT32_MAX

struct plain_node {
    uint8_t type;
    uint32_t count; /* bytes of a text, cells of a container */
    union {
        int64_t integer;
        double real;
        const char *text; /* no NUL at its end */
        struct {
            uint32_t first, last; /* cells; PLAIN_NIL: none */
        };
    };
};

struct plain_cell {
    uint32_t node, next;
};

struct plain {
    struct plain_node *node;
    struct plain_cell *cell;
    uint32_t nodes, cells, node_room, cell_room;
    uint32_t root;
    struct budget *budget; /* of nodes and cells; NULL: no limit */
};

void plain_reset(struct plain *plain); /* empties it, keeps the memory for the next file */
void plain_fini(struct plain *plain);

/* For readers: a new node (PLAIN_NIL: no memory), and one more cell of a container. */
uint32_t plain_add(struct plain *plain, struct plain_node node);
int plain_append(struct plain *plain, uint32_t container, uint32_t node); /* -ENOMEM */

/* For users.  A node that is not there (PLAIN_NIL) has no type, no members, and no value. */
bool plain_is(const struct plain *plain, uint32_t node, enum plain_type type);
bool plain_is_list(const struct plain *plain, uint32_t node);        /* or a tuple */
uint32_t plain_first(const struct plain *plain, uint32_t container); /* a cell, or PLAIN_NIL */
uint32_t plain_item(const struct plain *plain, uint32_t list, uint32_t index);
uint32_t plain_get(const struct plain *plain, uint32_t dict, const char *key);
bool plain_text_is(const struct plain *plain, uint32_t node, const char *text);
/* Copies, cut to the room; "" when it is no text. */
const char *plain_text(const struct plain *plain, uint32_t node, char *out, size_t room);
/* Integers, booleans, whole floats, and texts of digits (as some writers of JSON have them). */
bool plain_integer(const struct plain *plain, uint32_t node, int64_t *ret);
bool plain_real(const struct plain *plain, uint32_t node, double *ret);

#endif
