/* complete_tree.c - what the files of a checkpoint say of each other: indexes, metadata of DCP, numbered shards.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/seal/complete.h"
#include "ckpt/seal/seal_tree.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "read/jsontext.h"

#define TEXT_MAX ((uint64_t)1 << 30)
#define TREE_BYTES_MAX ((size_t)2 << 30)

static int tree_path_compare(const void *key, const void *entry)
{
    return strcmp(key, ((const struct seal_entry *)entry)->path);
}

static const struct seal_entry *complete_find(const struct seal *seal, const char *path)
{
    return seal->files
               ? bsearch(path, seal->file, seal->files, sizeof(*seal->file), tree_path_compare)
               : NULL;
}

/* The file `name` in the directory of `file`; `size` bytes, no NUL. */
static const struct seal_entry *tree_sibling(const struct seal *seal, const struct seal_entry *file,
                                             const char *name, size_t size)
{
    const char *slash = strrchr(file->path, '/');
    size_t above = slash ? (size_t)(slash + 1 - file->path) : 0;
    char path[SEAL_PATH_MAX + 300];

    if (above + size >= sizeof(path) || memchr(name, '\0', size))
        return NULL;
    memcpy(path, file->path, above);
    memcpy(path + above, name, size);
    path[above + size] = '\0';
    return complete_find(seal, path);
}

/* The whole file, and a NUL. */
static int tree_text_read(int dir_fd, const struct seal_entry *file, char **ret, struct err *err)
{
    CLEAN(fd_clean) int fd = seal_tree_open(dir_fd, file->path, err);
    CLEAN(free_clean) char *text = NULL;
    size_t got = 0;

    if (fd < 0)
        return fd;
    if (file->bytes > TEXT_MAX)
        return err_set(err, -EPROTO, "larger than 1 GiB");
    text = malloc(file->bytes + 1);
    if (!text)
        return err_nomem(err);
    while (got < file->bytes) {
        ssize_t part = read(fd, text + got, file->bytes - got);

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return err_set(err, part < 0 ? -errno : -EPROTO, "cannot be read again");
        got += (size_t)part;
    }
    text[got] = '\0';
    *ret = TAKE(text);
    return 0;
}

/* ---- an index of shards, as Hugging Face's libraries write it ---- */

struct index_check {
    int dir_fd;
    const struct seal *seal;
    const struct seal_entry *file;
    const struct value_tree *tree;
    uint32_t weights;
    struct err *err;
};

/* Names of the tensors of one shard. */
static int index_names_read(const struct index_check *check, const struct seal_entry *shard,
                            struct map *names)
{
    CLEAN(fd_clean) int fd = seal_tree_open(check->dir_fd, shard->path, check->err);
    struct seal_entry again = *shard;
    struct safetensors tensors = { .text = NULL };
    int result = fd < 0 ? fd : complete_file(fd, &again, &tensors, check->err);

    for (size_t i = 0; result == 0 && i < tensors.tensors; i++) {
        const struct safetensors_tensor *tensor = &tensors.tensor[i];

        if (!map_put(names, hash64(0, tensor->name, tensor->name_bytes), 0))
            result = err_nomem(check->err);
    }
    safetensors_fini(&tensors);
    return result;
}

/* All weights that the index places in this shard. */
static int shard_check(const struct index_check *check, const struct value_node *name,
                       const struct seal_entry *shard)
{
    const struct value_tree *tree = check->tree;
    struct map names = { .slot = NULL };
    int result = index_names_read(check, shard, &names);
    uint32_t cell = value_first(tree, check->weights);

    while (result == 0 && cell != VALUE_NIL) {
        const struct value_node *weight = &tree->node[tree->cell[cell].node];
        uint32_t value = tree->cell[cell].next;
        const struct value_node *place = &tree->node[tree->cell[value].node];

        cell = tree->cell[value].next;
        if (place->type == VALUE_TEXT && place->count == name->count &&
            memcmp(place->text, name->text, name->count) == 0 &&
            !map_get(&names, hash64(0, weight->text, weight->count)))
            result = err_set(check->err, -EPROTO, "names tensor %.*s, which is not in %s",
                             (int)MIN(weight->count, 100u), weight->text, shard->path);
    }
    map_fini(&names);
    return result;
}

static int index_check(const struct index_check *check)
{
    const struct value_tree *tree = check->tree;
    struct map seen = { .slot = NULL };
    int result = 0;
    uint32_t cell = value_first(tree, check->weights);

    while (result == 0 && cell != VALUE_NIL) {
        uint32_t value = tree->cell[cell].next;
        const struct value_node *place = &tree->node[tree->cell[value].node];
        const struct seal_entry *shard;

        cell = tree->cell[value].next;
        if (place->type != VALUE_TEXT || memchr(place->text, '/', place->count)) {
            result = err_set(check->err, -EPROTO, "weight_map has a value that is no file name");
            break;
        }
        if (map_get(&seen, hash64(0, place->text, place->count)))
            continue;
        shard = tree_sibling(check->seal, check->file, place->text, place->count);
        if (!shard)
            result = err_set(check->err, -EPROTO, "names %.*s, which is missing",
                             (int)MIN(place->count, 200u), place->text);
        else if (shard->format == SEAL_SAFETENSORS)
            result = shard_check(check, place, shard);
        if (!map_put(&seen, hash64(0, place->text, place->count), 0))
            result = err_nomem(check->err);
    }
    map_fini(&seen);
    return result;
}

static int index_file_check(int dir_fd, const struct seal *seal, const struct seal_entry *file,
                            struct err *err)
{
    CLEAN(free_clean) char *text = NULL;
    struct budget budget = { .limit = TREE_BYTES_MAX };
    struct value_tree tree = { .budget = &budget };
    struct index_check check = { dir_fd, seal, file, &tree, VALUE_NIL, err };
    int result = tree_text_read(dir_fd, file, &text, err);

    if (result == 0)
        result = jsontext_read(text, file->bytes, &tree, err);
    if (result == 0) {
        check.weights = value_get(&tree, tree.root, "weight_map");
        result = value_is(&tree, check.weights, VALUE_DICT)
                     ? index_check(&check)
                     : err_set(err, -EPROTO, "has no weight_map");
    }
    value_fini(&tree);
    return result == -EFBIG ? -EPROTO : result;
}

/* ---- torch.distributed.checkpoint ---- */

/* The begin of "__R_I" before `end`; NULL: this is no such name. */
static const char *tree_dcp_name_begin(const char *text, const char *end)
{
    const char *at = end;

    for (int part = 0; part < 2; part++) {
        const char *digits = at;

        while (at > text && isdigit((unsigned char)at[-1]))
            at--;
        if (at == digits || at == text || at[-1] != '_')
            return NULL;
        at--;
    }
    return at > text && at[-1] == '_' ? at - 1 : NULL;
}

/* A pickle keeps texts as they are, so every file that it names is found without running it. */
static int dcp_metadata_check(int dir_fd, const struct seal *seal, const struct seal_entry *file,
                              struct err *err)
{
    static const char ending[] = ".distcp";
    const size_t bytes = sizeof(ending) - 1;
    CLEAN(free_clean) char *text = NULL;
    int result = tree_text_read(dir_fd, file, &text, err);
    const char *at = text, *begin;

    while (result == 0 &&
           (at = memmem(at, file->bytes - (size_t)(at - text), ending, bytes)) != NULL) {
        begin = tree_dcp_name_begin(text, at);
        at += bytes;
        if (begin && !tree_sibling(seal, file, begin, (size_t)(at - begin)))
            result = err_set(err, -EPROTO, "names %.*s, which is missing",
                             (int)MIN(at - begin, 100), begin);
    }
    return result;
}

static int dcp_file_check(const struct seal *seal, const struct seal_entry *file, struct err *err)
{
    const char *dot = strrchr(file->path, '.');

    if (dot && strcmp(dot, ".distcp") == 0 && !tree_sibling(seal, file, ".metadata", 9))
        return err_set(err, -EPROTO, "there is no .metadata beside it, so the save did not finish");
    return 0;
}

/* ---- NAME-00001-of-00005.safetensors ---- */

static bool tree_digits_get(const char *at, unsigned *ret)
{
    *ret = 0;
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)at[i]))
            return false;
        *ret = *ret * 10 + (unsigned)(at[i] - '0');
    }
    return true;
}

static bool tree_shard_is_there(const struct seal *seal, const struct seal_entry *file,
                                const char *of, unsigned number)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    char other[300];
    int size = snprintf(other, sizeof(other), "%.*s%05u%s", (int)(of - 5 - name), name, number, of);

    return size > 0 && (size_t)size < sizeof(other) &&
           tree_sibling(seal, file, other, (size_t)size);
}

/* Each shard asks for the next one, the last for the first.  Some programs count from 0. */
static int shards_check(const struct seal *seal, const struct seal_entry *file, struct err *err)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    const char *of = strstr(name, "-of-");
    unsigned number, total, next;

    if (!of || of - name < 6 || of[-6] != '-' || !tree_digits_get(of - 5, &number) ||
        !tree_digits_get(of + 4, &total) || isdigit((unsigned char)of[9]) || number > total)
        return 0;
    next = number == total ? 1 : number + 1;
    if ((next == total && tree_shard_is_there(seal, file, of, 0)) ||
        tree_shard_is_there(seal, file, of, next))
        return 0;
    return err_set(err, -EPROTO, "shard %u of %u is missing", next, total);
}

int complete_tree(int dir_fd, const struct seal *seal, struct err *err)
{
    for (size_t i = 0; i < seal->files; i++) {
        const struct seal_entry *file = &seal->file[i];
        int result = dcp_file_check(seal, file, err);

        if (result == 0)
            result = shards_check(seal, file, err);
        if (result == 0 && file->format == SEAL_INDEX)
            result = index_file_check(dir_fd, seal, file, err);
        if (result == 0 && file->format == SEAL_DCP_METADATA)
            result = dcp_metadata_check(dir_fd, seal, file, err);
        if (result < 0)
            return err_wrap(err, result, "%s", file->path);
    }
    return 0;
}
