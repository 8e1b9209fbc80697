/* seal_file.c - writes and reads the file lockstep.seal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/seal_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"

static const char magic[8] = { 'L', 'S', 'C', 'K', 'S', 'E', 'A', 'L' };
#define VERSION 1
#define ENTRY_BYTES_MIN (2 + 1 + 8 + 1 + 8 + 8 + 8 + 16)

void seal_fini(struct seal *seal)
{
    for (size_t i = 0; i < seal->files; i++) {
        free(seal->file[i].path);
        free(seal->file[i].crc);
    }
    free(seal->file);
    *seal = (struct seal){ .step = SEAL_NO_STEP };
}

uint64_t seal_bytes(const struct seal *seal)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < seal->files; i++)
        bytes += seal->file[i].bytes;
    return bytes;
}

int seal_add(struct seal *seal, const char *path, uint64_t bytes, struct err *err)
{
    char *copy = strdup(path);

    if (!copy || !ARRAY_FIT_ZERO(seal->file, seal->room, seal->files + 1)) {
        free(copy);
        return err_nomem(err);
    }
    seal->file[seal->files++] = (struct seal_entry){ .path = copy, .bytes = bytes };
    return 0;
}

bool seal_path_ok(const char *path)
{
    size_t size = strlen(path), depth = 0, length;

    if (!size || size > SEAL_PATH_MAX)
        return false;
    for (const char *at = path; at < path + size;) {
        size_t bytes = text_char(at, (size_t)(path + size - at));

        if (!bytes)
            return false;
        at += bytes;
    }
    for (const char *at = path;; at += length + 1) {
        length = strcspn(at, "/");
        if (!length || (length <= 2 && strspn(at, ".") >= length) || ++depth > SEAL_DEPTH_MAX)
            return false;
        if (!at[length])
            return true;
    }
}

void seal_encode(const struct seal *seal, struct buf *out)
{
    size_t begin = out->size;

    buf_put(out, magic, sizeof(magic));
    buf_put_u32(out, VERSION);
    buf_put_u32(out, 0);
    buf_put_u64(out, seal->step);
    buf_put_u64(out, (uint64_t)seal->sealed_ns);
    buf_put_u32(out, CKPT_BLOCK);
    buf_put_u64(out, seal->files);
    for (size_t i = 0; i < seal->files; i++) {
        const struct seal_entry *file = &seal->file[i];

        buf_put_str(out, file->path);
        buf_put_u64(out, file->bytes);
        buf_put_u8(out, file->format);
        buf_put_u64(out, file->nan);
        buf_put_u64(out, file->inf);
        buf_put_u64(out, file->zero_pages);
        buf_put(out, file->digest.byte, sizeof(file->digest.byte));
        for (uint64_t block = 0; block < ckpt_blocks(file->bytes); block++)
            buf_put_u32(out, file->crc[block]);
    }
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + begin, out->size - begin));
}

/* ---- reading ---- */

static int seal_blocks_get(struct reader *in, struct seal_entry *file, struct err *err)
{
    uint64_t blocks = ckpt_blocks(file->bytes);

    if (blocks > reader_left(in) / sizeof(uint32_t))
        return err_set(err, -EPROTO, "too short for the checksums of its blocks");
    if (!blocks)
        return 0;
    file->crc = calloc(blocks, sizeof(*file->crc));
    if (!file->crc)
        return err_nomem(err);
    for (uint64_t i = 0; i < blocks; i++)
        file->crc[i] = reader_get_u32(in);
    return 0;
}

static int seal_entry_get(struct reader *in, struct seal *ret, struct err *err)
{
    char path[SEAL_PATH_MAX + 1];
    size_t size = reader_get_u16(in);
    const char *text = size <= SEAL_PATH_MAX ? reader_get(in, size) : NULL;
    uint64_t bytes = reader_get_u64(in);
    struct seal_entry *file;
    const void *digest;
    int result;

    if (!text || in->bad || memchr(text, '\0', size) || bytes > UINT64_C(1) << 62)
        return err_set(err, -EPROTO, "not valid");
    memcpy(path, text, size);
    path[size] = '\0';
    if (!seal_path_ok(path) || (ret->files && strcmp(ret->file[ret->files - 1].path, path) >= 0))
        return err_set(err, -EPROTO, "its name is not valid, or not in order");
    result = seal_add(ret, path, bytes, err);
    if (result < 0)
        return result;
    file = &ret->file[ret->files - 1];
    file->format = reader_get_u8(in);
    file->nan = reader_get_u64(in);
    file->inf = reader_get_u64(in);
    file->zero_pages = reader_get_u64(in);
    digest = reader_get(in, sizeof(file->digest.byte));
    if (!digest || file->format >= SEAL_FORMATS)
        return err_set(err, -EPROTO, "not valid");
    memcpy(file->digest.byte, digest, sizeof(file->digest.byte));
    return seal_blocks_get(in, file, err);
}

static int seal_entries_get(struct reader *in, uint64_t files, struct seal *ret, struct err *err)
{
    if (!files || files > SEAL_FILES_MAX || files > reader_left(in) / ENTRY_BYTES_MIN)
        return err_set(err, -EPROTO, "number of files in " SEAL_NAME " is not valid");
    for (uint64_t i = 0; i < files; i++) {
        int result = seal_entry_get(in, ret, err);

        if (result < 0)
            return err_wrap(err, result, "file %zu of " SEAL_NAME, (size_t)i);
    }
    return reader_left(in) ? err_set(err, -EPROTO, SEAL_NAME " is too long") : 0;
}

int seal_parse(const void *data, size_t size, struct seal *ret, struct err *err)
{
    size_t body = size < 4 ? 0 : size - 4;
    struct reader in = reader_of(data, body),
                  last = reader_of((const char *)data + body, size - body);
    struct seal made = { .step = 0 };
    const void *start = reader_get(&in, sizeof(magic));
    uint32_t version = reader_get_u32(&in), flags = reader_get_u32(&in), block;
    uint64_t files;
    int result;

    if (in.bad || memcmp(start, magic, sizeof(magic)) != 0)
        return err_set(err, -EPROTO, "%s is not a seal", SEAL_NAME);
    if (version != VERSION)
        return err_set(err, -EPROTO, "%s of version %u, this program reads %d", SEAL_NAME, version,
                       VERSION);
    if (reader_get_u32(&last) != crc32c(0, data, body) || flags)
        return err_set(err, -EPROTO, "checksum of %s is wrong", SEAL_NAME);
    made.step = reader_get_u64(&in);
    made.sealed_ns = (int64_t)reader_get_u64(&in);
    block = reader_get_u32(&in);
    files = reader_get_u64(&in);
    if (in.bad || block != CKPT_BLOCK)
        return err_set(err, -EPROTO, "%s has blocks of %u bytes", SEAL_NAME, block);
    result = seal_entries_get(&in, files, &made, err);
    if (result < 0)
        seal_fini(&made);
    else
        *ret = made;
    return result;
}
