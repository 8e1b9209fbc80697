/* plain.c - the tree that pickles and JSON become. */
#include "read/plain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

void plain_reset(struct plain *plain)
{
    plain->nodes = plain->cells = 0;
    plain->root = PLAIN_NIL;
}

void plain_fini(struct plain *plain)
{
    budget_free(plain->budget, plain->node, plain->node_room, sizeof(*plain->node));
    budget_free(plain->budget, plain->cell, plain->cell_room, sizeof(*plain->cell));
    *plain = (struct plain){ .root = PLAIN_NIL, .budget = plain->budget };
}

static bool plain_grow(struct budget *budget, void *array, uint32_t *room, size_t size)
{
    size_t wider = *room;

    if (*room > PLAIN_NIL / 3 * 2 || budget_grow(budget, array, &wider, *room, size) < 0)
        return false;
    *room = (uint32_t)wider;
    return true;
}

uint32_t plain_add(struct plain *plain, struct plain_node node)
{
    if (plain->nodes == plain->node_room &&
        !plain_grow(plain->budget, &plain->node, &plain->node_room, sizeof(node)))
        return PLAIN_NIL;
    if (node.type >= PLAIN_LIST && node.type <= PLAIN_DICT)
        node.first = node.last = PLAIN_NIL;
    plain->node[plain->nodes] = node;
    return plain->nodes++;
}

int plain_append(struct plain *plain, uint32_t container, uint32_t node)
{
    struct plain_node *into = &plain->node[container];

    if (plain->cells == plain->cell_room &&
        !plain_grow(plain->budget, &plain->cell, &plain->cell_room, sizeof(*plain->cell)))
        return -ENOMEM;
    plain->cell[plain->cells] = (struct plain_cell){ node, PLAIN_NIL };
    if (into->first == PLAIN_NIL)
        into->first = plain->cells;
    else
        plain->cell[into->last].next = plain->cells;
    into->last = plain->cells++;
    into->count++;
    return 0;
}

bool plain_is(const struct plain *plain, uint32_t node, enum plain_type type)
{
    return node != PLAIN_NIL && plain->node[node].type == type;
}

bool plain_is_list(const struct plain *plain, uint32_t node)
{
    return plain_is(plain, node, PLAIN_LIST) || plain_is(plain, node, PLAIN_TUPLE);
}

uint32_t plain_first(const struct plain *plain, uint32_t container)
{
    if (container == PLAIN_NIL || plain->node[container].type < PLAIN_LIST ||
        plain->node[container].type > PLAIN_DICT)
        return PLAIN_NIL;
    return plain->node[container].first;
}

uint32_t plain_item(const struct plain *plain, uint32_t list, uint32_t index)
{
    uint32_t cell = plain_is_list(plain, list) ? plain_first(plain, list) : PLAIN_NIL;

    while (cell != PLAIN_NIL && index--)
        cell = plain->cell[cell].next;
    return cell == PLAIN_NIL ? PLAIN_NIL : plain->cell[cell].node;
}

uint32_t plain_get(const struct plain *plain, uint32_t dict, const char *key)
{
    uint32_t cell = plain_is(plain, dict, PLAIN_DICT) ? plain_first(plain, dict) : PLAIN_NIL;
    uint32_t found = PLAIN_NIL; /* the last one counts, as in Python */

    while (cell != PLAIN_NIL) {
        uint32_t value = plain->cell[cell].next;

        if (plain_text_is(plain, plain->cell[cell].node, key))
            found = plain->cell[value].node;
        cell = plain->cell[value].next;
    }
    return found;
}

bool plain_text_is(const struct plain *plain, uint32_t node, const char *text)
{
    size_t bytes = strlen(text);

    return plain_is(plain, node, PLAIN_TEXT) && plain->node[node].count == bytes &&
           memcmp(plain->node[node].text, text, bytes) == 0;
}

const char *plain_text(const struct plain *plain, uint32_t node, char *out, size_t room)
{
    size_t bytes = 0;

    if (plain_is(plain, node, PLAIN_TEXT)) {
        bytes = MIN(plain->node[node].count, room - 1);
        memcpy(out, plain->node[node].text, bytes);
    }
    out[bytes] = '\0';
    return out;
}

static bool text_integer(const struct plain_node *node, int64_t *ret)
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

bool plain_integer(const struct plain *plain, uint32_t node, int64_t *ret)
{
    const struct plain_node *at = &plain->node[node];

    if (node == PLAIN_NIL)
        return false;
    if (at->type == PLAIN_TEXT)
        return text_integer(at, ret);
    if (at->type == PLAIN_FLOAT) {
        if (!(fabs(at->real) < 9e18) || at->real != floor(at->real))
            return false;
        *ret = (int64_t)at->real;
        return true;
    }
    if (at->type != PLAIN_INT && at->type != PLAIN_BOOL)
        return false;
    *ret = at->integer;
    return true;
}

bool plain_real(const struct plain *plain, uint32_t node, double *ret)
{
    int64_t integer;

    if (plain_is(plain, node, PLAIN_FLOAT)) {
        *ret = plain->node[node].real;
        return isfinite(*ret);
    }
    if (!plain_integer(plain, node, &integer))
        return false;
    *ret = (double)integer;
    return true;
}
