/* s3.c - signed requests to an object store.
 *
 * libcurl 7.88 signs the query as it is given and adds no x-amz-content-sha256: names are sorted and encoded, and the digest is set
 * here.  "?uploads" is refused by servers that check the signature, "?uploads=" is accepted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/s3.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/net/address.h"
#include "ckpt/tiers/xml_text.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

#define TRIES 6
#define PAUSE_NS (200 * NS_PER_MS) /* before the second try; doubles */
#define ANSWER_MAX (1u << 20)
#define URL_MAX 8192

struct s3 {
    CURL *curl;
    char endpoint[512], bucket[256], signer[128], user[512], session[4096];
    uint64_t bytes_per_s;
};

/* One try. */
struct s3_transfer {
    struct s3_request *request;
    size_t sent;
    bool too_long;
    char why[CURL_ERROR_SIZE];
};

bool s3_encode(const char *text, bool slash, char *out, size_t room)
{
    size_t size = 0;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (size + 4 > room)
            return false;
        if (isalnum(c) || strchr("-_.~", c) || (slash && c == '/'))
            out[size++] = (char)c;
        else
            size += (size_t)snprintf(out + size, 4, "%%%02X", c);
    }
    if (size >= room)
        return false;
    out[size] = '\0';
    return true;
}

int s3_open(const struct s3_settings *settings, struct s3 **ret, struct err *err)
{
    CLEAN(free_clean) struct s3 *s3 = calloc(1, sizeof(*s3));
    struct address_url parsed;

    if (!s3)
        return err_nomem(err);
    if (address_url_parse(settings->endpoint, &parsed) < 0)
        return err_set(err, -EINVAL, "'%s': expected https://HOST", settings->endpoint);
    if (!parsed.tls && !address_is_loopback(parsed.at.host))
        return err_set(err, -EINVAL, "'%s' would send checkpoints in clear text: use https://",
                       settings->endpoint);
    if (!settings->key_id || !settings->key_id[0] || !settings->secret || !settings->secret[0])
        return err_set(err, -EINVAL,
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be in the environment");
    if ((size_t)snprintf(s3->endpoint, sizeof(s3->endpoint), "%s", settings->endpoint) >=
            sizeof(s3->endpoint) ||
        (size_t)snprintf(s3->signer, sizeof(s3->signer), "aws:amz:%s:s3", settings->region) >=
            sizeof(s3->signer) ||
        (size_t)snprintf(s3->user, sizeof(s3->user), "%s:%s", settings->key_id, settings->secret) >=
            sizeof(s3->user) ||
        (settings->session &&
         (size_t)snprintf(s3->session, sizeof(s3->session), "x-amz-security-token: %s",
                          settings->session) >= sizeof(s3->session)) ||
        !s3_encode(settings->bucket, false, s3->bucket, sizeof(s3->bucket)))
        return err_set(err, -EINVAL, "endpoint, region, bucket or credentials are too long");
    s3->endpoint[parsed.size] = '\0'; /* without slashes at its end */
    s3->bytes_per_s = settings->bytes_per_s;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s3->curl = curl_easy_init();
    if (!s3->curl)
        return err_nomem(err);
    *ret = TAKE(s3);
    return 0;
}

void s3_close(struct s3 *s3)
{
    if (!s3)
        return;
    curl_easy_cleanup(s3->curl);
    explicit_bzero(s3, sizeof(*s3));
    free(s3);
}

/* ---- callbacks of libcurl ---- */

static size_t s3_body_read(char *out, size_t size, size_t count, void *ctx)
{
    struct s3_transfer *transfer = ctx;
    size_t part = MIN(size * count, transfer->request->size - transfer->sent);

    memcpy(out, (const char *)transfer->request->body + transfer->sent, part);
    transfer->sent += part;
    return part;
}

static int s3_body_rewind(void *ctx, curl_off_t offset, int origin)
{
    struct s3_transfer *transfer = ctx;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > transfer->request->size)
        return CURL_SEEKFUNC_FAIL;
    transfer->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t s3_answer_write(char *data, size_t size, size_t count, void *ctx)
{
    struct s3_transfer *transfer = ctx;
    struct s3_request *request = transfer->request;
    size_t most = request->answer_max ? request->answer_max : ANSWER_MAX;

    if (size * count > most - MIN(most, request->answer.size)) {
        transfer->too_long = true;
        return 0;
    }
    buf_put(&request->answer, data, size * count);
    return request->answer.failed ? 0 : size * count;
}

static size_t s3_header_take(char *data, size_t size, size_t count, void *ctx)
{
    struct s3_request *request = ((struct s3_transfer *)ctx)->request;
    size_t bytes = size * count;
    const char *value = data + 5, *end = data + bytes;

    if (bytes < 5 || strncasecmp(data, "etag:", 5) != 0)
        return bytes;
    while (value < end && *value == ' ')
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    if ((size_t)(end - value) < sizeof(request->etag) &&
        !memchr(value, '\0', (size_t)(end - value)))
        snprintf(request->etag, sizeof(request->etag), "%.*s", (int)(end - value), value);
    return bytes;
}

/* ---- a request ---- */

static int s3_url_make(const struct s3 *s3, const struct s3_request *request, char *out,
                       struct err *err)
{
    int size = snprintf(out, URL_MAX, "%s/%s%s", s3->endpoint, s3->bucket, request->key ? "/" : "");

    if (size < 0 || size >= URL_MAX ||
        (request->key && !s3_encode(request->key, true, out + size, (size_t)(URL_MAX - size))))
        return err_set(err, -ENAMETOOLONG, "the name of the object is too long");
    size = (int)strlen(out);
    if (request->query &&
        snprintf(out + size, (size_t)(URL_MAX - size), "?%s", request->query) >= URL_MAX - size)
        return err_set(err, -ENAMETOOLONG, "the query is too long");
    return 0;
}

static struct curl_slist *s3_headers_make(const struct s3 *s3, const struct s3_request *request)
{
    unsigned char digest[32] = { 0 };
    char line[128] = "x-amz-content-sha256: ";
    size_t at = strlen(line);
    struct curl_slist *list = NULL;

    if (EVP_Digest(request->body ? request->body : "", request->size, digest, NULL, EVP_sha256(),
                   NULL) != 1)
        return NULL;
    for (size_t i = 0; i < sizeof(digest); i++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%02x", digest[i]);
    list = curl_slist_append(list, line);
    if (s3->session[0])
        list = curl_slist_append(list, s3->session);
    if (strcmp(request->method, "POST") == 0)
        list = curl_slist_append(list, "Content-Type: application/xml");
    return list; /* libcurl signs every line of it: none may be empty */
}

static void s3_options_set(struct s3 *s3, struct s3_transfer *transfer, const char *url,
                           struct curl_slist *headers)
{
    struct s3_request *request = transfer->request;
    CURL *curl = s3->curl;
    char range[64];

    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->why);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, s3->signer);
    curl_easy_setopt(curl, CURLOPT_USERPWD, s3->user);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, s3_answer_write);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, s3_header_take);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    if (s3->bytes_per_s) {
        curl_easy_setopt(curl, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)s3->bytes_per_s);
        curl_easy_setopt(curl, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)s3->bytes_per_s);
    }
    if (strcmp(request->method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (strcmp(request->method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, s3_body_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, s3_body_rewind);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->size);
    }
    if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
    if (request->bytes) {
        snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, request->at,
                 request->at + request->bytes - 1);
        curl_easy_setopt(curl, CURLOPT_RANGE, range);
    }
}

/* What the store says, else its status. */
static void s3_reason_set(const struct s3_request *request, int status, struct err *err)
{
    struct xml_text text = { (const char *)request->answer.data,
                             (const char *)request->answer.data + request->answer.size };
    char code[64] = "", message[128] = "";

    if (request->answer.data) {
        xml_value(text, "Code", code, sizeof(code));
        xml_value(text, "Message", message, sizeof(message));
    }
    text_clean(code, strlen(code), false);
    text_clean(message, strlen(message), false);
    err_set(err, 0, "%s: the store answered %d%s%s%s%s",
            request->key ? request->key : request->method, status, code[0] ? " " : "", code,
            message[0] ? ": " : "", message);
}

static int s3_try(struct s3 *s3, struct s3_request *request, const char *url, struct err *err)
{
    struct s3_transfer transfer = { .request = request };
    struct curl_slist *headers = s3_headers_make(s3, request);
    curl_off_t length = -1;
    long status = 0;
    CURLcode code;

    if (!headers)
        return err_nomem(err);
    request->answer.size = 0;
    request->etag[0] = '\0';
    s3_options_set(s3, &transfer, url, headers);
    code = curl_easy_perform(s3->curl);
    curl_easy_getinfo(s3->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(s3->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_slist_free_all(headers);
    request->length = length < 0 ? 0 : (uint64_t)length;
    if (transfer.too_long)
        return err_set(err, -EMSGSIZE, "%s: the answer is too long",
                       request->key ? request->key : request->method);
    if (code != CURLE_OK)
        return err_set(err, code == CURLE_PEER_FAILED_VERIFICATION ? -EACCES : -EAGAIN, "%s: %s",
                       s3->endpoint, transfer.why[0] ? transfer.why : curl_easy_strerror(code));
    if (status < 200 || status >= 300)
        s3_reason_set(request, (int)status, err);
    return status >= 500 || status == 429 ? -EAGAIN : (int)status;
}

int s3_call(struct s3 *s3, struct s3_request *request, struct err *err)
{
    int64_t pause_ns = PAUSE_NS;
    char url[URL_MAX];
    int result = s3_url_make(s3, request, url, err);

    if (result < 0)
        return result;
    for (int i = 0; i < TRIES; i++) {
        struct timespec pause = time_spec(pause_ns);

        result = s3_try(s3, request, url, err);
        if (result != -EAGAIN)
            return result;
        if (i + 1 < TRIES)
            nanosleep(&pause, NULL);
        pause_ns *= 2;
    }
    return -EREMOTEIO;
}

int s3_expect(struct s3 *s3, struct s3_request *request, struct err *err)
{
    int status = s3_call(s3, request, err);

    if (status < 0 || (status >= 200 && status < 300))
        return status < 0 ? status : 0;
    return status == 404 ? -ENOENT : status == 401 || status == 403 ? -EACCES : -EREMOTEIO;
}
