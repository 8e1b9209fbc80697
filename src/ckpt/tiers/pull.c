/* pull.c - receives the files of a point from an object store, or from another node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/store/publish.h"
#include "ckpt/store/small_file.h"
#include "ckpt/tiers/push.h"
#include "ckpt/tiers/xml_text.h"
#include "core/clean.h"
#include "core/hash.h"

#define KEY_MAX 1024
#define PAGES_MAX 10000 /* of a list */
#define CANDIDATES_MAX 4096

/* ---- which points are there ---- */

struct pull_list {
    struct peer_point *item;
    size_t count, room;
};

/* "PREFIX/step-N-JOB/". */
static bool pull_name_parse(const char *prefix, const char *name, struct peer_point *ret)
{
    char again[KEY_MAX];
    size_t skip = strlen(prefix) + (prefix[0] != '\0');

    if (strlen(name) < skip ||
        sscanf(name + skip, "step-%" SCNu64 "-%" SCNx64 "/", &ret->step, &ret->job) != 2)
        return false;
    return push_object_prefix(prefix, ret->step, ret->job, again, sizeof(again)) == 0 &&
           strcmp(again, name) == 0;
}

static int pull_point_compare(const void *a, const void *b)
{
    const struct peer_point *left = a, *right = b;

    if (left->step != right->step)
        return left->step < right->step ? 1 : -1;
    return (left->job > right->job) - (left->job < right->job);
}

static int pull_page_take(struct pull_list *list, const char *prefix, struct xml_text text,
                          struct err *err)
{
    struct xml_text group;

    while (xml_element(&text, "CommonPrefixes", &group)) {
        struct peer_point found;
        char name[KEY_MAX];

        if (!xml_value(group, "Prefix", name, sizeof(name)) ||
            !pull_name_parse(prefix, name, &found))
            continue;
        if (list->count == (size_t)2 * CANDIDATES_MAX) { /* the newest stay */
            qsort(list->item, list->count, sizeof(*list->item), pull_point_compare);
            list->count = CANDIDATES_MAX;
        }
        if (!ARRAY_FIT(list->item, list->room, list->count + 1))
            return err_nomem(err);
        list->item[list->count++] = found;
    }
    return 0;
}

static int pull_list_read(struct pull *pull, struct pull_list *list, struct err *err)
{
    char prefix[KEY_MAX], encoded[3 * KEY_MAX], query[12 * KEY_MAX], token[2 * KEY_MAX] = "";
    bool more = true;
    int result = 0;

    snprintf(prefix, sizeof(prefix), "%s%sstep-", pull->prefix, pull->prefix[0] ? "/" : "");
    if (!s3_encode(prefix, false, encoded, sizeof(encoded)))
        return err_set(err, -ENAMETOOLONG, "the prefix is too long");
    for (unsigned page = 0; result == 0 && more && page < PAGES_MAX; page++) {
        struct s3_request request = { .method = "GET", .query = query, .answer_max = 4u << 20 };
        char truncated[16] = "", continued[6 * KEY_MAX] = "";
        struct xml_text text;

        if (token[0] && !s3_encode(token, false, continued, sizeof(continued)))
            return err_set(err, -EREMOTEIO, "the list of the store cannot be continued");
        snprintf(query, sizeof(query), "%s%s%sdelimiter=%%2F&list-type=2&prefix=%s",
                 token[0] ? "continuation-token=" : "", continued, token[0] ? "&" : "", encoded);
        result = s3_expect(pull->s3, &request, err);
        if (result == 0 && request.answer.data) {
            text = (struct xml_text){ (const char *)request.answer.data,
                                      (const char *)request.answer.data + request.answer.size };
            more = xml_value(text, "IsTruncated", truncated, sizeof(truncated)) &&
                   strcmp(truncated, "true") == 0 &&
                   xml_value(text, "NextContinuationToken", token, sizeof(token));
            result = pull_page_take(list, pull->prefix, text, err);
        }
        buf_fini(&request.answer);
    }
    return result;
}

static int pull_has_commit(struct pull *pull, const struct peer_point *point, struct err *err)
{
    char key[KEY_MAX];
    struct s3_request request = { .method = "HEAD", .key = key };
    int result = push_object_prefix(pull->prefix, point->step, point->job, key, sizeof(key));

    if (result == 0) {
        strcat(key, "COMMIT"); /* push_object_prefix() leaves room for a name */
        result = s3_expect(pull->s3, &request, err);
    }
    buf_fini(&request.answer);
    return result;
}

int pull_points(struct pull *pull, uint64_t step, struct peer_point *ret, size_t room,
                size_t *ret_count, struct err *err)
{
    struct pull_list list = { .item = NULL };
    int result = pull_list_read(pull, &list, err);
    size_t count = 0;

    if (result == 0 && list.count)
        qsort(list.item, list.count, sizeof(*list.item), pull_point_compare);
    for (size_t i = 0; result == 0 && count < room && i < list.count; i++) {
        if (step != UINT64_MAX && list.item[i].step != step)
            continue;
        result = pull_has_commit(pull, &list.item[i], err);
        if (result == 0)
            ret[count++] = list.item[i];
        if (result == -ENOENT) /* a push that did not end */
            result = 0;
    }
    free(list.item);
    if (result == 0 && !count)
        return err_set(err, -ENODATA, "the store has no complete point%s",
                       step != UINT64_MAX ? " of this step" : "");
    *ret_count = count;
    return result;
}

/* ---- one point ---- */

struct pull_run {
    struct pull *pull;
    struct publish publish;
    char prefix[KEY_MAX];
    uint64_t bytes;
};

static int pull_bytes_get(struct pull_run *run, struct peer_range range, struct buf *ret,
                          struct err *err)
{
    char key[KEY_MAX + 64];
    struct s3_request request = {
        .method = "GET", .key = key, .at = range.at, .bytes = range.bytes, .answer_max = range.most
    };
    int result;

    range.point = (struct peer_point){ run->publish.step, run->publish.job };
    if (run->pull->peer)
        return peer_get(run->pull->peer, &range, ret, err);
    snprintf(key, sizeof(key), "%s%s", run->prefix, range.name);
    result = s3_expect(run->pull->s3, &request, err);
    *ret = request.answer;
    return result == -ENOENT ? -EPROTO : result;
}

static int pull_object_get(struct pull_run *run, const char *name, size_t most, struct buf *ret,
                           struct err *err)
{
    return pull_bytes_get(run, (struct peer_range){ .name = name, .most = most }, ret, err);
}

static int pull_manifest_get(struct pull_run *run, const struct commit *commit, uint32_t i,
                             struct manifest *ret, struct err *err)
{
    struct buf bytes = { .data = NULL };
    char name[64], temporary[64];
    int result = point_manifest(run->publish.fd, commit, i, ret, NULL);

    if (result == 0) /* it came before */
        return 0;
    point_rank_name(commit->rank[i].rank, "manifest", name, sizeof(name));
    point_rank_name(commit->rank[i].rank, "manifest.tmp", temporary, sizeof(temporary));
    result = pull_object_get(run, name, CKPT_MANIFEST_MAX, &bytes, err);
    if (result == 0)
        result = small_file_replace(run->publish.fd, name, temporary, &bytes, err);
    buf_fini(&bytes);
    return result < 0 ? result : point_manifest(run->publish.fd, commit, i, ret, err);
}

static int pull_part_write(int fd, const struct manifest *manifest, uint64_t at,
                           const struct buf *bytes, struct err *err)
{
    for (size_t done = 0; done < bytes->size; done += CKPT_BLOCK) {
        if (crc32c(0, bytes->data + done, MIN(bytes->size - done, CKPT_BLOCK)) !=
            manifest->crc[(at + done) / CKPT_BLOCK])
            return err_set(err, -EPROTO,
                           "rank-%05" PRIu32
                           ".safetensors as received: wrong checksum of bytes %" PRIu64
                           " to %" PRIu64,
                           manifest->rank, at + done, at + MIN(done + CKPT_BLOCK, bytes->size) - 1);
    }
    for (size_t done = 0; done < bytes->size;) {
        ssize_t put = pwrite(fd, bytes->data + done, bytes->size - done, (off_t)(at + done));

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return err_set(err, put < 0 ? -errno : -ENOSPC, "write: %s",
                           strerror(put < 0 ? errno : ENOSPC));
        done += (size_t)put;
    }
    return 0;
}

static int pull_part_get(struct pull_run *run, int fd, const struct manifest *manifest,
                         const char *name, uint64_t at, struct err *err)
{
    uint64_t wanted = MIN(run->pull->part_bytes, manifest->file_bytes - at);
    struct buf bytes = { .data = NULL };
    struct peer_range range = { .name = name, .at = at, .bytes = wanted, .most = (size_t)wanted };
    int result = pull_bytes_get(run, range, &bytes, err);

    if (result == 0 && bytes.size != wanted)
        result = err_set(err, -EPROTO, "%s: got %zu bytes of %" PRIu64, name, bytes.size, wanted);
    if (result == 0)
        result = pull_part_write(fd, manifest, at, &bytes, err);
    buf_fini(&bytes);
    run->pull->received_bytes += result == 0 ? wanted : 0;
    if (result == 0 && run->pull->progress)
        run->pull->progress(run->pull->ctx, run->pull->received_bytes + run->pull->kept_bytes,
                            run->bytes);
    return result;
}

static int pull_tensors_get(struct pull_run *run, const struct manifest *manifest, struct err *err)
{
    char name[64], temporary[64];
    uint64_t size = 0, at;
    int fd, result = 0;

    point_rank_name(manifest->rank, "safetensors", name, sizeof(name));
    point_rank_name(manifest->rank, "tensors.tmp", temporary, sizeof(temporary));
    if (small_file_size(run->publish.fd, name, &size) == 0 && size == manifest->file_bytes) {
        run->pull->kept_bytes += size; /* compared with its checksums below */
        return 0;
    }
    fd = openat(run->publish.fd, temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                0644);
    if (fd < 0 || small_file_size_fd(fd, &size) < 0) {
        result = err_set(err, -errno, "%s: %m", temporary);
        fd_clean(&fd);
        return result;
    }
    at = MIN(size, manifest->file_bytes) / run->pull->part_bytes * run->pull->part_bytes;
    run->pull->kept_bytes += at;
    for (; result == 0 && at < manifest->file_bytes; at += run->pull->part_bytes)
        result = pull_part_get(run, fd, manifest, name, at, err);
    if (result == 0 && ftruncate(fd, (off_t)manifest->file_bytes) < 0)
        result = err_set(err, -errno, "%s: ftruncate: %m", temporary);
    if (result == 0 && fsync(fd) < 0)
        result = err_set(err, -errno, "%s: fsync: %m", temporary);
    if (close(fd) < 0 && result == 0)
        result = err_set(err, -errno, "%s: close: %m", temporary);
    if (result == 0 && renameat(run->publish.fd, temporary, run->publish.fd, name) < 0)
        result = err_set(err, -errno, "%s: rename: %m", name);
    return result;
}

/* A file that is wrong goes, so that the next pull receives it again. */
static int pull_tensors_verify(struct pull_run *run, const struct commit_rank *rank,
                               const struct manifest *manifest, struct err *err)
{
    struct point_check check = { .threads = 1, .digests = true };
    char name[64];
    int result = point_verify_file(run->publish.fd, manifest, &check, err);

    if (result == 0)
        return point_mark_verified(run->publish.fd, rank->rank, &rank->manifest, 1, err);
    point_rank_name(manifest->rank, "safetensors", name, sizeof(name));
    unlinkat(run->publish.fd, name, 0);
    return result;
}

static int pull_ranks_get(struct pull_run *run, const struct commit *commit, struct err *err)
{
    int result = 0;

    for (uint32_t i = 0; i < commit->group; i++)
        run->bytes += commit->rank[i].file_bytes;
    for (uint32_t i = 0; result == 0 && i < commit->group; i++) {
        struct manifest manifest = { .step = 0 };

        result = pull_manifest_get(run, commit, i, &manifest, err);
        if (result < 0)
            break;
        result = pull_tensors_get(run, &manifest, err);
        if (result == 0)
            result = pull_tensors_verify(run, &commit->rank[i], &manifest, err);
        manifest_fini(&manifest);
    }
    return result;
}

int pull_point(struct pull *pull, int dir_fd, uint64_t step, uint64_t job, struct err *err)
{
    struct pull_run run = {
        .pull = pull, .publish = { .parent_fd = dir_fd, .fd = -1, .step = step, .job = job }
    };
    struct commit commit = { .step = 0 };
    struct buf bytes = { .data = NULL };
    int result = pull->peer
                     ? 0
                     : push_object_prefix(pull->prefix, step, job, run.prefix, sizeof(run.prefix));

    pull->received_bytes = pull->kept_bytes = 0;
    if (result < 0)
        return err_set(err, result, "the prefix is too long");
    result = pull_object_get(&run, "COMMIT", CKPT_COMMIT_MAX, &bytes, err);
    if (result == 0)
        result = commit_parse(bytes.data, bytes.size, &commit, err);
    if (result == 0 && (commit.step != step || commit.job != job))
        result = err_set(err, -EPROTO, "COMMIT is of step %" PRIu64, commit.step);
    if (result == 0)
        result = publish_open(&run.publish, err);
    if (result == 0)
        result = pull_ranks_get(&run, &commit, err);
    if (result == 0)
        result = directory_sync(run.publish.fd, err);
    if (result == 0)
        result = small_file_replace(run.publish.fd, "COMMIT", "COMMIT.pull.tmp", &bytes, err);
    if (result == 0)
        result = MIN(publish_try(&run.publish, err), 0);
    publish_close(&run.publish);
    commit_fini(&commit);
    buf_fini(&bytes);
    return result;
}
