/* node_facts.c - the daemon's own spool, and its sender.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/send/sender.h"
#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define SPOOL_MAX (16u << 20)
#define SPOOL_LARGE (1u << 20) /* when the controller has it: begun again */

struct node_facts {
    struct node_facts_settings settings;
    struct path spool, token;
    struct spool_writer *writer;
    struct sender *sender;
};

static int node_write_hello(struct node_facts *facts, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = { .kind = SENDER_AGENT,
                                .version = LOCKSTEP_VERSION,
                                .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns() };

    snprintf(hello.node, sizeof(hello.node), "%s", facts->settings.node);
    fact_hello_put(&payload, &hello);
    return spool_put(facts->writer, FRAME_HELLO, &payload, err);
}

static void node_spool_end(struct node_facts *facts)
{
    sender_destroy(TAKE(facts->sender));
    spool_writer_close(TAKE(facts->writer));
}

static int node_spool_begin(struct node_facts *facts, struct err *err)
{
    char name[FACT_NAME + 8];
    int result;

    snprintf(name, sizeof(name), NODE_SENDER, facts->settings.node);
    result = spool_writer_open(facts->spool.text, name, &facts->writer, err);
    if (result == 0)
        result = node_write_hello(facts, err);
    if (result < 0)
        return result;
    result = sender_create(&(struct sender_settings){ .loop = facts->settings.loop,
                                                      .client = facts->settings.client,
                                                      .run = "",
                                                      .node = facts->settings.node,
                                                      .spool = facts->spool.text,
                                                      .token_file = facts->token.text },
                           &facts->sender);
    return result < 0 ? err_nomem(err) : 0;
}

void node_facts_close(struct node_facts *facts)
{
    if (!facts)
        return;
    node_spool_end(facts);
    free(facts);
}

static void node_facts_clean(struct node_facts **facts)
{
    node_facts_close(*facts);
}

int node_facts_open(const struct node_facts_settings *settings, struct node_facts **ret,
                    struct err *err)
{
    CLEAN(node_facts_clean) struct node_facts *facts = calloc(1, sizeof(*facts));
    struct path directory;
    int result;

    if (!facts)
        return err_nomem(err);
    facts->settings = *settings;
    result = path_join(&directory, settings->state, "node", err);
    if (result == 0)
        result = path_make(directory.text, err);
    if (result == 0)
        result = path_join(&facts->spool, directory.text, "node.lsf", err);
    if (result == 0)
        result = path_join(&facts->token, settings->state, "node.token", err);
    if (result == 0)
        result = node_spool_begin(facts, err);
    if (result < 0)
        return result;
    *ret = TAKE(facts);
    return 0;
}

static int facts_put(struct node_facts *facts, uint16_t type, const struct buf *payload,
                     uint64_t most, struct err *err)
{
    if (!facts->writer)
        return err_set(err, -EIO, "%s cannot be written", facts->spool.text);
    if (spool_writer_bytes(facts->writer) + payload->size > most)
        return err_set(err, -EFBIG, "%s has %llu bytes that the controller does not have",
                       facts->spool.text, (unsigned long long)most);
    return spool_put(facts->writer, type, payload, err);
}

int node_facts_finding(struct node_facts *facts, const struct finding *finding, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    finding_put(&payload, finding);
    return facts_put(facts, FRAME_FINDING, &payload,
                     finding_is_of_program(finding) ? SPOOL_MAX / 2 : SPOOL_MAX, err);
}

int node_facts_check(struct node_facts *facts, const struct check *check, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    check_put(&payload, check);
    return facts_put(facts, FRAME_CHECK, &payload, SPOOL_MAX, err);
}

int node_facts_environment(struct node_facts *facts, const struct environment *environment,
                           struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    environment_put(&payload, environment);
    return payload.failed ? err_nomem(err)
                          : facts_put(facts, FRAME_ENVIRONMENT, &payload, SPOOL_MAX / 2, err);
}

int node_facts_outcome(struct node_facts *facts, const struct outcome *outcome, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    int result;

    outcome_put(&payload, outcome);
    result = facts_put(facts, FRAME_OUTCOME, &payload, SPOOL_MAX, err);
    return result < 0 ? result : spool_sync(facts->writer, err);
}

int node_facts_outcomes(const struct node_facts *facts,
                        void (*fn)(void *arg, const struct outcome *outcome), void *arg)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct outcome outcome;
    struct frame frame;
    int result = spool_reader_open(facts->spool.text, &reader, NULL);

    while (result == 0 && (result = spool_next(reader, &frame, NULL)) == 1) {
        if (frame.type == FRAME_OUTCOME &&
            outcome_get(reader_of(frame.payload, frame.payload_bytes), &outcome) == 0)
            fn(arg, &outcome);
        result = 0;
    }
    return result;
}

/* Its numbers begin again, with another boot.  What cannot be opened now is tried again. */
void node_facts_turn(struct node_facts *facts)
{
    struct err err = { "" };

    if (facts->writer &&
        (spool_writer_bytes(facts->writer) < SPOOL_LARGE || !sender_is_done(facts->sender)))
        return;
    if (facts->writer) {
        node_spool_end(facts);
        unlink(facts->spool.text);
    }
    if (node_spool_begin(facts, &err) < 0) {
        node_spool_end(facts);
        log_error("findings of this node are not kept now: %s", err.text);
    }
}
