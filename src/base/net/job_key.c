/* job_key.c - what follows from the key of a job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/job_key.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

static void job_key_derive(const void *key, size_t size, const char *what,
                           unsigned char ret[static JOB_KEY_BYTES])
{
    unsigned length = JOB_KEY_BYTES;

    HMAC(EVP_sha256(), key, (int)size, (const unsigned char *)what, strlen(what), ret, &length);
}

int job_key_of(const char *text, struct job_key *ret, struct err *err)
{
    static const char blanks[] = " \t\r\n";
    size_t size;

    text += strspn(text, blanks);
    size = strlen(text);
    while (size && strchr(blanks, text[size - 1]))
        size--;
    if (size < JOB_KEY_TEXT_MIN || size > 4096)
        return err_set(err, -EINVAL, "the job's key is not %d to 4096 characters",
                       JOB_KEY_TEXT_MIN);
    job_key_derive(text, size, "lockstep job", ret->byte);
    return 0;
}

void job_key_token(const struct job_key *key, enum job_key_use use, struct token *ret)
{
    unsigned char byte[JOB_KEY_BYTES];
    char *at = ret->text;

    job_key_derive(key->byte, sizeof(key->byte),
                   use == JOB_KEY_JOIN ? "lockstep join" : "lockstep facts", byte);
    at += snprintf(at, sizeof(ret->text), "lst_");
    for (size_t i = 0; i < sizeof(byte); i++)
        at += snprintf(at, 3, "%02x", byte[i]);
    explicit_bzero(byte, sizeof(byte));
}

void job_key_seed(const struct job_key *key, unsigned char ret[static JOB_KEY_BYTES])
{
    job_key_derive(key->byte, sizeof(key->byte), "lockstep certificate", ret);
}
