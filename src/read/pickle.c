/* pickle.c - the stack machine that a pickle is written for, without the part that calls things.
 *
 * One table row per opcode that we know; everything else is refused with its offset.  There is no
 * recursion: the machine's stack, its marks and its memo are arrays, each bounded by the input's size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clean.h"

struct ids {
    uint32_t *id;
    size_t count, room;
};

struct pickle {
    const unsigned char *data;
    struct reader in;
    struct value_tree *tree;
    struct ids stack, mark, memo;
    bool stopped;
    struct err *err;
};

static int pickle_bad(struct pickle *pickle, const char *what)
{
    return err_set(pickle->err, -EPROTO, "byte %zu: %s", (size_t)(pickle->in.at - pickle->data),
                   what);
}

static int ids_push(struct pickle *pickle, struct ids *ids, uint32_t id)
{
    int result =
        budget_grow(pickle->tree->budget, &ids->id, &ids->room, ids->count, sizeof(*ids->id));

    if (result == 0)
        ids->id[ids->count++] = id;
    return result;
}

static int pickle_push(struct pickle *pickle, struct value_node node)
{
    uint32_t id = value_add(pickle->tree, node);

    return id == VALUE_NIL ? -ENOMEM : ids_push(pickle, &pickle->stack, id);
}

/* What lies above the newest mark belongs to it; below is not to be touched. */
static size_t pickle_floor_of(const struct pickle *pickle)
{
    return pickle->mark.count ? pickle->mark.id[pickle->mark.count - 1] : 0;
}

static int pickle_need(struct pickle *pickle, size_t count)
{
    return pickle->stack.count - pickle_floor_of(pickle) >= count
               ? 0
               : pickle_bad(pickle, "the stack is empty");
}

static uint32_t pickle_top(const struct pickle *pickle, size_t below)
{
    return pickle->stack.id[pickle->stack.count - 1 - below];
}

static int pickle_pop_mark(struct pickle *pickle, size_t *ret_first)
{
    if (!pickle->mark.count)
        return pickle_bad(pickle, "no mark on the stack");
    *ret_first = pickle->mark.id[--pickle->mark.count];
    return 0;
}

static int pickle_push_text(struct pickle *pickle, enum value_type type, uint64_t bytes)
{
    struct value_node node = { .type = (uint8_t)type, .count = (uint32_t)bytes };

    if (bytes > reader_left(&pickle->in) || bytes > UINT32_MAX)
        return pickle_bad(pickle, "a string is longer than the file");
    node.text = reader_get(&pickle->in, bytes);
    return pickle_push(pickle, node);
}

static int pickle_push_integer(struct pickle *pickle, int64_t value)
{
    return pickle_push(pickle, (struct value_node){ .type = VALUE_INT, .integer = value });
}

static int pickle_push_long(struct pickle *pickle, uint32_t bytes)
{
    const unsigned char *at = reader_get(&pickle->in, bytes);
    uint64_t value = 0;

    if (!at)
        return 0; /* the end is noticed by the loop */
    if (bytes > 8)
        return pickle_push(pickle, (struct value_node){ .type = VALUE_BIG });
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    if (bytes && bytes < 8 && at[bytes - 1] & 0x80)
        value |= UINT64_MAX << 8 * bytes;
    return pickle_push_integer(pickle, (int64_t)value);
}

static int pickle_push_real(struct pickle *pickle)
{
    const unsigned char *at = reader_get(&pickle->in, 8);
    struct value_node node = { .type = VALUE_FLOAT };
    uint64_t bits = 0;

    for (int i = 0; at && i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&node.real, &bits, sizeof(bits));
    return pickle_push(pickle, node);
}

/* The stack from `first` on becomes members of a container, and leaves the stack. */
static int pickle_gather(struct pickle *pickle, uint32_t container, size_t first)
{
    const struct value_node *into = &pickle->tree->node[container];
    size_t count = pickle->stack.count - first;
    int result = 0;

    if (into->type == VALUE_DICT && count % 2)
        return pickle_bad(pickle, "a key without a value");
    for (size_t i = first; i < pickle->stack.count && result == 0; i++)
        result = value_append(pickle->tree, container, pickle->stack.id[i]);
    pickle->stack.count = first;
    return result;
}

static int pickle_push_gathered(struct pickle *pickle, enum value_type type, size_t first)
{
    uint32_t id = value_add(pickle->tree, (struct value_node){ .type = (uint8_t)type });
    int result = id == VALUE_NIL ? -ENOMEM : pickle_gather(pickle, id, first);

    return result < 0 ? result : ids_push(pickle, &pickle->stack, id);
}

static int pickle_push_marked(struct pickle *pickle, enum value_type type)
{
    size_t first = 0;
    int result = pickle_pop_mark(pickle, &first);

    return result < 0 ? result : pickle_push_gathered(pickle, type, first);
}

static int pickle_push_tuple(struct pickle *pickle, size_t count)
{
    int result = pickle_need(pickle, count);

    return result < 0 ? result
                      : pickle_push_gathered(pickle, VALUE_TUPLE, pickle->stack.count - count);
}

/* Members into the container below them; `first` is where they begin. */
static int pickle_extend(struct pickle *pickle, enum value_type type, size_t first)
{
    uint32_t container;

    if (first <= pickle_floor_of(pickle))
        return pickle_bad(pickle, "no container for the items");
    container = pickle->stack.id[first - 1];
    if (pickle->tree->node[container].type != type)
        return pickle_bad(pickle, "items for a value that is not a container of that kind");
    return pickle_gather(pickle, container, first);
}

static int pickle_extend_marked(struct pickle *pickle, enum value_type type)
{
    size_t first = 0;
    int result = pickle_pop_mark(pickle, &first);

    return result < 0 ? result : pickle_extend(pickle, type, first);
}

static int pickle_extend_by(struct pickle *pickle, enum value_type type, size_t count)
{
    int result = pickle_need(pickle, count + 1);

    return result < 0 ? result : pickle_extend(pickle, type, pickle->stack.count - count);
}

static int pickle_memo_put(struct pickle *pickle, uint32_t at)
{
    int result = pickle_need(pickle, 1);

    /* Writers count up from 0 (or 1), so a number beyond the file's size is none. */
    if (result == 0 && at > (size_t)(pickle->in.end - pickle->data))
        result = pickle_bad(pickle, "a memo index that is too large");
    while (result == 0 && pickle->memo.count <= at)
        result = ids_push(pickle, &pickle->memo, VALUE_NIL);
    if (result == 0)
        pickle->memo.id[at] = pickle_top(pickle, 0);
    return result;
}

static int pickle_memo_get(struct pickle *pickle, uint32_t at)
{
    if (at >= pickle->memo.count || pickle->memo.id[at] == VALUE_NIL)
        return pickle_bad(pickle, "a reference to a memo entry that does not exist");
    return ids_push(pickle, &pickle->stack, pickle->memo.id[at]);
}

/* "module\nname\n"; kept as one text, with the newline between. */
static int pickle_push_name(struct pickle *pickle)
{
    const unsigned char *at = pickle->in.at, *end = at;
    struct value_node node = { .type = VALUE_NAME, .text = (const char *)at };

    for (int lines = 0; lines < 2; lines++) {
        end = memchr(end, '\n', (size_t)(pickle->in.end - end));
        if (!end || end - at > 4096)
            return pickle_bad(pickle, "unterminated name");
        end++;
    }
    node.count = (uint32_t)(end - at - 1);
    pickle->in.at = end;
    return pickle_push(pickle, node);
}

static int pickle_push_stack_name(struct pickle *pickle)
{
    const struct value_node *name, *node = pickle->tree->node;
    struct value_node function = { .type = VALUE_NAME };
    int result = pickle_need(pickle, 2);

    if (result < 0)
        return result;
    name = &node[pickle_top(pickle, 0)];
    if (name->type != VALUE_TEXT || node[pickle_top(pickle, 1)].type != VALUE_TEXT)
        return pickle_bad(pickle, "a name that is not a string");
    function.text = name->text; /* the function's alone: enough to say, and to know ours */
    function.count = name->count;
    pickle->stack.count -= 2;
    return pickle_push(pickle, function);
}

/* The last part of a name, after its module. */
static bool pickle_name_is(const struct value_node *name, const char *text)
{
    const char *line = memrchr(name->text, '\n', name->count);
    const char *last = line ? line + 1 : name->text;
    size_t bytes = strlen(text), left = (size_t)(name->text + name->count - last);

    return left == bytes && memcmp(last, text, bytes) == 0;
}

/* Functions that give their first argument, as far as plain data goes: typed lists of torch.jit, and how
 * protocol 2 writes sets and bytes.
 */
static bool pickle_name_gives_first(const struct value_node *name)
{
    static const char *const names[] = {
        "build_intlist", "build_doublelist", "build_boollist", "build_tensorlist",
        "set",           "frozenset",        "encode",         "bytearray"
    };

    for (size_t i = 0; i < COUNT(names); i++) {
        if (pickle_name_is(name, names[i]))
            return true;
    }
    return false;
}

static int pickle_refuse_name(struct pickle *pickle, const struct value_node *name)
{
    char text[64];
    size_t bytes = MIN(name->count, sizeof(text) - 1);

    memcpy(text, name->text, bytes);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(text[i] == '\n' ? '.' : text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
    text[bytes] = '\0';
    return err_set(pickle->err, -EPROTO,
                   "byte %zu: calls %s; refused, because pickles with calls are not executed",
                   (size_t)(pickle->in.at - pickle->data), text);
}

/* A call.  Its function and arguments leave the stack, what it would make comes onto it. */
static int pickle_reduce(struct pickle *pickle)
{
    const struct value_tree *tree = pickle->tree;
    uint32_t function, arguments;
    int result = pickle_need(pickle, 2);

    if (result < 0)
        return result;
    function = pickle_top(pickle, 1);
    arguments = pickle_top(pickle, 0);
    if (tree->node[function].type != VALUE_NAME || tree->node[arguments].type != VALUE_TUPLE)
        return pickle_bad(pickle, "calls a value that is not a function");
    pickle->stack.count -= 2;
    if (pickle_name_is(&tree->node[function], "OrderedDict") && tree->node[arguments].count == 0)
        return pickle_push(pickle, (struct value_node){ .type = VALUE_DICT });
    if (pickle_name_gives_first(&tree->node[function]) && tree->node[arguments].count)
        return ids_push(pickle, &pickle->stack, value_item(tree, arguments, 0));
    return pickle_refuse_name(pickle, &tree->node[function]);
}

static int pickle_pop(struct pickle *pickle)
{
    int result = pickle_need(pickle, 1);

    if (result == 0)
        pickle->stack.count--;
    return result;
}

static int pickle_pop_to_mark(struct pickle *pickle)
{
    size_t first = 0;
    int result = pickle_pop_mark(pickle, &first);

    if (result == 0)
        pickle->stack.count = first;
    return result;
}

static int pickle_duplicate(struct pickle *pickle)
{
    int result = pickle_need(pickle, 1);

    return result < 0 ? result : ids_push(pickle, &pickle->stack, pickle_top(pickle, 0));
}

static int pickle_protocol(struct pickle *pickle)
{
    uint8_t version = reader_get_u8(&pickle->in);

    if (version < 2 || version > 5)
        return pickle_bad(pickle, "a protocol other than 2 to 5");
    return 0;
}

static int pickle_frame(struct pickle *pickle)
{
    uint64_t bytes = reader_get_u64(&pickle->in);

    return bytes > reader_left(&pickle->in) ? pickle_bad(pickle, "a frame is longer than the file")
                                            : 0;
}

static int pickle_stop(struct pickle *pickle)
{
    if (pickle->stack.count != 1 || pickle->mark.count)
        return pickle_bad(pickle, "does not end with exactly one value");
    pickle->stopped = true;
    pickle->tree->root = pickle_top(pickle, 0);
    return 0;
}

/* Opcodes that build; the others below. */
static int pickle_step_build(struct pickle *pickle, uint8_t op)
{
    switch (op) {
    case ']':
        return pickle_push(pickle, (struct value_node){ .type = VALUE_LIST });
    case '}':
        return pickle_push(pickle, (struct value_node){ .type = VALUE_DICT });
    case ')':
        return pickle_push(pickle, (struct value_node){ .type = VALUE_TUPLE });
    case 0x8f:
        return pickle_push(pickle, (struct value_node){ .type = VALUE_SET });
    case 'a':
        return pickle_extend_by(pickle, VALUE_LIST, 1);
    case 'e':
        return pickle_extend_marked(pickle, VALUE_LIST);
    case 's':
        return pickle_extend_by(pickle, VALUE_DICT, 2);
    case 'u':
        return pickle_extend_marked(pickle, VALUE_DICT);
    case 0x90:
        return pickle_extend_marked(pickle, VALUE_SET);
    case 'l':
        return pickle_push_marked(pickle, VALUE_LIST);
    case 'd':
        return pickle_push_marked(pickle, VALUE_DICT);
    case 't':
        return pickle_push_marked(pickle, VALUE_TUPLE);
    case 0x91:
        return pickle_push_marked(pickle, VALUE_SET);
    case 0x85:
    case 0x86:
    case 0x87:
        return pickle_push_tuple(pickle, op - 0x84u);
    case 'c':
        return pickle_push_name(pickle);
    case 0x93:
        return pickle_push_stack_name(pickle);
    case 'R':
    case 0x81:
        return pickle_reduce(pickle);
    default:
        return err_set(pickle->err, -EPROTO, "byte %zu: opcode 0x%02x is not allowed in plain data",
                       (size_t)(pickle->in.at - pickle->data) - 1, op);
    }
}

static int pickle_step_value(struct pickle *pickle, uint8_t op)
{
    struct reader *in = &pickle->in;

    switch (op) {
    case 'N':
        return pickle_push(pickle, (struct value_node){ .type = VALUE_NONE });
    case 0x88:
    case 0x89:
        return pickle_push(pickle,
                           (struct value_node){ .type = VALUE_BOOL, .integer = op == 0x88 });
    case 'K':
        return pickle_push_integer(pickle, reader_get_u8(in));
    case 'M':
        return pickle_push_integer(pickle, reader_get_u16(in));
    case 'J':
        return pickle_push_integer(pickle, (int32_t)reader_get_u32(in));
    case 0x8a:
        return pickle_push_long(pickle, reader_get_u8(in));
    case 0x8b:
        return pickle_push_long(pickle, reader_get_u32(in));
    case 'G':
        return pickle_push_real(pickle);
    case 'X':
    case 'T':
        return pickle_push_text(pickle, VALUE_TEXT, reader_get_u32(in));
    case 0x8c:
    case 'U':
        return pickle_push_text(pickle, VALUE_TEXT, reader_get_u8(in));
    case 0x8d:
        return pickle_push_text(pickle, VALUE_TEXT, reader_get_u64(in));
    case 'B':
        return pickle_push_text(pickle, VALUE_BYTES, reader_get_u32(in));
    case 'C':
        return pickle_push_text(pickle, VALUE_BYTES, reader_get_u8(in));
    case 0x8e:
    case 0x96:
        return pickle_push_text(pickle, VALUE_BYTES, reader_get_u64(in));
    default:
        return pickle_step_build(pickle, op);
    }
}

static int pickle_step(struct pickle *pickle, uint8_t op)
{
    switch (op) {
    case 0x80:
        return pickle_protocol(pickle);
    case 0x95:
        return pickle_frame(pickle);
    case '(':
        return ids_push(pickle, &pickle->mark, (uint32_t)pickle->stack.count);
    case 'q':
        return pickle_memo_put(pickle, reader_get_u8(&pickle->in));
    case 'r':
        return pickle_memo_put(pickle, reader_get_u32(&pickle->in));
    case 0x94:
        return pickle_memo_put(pickle, (uint32_t)pickle->memo.count);
    case 'h':
        return pickle_memo_get(pickle, reader_get_u8(&pickle->in));
    case 'j':
        return pickle_memo_get(pickle, reader_get_u32(&pickle->in));
    case '0':
        return pickle_pop(pickle);
    case '1':
        return pickle_pop_to_mark(pickle);
    case '2':
        return pickle_duplicate(pickle);
    case '.':
        return pickle_stop(pickle);
    default:
        return pickle_step_value(pickle, op);
    }
}

bool pickle_is(const void *data, size_t bytes)
{
    const unsigned char *at = data;

    return bytes >= 2 && at[0] == 0x80 && at[1] >= 2 && at[1] <= 5;
}

static void pickle_fini(struct pickle *pickle)
{
    struct ids *const all[] = { &pickle->stack, &pickle->mark, &pickle->memo };

    for (size_t i = 0; i < COUNT(all); i++)
        budget_free(pickle->tree->budget, all[i]->id, all[i]->room, sizeof(*all[i]->id));
}

int pickle_read(const void *data, size_t bytes, struct value_tree *tree, struct err *err)
{
    CLEAN(pickle_fini)
    struct pickle pickle = { .data = data, .in = reader_of(data, bytes), .tree = tree, .err = err };
    int result = 0;

    value_reset(tree);
    if (!pickle_is(data, bytes))
        return err_set(err, -EPROTO, "not a pickle of protocol 2 to 5");
    while (result == 0 && !pickle.stopped) {
        uint8_t op = reader_get_u8(&pickle.in);

        if (pickle.in.bad)
            return err_set(err, -EPROTO, "unexpected end of file at byte %zu", bytes);
        result = pickle_step(&pickle, op);
        if (pickle.in.bad && result == 0)
            return err_set(err, -EPROTO, "unexpected end of file at byte %zu", bytes);
    }
    return result == -ENOMEM ? budget_error(tree->budget, err) : result;
}
