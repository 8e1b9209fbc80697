/* test-sender.c - what goes to the controller when there is no memory for it.
 *
 * The client is played by this program, and realloc() and reallocarray() fail when a test asks for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/send/sender.h"
#include "base/log.h"
#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define FRAMES 60
#define FRAME_BYTES 10000
#define READER_FIRST 65536 /* what the first read of a spool needs */
#define BATCH_HALF 300000  /* what about half of these frames need; no other piece is so large */

struct client {
    client_fn *fn; /* of the call under way; NULL: none */
    void *arg;
    struct buf body;
};

static unsigned errors_logged, infos_logged;
static size_t refused_bytes; /* no piece of that size or more is given; 0: all are */

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    return refused_bytes && size >= refused_bytes ? NULL : __real_realloc(memory, size);
}

void *__real_reallocarray(void *memory, size_t count, size_t each);
void *__wrap_reallocarray(void *memory, size_t count, size_t each);
void *__wrap_reallocarray(void *memory, size_t count, size_t each)
{
    return refused_bytes && count * each >= refused_bytes
               ? NULL
               : __real_reallocarray(memory, count, each);
}

int client_call(struct client *client, const char *path, const struct token *token,
                struct buf *body, client_fn *fn, void *arg)
{
    (void)path;
    (void)token;
    assert_null(client->fn);
    buf_fini(&client->body);
    client->body = *body;
    *body = (struct buf){ 0 };
    client->fn = fn;
    client->arg = arg;
    return 0;
}

uint64_t client_wire_bytes(const struct client *client)
{
    (void)client;
    return 0;
}

void log_error(const char *format, ...)
{
    (void)format;
    errors_logged++;
}

void log_info(const char *format, ...)
{
    (void)format;
    infos_logged++;
}

static void client_answers_with(struct client *client, unsigned status, const char *text)
{
    CLEAN(buf_fini) struct buf body = { 0 };
    client_fn *fn = TAKE(client->fn);

    buf_put(&body, text, strlen(text));
    fn(client->arg, &(struct client_answer){ .status = status, .why = "", .body = &body });
}

static void client_answers(struct client *client, const char *text)
{
    client_answers_with(client, 200, text);
}

/* Until it calls.  False: it did not for a while. */
static bool client_is_called(const struct client *client, struct loop *loop)
{
    int64_t until_ns = time_mono_ns() + 300 * NS_PER_MS;

    while (!client->fn && time_mono_ns() < until_ns)
        assert_int_equal(loop_turn(loop, time_mono_ns() + 10 * NS_PER_MS, NULL), 0);
    return client->fn != NULL;
}

static void spool_fill(const char *path)
{
    static unsigned char bytes[FRAME_BYTES];
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct spool_writer *writer;

    buf_put(&payload, bytes, sizeof(bytes));
    assert_int_equal(spool_writer_open(path, "agent-n", &writer, NULL), 0);
    for (int i = 0; i < FRAMES; i++)
        assert_int_equal(spool_put(writer, FRAME_NOTE, &payload, NULL), 0);
    spool_writer_close(writer);
}

/* Nothing is sent as long as there is no memory for pieces of that size, and then all of it. */
static void all_is_sent_after(size_t refused)
{
    char directory[] = "/tmp/lockstep-test-sender-XXXXXX", path[64];
    struct token token = { "x" };
    struct client client = { 0 };
    struct sender *sender;
    struct loop *loop;

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/agent-n.lsf", directory);
    spool_fill(path);
    assert_int_equal(loop_create(&loop, NULL), 0);
    assert_int_equal(
        sender_create(
            &(struct sender_settings){
                .loop = loop, .client = &client, .run = "r", .spool = path, .token = &token },
            &sender),
        0);
    assert_true(client_is_called(&client, loop)); /* what do you have? */
    refused_bytes = refused;
    client_answers(&client, "{\"durable\":[]}");
    assert_false(client_is_called(&client, loop)); /* with a part of it */
    assert_true(sender_is_in_trouble(sender));
    refused_bytes = 0;
    assert_true(client_is_called(&client, loop));
    assert_int_equal(client.body.size, FRAMES * (FRAME_HEADER_BYTES + FRAME_BYTES));
    sender_destroy(sender);
    loop_destroy(loop);
    buf_fini(&client.body);
    assert_int_equal(tree_remove(directory), 0);
}

static void what_did_not_fit_into_the_batch_is_sent_later(void **state)
{
    (void)state;
    all_is_sent_after(BATCH_HALF);
}

static void what_could_not_be_read_is_sent_later(void **state)
{
    (void)state;
    all_is_sent_after(READER_FIRST);
}

/* The controller answers the question what it has, and refuses every body: a run over its disk limit, for example. */
static void a_body_that_is_refused_again_and_again_is_logged_once(void **state)
{
    char directory[] = "/tmp/lockstep-test-sender-XXXXXX", path[64], acknowledged[160];
    struct token token = { "x" };
    struct client client = { 0 };
    struct sender *sender;
    struct loop *loop;
    struct frame frame;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/agent-n.lsf", directory);
    spool_fill(path);
    assert_int_equal(loop_create(&loop, NULL), 0);
    assert_int_equal(
        sender_create(
            &(struct sender_settings){
                .loop = loop, .client = &client, .run = "r", .spool = path, .token = &token },
            &sender),
        0);
    errors_logged = infos_logged = 0;
    for (int i = 0; i < 3; i++) {
        while (!client_is_called(&client, loop))
            ;
        client_answers(&client, "{\"durable\":[]}");
        assert_true(client_is_called(&client, loop));
        assert_true(client.body.size > 0);
        client_answers_with(&client, 507, "{\"error\":\"the run has reached its limit\"}");
        assert_true(sender_is_in_trouble(sender));
    }
    assert_int_equal(errors_logged, 1);
    assert_int_equal(infos_logged, 0);

    while (!client_is_called(&client, loop))
        ;
    client_answers(&client, "{\"durable\":[]}");
    assert_true(client_is_called(&client, loop));
    assert_true(frame_get(client.body.data, client.body.size, &frame, NULL) > 0);
    snprintf(acknowledged, sizeof(acknowledged),
             "{\"durable\":[{\"sender\":\"%016llx\",\"boot\":\"%016llx\",\"next\":%d}]}",
             (unsigned long long)frame.sender, (unsigned long long)frame.boot, FRAMES + 1);
    client_answers(&client, acknowledged);
    assert_false(sender_is_in_trouble(sender));
    assert_int_equal(errors_logged, 1);
    assert_int_equal(infos_logged, 1);
    sender_destroy(sender);
    loop_destroy(loop);
    buf_fini(&client.body);
    assert_int_equal(tree_remove(directory), 0);
}

/* A launcher's ranks live as long as it is heard of, whatever becomes of its facts. */
static void a_controller_with_a_full_disk_has_heard_of_us(void **state)
{
    char directory[] = "/tmp/lockstep-test-sender-XXXXXX", path[64];
    struct token token = { "x" };
    struct client client = { 0 };
    struct sender *sender;
    struct loop *loop;
    int64_t heard_ns = 0;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/agent-n.lsf", directory);
    spool_fill(path);
    assert_int_equal(loop_create(&loop, NULL), 0);
    assert_int_equal(
        sender_create(
            &(struct sender_settings){
                .loop = loop, .client = &client, .run = "r", .spool = path, .token = &token },
            &sender),
        0);
    for (int i = 0; i < 4; i++) {
        int64_t before_ns = time_boot_ns();

        while (!client_is_called(&client, loop))
            ;
        assert_int_equal(sender_heard(sender), heard_ns);
        if (client.body.size)
            client_answers_with(&client, 503, "{\"error\":\"disk full\",\"heard\":true}");
        else
            client_answers(&client, "{\"durable\":[]}");
        assert_true(sender_heard(sender) == heard_ns || sender_heard(sender) >= before_ns);
        heard_ns = sender_heard(sender);
    }
    assert_true(heard_ns > 0);
    assert_int_equal(sender_passed(sender), 0); /* and has nothing */
    sender_destroy(sender);
    loop_destroy(loop);
    buf_fini(&client.body);
    assert_int_equal(tree_remove(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_did_not_fit_into_the_batch_is_sent_later),
        cmocka_unit_test(what_could_not_be_read_is_sent_later),
        cmocka_unit_test(a_body_that_is_refused_again_and_again_is_logged_once),
        cmocka_unit_test(a_controller_with_a_full_disk_has_heard_of_us),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
