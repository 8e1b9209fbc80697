/* fabric_message.h - what the one who tests and the workers on the nodes send each other.
 *
 * A frame is a header of 16 bytes (magic, version, type, size, number), a body, and an HMAC-SHA256 of both.  The token never
 * crosses the network: each side sends 16 random bytes, and the key of the session is an HMAC of both with the token.
 * A frame that was changed, repeated, left out or sent back to its sender does not verify.  docs/fabric-format.md has the bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_FABRIC_MESSAGE_H
#define LOCKSTEP_VERIFY_FABRIC_FABRIC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net/address.h"
#include "base/net/token.h"
#include "core/buf.h"
#include "core/err.h"

#define FABRIC_MAGIC UINT32_C(0x5446534c) /* "LSFT" */
#define FABRIC_VERSION 1
#define FABRIC_HEADER 16
#define FABRIC_MAC 32
#define FABRIC_NONCE 16
#define FABRIC_BODY_MAX 16384
#define FABRIC_FRAME_MAX (FABRIC_HEADER + FABRIC_BODY_MAX + FABRIC_MAC)
#define FABRIC_RAILS 8
#define FABRIC_STREAMS 8
#define FABRIC_FLOWS (FABRIC_RAILS * FABRIC_STREAMS)
#define FABRIC_NAME 64
#define FABRIC_TEXT 304 /* NCCL's id in hexadecimal, and two numbers */

enum fabric_type {
    FABRIC_HELLO = 1, /* worker: nonce; not authenticated */
    FABRIC_BEGIN,     /* tester: nonce */
    FABRIC_NODE,      /* worker: its name, an address for each rail, its limits */
    FABRIC_REFUSED,   /* worker: text; then it hangs up */
    FABRIC_RECEIVE,   /* tester: flows with rails, time, nonce */
    FABRIC_READY,     /* worker: flows with ports */
    FABRIC_SEND,      /* tester: flows with rails, addresses and ports, time, rate, nonce */
    FABRIC_DONE,      /* worker, for both: flows with results */
    FABRIC_STOP,      /* tester: the other side has failed, do not wait for it */
    FABRIC_TYPES
};

struct fabric_flow { /* fields that a type does not use are 0 */
    uint32_t rail;
    char address[ADDRESS_NUMBER]; /* in numbers; "": none */
    uint16_t port;
    uint32_t error;      /* errno; 0: it was measured */
    uint64_t bytes, ns;  /* received in this time */
    uint64_t latency_ns; /* half of the median round trip; 0: not measured */
    uint64_t foreign; /* bytes a second of others over the same adapter and in the same direction */
};

enum fabric_tool {
    FABRIC_TCP,
    FABRIC_PERFTEST, /* ib_write_bw and ib_write_lat */
    FABRIC_NCCL,     /* its send and receive, between GPUs */
    FABRIC_TOOLS
};

struct fabric_message {
    uint16_t type;
    uint32_t tool; /* of RECEIVE, SEND and what answers them */
    unsigned char nonce[FABRIC_NONCE];
    char node[FABRIC_NAME];
    char text[FABRIC_TEXT];   /* of REFUSED; of READY and SEND what NCCL needs */
    int64_t time_ns, wait_ns; /* of each flow; for a connection */
    uint64_t rate, bytes;     /* of each flow, at most: bytes a second, bytes */
    uint32_t pings, flows;
    struct fabric_flow flow[FABRIC_FLOWS];
};

/* One end of a control connection. */
struct fabric_session {
    unsigned char key[FABRIC_MAC];
    bool keyed, is_worker;
    uint32_t sent, got;
};

/* The key of a session, from the nonces of both. */
void fabric_session_key(struct fabric_session *session, const struct token *token,
                        const unsigned char *worker, const unsigned char *tester);
/* The key by which the two ends of a flow know each other. */
void fabric_flow_key(const struct token *token, const unsigned char *nonce,
                     unsigned char ret[static FABRIC_MAC]);
/* HMAC of a word and two nonces. */
void fabric_proof(const unsigned char *key, const char *word, const unsigned char *one,
                  const unsigned char *other, unsigned char ret[static FABRIC_MAC]);
bool fabric_proof_equal(const unsigned char *one, const unsigned char *other);
int fabric_nonce(unsigned char ret[static FABRIC_NONCE]); /* -errno */

/* Appends a frame. */
int fabric_message_put(struct fabric_session *session, const struct fabric_message *message,
                       struct buf *out);
/* Bytes of the first frame in `data`; 0: it is not whole yet.  -EPROTO: this is no frame. */
int fabric_message_size(const void *data, size_t size, struct err *err);
/* Reads one whole frame.  -EPROTO: not a frame, or of another version; -EACCES: it does not verify. */
int fabric_message_get(struct fabric_session *session, const void *data, size_t size,
                       struct fabric_message *ret, struct err *err);

#endif
