/* A body of frames is taken whole or refused with a reason, and speaks of its own run only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/log/spools.h"
#include "control/site/site_private.h"
#include "wire/facts.h"
#include "wire/member.h"

#define SENDER 77

static void add(struct buf *body, uint16_t type, uint16_t version, uint64_t sender, uint64_t number,
                const struct buf *payload)
{
    struct frame frame = { .type = type,
                           .version = version,
                           .sender = sender,
                           .boot = 1,
                           .number = number,
                           .payload = payload ? payload->data : NULL,
                           .payload_bytes = payload ? payload->size : 0 };

    frame_put(body, &frame);
}

static void add_hello(struct buf *body, uint64_t number, uint8_t kind, const char *run)
{
    struct fact_hello hello = { .kind = kind, .node = "n0", .version = "1" };
    struct buf payload = { 0 };

    strcpy(hello.run, run);
    fact_hello_put(&payload, &hello);
    add(body, FRAME_HELLO, FRAME_VERSION, SENDER, number, &payload);
    buf_fini(&payload);
}

static void add_member(struct buf *body, uint8_t state, uint64_t sender)
{
    const struct member member = { .node = "n1",
                                   .host = "n1",
                                   .port = 1,
                                   .life = 7,
                                   .state = state,
                                   .news = true,
                                   .culprit = -1,
                                   .ranks = 1,
                                   .nodes_min = 1,
                                   .nodes_max = 2,
                                   .resume = UINT64_MAX,
                                   .lease_ns = MEMBER_LEASE_MIN_NS };
    struct buf payload = { 0 };

    member_put(&payload, &member);
    add(body, FRAME_MEMBER, FRAME_VERSION, sender, 0, &payload);
    buf_fini(&payload);
}

/* Reads the body as that of run r1 and lets go of it. */
static int read_body(struct buf *body, size_t size, const struct seen *seen, struct ingest *ingest,
                     struct err *err)
{
    int result = ingest_read(seen, "r1", body->data, size, ingest, err);

    ingest_fini(&(struct ingest){ .frame = ingest->frame, .here = ingest->here });
    buf_fini(body);
    return result;
}

static void what_came_before_is_dropped_by_its_number(void **state)
{
    struct buf body = { 0 };
    struct seen seen = { 0 };
    struct ingest ingest = { 0 };
    struct frame before = { .sender = SENDER, .boot = 1, .number = 1 };

    (void)state;
    assert_int_equal(seen_mark(&seen, &before), 0);
    add_hello(&body, 0, SENDER_AGENT, "r1");
    add(&body, FRAME_BEAT, FRAME_VERSION, SENDER, 1, NULL);
    add(&body, FRAME_BEAT, FRAME_VERSION, SENDER, 2, NULL);
    add(&body, FRAME_BEAT, FRAME_VERSION, SENDER, 2, NULL); /* twice in one body */
    add(&body, FRAME_BEAT, FRAME_VERSION, SENDER + 1, 0, NULL);
    assert_int_equal(read_body(&body, body.size, &seen, &ingest, NULL), 0);
    assert_int_equal(ingest.count, 2);
    assert_int_equal(ingest.doubled, 3);
    seen_fini(&seen);
}

static void a_refused_body_says_why(void **state)
{
    static const struct seen none = { 0 };
    struct ingest ingest = { 0 };
    struct buf body = { 0 };
    struct err err;

    (void)state;
    add(&body, FRAME_BEAT, FRAME_VERSION + 1, SENDER, 0, NULL);
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 426);
    assert_non_null(strstr(err.text, "install the same lockstep on both sides"));

    ingest = (struct ingest){ 0 };
    add(&body, FRAME_VERDICT, FRAME_VERSION, control_sender(), 0, NULL);
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 403);
    assert_non_null(strstr(err.text, "only the controller may write this type"));

    ingest = (struct ingest){ 0 };
    add_member(&body, MEMBER_RUNNING, SENDER);
    assert_int_equal(read_body(&body, body.size, &none, &ingest, &err), 0);
    ingest = (struct ingest){ 0 };
    add_member(&body, MEMBER_GONE, SENDER);
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 403);
    ingest = (struct ingest){ 0 };
    add_member(&body, MEMBER_RUNNING, life_sender());
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 403);

    ingest = (struct ingest){ 0 };
    add_hello(&body, 0, SENDER_AGENT, "r2");
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 403);

    ingest = (struct ingest){ 0 };
    add_hello(&body, 0, SENDER_CONTROL, "r1");
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 403);

    ingest = (struct ingest){ 0 };
    add_hello(&body, 0, SENDER_AGENT, "r1");
    assert_true(read_body(&body, body.size - 1, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 400);
    assert_non_null(strstr(err.text, "frame at byte 0"));

    ingest = (struct ingest){ 0 };
    add_hello(&body, 0, SENDER_AGENT, "r1");
    body.data[body.size - 1] ^= 1;
    assert_true(read_body(&body, body.size, &none, &ingest, &err) < 0);
    assert_int_equal(ingest.status, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_before_is_dropped_by_its_number),
        cmocka_unit_test(a_refused_body_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
