/* tls.c - key and certificate with OpenSSL; the server itself uses TLS through libmicrohttpd.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/address.h"
#include "base/paths.h"
#include "core/buf.h"
#include "core/clean.h"

#define PEM_BYTES_MAX 65536
#define GOOD_FOR_S (INT64_C(10) * 365 * 86400)

static void tls_key_clean(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void tls_cert_clean(X509 **cert)
{
    X509_free(*cert);
}

static void tls_bio_clean(BIO **bio)
{
    BIO_free(*bio);
}

void tls_fini(struct tls *tls)
{
    if (tls->key_pem)
        OPENSSL_cleanse(tls->key_pem, strlen(tls->key_pem));
    free(tls->key_pem);
    free(tls->cert_pem);
    *tls = (struct tls){ 0 };
}

static int tls_file_read(const char *path, bool secret, char **ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEAN(free_clean) char *text = calloc(1, PEM_BYTES_MAX);
    struct stat st;
    ssize_t size;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!text)
        return err_nomem(err);
    if (secret && (st.st_mode & 077))
        return err_set(err, -EACCES, "%s: mode %04o lets other users read the key; run chmod 600",
                       path, st.st_mode & 07777);
    size = read(fd, text, PEM_BYTES_MAX - 1);
    if (size < 0)
        return err_set(err, -errno, "%s: %m", path);
    *ret = TAKE(text);
    return 0;
}

static void tls_fingerprint_put(const unsigned char *digest, unsigned size, struct tls *tls)
{
    char *at = tls->fingerprint;

    for (unsigned i = 0; i < size && i < 32; i++)
        at += snprintf(at, 4, i ? ":%02X" : "%02X", digest[i]);
}

/* Of a public key, as curl wants it. */
static int tls_pin_put(EVP_PKEY *key, char ret[static 64])
{
    unsigned char digest[EVP_MAX_MD_SIZE], *spki = NULL;
    unsigned size = 0;
    int length = key ? i2d_PUBKEY(key, &spki) : 0, good;

    if (length <= 0)
        return -EINVAL;
    good = EVP_Digest(spki, (size_t)length, digest, &size, EVP_sha256(), NULL);
    OPENSSL_free(spki);
    if (!good)
        return -EINVAL;
    strcpy(ret, "sha256//");
    EVP_EncodeBlock((unsigned char *)ret + 8, digest, (int)size);
    return 0;
}

/* Text of the certificate's own digest, and of its public key's. */
static int tls_digests(X509 *cert, struct tls *tls)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    if (!X509_digest(cert, EVP_sha256(), digest, &size))
        return -EINVAL;
    tls_fingerprint_put(digest, size, tls);
    return tls_pin_put(X509_get0_pubkey(cert), tls->pin);
}

static int tls_check(struct tls *tls, const char *key_file, const char *cert_file, struct err *err)
{
    CLEAN(tls_bio_clean) BIO *key_bio = BIO_new_mem_buf(tls->key_pem, -1);
    CLEAN(tls_bio_clean) BIO *cert_bio = BIO_new_mem_buf(tls->cert_pem, -1);
    CLEAN(tls_key_clean) EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);
    CLEAN(tls_cert_clean) X509 *cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);

    if (!key)
        return err_set(err, -EINVAL, "%s: no private key in PEM format", key_file);
    if (!cert)
        return err_set(err, -EINVAL, "%s: no certificate in PEM format", cert_file);
    if (X509_check_private_key(cert, key) != 1)
        return err_set(err, -EINVAL, "%s is not the key of %s", key_file, cert_file);
    if (tls_digests(cert, tls) < 0)
        return err_set(err, -EINVAL, "%s: cannot compute the digest of the certificate", cert_file);
    return 0;
}

int tls_read(const char *key_file, const char *cert_file, struct tls *ret, struct err *err)
{
    CLEAN(tls_fini) struct tls tls = { 0 };
    int result = tls_file_read(key_file, true, &tls.key_pem, err);

    if (result == 0)
        result = tls_file_read(cert_file, false, &tls.cert_pem, err);
    if (result == 0)
        result = tls_check(&tls, key_file, cert_file, err);
    if (result < 0)
        return result;
    *ret = tls;
    tls = (struct tls){ 0 };
    return 0;
}

/* ---- making one ---- */

static int tls_extension_add(X509 *cert, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    int good;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    if (!extension)
        return -EINVAL;
    good = X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    return good ? 0 : -ENOMEM;
}

/* A host's name may have bytes that the extension's grammar would misread. */
static void tls_host_name(char out[static 65])
{
    if (gethostname(out, 64) < 0)
        strcpy(out, "localhost");
    out[64] = '\0';
    out[strspn(out, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")] = '\0';
    if (!out[0])
        strcpy(out, "localhost");
}

static bool tls_is_number(const char *name)
{
    unsigned char address[16];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool tls_cert_has(X509 *cert, const char *name)
{
    return tls_is_number(name) ? X509_check_ip_asc(cert, name, 0) == 1
                               : X509_check_host(cert, name, strlen(name), 0, NULL) == 1;
}

static void tls_names_add(struct buf *out, const char *name)
{
    char text[ADDRESS_HOST + 8];

    snprintf(text, sizeof(text), "%s%s:%s", out->size ? "," : "",
             tls_is_number(name) ? "IP" : "DNS", name);
    buf_put(out, text, strlen(text));
}

/* What the extension's grammar could misread is in no name: they are checked where they come in (address.h). */
static int tls_names_put(X509 *cert, const char *host, const char *const *names, size_t count)
{
    CLEAN(buf_fini) struct buf text = { 0 };

    tls_names_add(&text, host);
    tls_names_add(&text, "localhost");
    tls_names_add(&text, "127.0.0.1");
    tls_names_add(&text, "::1");
    for (size_t i = 0; i < count; i++)
        tls_names_add(&text, names[i]);
    buf_put(&text, "", 1);
    if (text.failed)
        return -ENOMEM;
    return tls_extension_add(cert, NID_subject_alt_name, (const char *)text.data);
}

static int tls_cert_fill(X509 *cert, EVP_PKEY *key, const char *const *names, size_t count)
{
    char host[65];
    X509_NAME *name = X509_get_subject_name(cert);
    uint64_t serial;
    int result;

    if (getrandom(&serial, sizeof(serial), 0) != sizeof(serial))
        return -EIO;
    tls_host_name(host);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600); /* clocks differ */
    X509_gmtime_adj(X509_getm_notAfter(cert), GOOD_FOR_S);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)host, -1, -1, 0);
    X509_set_issuer_name(cert, name);
    result = tls_names_put(cert, host, names, count);
    if (result == 0)
        result = tls_extension_add(cert, NID_basic_constraints, "critical,CA:TRUE");
    if (result == 0 &&
        !X509_sign(cert, key, EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256()))
        result = -EINVAL;
    return result;
}

static int tls_pem_write(const char *path, EVP_PKEY *key, X509 *cert, struct err *err)
{
    CLEAN(tls_bio_clean) BIO *bio = BIO_new(BIO_s_mem());
    CLEAN(fd_clean)
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, key ? 0600 : 0644);
    char *data;
    long size;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!bio || !(key ? PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)
                      : PEM_write_bio_X509(bio, cert)))
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    size = BIO_get_mem_data(bio, &data);
    if (write(fd, data, (size_t)size) != size || fsync(fd) < 0)
        return err_set(err, -EIO, "%s: %m", path);
    return 0;
}

static int tls_cert_make(EVP_PKEY *key, const char *const *names, size_t count,
                         const char *cert_file, struct err *err)
{
    CLEAN(tls_cert_clean) X509 *cert = X509_new();

    if (!cert || tls_cert_fill(cert, key, names, count) < 0)
        return err_set(err, -EIO, "OpenSSL cannot create a certificate");
    return tls_pem_write(cert_file, NULL, cert, err);
}

static int tls_make(const char *key_file, const char *cert_file, const char *const *names,
                    size_t count, struct err *err)
{
    CLEAN(tls_key_clean) EVP_PKEY *key = EVP_EC_gen("P-256");
    int result;

    if (!key)
        return err_set(err, -EIO, "OpenSSL cannot create a key");
    result = tls_pem_write(key_file, key, NULL, err);
    return result < 0 ? result : tls_cert_make(key, names, count, cert_file, err);
}

int tls_make_of_seed(const char *directory, const unsigned char seed[static TLS_SEED_BYTES],
                     struct err *err)
{
    CLEAN(tls_key_clean)
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, TLS_SEED_BYTES);
    struct path key_file, cert_file;
    int result = path_join(&key_file, directory, "key.pem", err);

    if (result == 0)
        result = path_join(&cert_file, directory, "cert.pem", err);
    if (result == 0)
        result = path_make(directory, err);
    if (result < 0)
        return result;
    if (!key)
        return err_set(err, -EIO, "OpenSSL cannot create a key");
    unlink(key_file.text);
    unlink(cert_file.text);
    result = tls_pem_write(key_file.text, key, NULL, err);
    return result < 0 ? result : tls_cert_make(key, NULL, 0, cert_file.text, err);
}

int tls_pin_of_seed(const unsigned char seed[static TLS_SEED_BYTES], char ret[static 64],
                    struct err *err)
{
    CLEAN(tls_key_clean)
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, TLS_SEED_BYTES);

    return tls_pin_put(key, ret) < 0 ? err_set(err, -EIO, "OpenSSL cannot create a key") : 0;
}

/* Whether it signed itself and lacks a name: then it is ours to make again. */
static bool tls_cert_is_short(const struct tls *tls, const char *const *names, size_t count)
{
    CLEAN(tls_bio_clean) BIO *bio = BIO_new_mem_buf(tls->cert_pem, -1);
    CLEAN(tls_cert_clean) X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    if (!cert || X509_NAME_cmp(X509_get_subject_name(cert), X509_get_issuer_name(cert)) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!tls_cert_has(cert, names[i]))
            return true;
    }
    return false;
}

/* Written beside it, then renamed: a reader finds one or the other. */
static int tls_reissue(struct tls *tls, const char *key_file, const char *cert_file,
                       const char *const *names, size_t count, struct err *err)
{
    CLEAN(tls_bio_clean) BIO *bio = BIO_new_mem_buf(tls->key_pem, -1);
    CLEAN(tls_key_clean) EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    char beside[PATH_MAX];
    int result;

    if (!key || snprintf(beside, sizeof(beside), "%s.new", cert_file) >= (int)sizeof(beside))
        return err_set(err, -EINVAL, "%s: cannot reissue the certificate", cert_file);
    unlink(beside);
    result = tls_cert_make(key, names, count, beside, err);
    if (result == 0 && rename(beside, cert_file) < 0)
        result = err_set(err, -errno, "%s: %m", cert_file);
    if (result < 0)
        return result;
    tls_fini(tls);
    result = tls_read(key_file, cert_file, tls, err);
    tls->reissued = result == 0;
    return result;
}

int tls_read_or_make(const char *directory, const char *const *names, size_t count, struct tls *ret,
                     struct err *err)
{
    CLEAN(tls_fini) struct tls tls = { 0 };
    struct path key_file, cert_file;
    int result = path_join(&key_file, directory, "key.pem", err);

    if (result == 0)
        result = path_join(&cert_file, directory, "cert.pem", err);
    if (result == 0)
        result = path_make(directory, err);
    if (result == 0 && access(key_file.text, F_OK) < 0 && access(cert_file.text, F_OK) < 0)
        result = tls_make(key_file.text, cert_file.text, names, count, err);
    if (result == 0)
        result = tls_read(key_file.text, cert_file.text, &tls, err);
    if (result == 0 && tls_cert_is_short(&tls, names, count))
        result = tls_reissue(&tls, key_file.text, cert_file.text, names, count, err);
    if (result < 0)
        return result;
    *ret = tls;
    tls = (struct tls){ 0 };
    return 0;
}
