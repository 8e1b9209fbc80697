/* test-ring-reader.c - a reader that neither crashes, loops nor makes things up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/test/ring_make.h"

#define RECORDS 16u
#define ROOM 4096u

struct file {
    char dir[64], path[96];
    struct ring_make make;
    struct ring_event event[ROOM];
};

static int file_setup(void **state)
{
    struct file *file = calloc(1, sizeof(*file));
    int fd;

    if (!file)
        return -1;
    snprintf(file->dir, sizeof(file->dir), "/tmp/lockstep-ring-XXXXXX");
    if (!mkdtemp(file->dir))
        return -1;
    snprintf(file->path, sizeof(file->path), "%s/rank-3.0.ring", file->dir);
    fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    make_begin(&file->make, fd, 3, RECORDS);
    *state = file;
    return 0;
}

static int file_teardown(void **state)
{
    struct file *file = *state;

    close(file->make.fd);
    unlink(file->path);
    rmdir(file->dir);
    free(file);
    return 0;
}

static struct ring_reader *file_open(const struct file *file)
{
    struct ring_reader *reader = NULL;
    struct err err = { "" };

    if (ring_reader_open(file->path, &reader, &err) < 0)
        fail_msg("%s", err.text);
    return reader;
}

static void a_full_lane_loses_what_was_overwritten_and_counts_it(void **state)
{
    struct file *file = *state;
    uint64_t lost = 0, written = 3 * RECORDS + 5;
    struct ring_reader *reader = file_open(file);
    int got;

    for (uint64_t i = 0; i < written; i++)
        make_tick(&file->make, 0, 100 + i, i);
    got = ring_reader_next(reader, file->event, ROOM, &lost, NULL);
    assert_int_equal(got, RECORDS - 1); /* the oldest may just be being overwritten */
    assert_int_equal(lost, written - (RECORDS - 1));
    for (int i = 0; i < got; i++)
        assert_int_equal(file->event[i].a, lost + (uint64_t)i);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 0);
    make_tick(&file->make, 0, 1000, 77);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
    assert_int_equal(file->event[0].a, 77);
    ring_reader_close(reader);
}

static void a_lane_read_in_time_loses_nothing(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = 0, seen = 0;

    for (uint64_t i = 0; i < 20 * RECORDS; i++) {
        make_tick(&file->make, 1, i, i);
        if (i % 7 == 0) {
            int got = ring_reader_next(reader, file->event, ROOM, &lost, NULL);

            for (int k = 0; k < got; k++)
                assert_int_equal(file->event[k].a, seen++);
        }
    }
    assert_int_equal(lost, 0);
    assert_true(seen > 19 * RECORDS);
    ring_reader_close(reader);
}

static void lanes_are_merged_by_time_and_stay_in_order_within(void **state)
{
    static const uint64_t time[3][4] = { { 10, 40, 40, 90 }, { 5, 41, 60, 61 }, { 40, 40, 1, 95 } };
    struct file *file = *state;
    uint64_t lost = 0, next[3] = { 0 }, last = 0;
    struct ring_reader *reader;

    for (uint32_t lane = 0; lane < 3; lane++)
        for (uint64_t i = 0; i < 4; i++)
            make_tick(&file->make, lane, time[lane][i], lane * 100 + i);
    reader = file_open(file);
    for (int i = 0; i < 12; i++) { /* one at a time: nothing is lost between calls */
        struct ring_event *event = &file->event[i];
        uint64_t lane;

        assert_int_equal(ring_reader_next(reader, event, 1, &lost, NULL), 1);
        lane = event->a / 100;
        assert_int_equal(event->a % 100, next[lane]++);
        if (lane != 2) /* lane 2 has a clock that was told, not read: its order is its own */
            assert_true(event->time_ns >= last);
        last = event->time_ns > last ? event->time_ns : last;
    }
    assert_int_equal(file->event[0].a, 100);
    assert_int_equal(file->event[11].a, 203);
    assert_int_equal(ring_reader_next(reader, file->event, 1, &lost, NULL), 0);
    assert_int_equal(lost, 0);
    ring_reader_close(reader);
}

static void a_record_that_is_being_written_is_left_for_later(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = 0, odd = 3;

    make_tick(&file->make, 0, 1, 1);
    make_write(file->make.fd, &odd, sizeof(odd), make_record_offset(&file->make, 0, 1));
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 0);
    make_tick(&file->make, 0, 2, 2);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
    assert_int_equal(file->event[0].a, 2);
    assert_int_equal(lost, 0);
    ring_reader_close(reader);
}

static void damaged_records_are_counted_and_the_rest_is_read(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = 0, seq = 999, kind = 200;

    for (uint64_t i = 0; i < 6; i++)
        make_tick(&file->make, 0, i, i);
    make_write(file->make.fd, &seq, 8, make_record_offset(&file->make, 0, 2));
    make_write(file->make.fd, &kind, 8, make_record_offset(&file->make, 0, 4) + 24);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 4);
    assert_int_equal(lost, 2);
    assert_int_equal(file->event[2].a, 3);
    assert_int_equal(file->event[3].a, 5);
    ring_reader_close(reader);
}

static void a_hole_is_told_where_it_is_when_asked_for(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = 0, kind = 200;

    ring_reader_mark_lost(reader);
    for (uint64_t i = 0; i < 3 * RECORDS; i++)
        make_tick(&file->make, 1, i, i);
    make_write(file->make.fd, &kind, 8, make_record_offset(&file->make, 1, 3 * RECORDS - 2) + 24);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), RECORDS - 2 + 2);
    assert_int_equal(lost, 2 * RECORDS + 1 + 1);
    assert_int_equal(file->event[0].kind, RING_LOST);
    assert_int_equal(file->event[0].a, 2 * RECORDS + 1);
    assert_int_equal(file->event[0].b, RING_NO_STEP);
    assert_int_equal(file->event[0].lane, 1);
    assert_int_equal(file->event[1].a, 2 * RECORDS + 1);
    assert_int_equal(file->event[RECORDS - 2].kind, RING_LOST);
    assert_int_equal(file->event[RECORDS - 2].a, 1);
    assert_int_equal(file->event[RECORDS - 1].a, 3 * RECORDS - 1);
    ring_reader_close(reader);
}

static void hostile_heads_neither_loop_nor_stop_the_other_lanes(void **state)
{
    static const uint64_t head[] = { UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, RING_HEAD_MAX,
                                     1000000 };
    struct file *file = *state;

    for (size_t i = 0; i < COUNT(head); i++) {
        struct ring_reader *reader;
        uint64_t lost = 0;

        make_begin(&file->make, file->make.fd, 3, RECORDS);
        for (uint64_t k = 0; k < 5; k++)
            make_tick(&file->make, 0, k, k);
        make_tick(&file->make, 1, 9, 900);
        reader = file_open(file);
        assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 6);
        assert_int_equal(lost, 0);
        make_head(&file->make, 0, head[i]);
        make_tick(&file->make, 1, 10, 901);
        assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
        assert_int_equal(file->event[0].a, 901);
        assert_true(lost >= 1);
        make_head(&file->make, 0, 3); /* and back */
        make_tick(&file->make, 1, 11, 902);
        assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
        assert_int_equal(file->event[0].a, 902);
        ring_reader_close(reader);
    }
}

static void lost_records_never_overflow_their_count(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = UINT64_MAX - 1;

    make_head(&file->make, 0, RING_HEAD_MAX);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 0);
    assert_int_equal(lost, UINT64_MAX);
    ring_reader_close(reader);
}

static void a_file_cut_anywhere_gives_an_error_or_what_is_left(void **state)
{
    struct file *file = *state;
    uint64_t bytes = ring_file_bytes(3, RECORDS, 0);
    uint64_t lost = 0;

    for (uint64_t cut = 0; cut < bytes; cut += cut % 4096 == 4095 ? 1 : 4095 - cut % 4096) {
        struct ring_reader *reader = NULL;
        struct ring_comm_info comm;
        struct ring_info info;
        int got;

        make_begin(&file->make, file->make.fd, 3, RECORDS);
        for (uint32_t lane = 0; lane < 3; lane++)
            for (uint64_t i = 0; i < RECORDS; i++)
                make_tick(&file->make, lane, i, i);
        reader = file_open(file);
        assert_int_equal(ftruncate(file->make.fd, (off_t)cut), 0);
        got = ring_reader_next(reader, file->event, ROOM, &lost, NULL);
        assert_int_equal(got, -EPROTO); /* some lane's head or records are gone */
        assert_int_equal(ring_reader_request(reader, &(struct ring_request){ .id = 1, .kind = 1 }),
                         -EPROTO);
        assert_int_equal(lseek(file->make.fd, 0, SEEK_END), cut); /* and it did not grow */
        ring_reader_info(reader, &info, NULL);
        ring_reader_comm(reader, 63, &comm);
        ring_reader_close(reader);
        got = ring_reader_open(file->path, &reader, NULL);
        assert_int_equal(got, cut < 8 ? -EAGAIN : -EPROTO);
    }
}

/* What was copied before the cut comes first, then the error. */
static void events_copied_before_an_error_are_not_lost(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    uint64_t lost = 0;

    for (uint64_t i = 0; i < 8; i++)
        make_tick(&file->make, 0, i, i);
    assert_int_equal(ring_reader_next(reader, file->event, 2, &lost, NULL), 2);
    assert_int_equal(ftruncate(file->make.fd, 100), 0);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 6);
    assert_int_equal(file->event[5].a, 7);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), -EPROTO);
    ring_reader_close(reader);
}

static void a_ring_that_is_still_being_made_says_so(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = NULL;
    uint64_t magic = 0;

    make_write(file->make.fd, &magic, sizeof(magic), 0);
    assert_int_equal(ring_reader_open(file->path, &reader, NULL), -EAGAIN);
    magic = RING_MAGIC;
    make_write(file->make.fd, &magic, sizeof(magic), 0);
    assert_int_equal(ring_reader_open(file->path, &reader, NULL), 0);
    ring_reader_close(reader);
}

static void links_pipes_and_directories_are_refused(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = NULL;
    char other[128];

    snprintf(other, sizeof(other), "%s/other", file->dir);
    assert_int_equal(symlink(file->path, other), 0);
    assert_int_equal(ring_reader_open(other, &reader, NULL), -ELOOP);
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(ring_reader_open(other, &reader, NULL), -EPROTO);
    unlink(other);
    assert_true(ring_reader_open(file->dir, &reader, NULL) < 0);
    assert_int_equal(ring_reader_open(other, &reader, NULL), -ENOENT);
    assert_null(reader);
}

static void another_users_ring_is_read_by_root_only(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = NULL;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    assert_int_equal(fchown(file->make.fd, 65534, 65534), 0);
    assert_int_equal(fchmod(file->make.fd, 0644), 0);
    assert_int_equal(chmod(file->dir, 0755), 0);
    assert_int_equal(ring_reader_open(file->path, &reader, NULL), 0);
    ring_reader_close(reader);
    pid = fork();
    if (pid == 0) {
        if (setresuid(65534, 65534, 65534) < 0)
            _exit(2);
        _exit(ring_reader_open(file->path, &reader, NULL) != 0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    pid = fork();
    if (pid == 0) {
        if (setresuid(65533, 65533, 65533) < 0)
            _exit(2);
        _exit(ring_reader_open(file->path, &reader, NULL) != -EPERM);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void a_request_goes_to_the_place_of_its_kind(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    struct ring_request request = {
        .id = 9, .step = 40, .argument = 1, .kind = RING_REQUEST_DEPTH
    };
    struct ring_request_place place;
    const off_t at = 320 + 64;

    for (uint64_t seq = 2; seq <= 6; seq += 2) { /* even when it is whole, another one each time */
        assert_int_equal(ring_reader_request(reader, &request), 0);
        assert_int_equal(pread(file->make.fd, &place, sizeof(place), at), sizeof(place));
        assert_int_equal(place.seq, seq);
    }
    assert_int_equal(place.id, 9);
    assert_int_equal(place.step, 40);
    assert_int_equal(place.argument, 1);
    assert_int_equal(place.kind, RING_REQUEST_DEPTH);
    assert_int_equal(place.crc, ring_request_crc(&request));
    assert_int_equal(pread(file->make.fd, &place, sizeof(place), 320), sizeof(place));
    assert_int_equal(place.seq, 0); /* that of another kind is as it was */
    ring_reader_close(reader);
}

static void after_a_writer_that_died_half_way_a_request_is_whole_again(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    const struct ring_request request = { .id = 1, .kind = RING_REQUEST_CHECKPOINT };
    uint64_t seq = 5;

    make_write(file->make.fd, &seq, sizeof(seq), 320);
    assert_int_equal(ring_reader_request(reader, &request), 0);
    assert_int_equal(pread(file->make.fd, &seq, sizeof(seq), 320), sizeof(seq));
    assert_int_equal(seq, 8);
    ring_reader_close(reader);
}

static void requests_that_no_rank_could_read_are_refused(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    struct ring_request request = { .id = 1, .kind = 0 };
    struct ring_header header;
    struct ring_answer answer;

    assert_int_equal(ring_reader_request(reader, &request), -EINVAL);
    request.kind = RING_REQUESTS + 1;
    assert_int_equal(ring_reader_request(reader, &request), -EINVAL);
    request = (struct ring_request){ .id = 0, .kind = 1 };
    assert_int_equal(ring_reader_request(reader, &request), -EINVAL);
    assert_int_equal(ring_reader_answer(reader, 0, &answer), -EINVAL);
    assert_int_equal(ring_reader_answer(reader, RING_REQUESTS + 1, &answer), -EINVAL);
    ring_reader_close(reader);

    make_header(&header, 3, RECORDS);
    header.version = 1; /* its probe would not look */
    make_seal(&header);
    header.answer[0].seq = 2;
    make_write(file->make.fd, &header, sizeof(header), 0);
    reader = file_open(file);
    request.id = 1;
    assert_int_equal(ring_reader_request(reader, &request), -ENOTSUP);
    assert_int_equal(ring_reader_answer(reader, 1, &answer), 0);
    ring_reader_close(reader);
}

static void an_answer_counts_only_when_it_is_whole(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    struct ring_answer_place place = { .seq = 3, .id = 9, .step = 41, .answer = 2 };
    struct ring_answer answer = { 0 };

    assert_int_equal(ring_reader_answer(reader, 1, &answer), 0); /* none yet */
    make_write(file->make.fd, &place, sizeof(place), 832);
    assert_int_equal(ring_reader_answer(reader, 1, &answer), 0);
    place.seq = 4;
    make_write(file->make.fd, &place, sizeof(place), 832);
    assert_int_equal(ring_reader_answer(reader, 1, &answer), 1);
    assert_int_equal(answer.id, 9);
    assert_int_equal(answer.step, 41);
    assert_int_equal(answer.answer, 2);
    assert_int_equal(ring_reader_answer(reader, 2, &answer), 0);
    ring_reader_close(reader);
}

static void more_lanes_in_use_than_there_are_is_no_harm(void **state)
{
    struct file *file = *state;
    uint32_t used = UINT32_MAX;
    struct ring_reader *reader;
    struct ring_info info;
    uint64_t lost = 0;

    make_write(file->make.fd, &used, sizeof(used), offsetof(struct ring_header, lanes_used));
    make_write(file->make.fd, &used, sizeof(used), offsetof(struct ring_header, comms_used));
    make_tick(&file->make, 2, 1, 1);
    reader = file_open(file);
    assert_int_equal(ring_reader_next(reader, file->event, ROOM, &lost, NULL), 1);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.lanes_used, UINT32_MAX);
    assert_int_equal(info.comms_used, RING_COMMS);
    ring_reader_close(reader);
}

static void a_layout_that_is_being_written_or_senseless_is_not_told(void **state)
{
    struct file *file = *state;
    uint16_t layout[10] = { 2, 2, 2, 1, 1, 1, 0, 1, 0, 0 };
    struct ring_reader *reader = file_open(file);
    struct ring_info info;
    static const struct {
        uint32_t seq;
        uint16_t tp;
        int has_layout;
    } cases[] = { { 0, 1, 0 }, { 1, 1, 0 }, { 2, 1, 1 }, { 3, 1, 0 }, { 4, 2, 0 }, { 6, 0, 1 } };

    for (size_t i = 0; i < COUNT(cases); i++) {
        layout[5] = cases[i].tp;
        make_write(file->make.fd, layout, sizeof(layout), offsetof(struct ring_header, layout));
        make_write(file->make.fd, &cases[i].seq, 4, offsetof(struct ring_header, layout_seq));
        assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
        assert_int_equal(info.has_layout, cases[i].has_layout);
    }
    assert_memory_equal(info.layout, layout, sizeof(layout));
    ring_reader_close(reader);
}

static void a_senseless_communicator_is_not_told(void **state)
{
    struct file *file = *state;
    struct ring_reader *reader = file_open(file);
    struct ring_comm comm = { .ready = 1, .size = 2, .index = 2, .kind = 99, .id = 5 };
    struct ring_comm_info info;

    memset(comm.name, 'n', sizeof(comm.name));
    comm.name[3] = '\033';
    make_write(file->make.fd, &comm, sizeof(comm), RING_COMMS_OFFSET + 128);
    assert_int_equal(ring_reader_comm(reader, 0, &info), 0);
    assert_int_equal(ring_reader_comm(reader, 1, &info), 0);
    comm.index = 1;
    make_write(file->make.fd, &comm, sizeof(comm), RING_COMMS_OFFSET + 128);
    assert_int_equal(ring_reader_comm(reader, 1, &info), 1);
    assert_int_equal(info.kind, LOCKSTEP_COMM_OTHER);
    assert_string_equal(info.name, "nnn?nnnnnnnnnnnnnnnnnnnnnnnnnnnn");
    assert_int_equal(ring_reader_comm(reader, RING_COMMS, &info), 0);
    assert_int_equal(ring_reader_comm(reader, UINT32_MAX, &info), 0);
    ring_reader_close(reader);
}

#define FILE_TEST(function) cmocka_unit_test_setup_teardown(function, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_full_lane_loses_what_was_overwritten_and_counts_it),
        FILE_TEST(a_lane_read_in_time_loses_nothing),
        FILE_TEST(lanes_are_merged_by_time_and_stay_in_order_within),
        FILE_TEST(a_record_that_is_being_written_is_left_for_later),
        FILE_TEST(damaged_records_are_counted_and_the_rest_is_read),
        FILE_TEST(a_hole_is_told_where_it_is_when_asked_for),
        FILE_TEST(hostile_heads_neither_loop_nor_stop_the_other_lanes),
        FILE_TEST(lost_records_never_overflow_their_count),
        FILE_TEST(a_file_cut_anywhere_gives_an_error_or_what_is_left),
        FILE_TEST(events_copied_before_an_error_are_not_lost),
        FILE_TEST(a_ring_that_is_still_being_made_says_so),
        FILE_TEST(links_pipes_and_directories_are_refused),
        FILE_TEST(another_users_ring_is_read_by_root_only),
        FILE_TEST(a_request_goes_to_the_place_of_its_kind),
        FILE_TEST(after_a_writer_that_died_half_way_a_request_is_whole_again),
        FILE_TEST(requests_that_no_rank_could_read_are_refused),
        FILE_TEST(an_answer_counts_only_when_it_is_whole),
        FILE_TEST(more_lanes_in_use_than_there_are_is_no_harm),
        FILE_TEST(a_layout_that_is_being_written_or_senseless_is_not_told),
        FILE_TEST(a_senseless_communicator_is_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
