/* complete.c - the form of one file: safetensors, zip (torch.save), DCP.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/complete.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"

#define ZIP_END 22u /* bytes of the last record without a comment */
#define ZIP64_LOCATOR 20u
#define ZIP_TAIL (56u + ZIP64_LOCATOR + ZIP_END) /* with both records of zip64 */
#define ALIGNMENT_SLACK 64

static bool complete_ends_with(const char *path, const char *end)
{
    size_t size = strlen(path), bytes = strlen(end);

    return size >= bytes && strcmp(path + size - bytes, end) == 0;
}

static bool complete_holds_tensors(const char *path)
{
    static const char *const ends[] = { ".safetensors", ".distcp", ".pt",       ".pth",
                                        ".ckpt",        ".bin",    "/.metadata" };

    for (size_t i = 0; i < COUNT(ends); i++) {
        if (complete_ends_with(path, ends[i]))
            return true;
    }
    return strcmp(path, ".metadata") == 0;
}

static int complete_read_at(int fd, void *data, size_t size, uint64_t at, struct err *err)
{
    size_t got = 0;

    while (got < size) {
        ssize_t part = pread(fd, (char *)data + got, size - got, (off_t)(at + got));

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

static uint32_t complete_u32_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Bytes of the directory and of the records behind it.  Writers add two records for archives beyond 4 GiB; that of torch always
 * does.
 */
static int complete_zip_end_get(const unsigned char tail[static ZIP_TAIL], uint64_t *ret_directory,
                                uint64_t *ret_records, struct err *err)
{
    const unsigned char *end = tail + ZIP_TAIL - ZIP_END, *locator = end - ZIP64_LOCATOR;

    if (memcmp(end, "PK\5\6", 4) != 0 || end[20] || end[21])
        return err_set(err, -EPROTO, "truncated: the zip archive has no end record");
    *ret_directory = complete_u32_at(end + 12);
    *ret_records = ZIP_END;
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return 0;
    if (memcmp(tail, "PK\6\6", 4) != 0)
        return err_set(err, -EPROTO, "the end records of the zip archive are damaged");
    *ret_directory = complete_u32_at(tail + 40) | (uint64_t)complete_u32_at(tail + 44) << 32;
    *ret_records = ZIP_TAIL;
    return 0;
}

/* The records at the end, and the directory before them.  A file of DCP is several archives, of which only the last is seen:
 * offsets count from where it begins, so the directory is found from the end.
 */
static int complete_zip_check(int fd, const struct seal_entry *file, struct err *err)
{
    unsigned char tail[ZIP_TAIL] = { 0 }, first[4];
    size_t size = MIN(file->bytes, ZIP_TAIL);
    uint64_t directory = 0, records = 0;
    int result = file->bytes < ZIP_END
                     ? err_set(err, -EPROTO, "truncated: too short for a zip archive")
                     : complete_read_at(fd, tail + ZIP_TAIL - size, size, file->bytes - size, err);

    if (result == 0)
        result = complete_zip_end_get(tail, &directory, &records, err);
    if (result < 0)
        return result;
    if (directory > file->bytes - records)
        return err_set(err, -EPROTO, "truncated: the directory of the zip archive is missing");
    if (!directory)
        return 0;
    if (directory >= sizeof(first))
        result = complete_read_at(fd, first, sizeof(first), file->bytes - records - directory, err);
    if (result == 0 && (directory < sizeof(first) || memcmp(first, "PK\1\2", 4) != 0))
        return err_set(err, -EPROTO, "the directory of the zip archive is damaged");
    return result;
}

static int complete_tensors_check(int fd, const struct seal_entry *file, struct safetensors *ret,
                                  struct err *err)
{
    unsigned char first[8] = { 0 };
    uint64_t size = 0;
    char *text;
    int result = file->bytes < 8 ? err_set(err, -EPROTO, "truncated: shorter than 8 bytes")
                                 : complete_read_at(fd, first, sizeof(first), 0, err);

    if (result == 0)
        result = safetensors_header(first, file->bytes, &size, err);
    if (result < 0)
        return result;
    text = malloc(size + 1);
    if (!text)
        return err_nomem(err);
    result = complete_read_at(fd, text, size, 8, err);
    if (result < 0) {
        free(text);
        return result;
    }
    text[size] = '\0';
    return safetensors_parse(text, size, file->bytes, ret, err);
}

int complete_file(int fd, struct seal_entry *file, struct safetensors *ret, struct err *err)
{
    static const unsigned char zeros[8];
    unsigned char first[8] = { 0 };
    size_t size = MIN(file->bytes, sizeof(first));
    int result = complete_read_at(fd, first, size, 0, err);

    if (result < 0)
        return result;
    if (complete_holds_tensors(file->path) && !size)
        return err_set(err, -EPROTO, "empty");
    if (complete_holds_tensors(file->path) && memcmp(first, zeros, size) == 0)
        return err_set(err, -EPROTO, "begins with zeros");
    if (complete_ends_with(file->path, ".safetensors")) {
        file->format = SEAL_SAFETENSORS;
        return complete_tensors_check(fd, file, ret, err);
    }
    if (memcmp(first, "PK\3\4", 4) == 0) {
        file->format = SEAL_ZIP;
        return complete_zip_check(fd, file, err);
    }
    if (complete_ends_with(file->path, ".index.json"))
        file->format = SEAL_INDEX;
    else if (complete_ends_with(file->path, "/.metadata") || strcmp(file->path, ".metadata") == 0)
        file->format = SEAL_DCP_METADATA;
    else if (complete_ends_with(file->path, ".distcp"))
        file->format = SEAL_DCP;
    return 0;
}

/* Tensors of zeros are normal (biases, moments of an optimizer), so zeros that begin where a tensor begins are, too, and so
 * are rows of zeros.  What a crash leaves begins at a page of the file.
 */
static bool complete_zeros_explained(const struct seal_scan *scan)
{
    uint64_t page = ckpt_round_up(scan->zeros_at, CKPT_PAGE);

    for (size_t i = 0; scan->tensors && i < scan->tensors->tensors; i++) {
        const struct safetensors_tensor *tensor = &scan->tensors->tensor[i];

        if (tensor->begin >= scan->zeros_at && tensor->begin <= page)
            return true;
    }
    return scan->tensors && page - scan->zeros_at > ALIGNMENT_SLACK;
}

int complete_zeros(const struct seal_entry *file, const struct seal_scan *scan, struct err *err)
{
    uint64_t zeros = file->bytes - scan->zeros_at;

    if (file->bytes && !scan->zeros_at)
        return err_set(err, -EPROTO, "only zeros");
    if (zeros < CKPT_PAGE || complete_zeros_explained(scan))
        return 0;
    return err_set(err, -EPROTO, "zeros from byte %" PRIu64 " to the end (%" PRIu64 " bytes)",
                   scan->zeros_at, zeros);
}
