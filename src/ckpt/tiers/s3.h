/* s3.h - requests to an object store that speaks the interface of Amazon S3, one at a time (libcurl).
 *
 * Every request is signed (Signature Version 4) with the SHA-256 of its body, so the store refuses a body that changed on the way.
 * The secret is never logged.  Redirects are not followed, and plain HTTP is for loopback only.  Failures that may pass
 * (no connection, 5xx, 429) are tried again, with growing pauses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_S3_H
#define LOCKSTEP_CKPT_TIERS_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

struct s3;

struct s3_settings {
    const char *
        endpoint; /* "https://s3.eu-central-1.amazonaws.com"; the bucket is the first part of the path */
    const char *region, *bucket;
    const char *key_id, *secret, *session; /* session: NULL if there is none */
    uint64_t bytes_per_s;                  /* in each direction; 0: no limit */
};

struct s3_request {
    const char *method; /* GET, HEAD, PUT, POST */
    const char *key;    /* as it is; NULL: the bucket itself */
    const char *query;  /* encoded, ascending by name, each with "="; NULL: none */
    const void *body;
    size_t size;
    uint64_t at, bytes; /* GET: this range; bytes 0: all */
    size_t answer_max;  /* a longer answer is an error; 0: 1 MiB */
    /* Results: */
    struct buf answer; /* released by the caller */
    char etag[160];    /* as it came, with its quotes; "" if there was none */
    uint64_t length;   /* Content-Length */
};

int s3_open(const struct s3_settings *settings, struct s3 **ret, struct err *err);
void s3_close(struct s3 *s3); /* NULL is fine */
/* The status, 200 to 499, or -errno: no answer after several tries, or a 5xx.  err has the store's own reason. */
int s3_call(struct s3 *s3, struct s3_request *request, struct err *err);
/* The same where only 2xx is success; -ENOENT: 404; -EACCES: 401 or 403; else -EREMOTEIO. */
int s3_expect(struct s3 *s3, struct s3_request *request, struct err *err);
/* Everything but letters, digits and -_.~ as %XX; with `slash`, / stays.  false: too long. */
bool s3_encode(const char *text, bool slash, char *out, size_t room);

#endif
