/* rank_requests.c - writes a request to every rank's ring and looks for the answers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/rank_requests.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/map.h"
#include "lockstep/probe.h"

#define ENTRIES_MAX 16384 /* ranks of one directory */

struct asked {
    struct rank_request rank;
    struct ring_reader *reader; /* NULL: nothing more is expected of it */
};

struct rank_requests {
    struct ring_request request;
    struct asked *asked;
    size_t count, room, waiting;
    struct map by_rank; /* → place in `asked`, while rings are looked for */
};

static void asked_close(struct asked *asked)
{
    ring_reader_close(TAKE(asked->reader));
}

void rank_requests_destroy(struct rank_requests *requests)
{
    if (!requests)
        return;
    for (size_t i = 0; i < requests->count; i++)
        asked_close(&requests->asked[i]);
    free(requests->asked);
    map_fini(&requests->by_rank);
    free(requests);
}

static void requests_clean(struct rank_requests **requests)
{
    rank_requests_destroy(*requests);
}

/* ---- which rings ---- */

static enum rank_request_state requests_state_of(uint32_t answer)
{
    return answer == LOCKSTEP_ANSWER_DONE   ? RANK_REQUEST_DONE
           : answer == LOCKSTEP_ANSWER_PAST ? RANK_REQUEST_PAST
                                            : RANK_REQUEST_REFUSED;
}

static struct asked *asked_find(struct rank_requests *requests, uint32_t rank)
{
    const uint64_t *at = map_get(&requests->by_rank, rank);

    return at ? &requests->asked[*at] : NULL;
}

/* A rank that opened its ring again has the one with the larger number. */
static int asked_add(struct rank_requests *requests, const struct rank_request *rank,
                     struct ring_reader *reader)
{
    struct asked *asked = asked_find(requests, rank->rank);

    if (asked && asked->rank.ring > rank->ring) {
        ring_reader_close(reader);
        return 0;
    }
    if (!asked) {
        if (requests->count == ENTRIES_MAX ||
            !ARRAY_FIT(requests->asked, requests->room, requests->count + 1) ||
            !map_put(&requests->by_rank, rank->rank, requests->count)) {
            ring_reader_close(reader);
            return -ENOMEM;
        }
        asked = &requests->asked[requests->count++];
        *asked = (struct asked){ 0 };
    }
    asked_close(asked);
    *asked = (struct asked){ .rank = *rank, .reader = reader };
    return 0;
}

/* What is not a sound ring of this attempt is no rank's: the agent reports it. */
static int asked_open(struct rank_requests *requests, int dir_fd, const char *name,
                      uint32_t attempt)
{
    struct rank_request rank = { .state = RANK_REQUEST_WAITS };
    struct ring_reader *reader = NULL;
    struct ring_answer answer;
    struct ring_info info;

    if (!ring_name_parse(name, &rank.rank, &rank.ring) ||
        ring_reader_open_at(dir_fd, name, &reader, NULL) < 0)
        return 0;
    if (ring_reader_info(reader, &info, NULL) < 0 || info.attempt != attempt ||
        info.rank != rank.rank) {
        ring_reader_close(reader);
        return 0;
    }
    rank.step = info.step;
    if (info.closed)
        rank.state = RANK_REQUEST_ENDED;
    if (ring_reader_answer(reader, requests->request.kind, &answer) == 1 &&
        answer.id ==
            requests->request.id) { /* an earlier process, killed since, made this request */
        rank.state = requests_state_of(answer.answer);
        rank.step = answer.step;
    }
    return asked_add(requests, &rank, reader);
}

static int asked_compare(const void *a, const void *b)
{
    const struct asked *one = a, *other = b;

    return (one->rank.rank > other->rank.rank) - (one->rank.rank < other->rank.rank);
}

static int requests_rings_find(struct rank_requests *requests, int dir_fd, uint32_t attempt,
                               struct err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int result = -errno;

        fd_clean(&fd);
        return err_set(err, result, "the ring directory cannot be read: %m");
    }
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (asked_open(requests, dir_fd, entry->d_name, attempt) < 0)
            return err_nomem(err);
    if (requests->count)
        qsort(requests->asked, requests->count, sizeof(requests->asked[0]), asked_compare);
    return requests->count
               ? 0
               : err_set(err, -ENOENT, "no rank has opened a ring in attempt %u", attempt);
}

/* ---- asking ---- */

/* One that is in the step before may begin it while we write. */
static bool requests_is_past(const struct rank_requests *requests, const struct rank_request *rank)
{
    return rank->state == RANK_REQUEST_WAITS && rank->step != RING_NO_STEP &&
           rank->step + 1 >= requests->request.step;
}

/* True: some rank is, and the others are not asked. */
static bool requests_some_are_past(struct rank_requests *requests)
{
    bool past = false;

    for (size_t i = 0; i < requests->count; i++)
        past |= requests_is_past(requests, &requests->asked[i].rank);
    for (size_t i = 0; past && i < requests->count; i++) {
        struct rank_request *rank = &requests->asked[i].rank;

        if (rank->state == RANK_REQUEST_WAITS)
            rank->state =
                requests_is_past(requests, rank) ? RANK_REQUEST_PAST : RANK_REQUEST_NOT_ASKED;
    }
    return past;
}

static void requests_write_all(struct rank_requests *requests)
{
    for (size_t i = 0; i < requests->count; i++) {
        struct asked *asked = &requests->asked[i];

        if (asked->rank.state == RANK_REQUEST_WAITS &&
            ring_reader_request(asked->reader, &requests->request) < 0)
            asked->rank.state = RANK_REQUEST_UNABLE;
    }
}

static void requests_count_waiting(struct rank_requests *requests)
{
    requests->waiting = 0;
    for (size_t i = 0; i < requests->count; i++) {
        if (requests->asked[i].rank.state == RANK_REQUEST_WAITS)
            requests->waiting++;
        else
            asked_close(&requests->asked[i]);
    }
}

int rank_requests_begin(int dir_fd, uint32_t attempt, const struct ring_request *request,
                        struct rank_requests **ret, struct err *err)
{
    CLEAN(requests_clean) struct rank_requests *requests = calloc(1, sizeof(*requests));
    int result;

    if (!requests)
        return err_nomem(err);
    requests->request = *request;
    result = requests_rings_find(requests, dir_fd, attempt, err);
    if (result < 0)
        return result;
    if (!requests_some_are_past(requests))
        requests_write_all(requests);
    requests_count_waiting(requests);
    *ret = TAKE(requests);
    return 0;
}

/* ---- answers ---- */

/* An answer may come between the look for it and the look whether the ring is closed, so it is looked for again. */
static void asked_look(const struct rank_requests *requests, struct asked *asked)
{
    bool closed = false;

    for (int i = 0; i < 2; i++) {
        struct ring_answer answer;
        struct ring_info info;

        if (ring_reader_answer(asked->reader, requests->request.kind, &answer) == 1 &&
            answer.id == requests->request.id) {
            asked->rank.state = requests_state_of(answer.answer);
            asked->rank.step = answer.step;
            return;
        }
        if (closed || ring_reader_info(asked->reader, &info, NULL) < 0) {
            asked->rank.state = RANK_REQUEST_ENDED;
            return;
        }
        closed = info.closed;
        if (!closed)
            return;
    }
}

void rank_requests_look(struct rank_requests *requests)
{
    for (size_t i = 0; i < requests->count; i++) {
        if (requests->asked[i].rank.state == RANK_REQUEST_WAITS)
            asked_look(requests, &requests->asked[i]);
    }
    requests_count_waiting(requests);
}

bool rank_requests_are_over(const struct rank_requests *requests)
{
    return requests->waiting == 0;
}

size_t rank_requests_count(const struct rank_requests *requests)
{
    return requests->count;
}

const struct rank_request *rank_requests_get(const struct rank_requests *requests, size_t i)
{
    return &requests->asked[i].rank;
}
