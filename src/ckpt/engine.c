/* engine.c - opens an engine and keeps the list of what it saves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/disk_name.h"
#include "ckpt/engine_private.h"
#include "ckpt/store/point.h"
#include "ckpt/store/publish.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

const char *lockstep_ckpt_version(void)
{
    return LOCKSTEP_VERSION;
}

const char *lockstep_ckpt_error(const struct lockstep_ckpt *ckpt)
{
    return ckpt ? ckpt->err.text : "no engine is open";
}

int engine_result(struct lockstep_ckpt *ckpt, int result)
{
    if (result >= 0)
        ckpt->err.text[0] = '\0';
    return result;
}

#define COMMIT_S 600
#define HOLD_MOST_S 86400u

/* ---- open and close ---- */

/* Which start of the job this is.  Ranks must agree on it without a message, so it comes from what their launcher gave all of
 * them.
 */
static int engine_job_choose(struct lockstep_ckpt_settings *settings, struct err *err)
{
    static const char *const names[][2] = {
        { "LOCKSTEP_RUN", "LOCKSTEP_RESTART" },
        { "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT" },
        { "SLURM_JOB_ID", "SLURM_RESTART_COUNT" },
    };

    if (settings->job)
        return 0;
    if (settings->world == 1) {
        if (getrandom(&settings->job, sizeof(settings->job), 0) != sizeof(settings->job))
            return err_set(err, -errno, "getrandom: %m");
        settings->job |= 1;
        return 0;
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *run = getenv(names[i][0]), *restart = getenv(names[i][1]),
                   *port = getenv("MASTER_PORT");

        if (!run || !run[0] || strcmp(run, "none") == 0)
            continue;
        settings->job = hash64(i, run, strlen(run));
        if (restart)
            settings->job = hash64(settings->job, restart, strlen(restart));
        if (port) /* torchrun takes another one for each start */
            settings->job = hash64(settings->job, port, strlen(port));
        settings->job |= 1;
        return 0;
    }
    return err_set(err, -EINVAL, "several ranks need the same number `job` for one start");
}

/* A number of seconds; anything else is 0. */
static uint32_t engine_hold_of(const char *text)
{
    uint32_t seconds = 0;

    for (; text && *text; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        seconds = MIN(seconds * 10 + (uint32_t)(*text - '0'), HOLD_MOST_S);
    }
    return seconds;
}

static int engine_settings_take(struct lockstep_ckpt *ckpt,
                                const struct lockstep_ckpt_settings *settings, struct err *err)
{
    struct lockstep_ckpt_settings *own = &ckpt->settings;

    if (!settings || !settings->size || !settings->directory || !settings->directory[0])
        return err_set(err, -EINVAL, "settings without a directory");
    memcpy(own, settings, MIN(settings->size, sizeof(*own)));
    own->world = own->world ? own->world : 1;
    own->group = own->group ? own->group : own->world;
    own->deadline_s = own->deadline_s ? own->deadline_s : 30;
    own->commit_s = own->commit_s ? own->commit_s : COMMIT_S;
    if (own->world > CKPT_RANKS_MAX || own->rank >= own->world || own->group > own->world)
        return err_set(err, -EINVAL,
                       "rank %" PRIu32 " of %" PRIu32 ", group of %" PRIu32 ": not valid",
                       own->rank, own->world, own->group);
    if (own->images > ARENA_IMAGES || own->deadline_s > 86400)
        return err_set(err, -EINVAL, "images or deadline_s out of range");
    if (own->verify_parts > CKPT_PARTS_MAX)
        return err_set(err, -EINVAL, "verify_parts out of range");
    if (!own->arena_hold_s)
        own->arena_hold_s = engine_hold_of(getenv("LOCKSTEP_ARENA_HOLD"));
    own->arena_hold_s = MIN(own->arena_hold_s, HOLD_MOST_S);
    return engine_job_choose(own, err);
}

/* And those above it.  Its name is to survive a power cut as well as what is in it. */
static int engine_directory_make(const char *path, struct err *err)
{
    char part[PATH_MAX];
    size_t size = strlen(path);

    if (size >= sizeof(part))
        return err_set(err, -ENAMETOOLONG, "%.64s...: the path is too long", path);
    for (size_t end = 1; end <= size; end++) {
        CLEAN(fd_clean) int parent = -1;

        if ((path[end] && path[end] != '/') || path[end - 1] == '/')
            continue;
        memcpy(part, path, end);
        part[end] = '\0';
        if (mkdir(part, 0755) < 0) {
            if (errno == EEXIST || errno == EISDIR || access(part, F_OK) == 0)
                continue; /* a read-only file system says that, too */
            return err_set(err, -errno, "%s: %m", part);
        }
        snprintf(part + end, sizeof(part) - end, "%s", "/..");
        parent = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent >= 0)
            fsync(parent);
    }
    return 0;
}

static int engine_directory_open(const char *path, struct err *err)
{
    int fd, result = engine_directory_make(path, err);

    if (result < 0)
        return result;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_set(err, -errno, "%s: %m", path) : fd;
}

int engine_owner_check(const struct lockstep_ckpt *ckpt, struct err *err)
{
    return ckpt->owner == getpid()
               ? 0
               : err_set(err, -EPERM,
                         "the engine belongs to process %d, from which this was forked",
                         (int)ckpt->owner);
}

void engine_failures_forget(const struct lockstep_ckpt *ckpt)
{
    const struct lockstep_ckpt_settings *settings = &ckpt->settings;

    if (settings->group > 1)
        publish_failures_forget(ckpt->dir_fd, settings->job, settings->rank,
                                settings->group < settings->world);
}

static void ckpt_clean(struct lockstep_ckpt **ckpt)
{
    lockstep_ckpt_close(*ckpt);
}

int lockstep_ckpt_open(const struct lockstep_ckpt_settings *settings, struct lockstep_ckpt **ret,
                       char *error, size_t error_size)
{
    CLEAN(ckpt_clean) struct lockstep_ckpt *ckpt = calloc(1, sizeof(*ckpt));
    struct err err = { "out of memory" };
    int result = -ENOMEM;

    if (ckpt) {
        ckpt->dir_fd = ckpt->socket = ckpt->arena.fd = -1;
        ckpt->owner = getpid();
        ckpt->status.written = ckpt->status.verified = UINT64_MAX;
        result = engine_settings_take(ckpt, settings, &err);
    }
    if (result == 0)
        result = ckpt->dir_fd = engine_directory_open(settings->directory, &err);
    if (result >= 0)
        disk_name_of(ckpt->dir_fd, ckpt->spans.disk);
    if (result >= 0)
        result = writer_link_open(ckpt, &err);
    if (result >= 0)
        engine_failures_forget(ckpt);
    if (result < 0) {
        if (error && error_size)
            snprintf(error, error_size, "%s", err.text);
        return result;
    }
    ckpt->settings.directory = NULL;
    *ret = TAKE(ckpt);
    return 0;
}

void lockstep_ckpt_close(struct lockstep_ckpt *ckpt)
{
    if (!ckpt)
        return;
    if (engine_owner_check(ckpt, NULL) == 0) {
        copier_close(&ckpt->copier);
        writer_link_bye(ckpt);
        arena_destroy(&ckpt->arena);
    } else {
        fd_clean(&ckpt->arena.fd); /* it has not got the mapping */
    }
    fd_clean(&ckpt->socket);
    fd_clean(&ckpt->dir_fd);
    for (size_t i = 0; i < ckpt->tensors; i++)
        free(ckpt->tensor[i].part.name);
    for (size_t i = 0; i < ckpt->blobs; i++) {
        free(ckpt->blob[i].name);
        free(ckpt->blob[i].data);
    }
    free(ckpt->tensor);
    free(ckpt->blob);
    free(ckpt->layout.tensor);
    free(ckpt->layout.slice);
    free(ckpt->order);
    buf_fini(&ckpt->header);
    map_fini(&ckpt->names);
    free(ckpt);
}

/* ---- tensors ---- */

struct engine_tensor *engine_find(const struct lockstep_ckpt *ckpt, const char *name)
{
    const uint64_t *index = map_get(&ckpt->names, hash64(0, name, strlen(name)));

    if (!index)
        return NULL;
    if (*index && strcmp(ckpt->tensor[*index - 1].part.name, name) == 0)
        return &ckpt->tensor[*index - 1];
    for (size_t i = 0; i < ckpt->tensors;
         i++) { /* two names with one hash, or one that was dropped */
        if (strcmp(ckpt->tensor[i].part.name, name) == 0)
            return &ckpt->tensor[i];
    }
    return NULL;
}

/* Equal copies on several ranks: each saves its share of the rows. */
void engine_replica_rows(const struct engine_tensor *tensor, uint32_t replica, uint64_t *ret_first,
                         uint64_t *ret_end)
{
    uint64_t rows = tensor->part.shape[0];

    *ret_first = (uint64_t)((__uint128_t)rows * replica / tensor->replicas);
    *ret_end = (uint64_t)((__uint128_t)rows * (replica + 1) / tensor->replicas);
}

static void engine_slice_take(struct engine_tensor *tensor)
{
    uint64_t first, end;

    tensor->saved = tensor->part;
    tensor->from = tensor->data;
    if (tensor->replicas <= 1 || !tensor->part.dims) /* a scalar has no rows: every rank saves it */
        return;
    engine_replica_rows(tensor, tensor->replica, &first, &end);
    tensor->saved.shape[0] = end - first;
    tensor->saved.offset[0] += first;
    if (tensor->data)
        tensor->from = tensor->data + first * ckpt_row_bytes(&tensor->part);
}

static int engine_tensor_read(const struct lockstep_ckpt_tensor *given, struct engine_tensor *ret,
                              struct err *err)
{
    struct lockstep_ckpt_tensor tensor = { .size = 0 };
    uint64_t bytes = 0;
    int result;

    if (!given || given->size < offsetof(struct lockstep_ckpt_tensor, device))
        return err_set(err, -EINVAL, "tensor without a size");
    memcpy(&tensor, given, MIN(given->size, sizeof(tensor)));
    if (!tensor.name || !ckpt_name_ok(tensor.name))
        return err_set(err, -EINVAL, "tensor without a usable name");
    if (tensor.device > LOCKSTEP_CKPT_CUDA)
        return err_set(err, -ENOTSUP, "tensor %s: device %" PRIu32 " is not supported", tensor.name,
                       tensor.device);
    if (tensor.dims > CKPT_DIMS || tensor.dtype > UINT8_MAX ||
        (tensor.replicas > 1 && tensor.replica >= tensor.replicas))
        return err_set(err, -EINVAL, "tensor %s: not valid", tensor.name);
    ret->part =
        (struct ckpt_tensor){ .dtype = (uint8_t)tensor.dtype, .dims = (uint8_t)tensor.dims };
    memcpy(ret->part.shape, tensor.shape, sizeof(tensor.shape[0]) * tensor.dims);
    memcpy(ret->part.global_shape,
           tensor.dims && tensor.global_shape[0] ? tensor.global_shape : tensor.shape,
           sizeof(tensor.shape[0]) * tensor.dims);
    memcpy(ret->part.offset, tensor.offset, sizeof(tensor.shape[0]) * tensor.dims);
    result = ckpt_tensor_bytes(&ret->part, &bytes, err);
    if (result < 0)
        return err_wrap(err, result, "tensor %s", tensor.name);
    if (bytes && !tensor.data)
        return err_set(err, -EINVAL, "tensor %s: no data", tensor.name);
    ret->data = tensor.data;
    ret->device = tensor.device;
    ret->device_index = tensor.device_index;
    ret->later = tensor.later;
    ret->replicas = MAX(tensor.replicas, 1);
    ret->replica = tensor.replica;
    ret->equal = tensor.compare;
    ret->compared = tensor.compare && tensor.replicas > 1;
    engine_slice_take(ret);
    return 0;
}

static bool engine_same_shape(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
    return a->dtype == b->dtype && a->dims == b->dims &&
           memcmp(a->shape, b->shape, sizeof(a->shape)) == 0 &&
           memcmp(a->global_shape, b->global_shape, sizeof(a->global_shape)) == 0 &&
           memcmp(a->offset, b->offset, sizeof(a->offset)) == 0;
}

int lockstep_ckpt_tensor_set(struct lockstep_ckpt *ckpt, const struct lockstep_ckpt_tensor *tensor)
{
    struct engine_tensor read = { .data = NULL }, *old;
    uint64_t *index;
    int result;

    if (!ckpt)
        return -ENODEV;
    result = engine_tensor_read(tensor, &read, &ckpt->err);
    if (result == 0 && read.device == LOCKSTEP_CKPT_CUDA) {
        result = copier_open(&ckpt->copier, read.device_index, &ckpt->err);
        if (result < 0)
            err_wrap(&ckpt->err, result, "tensor %s", tensor->name);
    }
    if (result < 0)
        return result;
    old = engine_find(ckpt, tensor->name);
    if (old) {
        ckpt->laid_out = ckpt->laid_out && engine_same_shape(&old->saved, &read.saved) &&
                         old->compared == read.compared && old->replicas == read.replicas;
        read.part.name = old->part.name;
        *old = read;
        return engine_result(ckpt, 0);
    }
    index = map_put(&ckpt->names, hash64(0, tensor->name, strlen(tensor->name)), 0);
    read.part.name = strdup(tensor->name);
    if (!index || !read.part.name ||
        !ARRAY_FIT(ckpt->tensor, ckpt->tensor_room, ckpt->tensors + 1)) {
        free(read.part.name);
        return err_nomem(&ckpt->err);
    }
    ckpt->tensor[ckpt->tensors++] = read;
    *index = ckpt->tensors;
    ckpt->laid_out = false;
    return engine_result(ckpt, 0);
}

int lockstep_ckpt_stream_set(struct lockstep_ckpt *ckpt, uint32_t device_index, void *stream)
{
    if (!ckpt)
        return -ENODEV;
    if (device_index >= COPIER_DEVICES)
        return err_set(&ckpt->err, -EINVAL, "device %" PRIu32 " is not valid", device_index);
    ckpt->copier.device[device_index].trainer = stream;
    return engine_result(ckpt, 0);
}

int lockstep_ckpt_tensor_drop(struct lockstep_ckpt *ckpt, const char *name)
{
    struct engine_tensor *tensor = ckpt ? engine_find(ckpt, name) : NULL;
    uint64_t *index;

    if (!ckpt)
        return -ENODEV;
    if (!tensor)
        return err_set(&ckpt->err, -ENOENT, "no tensor is named %s", name);
    free(tensor->part.name);
    *tensor = ckpt->tensor[--ckpt->tensors];
    index = map_get(&ckpt->names, hash64(0, name, strlen(name)));
    if (index)
        *index = 0;
    if (tensor != &ckpt->tensor[ckpt->tensors]) {
        index = map_get(&ckpt->names, hash64(0, tensor->part.name, strlen(tensor->part.name)));
        if (index)
            *index = (uint64_t)(tensor - ckpt->tensor) + 1;
    }
    ckpt->laid_out = false;
    return engine_result(ckpt, 0);
}

/* ---- blobs ---- */

static struct ckpt_blob *engine_blob_find(const struct lockstep_ckpt *ckpt, const char *name)
{
    for (size_t i = 0; i < ckpt->blobs; i++) {
        if (strcmp(ckpt->blob[i].name, name) == 0)
            return &ckpt->blob[i];
    }
    return NULL;
}

static uint64_t engine_blob_bytes(const struct lockstep_ckpt *ckpt, const struct ckpt_blob *but)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < ckpt->blobs; i++)
        sum += &ckpt->blob[i] == but ? 0 : ckpt->blob[i].size;
    return sum;
}

int engine_blob_set(struct lockstep_ckpt *ckpt, const char *name, const void *data, size_t size)
{
    struct ckpt_blob *blob = engine_blob_find(ckpt, name);
    CLEAN(free_clean) unsigned char *copy = NULL;

    if (!ckpt_name_ok(name))
        return err_set(&ckpt->err, -EINVAL, "blob without a usable name");
    if (size > CKPT_BLOBS_BYTES_MAX || engine_blob_bytes(ckpt, blob) + size > CKPT_BLOBS_BYTES_MAX)
        return err_set(&ckpt->err, -EINVAL,
                       "blob %.64s has %zu bytes; all blobs together have at most 16 MiB", name,
                       size);
    if (!size) {
        if (blob) {
            free(blob->name);
            free(blob->data);
            *blob = ckpt->blob[--ckpt->blobs];
        }
        return 0;
    }
    copy = malloc(size);
    if (!copy || (!blob && !ARRAY_FIT_ZERO(ckpt->blob, ckpt->blob_room, ckpt->blobs + 1)))
        return err_nomem(&ckpt->err);
    if (!blob) {
        blob = &ckpt->blob[ckpt->blobs];
        *blob = (struct ckpt_blob){ .name = strdup(name) };
        if (!blob->name)
            return err_nomem(&ckpt->err);
        ckpt->blobs++;
    }
    memcpy(copy, data, size);
    free(blob->data);
    blob->data = TAKE(copy);
    blob->size = size;
    return 0;
}

int lockstep_ckpt_blob_set(struct lockstep_ckpt *ckpt, const char *name, const void *data,
                           size_t size)
{
    if (!ckpt)
        return -ENODEV;
    if (!name || (size && !data))
        return err_set(&ckpt->err, -EINVAL, "blob without name or data");
    return engine_result(ckpt, engine_blob_set(ckpt, name, data, size));
}

int64_t lockstep_ckpt_blob_get(const struct lockstep_ckpt *ckpt, const char *name, void *data,
                               size_t room)
{
    const struct ckpt_blob *blob = ckpt && name ? engine_blob_find(ckpt, name) : NULL;

    if (!blob)
        return ckpt ? -ENOENT : -ENODEV;
    if (data && room >= blob->size)
        memcpy(data, blob->data, blob->size);
    return (int64_t)blob->size;
}

/* ---- what there is ---- */

int lockstep_ckpt_status_get(struct lockstep_ckpt *ckpt, struct lockstep_ckpt_status *ret)
{
    size_t size;

    if (!ckpt)
        return -ENODEV;
    if (!ret || ret->size < sizeof(size_t))
        return err_set(&ckpt->err, -EINVAL, "status without a size");
    writer_link_drain(ckpt, 0);
    size = MIN(ret->size, sizeof(*ret));
    ckpt->status.size = size;
    snprintf(ckpt->status.failure, sizeof(ckpt->status.failure), "%s", ckpt->failure);
    memcpy(ret, &ckpt->status, size);
    return engine_result(ckpt, 0);
}

int lockstep_ckpt_spans_get(struct lockstep_ckpt *ckpt, struct lockstep_ckpt_spans *ret)
{
    size_t size;

    if (!ckpt)
        return -ENODEV;
    if (!ret || ret->size < sizeof(size_t))
        return err_set(&ckpt->err, -EINVAL, "spans without a size");
    writer_link_drain(ckpt, 0);
    if (!ckpt->has_spans)
        return err_set(&ckpt->err, -ENODATA, "no save has come so far");
    size = MIN(ret->size, sizeof(*ret));
    ckpt->spans.size = size;
    memcpy(ret, &ckpt->spans, size);
    return engine_result(ckpt, 0);
}

static uint64_t engine_copy_ns(int point_fd, const char *place, uint64_t job)
{
    uint64_t us;

    return point_was_copied(point_fd, place, job, &us) ? MAX(us * (uint64_t)NS_PER_US, 1) : 0;
}

int lockstep_ckpt_copies_get(struct lockstep_ckpt *ckpt, uint64_t step,
                             struct lockstep_ckpt_copies *ret)
{
    struct lockstep_ckpt_copies copies = { .size = 0 };
    CLEAN(fd_clean) int fd = -1;
    char name[64];

    if (!ckpt)
        return -ENODEV;
    if (!ret || ret->size < sizeof(size_t))
        return err_set(&ckpt->err, -EINVAL, "copies without a size");
    snprintf(name, sizeof(name), "step-%" PRIu64, step);
    fd = openat(ckpt->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set(&ckpt->err, -errno, "%s: %m", name);
    copies.replicate_ns = engine_copy_ns(fd, POINT_PEER, ckpt->settings.job);
    copies.upload_ns = engine_copy_ns(fd, POINT_STORE, ckpt->settings.job);
    copies.size = MIN(ret->size, sizeof(copies));
    memcpy(ret, &copies, copies.size);
    return engine_result(ckpt, 0);
}

int64_t lockstep_ckpt_list(struct lockstep_ckpt *ckpt, uint64_t *step, size_t room)
{
    struct points points = { .point = NULL };
    int64_t count = 0;
    int result;

    if (!ckpt)
        return -ENODEV;
    result = points_read(ckpt->dir_fd, POINTS_COMMITS, &points, &ckpt->err);
    for (size_t i = 0; result == 0 && i < points.count; i++) {
        if (points.point[i].state != POINT_COMMITTED ||
            (i && points.point[i - 1].state == POINT_COMMITTED &&
             points.point[i - 1].step == points.point[i].step))
            continue;
        if ((size_t)count < room)
            step[count] = points.point[i].step;
        count++;
    }
    points_fini(&points);
    return result < 0 ? result : count;
}

int64_t lockstep_ckpt_refused(struct lockstep_ckpt *ckpt, char *text, size_t room)
{
    struct points points = { .point = NULL };
    size_t used = 0;
    int64_t count = 0;
    int result;

    if (!ckpt)
        return -ENODEV;
    if (text && room)
        text[0] = '\0';
    result = points_read(ckpt->dir_fd, POINTS_COMMITS, &points, &ckpt->err);
    for (size_t i = 0; result == 0 && i < points.count; i++) {
        const struct point *point = &points.point[i];
        char line[320];
        size_t size;

        count += point->state == POINT_REFUSED;
        if (point->state != POINT_REFUSED && point->state != POINT_INCOMPLETE)
            continue;
        size =
            (size_t)snprintf(line, sizeof(line), "step %" PRIu64 ": %s\n", point->step, point->why);
        if (!text || size >= sizeof(line) || size >= room - used)
            continue;
        memcpy(text + used, line, size + 1);
        used += size;
    }
    points_fini(&points);
    return result < 0 ? result : count;
}
