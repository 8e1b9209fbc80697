/* fabric_message.c - frames of a fabric test as bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/fabric_message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clean.h"

/* ---- keys ---- */

static void fabric_hmac(const void *key, size_t key_size, const void *data, size_t size,
                        unsigned char ret[static FABRIC_MAC])
{
    unsigned length = 0;

    /* Cannot fail with SHA-256 and memory; an answer of zeros would be one that anybody can make. */
    if (!HMAC(EVP_sha256(), key, (int)key_size, data, size, ret, &length) || length != FABRIC_MAC)
        abort();
}

void fabric_session_key(struct fabric_session *session, const struct token *token,
                        const unsigned char *worker, const unsigned char *tester)
{
    static const char label[16] = "lockstep session";
    unsigned char text[sizeof(label) + 2 * FABRIC_NONCE];

    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), worker, FABRIC_NONCE);
    memcpy(text + sizeof(label) + FABRIC_NONCE, tester, FABRIC_NONCE);
    fabric_hmac(token->text, strlen(token->text), text, sizeof(text), session->key);
    session->keyed = true;
}

void fabric_flow_key(const struct token *token, const unsigned char *nonce,
                     unsigned char ret[static FABRIC_MAC])
{
    static const char label[16] = "lockstep flow 01";
    unsigned char text[sizeof(label) + FABRIC_NONCE];

    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), nonce, FABRIC_NONCE);
    fabric_hmac(token->text, strlen(token->text), text, sizeof(text), ret);
}

void fabric_proof(const unsigned char *key, const char *word, const unsigned char *one,
                  const unsigned char *other, unsigned char ret[static FABRIC_MAC])
{
    unsigned char text[16 + 2 * FABRIC_NONCE] = { 0 };

    memcpy(text, word, strnlen(word, 16));
    memcpy(text + 16, one, FABRIC_NONCE);
    memcpy(text + 16 + FABRIC_NONCE, other, FABRIC_NONCE);
    fabric_hmac(key, FABRIC_MAC, text, sizeof(text), ret);
}

bool fabric_proof_equal(const unsigned char *one, const unsigned char *other)
{
    return CRYPTO_memcmp(one, other, FABRIC_MAC) == 0;
}

int fabric_nonce(unsigned char ret[static FABRIC_NONCE])
{
    return getrandom(ret, FABRIC_NONCE, 0) == FABRIC_NONCE ? 0 : -EIO;
}

/* Of header and body, with the side that sends: a frame that is sent back does not verify. */
static void fabric_frame_mac(const struct fabric_session *session, bool from_worker,
                             const unsigned char *frame, size_t size,
                             unsigned char ret[static FABRIC_MAC])
{
    unsigned char key[FABRIC_MAC + 1];

    memset(ret, 0, FABRIC_MAC);
    if (!session->keyed)
        return;
    memcpy(key, session->key, FABRIC_MAC);
    key[FABRIC_MAC] = from_worker;
    fabric_hmac(key, sizeof(key), frame, size, ret);
}

/* ---- bodies ---- */

static void fabric_flow_put(struct buf *out, const struct fabric_flow *flow)
{
    buf_put_u32(out, flow->rail);
    buf_put_str(out, flow->address);
    buf_put_u16(out, flow->port);
    buf_put_u32(out, flow->error);
    buf_put_u64(out, flow->bytes);
    buf_put_u64(out, flow->ns);
    buf_put_u64(out, flow->latency_ns);
    buf_put_u64(out, flow->foreign);
}

/* A text with a zero byte inside would be read as a shorter one. */
static void fabric_text_get(struct reader *in, char *out, size_t room)
{
    struct reader size = *in;

    reader_get_str(in, out, room);
    if (!in->bad && strlen(out) != reader_get_u16(&size))
        in->bad = true;
}

/* In numbers, or empty: a name would be looked up, and a word that begins with '-' be an option of another program. */
static bool fabric_address_is_valid(const char *address)
{
    unsigned char number[sizeof(struct in6_addr)];

    return !address[0] || inet_pton(AF_INET, address, number) == 1 ||
           inet_pton(AF_INET6, address, number) == 1;
}

static void fabric_flow_get(struct reader *in, struct fabric_flow *flow)
{
    flow->rail = reader_get_u32(in);
    fabric_text_get(in, flow->address, sizeof(flow->address));
    flow->port = reader_get_u16(in);
    flow->error = reader_get_u32(in);
    flow->bytes = reader_get_u64(in);
    flow->ns = reader_get_u64(in);
    flow->latency_ns = reader_get_u64(in);
    flow->foreign = reader_get_u64(in);
    if (flow->rail >= FABRIC_RAILS || !fabric_address_is_valid(flow->address))
        in->bad = true;
}

static void fabric_body_put(struct buf *out, const struct fabric_message *message)
{
    buf_put(out, message->nonce, FABRIC_NONCE);
    buf_put_str(out, message->node);
    buf_put_str(out, message->text);
    buf_put_u64(out, (uint64_t)message->time_ns);
    buf_put_u64(out, (uint64_t)message->wait_ns);
    buf_put_u64(out, message->rate);
    buf_put_u64(out, message->bytes);
    buf_put_u32(out, message->tool);
    buf_put_u32(out, message->pings);
    buf_put_u32(out, message->flows);
    for (uint32_t i = 0; i < message->flows; i++)
        fabric_flow_put(out, &message->flow[i]);
}

static int fabric_body_get(const void *data, size_t size, struct fabric_message *ret)
{
    struct reader in = reader_of(data, size);
    const void *nonce = reader_get(&in, FABRIC_NONCE);

    if (nonce)
        memcpy(ret->nonce, nonce, FABRIC_NONCE);
    fabric_text_get(&in, ret->node, sizeof(ret->node));
    fabric_text_get(&in, ret->text, sizeof(ret->text));
    ret->time_ns = (int64_t)reader_get_u64(&in);
    ret->wait_ns = (int64_t)reader_get_u64(&in);
    ret->rate = reader_get_u64(&in);
    ret->bytes = reader_get_u64(&in);
    ret->tool = reader_get_u32(&in);
    ret->pings = reader_get_u32(&in);
    ret->flows = reader_get_u32(&in);
    if (ret->flows > FABRIC_FLOWS || ret->tool >= FABRIC_TOOLS || ret->time_ns < 0 ||
        ret->wait_ns < 0)
        return -EPROTO;
    for (uint32_t i = 0; i < ret->flows && !in.bad; i++)
        fabric_flow_get(&in, &ret->flow[i]);
    return in.bad || reader_left(&in) ? -EPROTO : 0;
}

/* ---- frames ---- */

int fabric_message_put(struct fabric_session *session, const struct fabric_message *message,
                       struct buf *out)
{
    struct buf body = { .data = NULL };
    unsigned char mac[FABRIC_MAC];
    size_t begin = out->size;

    fabric_body_put(&body, message);
    buf_put_u32(out, FABRIC_MAGIC);
    buf_put_u16(out, FABRIC_VERSION);
    buf_put_u16(out, message->type);
    buf_put_u32(out, (uint32_t)body.size);
    buf_put_u32(out, session->sent++);
    buf_put(out, body.data, body.size);
    out->failed |= body.failed || body.size > FABRIC_BODY_MAX;
    buf_fini(&body);
    if (out->failed)
        return -ENOMEM;
    fabric_frame_mac(session, session->is_worker, out->data + begin, out->size - begin, mac);
    buf_put(out, mac, sizeof(mac));
    return out->failed ? -ENOMEM : 0;
}

int fabric_message_size(const void *data, size_t size, struct err *err)
{
    struct reader in = reader_of(data, size);
    uint32_t body;

    if (size < FABRIC_HEADER)
        return 0;
    if (reader_get_u32(&in) != FABRIC_MAGIC)
        return err_set(err, -EPROTO, "this is no worker of lockstep fabric");
    if (reader_get_u16(&in) != FABRIC_VERSION)
        return err_set(err, -EPROTO, "another version of lockstep fabric");
    (void)reader_get_u16(&in);
    body = reader_get_u32(&in);
    if (body > FABRIC_BODY_MAX)
        return err_set(err, -EPROTO, "a message of %u bytes", body);
    return size < FABRIC_HEADER + body + FABRIC_MAC ? 0 : (int)(FABRIC_HEADER + body + FABRIC_MAC);
}

int fabric_message_get(struct fabric_session *session, const void *data, size_t size,
                       struct fabric_message *ret, struct err *err)
{
    const unsigned char *bytes = data;
    int whole = fabric_message_size(data, size, err);
    struct reader in = reader_of(data, size);
    struct fabric_message message = { .type = 0 };
    unsigned char mac[FABRIC_MAC];

    if (whole <= 0 || (size_t)whole != size)
        return whole < 0 ? whole : err_set(err, -EPROTO, "a message that is not whole");
    fabric_frame_mac(session, !session->is_worker, bytes, size - FABRIC_MAC, mac);
    if (!fabric_proof_equal(mac, bytes + size - FABRIC_MAC))
        return err_set(err, -EACCES, "the other side does not have the same token");
    in.at += 6;
    message.type = reader_get_u16(&in);
    in.at += 4;
    if (reader_get_u32(&in) != session->got)
        return err_set(err, -EACCES, "a message was left out or repeated");
    if (!message.type || message.type >= FABRIC_TYPES ||
        fabric_body_get(bytes + FABRIC_HEADER, size - FABRIC_HEADER - FABRIC_MAC, &message) < 0)
        return err_set(err, -EPROTO, "a message that cannot be read");
    session->got++;
    *ret = message;
    return 0;
}
