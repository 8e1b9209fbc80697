/* flight.c - from plain data to the table of dumps.
 *
 * Groups are the same when name and members are: a name alone may be used twice by ranks that do not
 * know of each other.  Ops are the same when type, sizes and element types are; each is kept once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

#define MEMBERS_MAX (1u << 20)
#define DEFAULT_GROUP_MOST (1u << 16) /* ranks whose absence is inferred */

struct file { /* while one dump is read */
    struct flight *flight;
    const struct value_tree *tree;
    struct dump_rank rank;
    size_t op_room, status_room;
    struct map group_of_name, group_of_local;
    int64_t first_record;
};

static uint64_t flight_hash_of(const struct value_tree *tree, uint32_t node, uint64_t seed)
{
    return value_is(tree, node, VALUE_TEXT)
               ? hash64(seed, tree->node[node].text, tree->node[node].count)
               : hash64_u64(seed, 0);
}

static int flight_by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

/* "[0, 1, 2]", or a list of numbers.  The order says who is which rank of the group, but every maker of
 * groups sorts; a set is what we need.
 */
static int members_read(const struct value_tree *tree, uint32_t node, struct dump_group *group)
{
    size_t room = 0;
    uint32_t cell = value_first(tree, node);
    const char *at = value_is(tree, node, VALUE_TEXT) ? tree->node[node].text : NULL;
    const char *end = at ? at + tree->node[node].count : NULL;

    while (cell != VALUE_NIL || (at && at < end)) {
        int64_t value = 0;

        if (at) {
            if (*at < '0' || *at > '9') {
                at++;
                continue;
            }
            for (; at < end && *at >= '0' && *at <= '9' && value < MEMBERS_MAX; at++)
                value = 10 * value + (*at - '0');
        } else {
            if (!value_integer(tree, tree->cell[cell].node, &value))
                return 0;
            cell = tree->cell[cell].next;
        }
        if (value < 0 || value >= MEMBERS_MAX)
            return 0; /* no such rank: then nothing is said */
        if (budget_grow(tree->budget, &group->member, &room, group->members,
                        sizeof(*group->member)) < 0)
            return -ENOMEM;
        group->member[group->members++] = (uint32_t)value;
    }
    if (group->members)
        qsort(group->member, group->members, sizeof(*group->member), flight_by_number);
    group->given = group->members > 0;
    return 0;
}

static int flight_group_add(struct flight *flight, struct dump_group *group)
{
    struct dumps *dumps = &flight->dumps;

    if (budget_grow(flight->budget, &dumps->group, &flight->group_room, dumps->groups,
                    sizeof(*dumps->group)) < 0)
        return -ENOMEM;
    dumps->group[dumps->groups++] = *group;
    return 0;
}

/* One of pg_config. */
static int flight_group_config(struct file *file, uint32_t name, uint32_t config)
{
    const struct value_tree *tree = file->tree;
    struct flight *flight = file->flight;
    uint32_t about = value_get(tree, config, "desc"), ranks = value_get(tree, config, "ranks");
    uint64_t key = flight_hash_of(tree, name, 1), *known,
             *mine = map_put(&file->group_of_name, key, 0);

    if (!mine)
        return -ENOMEM;
    if (value_is(tree, ranks, VALUE_TEXT)) {
        key = flight_hash_of(tree, ranks, key);
    } else {
        for (uint32_t cell = value_first(tree, ranks); cell != VALUE_NIL;
             cell = tree->cell[cell].next) {
            int64_t value = 0;

            value_integer(tree, tree->cell[cell].node, &value);
            key = hash64_u64(key, (uint64_t)value);
        }
    }
    known = map_put(&flight->groups, key, flight->dumps.groups);
    if (!known)
        return -ENOMEM;
    *mine = *known;
    if (*known == flight->dumps.groups) {
        struct dump_group group = { .members = 0 };
        int result = members_read(tree, ranks, &group);

        value_text(tree, name, group.name, sizeof(group.name));
        value_text(tree, about, group.about, sizeof(group.about));
        if (result == 0)
            result = flight_group_add(flight, &group);
        if (result < 0)
            free(group.member);
        return result;
    }
    return 0;
}

static int read_config(struct file *file)
{
    const struct value_tree *tree = file->tree;
    uint32_t cell = value_first(tree, value_get(tree, tree->root, "pg_config"));

    if (!value_is(tree, value_get(tree, tree->root, "pg_config"), VALUE_DICT))
        return 0;
    while (cell != VALUE_NIL) {
        uint32_t value = tree->cell[cell].next;
        int result = flight_group_config(file, tree->cell[cell].node, tree->cell[value].node);

        if (result < 0)
            return result;
        cell = tree->cell[value].next;
    }
    return 0;
}

/* A group that the configuration does not have: its members are those that use it. */
static int flight_group_unnamed(struct file *file, uint32_t name, uint32_t about, uint64_t *ret)
{
    struct flight *flight = file->flight;
    uint64_t key = flight_hash_of(file->tree, about, flight_hash_of(file->tree, name, 2));
    uint64_t *known = map_put(&flight->groups, key, flight->dumps.groups);
    struct dump_group *group;
    uint32_t *grown;

    if (!known)
        return -ENOMEM;
    *ret = *known;
    if (*known == flight->dumps.groups) {
        struct dump_group fresh = { .members = 0 };

        value_text(file->tree, name, fresh.name, sizeof(fresh.name));
        value_text(file->tree, about, fresh.about, sizeof(fresh.about));
        if (flight_group_add(flight, &fresh) < 0)
            return -ENOMEM;
    }
    group = &flight->dumps.group[*ret];
    if (group->members && group->member[group->members - 1] == file->rank.rank)
        return 0;
    if (!budget_take(flight->budget, sizeof(*group->member)))
        return -ENOMEM;
    grown = reallocarray(group->member, group->members + 1, sizeof(*grown));
    if (!grown) {
        budget_give(flight->budget, sizeof(*grown));
        return -ENOMEM;
    }
    group->member = grown;
    group->member[group->members++] = file->rank.rank;
    return 0;
}

struct fields { /* of an entry, as nodes */
    uint32_t pg_id, process_group, collective, p2p, is_p2p, name, in_sizes, in_types, out_sizes,
        out_types, state, created, record, completed, retired, op_id;
};

static const struct {
    const char *key;
    size_t offset;
} field_keys[] = {
    { "pg_id", offsetof(struct fields, pg_id) },
    { "process_group", offsetof(struct fields, process_group) },
    { "collective_seq_id", offsetof(struct fields, collective) },
    { "seq_id", offsetof(struct fields, collective) }, /* before they were told apart */
    { "p2p_seq_id", offsetof(struct fields, p2p) },
    { "is_p2p", offsetof(struct fields, is_p2p) },
    { "profiling_name", offsetof(struct fields, name) },
    { "input_sizes", offsetof(struct fields, in_sizes) },
    { "input_dtypes", offsetof(struct fields, in_types) },
    { "output_sizes", offsetof(struct fields, out_sizes) },
    { "state", offsetof(struct fields, state) },
    { "time_created_ns", offsetof(struct fields, created) },
    { "record_id", offsetof(struct fields, record) },
    { "retired", offsetof(struct fields, retired) },
};

static void entry_fields(const struct value_tree *tree, uint32_t entry, struct fields *fields)
{
    uint32_t cell = value_first(tree, entry);

    memset(fields, 0xff, sizeof(*fields));
    while (cell != VALUE_NIL) {
        uint32_t value = tree->cell[cell].next;

        for (size_t i = 0; i < COUNT(field_keys); i++) {
            if (value_text_is(tree, tree->cell[cell].node, field_keys[i].key)) {
                memcpy((char *)fields + field_keys[i].offset, &tree->cell[value].node,
                       sizeof(uint32_t));
                break;
            }
        }
        cell = tree->cell[value].next;
    }
}

/* [[8192, 1, 5120], [4]] as "8192x1x5120,4", and how many elements that is. */
static uint64_t sizes_read(const struct value_tree *tree, uint32_t node, char *out, size_t room)
{
    uint64_t all = 0;
    size_t used = 0;

    for (uint32_t cell = value_first(tree, node); cell != VALUE_NIL; cell = tree->cell[cell].next) {
        uint64_t count = 1;
        const char *before = all || used ? "," : "";

        for (uint32_t at = value_first(tree, tree->cell[cell].node); at != VALUE_NIL;
             at = tree->cell[at].next) {
            int64_t size = 0;

            value_integer(tree, tree->cell[at].node, &size);
            count *= (uint64_t)size;
            if (used < room)
                used +=
                    (size_t)snprintf(out + used, room - used, "%s%lld", before, (long long)size);
            before = "x";
        }
        all += count;
    }
    return all;
}

static void what_read(const struct value_tree *tree, const struct fields *fields,
                      struct dump_what *what)
{
    char text[64];
    const char *name = value_text(tree, fields->name, text, sizeof(text));
    const char *colon = strchr(name, ':');
    char *blank;

    memset(what, 0, sizeof(*what)); /* it is hashed as a whole */
    snprintf(what->name, sizeof(what->name), "%s", colon ? colon + 1 : name);
    blank = strchr(what->name, ' '); /* "send 0->1": the pair is kept elsewhere */
    if (blank)
        memset(blank, 0, sizeof(what->name) - (size_t)(blank - what->name));
    value_text(tree, value_item(tree, fields->in_types, 0), what->dtype, sizeof(what->dtype));
    what->in_count = sizes_read(tree, fields->in_sizes, what->sizes, sizeof(what->sizes));
    what->out_count = sizes_read(tree, fields->out_sizes, text, sizeof(text));
}

static int flight_what_id(struct flight *flight, const struct dump_what *what, uint32_t *ret)
{
    struct dumps *dumps = &flight->dumps;
    uint64_t *known = map_put(&flight->whats, hash64(3, what, sizeof(*what)), dumps->whats);

    if (!known)
        return -ENOMEM;
    *ret = (uint32_t)*known;
    if (*known != dumps->whats)
        return 0;
    if (budget_grow(flight->budget, &dumps->what, &flight->what_room, dumps->whats,
                    sizeof(*dumps->what)) < 0)
        return -ENOMEM;
    dumps->what[dumps->whats++] = *what;
    return 0;
}

/* "nccl:send 0->1", "nccl:recv 0<-1": the numbers are ranks of the group, the first one ours. */
static uint32_t peer_read(const struct file *file, const struct fields *fields, uint32_t group,
                          bool *sends)
{
    const struct dump_group *of = &file->flight->dumps.group[group];
    char text[64];
    const char *arrow;
    unsigned peer;

    value_text(file->tree, fields->name, text, sizeof(text));
    *sends = strstr(text, "send") != NULL;
    arrow = strpbrk(text, "<>");
    if (!arrow || sscanf(arrow + (*arrow == '<' ? 2 : 1), "%u", &peer) != 1)
        return DUMP_NONE;
    return of->given && peer < of->members ? of->member[peer] : of->given ? DUMP_NONE : peer;
}

static int flight_entry_group(struct file *file, const struct fields *fields, uint32_t *ret)
{
    const struct value_tree *tree = file->tree;
    uint32_t name = value_item(tree, fields->process_group, 0);
    uint32_t about = value_item(tree, fields->process_group, 1);
    uint64_t *known, fresh;
    int64_t local;

    if (name == VALUE_NIL)
        name = fields->pg_id;
    known = map_get(&file->group_of_name, flight_hash_of(tree, name, 1));
    if (known) {
        *ret = (uint32_t)*known;
    } else {
        if (flight_group_unnamed(file, name, about, &fresh) < 0)
            return -ENOMEM;
        *ret = (uint32_t)fresh;
    }
    if (value_integer(tree, fields->pg_id, &local) &&
        !map_put(&file->group_of_local, (uint64_t)local, *ret))
        return -ENOMEM;
    return 0;
}

static uint8_t flight_entry_state(const struct value_tree *tree, const struct fields *fields)
{
    int64_t retired = 0;

    if (value_text_is(tree, fields->state, "completed") ||
        (value_integer(tree, fields->retired, &retired) && retired))
        return DUMP_COMPLETED;
    return value_text_is(tree, fields->state, "started") ? DUMP_STARTED : DUMP_SCHEDULED;
}

static int read_entry(struct file *file, uint32_t entry)
{
    const struct value_tree *tree = file->tree;
    struct fields fields;
    struct dump_what what;
    struct dump_op op = { .seq = DUMP_UNKNOWN, .peer = DUMP_NONE };
    int64_t is_p2p = 0, record;

    if (!value_is(tree, entry, VALUE_DICT))
        return 0;
    entry_fields(tree, entry, &fields);
    if (flight_entry_group(file, &fields, &op.group) < 0)
        return -ENOMEM;
    what_read(tree, &fields, &what);
    if (flight_what_id(file->flight, &what, &op.what) < 0)
        return -ENOMEM;
    value_integer(tree, fields.is_p2p, &is_p2p);
    if (is_p2p || strncmp(what.name, "send", 4) == 0 || strncmp(what.name, "recv", 4) == 0) {
        op.peer = peer_read(file, &fields, op.group, &op.sends);
        file->flight->dumps.group[op.group].messages |= op.peer == DUMP_NONE;
        if (op.peer == DUMP_NONE)
            return 0; /* to whom it spoke cannot be known */
    }
    if (!value_integer(tree, op.peer == DUMP_NONE ? fields.collective : fields.p2p, &op.seq))
        op.seq = DUMP_UNKNOWN;
    value_integer(tree, fields.created, &op.created_ns);
    op.state = flight_entry_state(tree, &fields);
    if (value_integer(tree, fields.record, &record) && record < file->first_record)
        file->first_record = record;
    if (budget_grow(file->tree->budget, &file->rank.op, &file->op_room, file->rank.ops,
                    sizeof(op)) < 0)
        return -ENOMEM;
    file->rank.op[file->rank.ops++] = op;
    return 0;
}

static int64_t flight_status_number(const struct value_tree *tree, uint32_t dict, const char *key)
{
    int64_t value;

    return value_integer(tree, value_get(tree, dict, key), &value) ? value : DUMP_UNKNOWN;
}

static int read_status(struct file *file)
{
    const struct value_tree *tree = file->tree;
    uint32_t dict = value_get(tree, tree->root, "pg_status");
    uint32_t cell = value_is(tree, dict, VALUE_DICT) ? value_first(tree, dict) : VALUE_NIL;

    while (cell != VALUE_NIL) {
        uint32_t value = tree->cell[cell].next, group = tree->cell[value].node;
        struct dump_status status = { .group = DUMP_NONE, .local = -1 };
        uint64_t *known;

        value_integer(tree, tree->cell[cell].node, &status.local);
        known = map_get(&file->group_of_local, (uint64_t)status.local);
        if (known)
            status.group = (uint32_t)*known;
        status.enqueued = flight_status_number(tree, group, "last_enqueued_collective");
        status.started = flight_status_number(tree, group, "last_started_collective");
        status.completed = flight_status_number(tree, group, "last_completed_collective");
        if (budget_grow(file->tree->budget, &file->rank.status, &file->status_room,
                        file->rank.statuses, sizeof(status)) < 0)
            return -ENOMEM;
        file->rank.status[file->rank.statuses++] = status;
        cell = tree->cell[value].next;
    }
    return 0;
}

static int read_dump(struct file *file)
{
    const struct value_tree *tree = file->tree;
    uint32_t entries = value_get(tree, tree->root, "entries");
    uint32_t cell = value_is_list(tree, tree->root) ? value_first(tree, tree->root) /* the oldest */
                    : value_is_list(tree, entries)  ? value_first(tree, entries)
                                                    : VALUE_NIL;
    int result = read_config(file);

    for (; cell != VALUE_NIL && result == 0; cell = tree->cell[cell].next)
        result = read_entry(file, tree->cell[cell].node);
    return result == 0 ? read_status(file) : result;
}

static bool flight_list_is_entries(const struct value_tree *tree)
{
    return value_is_list(tree, tree->root) &&
           value_get(tree, value_item(tree, tree->root, 0), "profiling_name") != VALUE_NIL;
}

bool flight_is(const struct value_tree *tree)
{
    return flight_list_is_entries(tree) || value_get(tree, tree->root, "entries") != VALUE_NIL ||
           value_get(tree, tree->root, "pg_config") != VALUE_NIL ||
           value_get(tree, tree->root, "pg_status") != VALUE_NIL;
}

static int flight_rank_add(struct flight *flight, const struct dump_rank *rank)
{
    struct dumps *dumps = &flight->dumps;

    if (budget_grow(flight->budget, &dumps->rank, &flight->rank_room, dumps->ranks,
                    sizeof(*dumps->rank)) < 0)
        return -ENOMEM;
    dumps->rank[dumps->ranks++] = *rank;
    return 0;
}

static void file_fini(struct file *file)
{
    map_fini(&file->group_of_name);
    map_fini(&file->group_of_local);
    budget_free(file->tree->budget, file->rank.op, file->op_room, sizeof(*file->rank.op));
    budget_free(file->tree->budget, file->rank.status, file->status_room,
                sizeof(*file->rank.status));
}

int flight_add(struct flight *flight, uint32_t rank, const char *name,
               const struct value_tree *tree, struct err *err)
{
    CLEAN(file_fini)
    struct file file = {
        .flight = flight, .tree = tree, .rank.rank = rank, .first_record = INT64_MAX
    };
    int result;

    if (!flight_is(tree))
        return err_set(err, -EPROTO,
                       "not a flight-recorder dump: no entries, pg_config or pg_status");
    result = read_dump(&file);
    file.rank.left = file.rank.ops ? DUMP_READ : DUMP_EMPTY;
    file.rank.complete = file.first_record == 0;
    file.rank.written_ns = flight->written_ns;
    snprintf(file.rank.file, sizeof(file.rank.file), "%s", name);
    if (result == 0)
        result = flight_rank_add(flight, &file.rank);
    if (result < 0)
        return err_nomem(err);
    file.rank.op = NULL;
    file.rank.status = NULL;
    file.op_room = file.status_room = 0; /* the table has them now */
    return 0;
}

int flight_add_left(struct flight *flight, uint32_t rank, const char *file, enum dump_left left)
{
    struct dump_rank empty = { .rank = rank, .left = (uint8_t)left };

    snprintf(empty.file, sizeof(empty.file), "%s", file);
    return flight_rank_add(flight, &empty);
}

/* A rank with two files: the one that says more. */
static int flight_by_rank(const void *left, const void *right)
{
    const struct dump_rank *a = left, *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->ops < b->ops) - (a->ops > b->ops);
}

static uint32_t flight_highest_rank(const struct dumps *dumps)
{
    uint32_t highest = 0;

    for (size_t i = 0; i < dumps->ranks; i++)
        highest = MAX(highest, dumps->rank[i].rank);
    for (size_t g = 0; g < dumps->groups; g++) {
        for (uint32_t m = 0; m < dumps->group[g].members; m++)
            highest = MAX(highest, dumps->group[g].member[m]);
    }
    return highest;
}

/* The default group has every rank.  Where the dumps do not list its members (those of gloo do not), these are all ranks up to
 * the highest that is known: one that left no dump is missed only so.
 */
static int flight_complete_default(struct flight *flight)
{
    struct dumps *dumps = &flight->dumps;
    uint32_t highest = flight_highest_rank(dumps);

    for (size_t g = 0; g < dumps->groups && highest < DEFAULT_GROUP_MOST; g++) {
        struct dump_group *group = &dumps->group[g];
        uint32_t *member;

        if (group->given || !group->members || strcmp(group->about, "default_pg") != 0)
            continue;
        if (!budget_take(flight->budget, (highest + 1) * sizeof(*member)))
            return -ENOMEM;
        member = reallocarray(NULL, highest + 1, sizeof(*member));
        if (!member) {
            budget_give(flight->budget, (highest + 1) * sizeof(*member));
            return -ENOMEM;
        }
        for (uint32_t rank = 0; rank <= highest; rank++)
            member[rank] = rank;
        budget_free(flight->budget, group->member, group->members, sizeof(*member));
        group->member = member;
        group->members = highest + 1;
    }
    return 0;
}

static int flight_add_absent(struct flight *flight)
{
    struct dumps *dumps = &flight->dumps;
    CLEAN(map_fini) struct map seen = { 0 };

    for (size_t i = 0; i < dumps->ranks; i++) {
        if (!map_put(&seen, dumps->rank[i].rank, 1))
            return -ENOMEM;
    }
    for (size_t g = 0; g < dumps->groups; g++) {
        for (uint32_t m = 0; m < dumps->group[g].members; m++) {
            uint32_t rank = dumps->group[g].member[m];
            uint64_t *was = map_put(&seen, rank, 0);

            if (!was || (*was == 0 && flight_add_left(flight, rank, "", DUMP_NOTHING) < 0))
                return -ENOMEM;
            *was = 1;
        }
    }
    return 0;
}

int flight_take(struct flight *flight, struct dumps *ret)
{
    struct dumps *dumps = &flight->dumps;
    size_t kept = 0;
    int result = flight_complete_default(flight);

    if (result == 0)
        result = flight_add_absent(flight);
    if (result < 0)
        return result;
    if (dumps->ranks)
        qsort(dumps->rank, dumps->ranks, sizeof(*dumps->rank), flight_by_rank);
    for (size_t i = 0; i < dumps->ranks; i++) {
        if (kept && dumps->rank[kept - 1].rank == dumps->rank[i].rank) {
            free(dumps->rank[i].op);
            free(dumps->rank[i].status);
        } else {
            dumps->rank[kept++] = dumps->rank[i];
        }
    }
    dumps->ranks = kept;
    for (size_t g = 0; g < dumps->groups; g++) {
        if (!dumps->group[g].given && dumps->group[g].members)
            qsort(dumps->group[g].member, dumps->group[g].members, sizeof(uint32_t),
                  flight_by_number);
    }
    *ret = *dumps;
    *dumps = (struct dumps){ 0 };
    return 0;
}

void flight_fini(struct flight *flight)
{
    dumps_fini(&flight->dumps);
    map_fini(&flight->groups);
    map_fini(&flight->whats);
    *flight = (struct flight){ 0 };
}
