/* tls.h - the server's key and certificate: the site's own, or created on first use.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_TLS_H
#define LOCKSTEP_BASE_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

struct tls {
    char *key_pem, *cert_pem;
    char fingerprint[100]; /* SHA-256 of the certificate, "AB:CD:..." */
    char pin[64];          /* SHA-256 of its public key, "sha256//BASE64": what curl pins */
    bool reissued;         /* a certificate of ours that lacked a name was made again */
};

/* Reads both files.  -ENOENT; -EACCES: others may read the key; -EINVAL: not PEM, or they do not
 * belong together.
 */
int tls_read(const char *key_file, const char *cert_file, struct tls *ret, struct err *err);
/* The same, of DIRECTORY/{key,cert}.pem; when neither is there a P-256 key and a certificate signed by itself are made, good for
 * ten years, for this host's name, localhost, the loopback addresses and `names`: host names and addresses in numbers.  A certificate that
 * signed itself and lacks one of `names` is made again with the same key, so that pins stay good.
 */
int tls_read_or_make(const char *directory, const char *const *names, size_t count, struct tls *ret,
                     struct err *err);
/* DIRECTORY/{key,cert}.pem, made anew, with the Ed25519 key that belongs to the seed: who knows the seed knows the pin. */
#define TLS_SEED_BYTES 32
int tls_make_of_seed(const char *directory, const unsigned char seed[static TLS_SEED_BYTES],
                     struct err *err);
int tls_pin_of_seed(const unsigned char seed[static TLS_SEED_BYTES], char ret[static 64],
                    struct err *err);
void tls_fini(struct tls *tls);

#endif
