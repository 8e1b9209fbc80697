/* spools.c - finds, tails and merges the spools of a run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/spools.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/hash.h"
#include "wire/facts.h"
#include "wire/member.h"
#include "wire/spool.h"

#define SPOOL_SUFFIX ".lsf"

struct source {
    char name[256];
    struct spool_reader *reader;
    struct frame head;
    int64_t real_ns;         /* of the latest frame that said when; never goes back */
    int64_t clock_offset_ns; /* real minus monotonic, by its last hello */
    uint64_t damaged_bytes;
    bool has_head;
    bool dry;        /* at its end until the next scan */
    bool complained; /* of what cannot be read */
    bool damage_logged;
};

struct spools {
    struct path directory;
    struct source **source; /* by name, so that equal times come in the same order every time */
    size_t count, room;
    struct source *first;   /* the one that was peeked at */
    struct seen own, *seen; /* seen: own, or shared with other writers of the log */
    uint64_t self;
    int64_t clock_offset_ns;
    uint64_t frames, doubled, foreign;
};

uint64_t control_sender(void)
{
    return hash64(0, CONTROL_SENDER, strlen(CONTROL_SENDER));
}

uint64_t site_sender(void)
{
    return hash64(0, SITE_SENDER, strlen(SITE_SENDER));
}

uint64_t life_sender(void)
{
    return hash64(0, LIFE_SENDER, strlen(LIFE_SENDER));
}

bool frame_is_controllers(const struct frame *frame)
{
    struct member member;

    if (frame->sender == control_sender() || frame->sender == site_sender() ||
        frame->sender == life_sender())
        return true;
    return frame->type == FRAME_MEMBER &&
           member_get(reader_of(frame->payload, frame->payload_bytes), &member) == 0 &&
           member.state == MEMBER_GONE;
}

int spools_create(const char *directory, struct seen *seen, struct spools **ret)
{
    struct spools *spools;

    if (strlen(directory) >= sizeof(spools->directory.text))
        return -ENAMETOOLONG;
    spools = calloc(1, sizeof(*spools));
    if (!spools)
        return -ENOMEM;
    strcpy(spools->directory.text, directory);
    spools->seen = seen ? seen : &spools->own;
    spools->self = control_sender();
    *ret = spools;
    return 0;
}

void spools_destroy(struct spools *spools)
{
    if (!spools)
        return;
    for (size_t i = 0; i < spools->count; i++) {
        spool_reader_close(spools->source[i]->reader);
        free(spools->source[i]);
    }
    free(spools->source);
    seen_fini(&spools->own);
    free(spools);
}

int spools_mark(struct spools *spools, const struct frame *frame)
{
    return seen_mark(spools->seen, frame);
}

static bool is_spool(const char *name)
{
    size_t size = strlen(name), suffix = strlen(SPOOL_SUFFIX);

    return name[0] != '.' && size > suffix && strcmp(name + size - suffix, SPOOL_SUFFIX) == 0;
}

/* Its place among the names, in *at; true when it is there already. */
static bool source_find(const struct spools *spools, const char *name, size_t *at)
{
    size_t low = 0, high = spools->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(spools->source[middle]->name, name);

        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return false;
}

static int source_add(struct spools *spools, const char *name)
{
    struct source *source;
    size_t at;

    if (source_find(spools, name, &at))
        return 0;
    if (!ARRAY_FIT(spools->source, spools->room, spools->count + 1))
        return -ENOMEM;
    source = calloc(1, sizeof(*source));
    if (!source)
        return -ENOMEM;
    strcpy(source->name, name); /* d_name is no longer than 255 bytes */
    memmove(spools->source + at + 1, spools->source + at,
            (spools->count - at) * sizeof(struct source *));
    spools->source[at] = source;
    spools->count++;
    return 0;
}

int spools_scan(struct spools *spools, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = opendir(spools->directory.text);

    for (size_t i = 0; i < spools->count; i++)
        spools->source[i]->dry = false;
    if (!dir && errno == ENOENT)
        return 0;
    if (!dir)
        return err_set(err, -errno, "%s: %m", spools->directory.text);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (is_spool(entry->d_name) && source_add(spools, entry->d_name) < 0)
            return err_set(err, -ENOMEM, "%s: out of memory for another spool",
                           spools->directory.text);
    }
    return 0;
}

static void source_complain(struct source *source, const struct err *err)
{
    if (!source->complained)
        log_error("%s; trying again", err->text);
    source->complained = true;
    source->dry = true;
}

static void source_open(struct spools *spools, struct source *source)
{
    struct path path;
    struct err err = { "" };
    int result = path_join(&path, spools->directory.text, source->name, &err);

    if (result == 0)
        result = spool_reader_open(path.text, &source->reader, &err);
    if (result < 0)
        source_complain(source, &err);
}

static void source_log_damage(const struct spools *spools, struct source *source)
{
    source->damaged_bytes = spool_reader_damaged(source->reader);
    if (source->damaged_bytes == 0 || source->damage_logged)
        return;
    source->damage_logged = true;
    log_error("%s/%s: skipped damaged bytes before offset %llu; valid frames follow",
              spools->directory.text, source->name,
              (unsigned long long)spool_reader_offset(source->reader));
}

static void source_learn_time(struct spools *spools, struct source *source)
{
    struct reader in = reader_of(source->head.payload, source->head.payload_bytes);
    int64_t mono_ns = fact_when(source->head.type, in), real_ns;
    struct fact_hello hello;

    if (source->head.type == FRAME_HELLO && fact_hello_get(in, &hello) == 0) {
        __builtin_sub_overflow(hello.real_ns, hello.mono_ns, &source->clock_offset_ns);
        if (!spools->clock_offset_ns)
            spools->clock_offset_ns = source->clock_offset_ns;
    }
    if (mono_ns && !__builtin_add_overflow(mono_ns, source->clock_offset_ns, &real_ns) &&
        real_ns > source->real_ns)
        source->real_ns = real_ns;
}

/* The next frame of a source that has not been seen becomes its head; else it is dry. */
static void source_advance(struct spools *spools, struct source *source)
{
    struct err err = { "" };
    int result;

    if (!source->reader)
        source_open(spools, source);
    if (!source->reader)
        return;
    while ((result = spool_next(source->reader, &source->head, &err)) == 1) {
        if (source->head.sender == spools->self || frame_is_controllers(&source->head)) {
            spools->foreign++;
            continue;
        }
        source_learn_time(spools, source);
        if (!seen_has(spools->seen, &source->head)) {
            source->has_head = true;
            break;
        }
        spools->doubled++;
    }
    source_log_damage(spools, source);
    if (result < 0)
        source_complain(source, &err);
    source->dry = result <= 0;
}

int spools_peek(struct spools *spools, struct frame *ret, int64_t *real_ns)
{
    struct source *first = NULL;

    for (size_t i = 0; i < spools->count; i++) {
        struct source *source = spools->source[i];

        if (!source->has_head && !source->dry)
            source_advance(spools, source);
        if (source->has_head && (!first || source->real_ns < first->real_ns))
            first = source;
    }
    spools->first = first;
    if (!first)
        return 0;
    *ret = first->head;
    if (real_ns)
        *real_ns = first->real_ns;
    return 1;
}

int spools_take(struct spools *spools)
{
    int result = spools_mark(spools, &spools->first->head);

    if (result < 0)
        return result;
    spools->first->has_head = false;
    spools->frames++;
    return 0;
}

void spools_counts(const struct spools *spools, struct spools_counts *ret)
{
    *ret = (struct spools_counts){
        .files = spools->count,
        .frames = spools->frames,
        .doubled = spools->doubled,
        .foreign = spools->foreign,
    };
    for (size_t i = 0; i < spools->count; i++)
        ret->damaged_bytes += spools->source[i]->damaged_bytes;
}

int64_t spools_clock_offset(const struct spools *spools)
{
    return spools->clock_offset_ns;
}
