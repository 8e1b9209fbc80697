/* job_rendezvous.c - where the launchers of a job meet if there is no site's controller.
 *
 * Who leads is decided by an address: of all machines one has it.  Of several launchers on that machine the first leads, which
 * holds the UDP port of that number for its life; the controller itself listens on TCP.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/job_rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/net/address.h"
#include "base/net/job_key.h"
#include "base/net/tls.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/hash.h"

#define RENDEZVOUS_PORT_FIRST                                                                      \
    20000 /* of those that Slurm's jobs use: below those that systems give out */
#define RENDEZVOUS_PORTS 10000
#define RENDEZVOUS_ENDPOINTS_MAX 1024

struct job_rendezvous {
    struct endpoint {
        struct address at;
        bool named; /* it is no address in numbers */
        char url[ADDRESS_HOST + 32];
    } * endpoint;
    size_t count, room;
    size_t now;  /* where they meet */
    size_t mine; /* that of this machine; `count`: none is */
    int lock;    /* its UDP socket */
    char listen[ADDRESS_HOST + 16], run[64];
    struct path state;
    struct path
        key; /* the file with the key of the run, which all launchers see; "": it is elsewhere */
    struct daemons_lead lead;
};

void job_rendezvous_close(struct job_rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    fd_clean(&rendezvous->lock);
    free(rendezvous->endpoint);
    free(rendezvous);
}

static void job_rendezvous_clean(struct job_rendezvous **rendezvous)
{
    job_rendezvous_close(*rendezvous);
}

const struct daemons_lead *job_rendezvous_lead(const struct job_rendezvous *rendezvous)
{
    return rendezvous && rendezvous->mine < rendezvous->count ? &rendezvous->lead : NULL;
}

bool job_rendezvous_leads(const struct job_rendezvous *rendezvous)
{
    return rendezvous && rendezvous->mine == rendezvous->now;
}

const char *job_rendezvous_url(const struct job_rendezvous *rendezvous)
{
    return rendezvous->endpoint[rendezvous->now].url;
}

const char *job_rendezvous_name(const struct job_rendezvous *rendezvous)
{
    return rendezvous && rendezvous->mine < rendezvous->count &&
                   rendezvous->endpoint[rendezvous->mine].named
               ? rendezvous->endpoint[rendezvous->mine].at.host
               : NULL;
}

uint32_t job_rendezvous_quorum(const struct job_rendezvous *rendezvous)
{
    return rendezvous && rendezvous->count > 1 ? (uint32_t)(rendezvous->count / 2 + 1) : 0;
}

bool job_rendezvous_move(struct job_rendezvous *rendezvous)
{
    if (rendezvous->now + 1 >= rendezvous->count)
        return false;
    rendezvous->now++;
    return true;
}

const char *job_rendezvous_left_behind(const struct job_rendezvous *rendezvous, size_t i)
{
    return rendezvous && i < rendezvous->now ? rendezvous->endpoint[i].at.host : NULL;
}

/* ---- endpoints ---- */

static int endpoint_parse(const char *text, size_t size, struct endpoint *ret, struct err *err)
{
    struct address *at = &ret->at;
    bool v6;

    if (address_parse(text, size, at) < 0 || !at->has_port || !at->port)
        return err_set(err, -EINVAL, "--rdzv-endpoint %.*s: expected HOST:PORT",
                       (int)MIN(size, 200), text);
    v6 = strchr(at->host, ':') != NULL;
    ret->named = !v6 && at->host[strspn(at->host, "0123456789.")] != '\0';
    snprintf(ret->url, sizeof(ret->url), "https://%s%s%s:%u", v6 ? "[" : "", at->host,
             v6 ? "]" : "", at->port);
    return 0;
}

static int job_rendezvous_parse(const char *text, struct job_rendezvous *rendezvous,
                                struct err *err)
{
    for (size_t size; text; text = text[size] ? text + size + 1 : NULL) {
        int r;

        size = strcspn(text, ",");
        if (rendezvous->count == RENDEZVOUS_ENDPOINTS_MAX)
            return err_set(err, -EINVAL, "--rdzv-endpoint: more than %d", RENDEZVOUS_ENDPOINTS_MAX);
        if (!ARRAY_FIT(rendezvous->endpoint, rendezvous->room, rendezvous->count + 1))
            return err_nomem(err);
        r = endpoint_parse(text, size, &rendezvous->endpoint[rendezvous->count], err);
        if (r < 0)
            return r;
        rendezvous->count++;
    }
    return 0;
}

/* -1: the address is another machine's, or another launcher here has it. */
static int job_rendezvous_lock(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int endpoint_lock(const struct endpoint *endpoint, int *ret, struct err *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    char port[8];
    int r;

    snprintf(port, sizeof(port), "%u", endpoint->at.port);
    r = getaddrinfo(endpoint->at.host, port, &hints, &found);
    if (r != 0)
        return err_set(err, -EHOSTUNREACH, "--rdzv-endpoint %s: %s", endpoint->at.host,
                       gai_strerror(r));
    for (const struct addrinfo *at = found; at && *ret < 0; at = at->ai_next)
        *ret = job_rendezvous_lock(at);
    freeaddrinfo(found);
    return 0;
}

static int job_rendezvous_elect(struct job_rendezvous *rendezvous, struct err *err)
{
    for (rendezvous->mine = 0; rendezvous->mine < rendezvous->count; rendezvous->mine++) {
        const struct endpoint *endpoint = &rendezvous->endpoint[rendezvous->mine];
        int r = endpoint_lock(endpoint, &rendezvous->lock, err);

        if (r < 0)
            return r;
        if (rendezvous->lock < 0)
            continue;
        if (endpoint->named) /* at whichever of its addresses the others find it */
            snprintf(rendezvous->listen, sizeof(rendezvous->listen), "0.0.0.0:%u",
                     endpoint->at.port);
        else
            snprintf(rendezvous->listen, sizeof(rendezvous->listen), "%s",
                     endpoint->url + strlen("https://"));
        return 0;
    }
    return rendezvous->count == 1
               ? 0
               : err_set(err, -EINVAL,
                         "--rdzv-endpoint: with several, each node needs one, and none "
                         "of these %zu is free on this machine",
                         rendezvous->count);
}

/* ---- the key ---- */

/* A file that all launchers see, if they have one home directory. */
static int job_rendezvous_key_file(const char *run, struct path *file, struct job_key *ret,
                                   struct err *err)
{
    struct path state, keys;
    struct token token;
    char name[80];
    int r = paths_state(&state, err);

    snprintf(name, sizeof(name), "%.63s.key", run);
    if (r == 0)
        r = path_join(&keys, state.text, "keys", err);
    if (r == 0)
        r = path_make(keys.text, err);
    if (r == 0)
        r = path_join(file, keys.text, name, err);
    if (r == 0)
        r = token_read_or_make(file->text, &token, err);
    return r < 0 ? r : job_key_of(token.text, ret, err);
}

static int job_rendezvous_key_find(const struct launch_plan *plan, const char *run,
                                   struct path *file, struct job_key *ret, struct err *err)
{
    const char *text = getenv(RENDEZVOUS_KEY_VARIABLE);
    struct token token;
    int r;

    if (plan->job_key) {
        r = token_read(plan->job_key, &token, err);
        return r < 0 ? err_wrap(err, r, "--job-key") : job_key_of(token.text, ret, err);
    }
    if (!text)
        return job_rendezvous_key_file(run, file, ret, err);
    r = job_key_of(text, ret, err);
    return r < 0 ? err_wrap(err, r, RENDEZVOUS_KEY_VARIABLE) : 0;
}

/* Ranks do not get it, whether it was the one or not. */
static int job_rendezvous_key(const struct launch_plan *plan, const char *run, struct path *file,
                              struct job_key *ret, struct err *err)
{
    int r = job_rendezvous_key_find(plan, run, file, ret, err);

    unsetenv(RENDEZVOUS_KEY_VARIABLE);
    return r;
}

/* What the controller finds in its directory.  The token of the run is the same at each of them. */
static int job_rendezvous_prepare_lead(struct job_rendezvous *rendezvous, const struct job_key *key,
                                       const unsigned char *seed, struct err *err)
{
    struct path tokens, path;
    struct token token;
    int r = path_join(&path, rendezvous->state.text, "tls", err);

    if (r == 0)
        r = tls_make_of_seed(path.text, seed, err);
    if (r == 0)
        r = path_join(&tokens, rendezvous->state.text, "tokens", err);
    if (r == 0)
        r = path_make(tokens.text, err);
    if (r == 0)
        r = path_join(&path, tokens.text, "launch.token", err);
    job_key_token(key, JOB_KEY_JOIN, &token);
    if (r == 0)
        r = token_write(path.text, &token, err);
    if (r == 0)
        r = path_join(&path, rendezvous->state.text, "agent.token", err);
    job_key_token(key, JOB_KEY_FACTS, &token);
    if (r == 0)
        r = token_write(path.text, &token, err);
    explicit_bzero(&token, sizeof(token));
    rendezvous->lead =
        (struct daemons_lead){ .state = rendezvous->state.text,
                               .run = rendezvous->run,
                               .listen = rendezvous->listen,
                               .host = rendezvous->endpoint[rendezvous->mine].at.host };
    return r;
}

static int job_rendezvous_prepare(struct job_rendezvous *rendezvous, const struct job_key *key,
                                  const char *directory, struct err *err)
{
    unsigned char seed[JOB_KEY_BYTES];
    struct token token;
    struct path path;
    char pin[64];
    int r = path_join(&path, directory, "launch.token", err);

    job_key_token(key, JOB_KEY_JOIN, &token);
    job_key_seed(key, seed);
    if (r == 0)
        r = token_write(path.text, &token, err);
    if (r == 0)
        r = tls_pin_of_seed(seed, pin, err);
    if (r == 0 && job_rendezvous_lead(rendezvous))
        r = job_rendezvous_prepare_lead(rendezvous, key, seed, err);
    explicit_bzero(seed, sizeof(seed));
    explicit_bzero(&token, sizeof(token));
    if (r < 0)
        return r;
    setenv("LOCKSTEP_CONTROL", job_rendezvous_url(rendezvous), 1);
    setenv("LOCKSTEP_CONTROL_PIN", pin, 1);
    setenv("LOCKSTEP_TOKEN_FILE", path.text, 1);
    unsetenv("LOCKSTEP_CONTROL_CA");
    return 0;
}

int job_rendezvous_open(const struct launch_plan *plan, const struct run_directory *run_dir,
                        struct job_rendezvous **ret, struct err *err)
{
    CLEAN(job_rendezvous_clean) struct job_rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    struct job_key key;
    int r;

    if (!rendezvous)
        return err_nomem(err);
    rendezvous->lock = -1;
    snprintf(rendezvous->run, sizeof(rendezvous->run), "%s", run_dir->file.id);
    r = job_rendezvous_parse(plan->rendezvous, rendezvous, err);
    if (r == 0)
        r = job_rendezvous_key(plan, run_dir->file.id, &rendezvous->key, &key, err);
    if (r == 0)
        r = job_rendezvous_elect(rendezvous, err);
    /* Another controller than the first must not use its files: that one may still be there. */
    if (r == 0)
        r = rendezvous->mine || plan->directory
                ? path_join(&rendezvous->state, run_dir->directory.text, "control", err)
                : paths_run(run_dir->file.id, &rendezvous->state, err);
    if (r == 0)
        r = job_rendezvous_prepare(rendezvous, &key, run_dir->directory.text, err);
    explicit_bzero(&key, sizeof(key));
    if (r < 0)
        return r;
    *ret = TAKE(rendezvous);
    return 0;
}

void job_rendezvous_over(struct job_rendezvous *rendezvous)
{
    if (job_rendezvous_leads(rendezvous) && rendezvous->key.text[0])
        unlink(rendezvous->key.text);
}

/* ---- Slurm ---- */

/* Where the list of hosts goes, with commas between and the port behind each. */
struct job_rendezvous_list {
    char *at;
    size_t left, count;
    unsigned port;
};

static bool job_rendezvous_hosts_put(struct job_rendezvous_list *list, const char *prefix,
                                     size_t prefix_size, const char *number, const char *suffix,
                                     size_t suffix_size)
{
    int size = snprintf(list->at, list->left, "%s%.*s%s%.*s:%u", list->count ? "," : "",
                        (int)prefix_size, prefix, number, (int)suffix_size, suffix, list->port);

    if (size < 0 || (size_t)size >= list->left || list->count == RENDEZVOUS_ENDPOINTS_MAX)
        return false;
    list->at += size;
    list->left -= (size_t)size;
    list->count++;
    return true;
}

/* "n[001-004,7]-ib": `text` begins at the first number; *ret: behind the bracket. */
static bool job_rendezvous_hosts_put_range(struct job_rendezvous_list *list, const char *prefix,
                                           const char *text, const char *end, const char *suffix,
                                           size_t suffix_size)
{
    size_t prefix_size = (size_t)(text - 1 - prefix);

    while (text < end) {
        size_t width = strspn(text, "0123456789");
        unsigned long first = strtoul(text, NULL, 10), last = first;
        char number[32];

        if (!width || width > 9)
            return false;
        text += width;
        if (*text == '-') {
            last = strtoul(text + 1, NULL, 10);
            text += 1 + strspn(text + 1, "0123456789");
        }
        if (last < first || last - first >= RENDEZVOUS_ENDPOINTS_MAX ||
            (text < end && *text != ','))
            return false;
        for (; first <= last; first++) {
            snprintf(number, sizeof(number), "%0*lu", (int)width, first);
            if (!job_rendezvous_hosts_put(list, prefix, prefix_size, number, suffix, suffix_size))
                return false;
        }
        text += *text == ',';
    }
    return true;
}

bool job_rendezvous_hosts(const char *names, unsigned port, char *ret, size_t room)
{
    struct job_rendezvous_list list = { .at = ret, .left = room, .port = port };

    ret[0] = '\0';
    while (*names) {
        size_t plain = strcspn(names, ",[");
        const char *end = names[plain] == '[' ? strchr(names + plain, ']') : NULL;
        size_t suffix = end ? strcspn(end + 1, ",[") : 0;

        if (names[plain] == '[' && (!end || end[1 + suffix] == '['))
            return false; /* a name with two numbers, as none of ours */
        if (end ? !job_rendezvous_hosts_put_range(&list, names, names + plain + 1, end, end + 1,
                                                  suffix)
                : !plain || !job_rendezvous_hosts_put(&list, names, plain, "", "", 0))
            return false;
        names = end ? end + 1 + suffix : names + plain;
        names += *names == ',';
    }
    return list.count > 0;
}

static const char *job_rendezvous_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID");

    return step ? step : "0";
}

bool job_rendezvous_slurm_endpoint(char *ret, size_t room)
{
    const char *job = getenv("SLURM_JOB_ID"), *list = getenv("SLURM_STEP_NODELIST");
    char text[128];
    uint64_t hash;

    if (!list)
        list = getenv("SLURM_JOB_NODELIST");
    if (!job || !list)
        return false;
    snprintf(text, sizeof(text), "%.40s.%.40s", job, job_rendezvous_slurm_step());
    hash = hash64(0, text, strlen(text));
    return job_rendezvous_hosts(list, (unsigned)(RENDEZVOUS_PORT_FIRST + hash % RENDEZVOUS_PORTS),
                                ret, room);
}

bool job_rendezvous_slurm_name(char ret[static 64])
{
    const char *job = getenv("SLURM_JOB_ID");

    if (!job)
        return false;
    snprintf(ret, 64, "slurm-%.24s-%.24s", job, job_rendezvous_slurm_step());
    return true;
}
