/* seal_scan.c - reads a file block by block, in order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/seal_scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"

static bool scan_all_zero(const unsigned char *data, size_t size)
{
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

static void scan_zeros(struct seal_scan *scan, struct seal_entry *file, uint64_t at, size_t size)
{
    for (size_t page = 0; page < size; page += CKPT_PAGE) {
        size_t bytes = MIN(size - page, CKPT_PAGE);
        const unsigned char *data = scan->buffer + page;

        if (scan_all_zero(data, bytes)) {
            file->zero_pages += bytes == CKPT_PAGE;
            continue;
        }
        while (data[bytes - 1] == 0)
            bytes--;
        scan->zeros_at = at + page + bytes;
    }
}

static void scan_numbers_count(struct seal_scan *scan, const struct safetensors_tensor *tensor,
                               struct seal_entry *file, const unsigned char *data, size_t size)
{
    unsigned each = floats_bytes(tensor->floats);
    uint64_t nan = file->nan;

    if (scan->carried) {
        size_t rest = MIN(each - scan->carried, size);

        memcpy(scan->carry + scan->carried, data, rest);
        scan->carried += (unsigned)rest;
        data += rest;
        size -= rest;
        if (scan->carried < each)
            return;
        floats_count(tensor->floats, scan->carry, each, &file->nan, &file->inf);
        scan->carried = 0;
    }
    floats_count(tensor->floats, data, size - size % each, &file->nan, &file->inf);
    scan->carried = (unsigned)(size % each);
    memcpy(scan->carry, data + size - scan->carried, scan->carried);
    if (file->nan > nan && !scan->nan_tensor)
        scan->nan_tensor = tensor;
}

/* The parts of tensors that lie in this block. */
static void scan_numbers(struct seal_scan *scan, struct seal_entry *file, uint64_t at, size_t size)
{
    const struct safetensors *tensors = scan->tensors;

    while (tensors && scan->next_tensor < tensors->tensors) {
        const struct safetensors_tensor *tensor = &tensors->tensor[scan->next_tensor];
        uint64_t begin = MAX(tensor->begin, at), end = MIN(tensor->end, at + size);

        if (begin < end && tensor->floats != FLOATS_NONE)
            scan_numbers_count(scan, tensor, file, scan->buffer + (begin - at), end - begin);
        if (tensor->end > at + size)
            return;
        scan->carried = 0;
        scan->next_tensor++;
    }
}

static int scan_block_read(int fd, unsigned char *buffer, size_t size, struct err *err)
{
    size_t got = 0;

    while (got < size) {
        ssize_t part = read(fd, buffer + got, size - got);

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return err_set(err, -errno, "%m");
        if (part == 0)
            return err_set(err, -EPROTO, "became shorter while it was read");
        got += (size_t)part;
    }
    return 0;
}

static int blocks_scan(int fd, struct seal_scan *scan, struct seal_entry *file,
                       struct ckpt_hash *hash, struct err *err)
{
    for (uint64_t i = 0; i < ckpt_blocks(file->bytes); i++) {
        uint64_t at = i * CKPT_BLOCK;
        size_t size = MIN(file->bytes - at, CKPT_BLOCK);
        int result = scan_block_read(fd, scan->buffer, size, err);

        if (result < 0)
            return result;
        file->crc[i] = crc32c(0, scan->buffer, size);
        ckpt_hash_add(hash, scan->buffer, size);
        scan_zeros(scan, file, at, size);
        scan_numbers(scan, file, at, size);
        if (scan->each)
            scan->each(scan->ctx, size);
    }
    return 0;
}

int seal_scan_file(int fd, struct seal_scan *scan, struct seal_entry *file, struct err *err)
{
    struct ckpt_hash *hash = ckpt_hash_create();
    uint64_t blocks = ckpt_blocks(file->bytes);
    unsigned char more;
    int result;

    free(file->crc);
    file->crc = blocks ? calloc(blocks, sizeof(*file->crc)) : NULL;
    if (!hash || (blocks && !file->crc)) {
        ckpt_hash_destroy(hash);
        return err_nomem(err);
    }
    ckpt_hash_reset(hash);
    file->nan = file->inf = file->zero_pages = 0;
    result = blocks_scan(fd, scan, file, hash, err);
    if (result == 0 && read(fd, &more, 1) == 1)
        result = err_set(err, -EPROTO, "became longer while it was read");
    if (result == 0)
        file->digest = ckpt_hash_end(hash);
    ckpt_hash_destroy(hash);
    return result;
}
