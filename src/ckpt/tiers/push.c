/* push.c - sends the files of a point to an object store.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/push.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/store/small_file.h"
#include "ckpt/tiers/xml_text.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define KEY_MAX 1024
#define PARTS_MAX 10000 /* of one object, by the store's rules */

int push_object_prefix(const char *prefix, uint64_t step, uint64_t job, char *out, size_t room)
{
    int size = snprintf(out, room, "%s%sstep-%" PRIu64 "-%016" PRIx64 "/", prefix,
                        prefix[0] ? "/" : "", step, job);

    return size < 0 || (size_t)size + 64 > KEY_MAX ? -ENAMETOOLONG : 0;
}

/* A point that is being sent. */
struct push_run {
    struct push *push;
    int point_fd;
    uint64_t bytes; /* of all files of tensors */
    char prefix[KEY_MAX];
};

static void push_progress(const struct push_run *run)
{
    if (run->push->progress)
        run->push->progress(run->push->ctx, run->push->sent_bytes + run->push->kept_bytes,
                            run->bytes);
}

/* 1: the object is there with this size; 0: it is not. */
static int push_is_there(struct push *push, const char *key, uint64_t bytes, struct err *err)
{
    struct s3_request request = { .method = "HEAD", .key = key };
    int status = s3_call(push->s3, &request, err);

    buf_fini(&request.answer);
    if (status < 0)
        return status;
    if (status == 200)
        return request.length == bytes;
    return status == 404 ? 0 : err_set(err, -EACCES, "%s: the store answered %d", key, status);
}

static int push_object_put(struct push *push, const char *key, const void *data, size_t size,
                           struct err *err)
{
    struct s3_request request = { .method = "PUT", .key = key, .body = data, .size = size };
    int result = s3_expect(push->s3, &request, err);

    buf_fini(&request.answer);
    return result;
}

/* ---- a file in parts ---- */

struct push_part {
    char etag[160]; /* "": not there yet */
};

struct push_file {
    struct push_run *run;
    const struct manifest *manifest;
    int fd;
    char key[KEY_MAX], upload[1024], encoded[3 * 1024];
    struct push_part *part;
    uint64_t parts;
    unsigned char *buffer; /* of one part */
};

static uint64_t push_part_size(const struct push_file *file, uint64_t number)
{
    uint64_t each = file->run->push->part_bytes;

    return MIN(each, file->manifest->file_bytes - number * each);
}

/* An upload that was interrupted; false: none. */
static int push_upload_find(struct push_file *file, bool *ret, struct err *err)
{
    char query[3 * KEY_MAX + 64] = "prefix=";
    struct s3_request request = { .method = "GET", .query = query };
    struct xml_text text, upload;
    int result;

    if (!s3_encode(file->key, false, query + 7, sizeof(query) - 7 - 16))
        return err_set(err, -ENAMETOOLONG, "%s: the name is too long", file->key);
    strcat(query, "&uploads=");
    *ret = false;
    result = s3_expect(file->run->push->s3, &request, err);
    text = (struct xml_text){ (const char *)request.answer.data,
                              (const char *)request.answer.data + request.answer.size };
    while (result == 0 && request.answer.data && xml_element(&text, "Upload", &upload)) {
        char key[KEY_MAX];

        if (xml_value(upload, "Key", key, sizeof(key)) && strcmp(key, file->key) == 0 &&
            xml_value(upload, "UploadId", file->upload, sizeof(file->upload)))
            *ret = true; /* the last one is the newest */
    }
    buf_fini(&request.answer);
    return result == -ENOENT ? 0 : result;
}

static void push_part_known(struct push_file *file, struct xml_text part)
{
    char number[16], size[32], etag[160];
    uint64_t index;

    if (!xml_value(part, "PartNumber", number, sizeof(number)) ||
        !xml_value(part, "Size", size, sizeof(size)) ||
        !xml_value(part, "ETag", etag, sizeof(etag)) || !etag[0])
        return;
    index = strtoull(number, NULL, 10) - 1;
    if (index >= file->parts || strtoull(size, NULL, 10) != push_part_size(file, index))
        return;
    if (!file->part[index].etag[0])
        file->run->push->kept_bytes += push_part_size(file, index);
    snprintf(file->part[index].etag, sizeof(etag), "%s", etag);
}

static int push_parts_list(struct push_file *file, struct err *err)
{
    char query[sizeof(file->encoded) + 128], marker[32] = "";
    bool more = true;
    int result = 0;

    for (unsigned page = 0; result == 0 && more && page < PARTS_MAX; page++) {
        struct s3_request request = { .method = "GET", .key = file->key, .query = query };
        struct xml_text text, part;
        char truncated[16] = "";

        snprintf(query, sizeof(query), "%s%s%suploadId=%s", marker[0] ? "part-number-marker=" : "",
                 marker, marker[0] ? "&" : "", file->encoded);
        result = s3_expect(file->run->push->s3, &request, err);
        if (result == 0 && request.answer.data) {
            text = (struct xml_text){ (const char *)request.answer.data,
                                      (const char *)request.answer.data + request.answer.size };
            more = xml_value(text, "IsTruncated", truncated, sizeof(truncated)) &&
                   strcmp(truncated, "true") == 0 &&
                   xml_value(text, "NextPartNumberMarker", marker, sizeof(marker)) &&
                   strspn(marker, "0123456789") == strlen(marker);
            while (xml_element(&text, "Part", &part))
                push_part_known(file, part);
        }
        buf_fini(&request.answer);
    }
    return result;
}

static int push_upload_begin(struct push_file *file, struct err *err)
{
    struct s3_request request = { .method = "POST", .key = file->key, .query = "uploads=" };
    bool found = false;
    int result = push_upload_find(file, &found, err);

    if (result == 0 && !found) {
        result = s3_expect(file->run->push->s3, &request, err);
        if (result == 0 && (!request.answer.data ||
                            !xml_value((struct xml_text){ (const char *)request.answer.data,
                                                          (const char *)request.answer.data +
                                                              request.answer.size },
                                       "UploadId", file->upload, sizeof(file->upload))))
            result =
                err_set(err, -EREMOTEIO, "%s: the answer of the store has no upload id", file->key);
        buf_fini(&request.answer);
    }
    if (result < 0)
        return result;
    if (!s3_encode(file->upload, false, file->encoded, sizeof(file->encoded)))
        return err_set(err, -EREMOTEIO, "%s: the number of the upload is too long", file->key);
    return found ? push_parts_list(file, err) : 0;
}

/* Reads a part and compares its blocks with their checksums. */
static int push_part_read(const struct push_file *file, uint64_t at, size_t size, struct err *err)
{
    for (size_t got = 0; got < size;) {
        ssize_t part = pread(file->fd, file->buffer + got, size - got, (off_t)(at + got));

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return err_set(err, part < 0 ? -errno : -EPROTO, "rank-%05" PRIu32 ".safetensors: %s",
                           file->manifest->rank,
                           part < 0 ? strerror(errno) : "shorter than it was saved");
        got += (size_t)part;
    }
    for (size_t done = 0; done < size; done += CKPT_BLOCK) {
        if (crc32c(0, file->buffer + done, MIN(size - done, CKPT_BLOCK)) !=
            file->manifest->crc[(at + done) / CKPT_BLOCK])
            return err_set(err, -EPROTO,
                           "rank-%05" PRIu32 ".safetensors: wrong checksum of bytes %" PRIu64
                           " to %" PRIu64,
                           file->manifest->rank, at + done, at + MIN(done + CKPT_BLOCK, size) - 1);
    }
    posix_fadvise(file->fd, (off_t)at, (off_t)size, POSIX_FADV_DONTNEED);
    return 0;
}

static int push_part_send(struct push_file *file, uint64_t number, struct err *err)
{
    char query[sizeof(file->encoded) + 64];
    struct s3_request request = { .method = "PUT",
                                  .key = file->key,
                                  .query = query,
                                  .body = file->buffer,
                                  .size = (size_t)push_part_size(file, number) };
    int result = push_part_read(file, number * file->run->push->part_bytes, request.size, err);

    if (result < 0)
        return result;
    snprintf(query, sizeof(query), "partNumber=%" PRIu64 "&uploadId=%s", number + 1, file->encoded);
    result = s3_expect(file->run->push->s3, &request, err);
    buf_fini(&request.answer);
    if (result == 0 && (!request.etag[0] || strpbrk(request.etag, "<>&")))
        result = err_set(err, -EREMOTEIO, "%s: the store gave no tag of part %" PRIu64, file->key,
                         number + 1);
    if (result < 0)
        return result;
    snprintf(file->part[number].etag, sizeof(request.etag), "%s", request.etag);
    file->run->push->sent_bytes += request.size;
    push_progress(file->run);
    return 0;
}

/* The store may answer 200 and report a failure in the body. */
static int push_upload_complete(struct push_file *file, struct err *err)
{
    char query[sizeof(file->encoded) + 16], line[256];
    struct buf body = { .data = NULL };
    struct s3_request request = { .method = "POST", .key = file->key, .query = query };
    struct xml_text text, found;
    int result;

    snprintf(query, sizeof(query), "uploadId=%s", file->encoded);
    buf_put(&body, "<CompleteMultipartUpload>", 25);
    for (uint64_t i = 0; i < file->parts; i++) {
        int size = snprintf(line, sizeof(line),
                            "<Part><PartNumber>%" PRIu64 "</PartNumber><ETag>%s</ETag></Part>",
                            i + 1, file->part[i].etag);

        buf_put(&body, line, MIN((size_t)size, sizeof(line) - 1));
    }
    buf_put(&body, "</CompleteMultipartUpload>", 26);
    request.body = body.data;
    request.size = body.size;
    result = body.failed ? err_nomem(err) : s3_expect(file->run->push->s3, &request, err);
    text = (struct xml_text){ (const char *)request.answer.data,
                              (const char *)request.answer.data + request.answer.size };
    if (result == 0 && request.answer.data && xml_element(&text, "Error", &found))
        result =
            err_set(err, -EREMOTEIO, "%s: the store could not put the parts together", file->key);
    buf_fini(&request.answer);
    buf_fini(&body);
    return result;
}

static int push_parts_send(struct push_file *file, struct err *err)
{
    int result = push_upload_begin(file, err);

    for (uint64_t i = 0; result == 0 && i < file->parts; i++) {
        if (!file->part[i].etag[0])
            result = push_part_send(file, i, err);
    }
    return result == 0 ? push_upload_complete(file, err) : result;
}

static int push_tensors_send(struct push_run *run, const struct manifest *manifest,
                             const char *name, struct err *err)
{
    enum blocks_way way = BLOCKS_BUFFERED;
    CLEAN(free_clean) struct push_file *file = calloc(1, sizeof(*file));
    CLEAN(free_clean) struct push_part *part = NULL;
    CLEAN(free_clean) unsigned char *buffer = NULL;
    CLEAN(fd_clean) int fd = -1;
    int result;

    if (!file)
        return err_nomem(err);
    snprintf(file->key, sizeof(file->key), "%s%s", run->prefix, name);
    result = push_is_there(run->push, file->key, manifest->file_bytes, err);
    if (result != 0) {
        run->push->kept_bytes += result == 1 ? manifest->file_bytes : 0;
        return MIN(result, 0);
    }
    fd = point_file_open(run->point_fd, manifest->rank, manifest->file_bytes, &way, err);
    if (fd < 0)
        return fd;
    file->run = run;
    file->manifest = manifest;
    file->fd = fd;
    file->parts = (manifest->file_bytes + run->push->part_bytes - 1) / run->push->part_bytes;
    if (file->parts > PARTS_MAX)
        return err_set(err, -EFBIG, "%s: %" PRIu64 " parts, at most %d: use larger parts", name,
                       file->parts, PARTS_MAX);
    file->part = part = calloc(file->parts, sizeof(*part));
    file->buffer = buffer = malloc(MIN(run->push->part_bytes, manifest->file_bytes));
    if (!part || !buffer)
        return err_nomem(err);
    if (file->parts > 1)
        return push_parts_send(file, err);
    result = push_part_read(file, 0, (size_t)manifest->file_bytes, err);
    if (result == 0)
        result = push_object_put(run->push, file->key, buffer, (size_t)manifest->file_bytes, err);
    run->push->sent_bytes += result == 0 ? manifest->file_bytes : 0;
    push_progress(run);
    return result;
}

/* ---- a point ---- */

static int push_small_send(struct push_run *run, const char *name, size_t most, struct err *err)
{
    struct buf bytes = { .data = NULL };
    char key[KEY_MAX + 64];
    int result = small_file_read(run->point_fd, name, most, &bytes, err);

    snprintf(key, sizeof(key), "%s%s", run->prefix, name);
    if (result == 0)
        result = push_is_there(run->push, key, bytes.size, err);
    if (result == 0)
        result = push_object_put(run->push, key, bytes.data, bytes.size, err);
    buf_fini(&bytes);
    return MIN(result, 0);
}

static int push_rank_send(struct push_run *run, const struct commit *commit, uint32_t i,
                          struct err *err)
{
    struct manifest manifest = { .step = 0 };
    char name[64];
    int result = point_manifest(run->point_fd, commit, i, &manifest, err);

    if (result < 0)
        return result;
    point_rank_name(manifest.rank, "safetensors", name, sizeof(name));
    result = push_tensors_send(run, &manifest, name, err);
    manifest_fini(&manifest);
    point_rank_name(commit->rank[i].rank, "manifest", name, sizeof(name));
    return result < 0 ? result : push_small_send(run, name, CKPT_MANIFEST_MAX, err);
}

static uint64_t push_us(int64_t begin_ns)
{
    return (uint64_t)((time_mono_ns() - begin_ns) / NS_PER_US);
}

int push_point(int dir_fd, const struct point *point, struct push *push, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, err);
    struct push_run run = { .push = push, .point_fd = fd, .bytes = point->bytes };
    struct commit commit = { .step = 0 };
    char key[KEY_MAX + 16];
    uint64_t size = 0;
    int result;

    if (fd < 0)
        return fd;
    push->sent_bytes = push->kept_bytes = 0;
    result = point_commit(fd, point->step, &commit, err);
    if (result == 0 && push_object_prefix(push->prefix, commit.step, commit.job, run.prefix,
                                          sizeof(run.prefix)) < 0)
        result = err_set(err, -ENAMETOOLONG, "the prefix is too long");
    if (result == 0)
        result = small_file_size(fd, "COMMIT", &size);
    snprintf(key, sizeof(key), "%sCOMMIT", run.prefix);
    if (result == 0)
        result = push_is_there(push, key, size, err);
    if (result == 1)
        push->kept_bytes = point->bytes;
    if (result == 1 && !push->dry_run && !point->in_store) /* its sender died before it said so */
        point_mark_copied(fd, POINT_STORE, commit.job, 0, NULL);
    if (result != 0 || push->dry_run) {
        commit_fini(&commit);
        return MIN(result, 0);
    }
    for (uint32_t i = 0; result == 0 && i < commit.group; i++)
        result = push_rank_send(&run, &commit, i, err);
    if (result == 0)
        result = push_small_send(&run, "COMMIT", CKPT_COMMIT_MAX, err);
    if (result == 0)
        point_mark_copied(fd, POINT_STORE, commit.job, push_us(begin_ns),
                          NULL); /* a directory may be read-only */
    commit_fini(&commit);
    return result < 0 ? result : 1;
}
