/* model.c - keeps the facts about ranks, communicators and shapes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "lockstep/probe.h"

#define MODEL_SHAPES_MAX 65536
#define MODEL_COMMS_MAX (1u << 20)
/* What is kept of former attempts, at least: few jobs ever have more. */
#define MODEL_COMMS_KEPT 16384
#define MODEL_SHAPES_KEPT 4096
#define MODEL_ITEMS_KEPT (1u << 20)
#define COMM_ROOM 64 /* members that a communicator has room for before any has spoken */

static const char *const peer_basis_names[] = {
    [PEER_BASIS_DP] = "same stage and tensor index across data parallel",
    [PEER_BASIS_TP] = "same stage across tensor parallel",
    [PEER_BASIS_CLASS] = "ranks doing the same ops",
    [PEER_BASIS_PAST] = "its own history",
    [PEER_BASIS_NONE] = "nobody",
};

const char *peer_basis_name(enum peer_basis basis)
{
    return basis <= PEER_BASIS_NONE ? peer_basis_names[basis] : "nobody";
}

static void model_class_destroy(struct model_class *class)
{
    if (!class)
        return;
    for (int i = 0; i < MODEL_LINES_MAX; i++) {
        free(class->after[i]);
        free(class->at[i]);
    }
    free(class->line);
    free(class->kind);
    free(class->what);
    free(class->sync);
    free(class->waited);
    free(class->pace);
    free(class->follower);
    free(class->newest);
    free(class->after_span);
    free(class->prompt);
    free(class);
}

static void model_shape_destroy(struct model_shape *shape)
{
    if (!shape)
        return;
    fact_shape_fini(&shape->fact);
    free(shape->comm);
    free(shape->ordinal);
    free(shape->clock);
    free(shape);
}

void model_fini(struct model *model)
{
    for (uint32_t i = 0; i < model->comms; i++) {
        free(model->comm[i].member);
        free(model->comm[i].far);
    }
    for (uint32_t i = 0; i < model->shapes; i++)
        model_shape_destroy(model->shape[i]);
    for (uint32_t i = 0; i < model->classes; i++)
        model_class_destroy(model->class[i]);
    free(model->rank);
    free(model->node);
    free(model->comm);
    free(model->shape);
    free(model->class);
    map_fini(&model->comm_by_id);
    map_fini(&model->shape_by_hash);
    map_fini(&model->class_by_hash);
    map_fini(&model->index_of);
    map_fini(&model->node_by_name);
    *model = (struct model){ 0 };
}

int model_resize(struct model *model, uint32_t world)
{
    struct model_rank *grown;

    if (world <= model->world)
        return 0;
    if (world > MODEL_RANKS_MAX)
        return -E2BIG;
    grown = realloc(model->rank, world * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    memset(grown + model->world, 0, (world - model->world) * sizeof(*grown));
    for (uint32_t i = model->world; i < world; i++)
        grown[i].node = MODEL_NONE;
    model->rank = grown;
    model->world = world;
    model->peers_stale = true;
    return 0;
}

uint32_t model_node(struct model *model, const char *name)
{
    uint64_t key = hash64(7, name, strlen(name));
    const uint64_t *at = map_get(&model->node_by_name, key);

    if (at)
        return (uint32_t)*at;
    if (!ARRAY_FIT(model->node, model->node_room, model->nodes + 1) ||
        !map_put(&model->node_by_name, key, model->nodes))
        return MODEL_NONE;
    model->node[model->nodes] = (struct model_node){ 0 };
    snprintf(model->node[model->nodes].name, FACT_NAME, "%s", name);
    return model->nodes++;
}

int model_ring(struct model *model, const struct fact_ring *fact)
{
    struct model_rank *rank;
    uint32_t node;
    int result;

    if (fact->rank >= MODEL_RANKS_MAX) /* also keeps rank + 1 from being 0 */
        return -E2BIG;
    result = model_resize(model, MAX(fact->world, fact->rank + 1));
    if (result < 0)
        return result;
    node = model_node(model, fact->node);
    if (node == MODEL_NONE)
        return -ENOMEM;
    rank = &model->rank[fact->rank];
    if (rank->attempt != fact->attempt)
        rank->from_ring = 0;
    rank->seen = true;
    rank->node = node;
    rank->attempt = fact->attempt;
    rank->ring = fact->ring;
    rank->pid = fact->pid;
    rank->has_layout = fact->has_layout;
    memcpy(rank->size, fact->layout, sizeof(rank->size));
    memcpy(rank->at, fact->layout + LAYOUT_FIELDS, sizeof(rank->at));
    model->peers_stale = true;
    return 0;
}

static uint32_t model_comm_slot(struct model *model, uint64_t id)
{
    uint64_t *slot = map_get(&model->comm_by_id, id);

    if (slot)
        return (uint32_t)*slot;
    if (model->comms >= MODEL_COMMS_MAX ||
        !ARRAY_FIT(model->comm, model->comm_room, model->comms + 1) ||
        !map_put(&model->comm_by_id, id, model->comms))
        return MODEL_NONE;
    model->comm[model->comms] = (struct model_comm){ .id = id, .attempt = model->attempt };
    return model->comms++;
}

/* Room for as many members as those who have spoken make likely; who was beyond it finds his place. */
static int model_comm_fit(struct model *model, struct model_comm *comm)
{
    uint32_t room = model_room(comm->size, comm->seen, COMM_ROOM), left = 0;
    uint32_t *grown;

    if (room <= comm->known)
        return 0;
    grown = realloc(comm->member, room * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    memset(grown + comm->known, 0xff, (room - comm->known) * sizeof(*grown));
    model->bytes += (room - comm->known) * sizeof(*grown);
    comm->member = grown;
    comm->known = room;
    for (uint32_t i = 0; i < comm->far_count; i++) {
        if (comm->far[i].index < room)
            comm->member[comm->far[i].index] = comm->far[i].rank;
        else
            comm->far[left++] = comm->far[i];
    }
    comm->far_count = left;
    return 0;
}

static int model_comm_join(struct model *model, struct model_comm *comm,
                           const struct fact_comm *fact)
{
    uint32_t room = comm->far_room;
    int result;

    comm->seen++;
    result = model_comm_fit(model, comm);
    if (result < 0)
        return result;
    if (fact->index < comm->known) {
        comm->member[fact->index] = fact->rank;
        return 0;
    }
    if (!ARRAY_FIT(comm->far, comm->far_room, comm->far_count + 1))
        return -ENOMEM;
    model->bytes += (comm->far_room - room) * sizeof(*comm->far);
    comm->far[comm->far_count++] = (struct comm_far){ fact->index, fact->rank };
    return 0;
}

int model_comm(struct model *model, const struct fact_comm *fact)
{
    uint32_t slot;
    uint64_t *index;
    struct model_comm *comm;

    if (fact->size > MODEL_RANKS_MAX)
        return -EPROTO;
    slot = model_comm_slot(model, fact->id);
    if (slot == MODEL_NONE)
        return -ENOMEM;
    comm = &model->comm[slot];
    comm->attempt = MAX(comm->attempt, fact->attempt);
    if (!comm->size) {
        comm->size = fact->size;
        comm->kind = fact->kind;
        snprintf(comm->name, sizeof(comm->name), "%s", fact->name);
    }
    if (fact->index >= comm->size)
        return -EPROTO; /* members disagree about the size */
    index = map_put(&model->index_of, (uint64_t)slot << 32 | fact->rank, MODEL_NONE);
    if (!index)
        return -ENOMEM;
    if (*index != fact->index) {
        model->members_version++;
        *index = fact->index;
        return model_comm_join(model, comm, fact);
    }
    if (fact->index < comm->known)
        comm->member[fact->index] = fact->rank;
    return 0;
}

uint32_t model_index(const struct model *model, uint32_t comm, uint32_t rank)
{
    const uint64_t *index = map_get(&model->index_of, (uint64_t)comm << 32 | rank);

    return index ? (uint32_t)*index : MODEL_NONE;
}

static uint8_t model_line_of(uint16_t *stream, uint32_t *lines, uint16_t wanted)
{
    for (uint32_t i = 1; i < *lines; i++) {
        if (stream[i] == wanted)
            return (uint8_t)i;
    }
    if (*lines == MODEL_LINES_MAX)
        return MODEL_LINES_MAX - 1; /* the rest share the last line */
    stream[*lines] = wanted;
    return (uint8_t)(*lines)++;
}

/* What is kept by line, once it is known which item is on which. */
static bool model_class_lines(struct model_class *class, size_t count)
{
    for (uint32_t line = 0; line < class->lines; line++) {
        class->after[line] = malloc(count * sizeof(uint32_t));
        class->at[line] = malloc(count * sizeof(uint32_t));
        if (!class->after[line] || !class->at[line])
            return false;
        memset(class->after[line], 0xff, count * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t line = class->line[i];

        class->follower[i] = MODEL_NONE;
        if (class->places[line] > 0)
            class->follower[class->at[line][class->places[line] - 1]] = i;
        class->at[line][class->places[line]++] = i;
    }
    return true;
}

/* Beside the host: its own threads, or a device of which nothing else is told. */
static bool model_is_host_stream(uint16_t stream)
{
    return stream == LOCKSTEP_HOST_STREAM || stream >= LOCKSTEP_DEVICE_OPS;
}

/* Where the end of an op is seen at the next launch, that does not mean that the launch waited. */
static void model_class_late(struct model_class *class, const struct fact_shape *fact)
{
    bool any = false, newest = false;

    for (uint32_t i = 0; i < fact->count; i++) {
        bool late = class->kind[i] != ITEM_PHASE && fact->item[i].stream >= LOCKSTEP_HOST_LATE;

        if (late && any)
            class->sync[i] = 0;
        if (late && newest)
            class->newest[i] = 0;
        any |= late;
        newest = late;
    }
}

static struct model_class *model_class_create(const struct fact_shape *fact)
{
    struct model_class *class = calloc(1, sizeof(*class));
    uint16_t stream[MODEL_LINES_MAX] = { 0 };
    size_t count = fact->count + 1;
    bool spans = false;

    if (!class)
        return NULL;
    class->class = fact->class;
    class->count = fact->count;
    class->lines = 1;
    class->line = calloc(count, 1);
    class->follower = calloc(count, sizeof(*class->follower));
    class->kind = calloc(count, 1);
    class->what = calloc(count, 1);
    class->sync = malloc(count);
    class->waited = calloc(count, 1);
    class->after_span = malloc(count);
    class->prompt = calloc(count, 1);
    if (!class->line || !class->follower || !class->kind || !class->what || !class->sync ||
        !class->waited || !class->after_span || !class->prompt) {
        model_class_destroy(class);
        return NULL;
    }
    memset(class->sync, 1, count);
    memset(class->after_span, 1, count);
    for (uint32_t i = 0; i < fact->count; i++) {
        class->kind[i] = fact->item[i].kind;
        class->what[i] = fact->item[i].what;
        if (fact->item[i].kind != ITEM_PHASE)
            class->line[i] = model_line_of(stream, &class->lines, fact->item[i].stream);
        if (fact->item[i].kind == ITEM_SPAN)
            spans = true;
        else if (fact->item[i].kind != ITEM_PHASE && model_is_host_stream(fact->item[i].stream))
            class->host_lines |= 1u << class->line[i];
        class->device_ops |=
            fact->item[i].kind != ITEM_PHASE && stream_has_ops_only(fact->item[i].stream);
    }
    if (spans) {
        class->host_lines = 0;
        class->device_ops = false;
    }
    if (class->host_lines) {
        class->pace = calloc(count, sizeof(*class->pace));
        class->newest = calloc(count, 1);
        for (uint32_t i = 1; class->newest && i < count; i++)
            class->newest[i] = class->kind[i - 1] != ITEM_PHASE;
    }
    if (class->newest)
        model_class_late(class, fact);
    if ((class->host_lines && (!class->pace || !class->newest)) ||
        !model_class_lines(class, count)) {
        model_class_destroy(class);
        return NULL;
    }
    return class;
}

static size_t model_class_bytes(const struct model_class *class)
{
    size_t each = 7 + sizeof(uint32_t) * (1 + 2 * (size_t) class->lines);

    if (class->pace)
        each += sizeof(*class->pace) + 1;
    return sizeof(*class) + (class->count + 1) * each;
}

static struct model_class *model_class_get(struct model *model, const struct fact_shape *fact)
{
    uint64_t *slot = map_get(&model->class_by_hash, fact->class);

    if (!slot) {
        struct model_class *class;

        if (!ARRAY_FIT(model->class, model->class_room, model->classes + 1))
            return NULL;
        class = model_class_create(fact);
        if (class)
            slot = map_put(&model->class_by_hash, fact->class, model->classes);
        if (!slot) {
            model_class_destroy(class);
            return NULL;
        }
        model->class[model->classes++] = class;
        model->bytes += model_class_bytes(class);
    }
    /* Classes are equal by hash; a sender that lies about it is refused, not believed. */
    return model->class[*slot]->count == fact->count ? model->class[*slot] : NULL;
}

/* Communicator slots, ordinals and the hash of the structure. */
static int model_shape_resolve(struct model *model, struct model_shape *shape)
{
    CLEAN(map_fini) struct map seen = { 0 };
    uint64_t structure = shape->fact.class;

    for (uint32_t i = 0; i < shape->fact.count; i++) {
        const struct shape_item *item = &shape->fact.item[i];
        uint64_t key, *count;

        shape->comm[i] = MODEL_NONE;
        if (item->kind != ITEM_COLL && item->kind != ITEM_P2P)
            continue;
        shape->comm[i] = model_comm_slot(model, item->comm);
        if (shape->comm[i] == MODEL_NONE)
            return -ENOMEM;
        key = hash64_u64(item->comm, item->kind);
        if (item->kind == ITEM_P2P)
            key = hash64_u64(key, (uint64_t)item->what << 32 | item->peer);
        count = map_put(&seen, key, 0);
        if (!count)
            return -ENOMEM;
        shape->ordinal[i] = (uint32_t)(*count)++;
        if (item->kind == ITEM_COLL && item->count == 1 && op_synchronises(item->what) &&
            shape->ordinal[i] < CLOCK_INSTANCES)
            shape->clock[shape->clocks++] = i;
        structure = hash64_u64(structure, key ^ i);
    }
    shape->structure = structure;
    return 0;
}

static int model_shape_make(struct model *model, struct fact_shape *fact, struct model_shape **ret)
{
    struct model_shape *shape = calloc(1, sizeof(*shape));
    int result = -ENOMEM;

    if (!shape)
        return result;
    shape->fact = *fact;
    *fact = (struct fact_shape){ 0 };
    shape->comm = malloc((shape->fact.count + 1) * sizeof(*shape->comm));
    shape->ordinal = calloc(shape->fact.count + 1, sizeof(*shape->ordinal));
    shape->clock = malloc((shape->fact.count + 1) * sizeof(*shape->clock));
    shape->class = model_class_get(model, &shape->fact);
    if (shape->comm && shape->ordinal && shape->clock && shape->class)
        result = model_shape_resolve(model, shape);
    if (result < 0)
        model_shape_destroy(shape);
    else
        *ret = shape;
    return result;
}

int model_shape(struct model *model, struct fact_shape *fact)
{
    uint64_t claimed_hash = fact->hash, claimed_class = fact->class;
    struct model_shape *shape = model_shape_get(model, claimed_hash);
    uint64_t *slot;
    int result;

    shape_hash(fact);
    if (fact->hash != claimed_hash || fact->class != claimed_class)
        return -EPROTO;
    if (shape) {
        shape->attempt = model->attempt;
        return 0;
    }
    /* In a large job each rank has shapes of its own: with and without a checkpoint, and the like. */
    if (model->shapes >= MODEL_SHAPES_MAX + 8 * model->world)
        return -ENOSPC;
    if (!ARRAY_FIT(model->shape, model->shape_room, model->shapes + 1))
        return -ENOMEM;
    result = model_shape_make(model, fact, &shape);
    if (result < 0)
        return result;
    slot = map_put(&model->shape_by_hash, claimed_hash, model->shapes);
    if (!slot) {
        model_shape_destroy(shape);
        return -ENOMEM;
    }
    shape->attempt = model->attempt;
    model->items += shape->fact.count;
    model->shape[model->shapes++] = shape;
    model->bytes += sizeof(*shape) +
                    (shape->fact.count + 1) * (sizeof(*shape->fact.item) + 3 * sizeof(uint32_t));
    return 0;
}

/* ---- former attempts ---- */

/* Into a model without communicators, with its members. */
static void model_comm_move(struct model *model, struct model_comm *from)
{
    uint32_t slot = model_comm_slot(model, from->id);

    if (slot == MODEL_NONE)
        return;
    model->comm[slot] = *from;
    model->bytes += from->known * sizeof(*from->member) + from->far_room * sizeof(*from->far);
    for (uint32_t i = 0; i < from->known; i++) {
        if (from->member[i] != MODEL_NONE)
            map_put(&model->index_of, (uint64_t)slot << 32 | from->member[i], i);
    }
    for (uint32_t i = 0; i < from->far_count; i++)
        map_put(&model->index_of, (uint64_t)slot << 32 | from->far[i].rank, from->far[i].index);
    from->member = NULL;
    from->far = NULL;
}

/* What was learnt of a class stays with it. */
static void model_class_move(struct model *model, const struct model *from, uint64_t hash)
{
    const uint64_t *at = map_get(&from->class_by_hash, hash);

    if (!at || !from->class[*at] || map_get(&model->class_by_hash, hash) ||
        !ARRAY_FIT(model->class, model->class_room, model->classes + 1) ||
        !map_put(&model->class_by_hash, hash, model->classes))
        return;
    model->bytes += model_class_bytes(from->class[*at]);
    model->class[model->classes++] = TAKE(from->class[*at]);
}

static void model_shape_move(struct model *model, const struct model *from,
                             struct model_shape *shape)
{
    uint32_t attempt = shape->attempt;
    uint64_t hash = shape->fact.hash;
    bool ended = shape->ended;

    model_class_move(model, from, shape->fact.class);
    if (model_shape(model, &shape->fact) < 0)
        return; /* no memory: its steps are refused, as they would be otherwise */
    shape = model_shape_get(model, hash);
    shape->attempt = attempt;
    shape->ended = ended;
}

bool model_forget(struct model *model)
{
    uint32_t since = model->attempt - MIN(model->attempt, 1u), world = 8 * model->world;
    struct model former = *model;

    if (model->comms <= MODEL_COMMS_KEPT + world && model->shapes <= MODEL_SHAPES_KEPT + world &&
        model->items <= MODEL_ITEMS_KEPT)
        return false;
    model->comm_by_id = model->shape_by_hash = model->class_by_hash = model->index_of =
        (struct map){ 0 };
    model->comm = NULL;
    model->shape = NULL;
    model->class = NULL;
    model->comms = model->shapes = model->classes = 0;
    model->comm_room = model->shape_room = model->class_room = 0;
    model->items = 0;
    model->bytes = 0;
    model->members_version++;
    for (uint32_t i = 0; i < former.comms; i++)
        if (former.comm[i].attempt >= since)
            model_comm_move(model, &former.comm[i]);
    for (uint32_t i = 0; i < former.shapes; i++)
        if (former.shape[i]->attempt >= since)
            model_shape_move(model, &former, former.shape[i]);
    former.rank = NULL; /* these are still the model's */
    former.node = NULL;
    former.node_by_name = (struct map){ 0 };
    model_fini(&former);
    return true;
}

size_t model_bytes(const struct model *model)
{
    const struct map *const map[] = { &model->comm_by_id, &model->shape_by_hash,
                                      &model->class_by_hash, &model->node_by_name,
                                      &model->index_of };
    size_t bytes =
        model->bytes + model->world * sizeof(*model->rank) +
        model->node_room * sizeof(*model->node) + model->comm_room * sizeof(*model->comm) +
        model->shape_room * sizeof(*model->shape) + model->class_room * sizeof(*model->class);

    for (size_t i = 0; i < COUNT(map); i++)
        bytes += map_bytes(map[i]);
    return bytes;
}

struct model_shape *model_shape_get(const struct model *model, uint64_t hash)
{
    const uint64_t *slot = map_get(&model->shape_by_hash, hash);

    return slot ? model->shape[*slot] : NULL;
}

/* The key under which a rank meets its peers on a peer basis; 0: this peer basis does not apply. */
static uint64_t model_peer_key(const struct model *model, const struct job_step *job_step,
                               uint32_t rank, enum peer_basis basis)
{
    const struct model_rank *at = &model->rank[rank];
    uint64_t stage = (uint64_t)at->at[LAYOUT_PP] << 32 | at->at[LAYOUT_CP];

    switch (basis) {
    case PEER_BASIS_DP:
        return at->has_layout && at->size[LAYOUT_DP] > 1
                   ? hash64_u64(hash64_u64(1, stage), at->at[LAYOUT_TP])
                   : 0;
    case PEER_BASIS_TP:
        return at->has_layout && at->size[LAYOUT_TP] > 1 ? hash64_u64(2, stage) : 0;
    case PEER_BASIS_CLASS:
        return !at->has_layout && job_step && job_step->shape_of[rank]
                   ? hash64_u64(3, job_step->shape_of[rank]->fact.class)
                   : 0;
    default:
        return hash64_u64(4, rank);
    }
}

void model_peers(struct model *model, const struct job_step *job_step)
{
    CLEAN(map_fini) struct map group = { 0 };

    model->peer_groups = 0;
    for (uint32_t rank = 0; rank < model->world; rank++) {
        struct model_rank *at = &model->rank[rank];
        uint64_t key = 0, *slot;

        for (at->basis = PEER_BASIS_DP; at->basis < PEER_BASIS_PAST; at->basis++) {
            key = model_peer_key(model, job_step, rank, at->basis);
            if (key)
                break;
        }
        if (!key)
            key = model_peer_key(model, job_step, rank, PEER_BASIS_PAST);
        slot = map_put(&group, key, model->peer_groups);
        at->peers = slot ? (uint32_t)*slot : 0;
        if (slot && *slot == model->peer_groups)
            model->peer_groups++;
    }
    model->peers_stale = false;
}

int job_step_init(struct job_step *job_step, uint32_t world, uint64_t step, uint32_t attempt)
{
    *job_step = (struct job_step){ .step = step, .attempt = attempt };
    job_step->step_of = calloc(world, sizeof(*job_step->step_of));
    job_step->shape_of = calloc(world, sizeof(*job_step->shape_of));
    if (job_step->step_of && job_step->shape_of)
        return 0;
    free(job_step->step_of);
    free(job_step->shape_of);
    return -ENOMEM;
}

void job_step_fini(struct job_step *job_step)
{
    /* job_step_init() was given the world; only ranks that came have something to free. */
    for (uint32_t rank = 0, left = job_step->have; left > 0; rank++) {
        if (job_step->shape_of[rank]) {
            fact_step_fini(&job_step->step_of[rank]);
            left--;
        }
    }
    free(job_step->step_of);
    free(job_step->shape_of);
    *job_step = (struct job_step){ 0 };
}
