/* meet.c - where the launchers of a job meet if there is no site's controller.
 *
 * Who leads is decided by an address: of all machines one has it.  Of several launchers on that machine the first leads, which
 * holds the UDP port of that number for its life; the controller itself listens on TCP.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/meet.h"

#include <ctype.h>
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

#define MEET_PORT_FIRST 20000 /* of those that Slurm's jobs use: below those that systems give out */
#define MEET_PORTS 10000

struct meet {
    struct address at;
    bool leads, named; /* named: the endpoint is no address in numbers */
    int lock;          /* UDP socket; -1: another one leads */
    char url[ADDRESS_HOST + 32], listen[ADDRESS_HOST + 16], run[64];
    struct path state;
    struct daemons_lead lead;
};

void meet_close(struct meet *meet)
{
    if (!meet)
        return;
    fd_clean(&meet->lock);
    free(meet);
}

static void meet_clean(struct meet **meet)
{
    meet_close(*meet);
}

const struct daemons_lead *meet_lead(const struct meet *meet)
{
    return meet && meet->leads ? &meet->lead : NULL;
}

const char *meet_url(const struct meet *meet)
{
    return meet->url;
}

const char *meet_name(const struct meet *meet)
{
    return meet && meet->leads && meet->named ? meet->at.host : NULL;
}

/* ---- the endpoint ---- */

static int meet_parse(const char *text, struct meet *meet, struct err *err)
{
    bool v6;

    if (address_parse(text, strlen(text), &meet->at) < 0 || !meet->at.has_port || !meet->at.port)
        return err_set(err, -EINVAL, "--rdzv-endpoint %s: expected HOST:PORT", text);
    v6 = strchr(meet->at.host, ':') != NULL;
    meet->named = !v6 && meet->at.host[strspn(meet->at.host, "0123456789.")] != '\0';
    snprintf(meet->url, sizeof(meet->url), "https://%s%s%s:%u", v6 ? "[" : "", meet->at.host,
             v6 ? "]" : "", meet->at.port);
    if (meet->named) /* at whichever of its addresses the others find it */
        snprintf(meet->listen, sizeof(meet->listen), "0.0.0.0:%u", meet->at.port);
    else
        snprintf(meet->listen, sizeof(meet->listen), "%s", meet->url + strlen("https://"));
    return 0;
}

/* -1: the address is another machine's, or another launcher here has it. */
static int meet_lock(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int meet_elect(struct meet *meet, struct err *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    char port[8];
    int r;

    snprintf(port, sizeof(port), "%u", meet->at.port);
    r = getaddrinfo(meet->at.host, port, &hints, &found);
    if (r != 0)
        return err_set(err, -EHOSTUNREACH, "--rdzv-endpoint %s: %s", meet->at.host,
                       gai_strerror(r));
    for (const struct addrinfo *at = found; at && meet->lock < 0; at = at->ai_next)
        meet->lock = meet_lock(at);
    freeaddrinfo(found);
    meet->leads = meet->lock >= 0;
    return 0;
}

/* ---- the key ---- */

/* A file that all launchers see, if they have one home directory. */
static int meet_key_file(const char *run, struct job_key *ret, struct err *err)
{
    struct path state, keys, path;
    struct token token;
    char name[80];
    int r = paths_state(&state, err);

    snprintf(name, sizeof(name), "%.63s.key", run);
    if (r == 0)
        r = path_join(&keys, state.text, "keys", err);
    if (r == 0)
        r = path_make(keys.text, err);
    if (r == 0)
        r = path_join(&path, keys.text, name, err);
    if (r == 0)
        r = token_read_or_make(path.text, &token, err);
    return r < 0 ? r : job_key_of(token.text, ret, err);
}

static int meet_key(const struct launch_plan *plan, const char *run, struct job_key *ret,
                    struct err *err)
{
    const char *text = getenv(MEET_KEY_VARIABLE);
    struct token token;
    int r;

    if (plan->job_key) {
        r = token_read(plan->job_key, &token, err);
        return r < 0 ? err_wrap(err, r, "--job-key") : job_key_of(token.text, ret, err);
    }
    if (!text)
        return meet_key_file(run, ret, err);
    r = job_key_of(text, ret, err);
    if (r < 0)
        return err_wrap(err, r, MEET_KEY_VARIABLE);
    unsetenv(MEET_KEY_VARIABLE);
    return 0;
}

/* What the controller finds in its directory. */
static int meet_prepare_lead(struct meet *meet, const struct token *token,
                             const unsigned char *seed, struct err *err)
{
    struct path tokens, path;
    int r = path_join(&path, meet->state.text, "tls", err);

    if (r == 0)
        r = tls_make_of_seed(path.text, seed, err);
    if (r == 0)
        r = path_join(&tokens, meet->state.text, "tokens", err);
    if (r == 0)
        r = path_make(tokens.text, err);
    if (r == 0)
        r = path_join(&path, tokens.text, "launch.token", err);
    if (r == 0)
        r = token_write(path.text, token, err);
    meet->lead = (struct daemons_lead){ .state = meet->state.text,
                                        .run = meet->run,
                                        .listen = meet->listen,
                                        .host = meet->at.host };
    return r;
}

static int meet_prepare(struct meet *meet, const struct job_key *key, const char *directory,
                        struct err *err)
{
    unsigned char seed[JOB_KEY_BYTES];
    struct token token;
    struct path path;
    char pin[64];
    int r = path_join(&path, directory, "launch.token", err);

    job_key_token(key, &token);
    job_key_seed(key, seed);
    if (r == 0)
        r = token_write(path.text, &token, err);
    if (r == 0)
        r = tls_pin_of_seed(seed, pin, err);
    if (r == 0 && meet->leads)
        r = meet_prepare_lead(meet, &token, seed, err);
    explicit_bzero(seed, sizeof(seed));
    explicit_bzero(&token, sizeof(token));
    if (r < 0)
        return r;
    setenv("LOCKSTEP_CONTROL", meet->url, 1);
    setenv("LOCKSTEP_CONTROL_PIN", pin, 1);
    setenv("LOCKSTEP_TOKEN_FILE", path.text, 1);
    unsetenv("LOCKSTEP_CONTROL_CA");
    return 0;
}

int meet_open(const struct launch_plan *plan, const struct run_directory *run_dir,
              struct meet **ret, struct err *err)
{
    CLEAN(meet_clean) struct meet *meet = calloc(1, sizeof(*meet));
    struct job_key key;
    int r;

    if (!meet)
        return err_nomem(err);
    meet->lock = -1;
    snprintf(meet->run, sizeof(meet->run), "%s", run_dir->file.id);
    r = meet_parse(plan->meet, meet, err);
    if (r == 0)
        r = plan->directory
                ? path_join(&meet->state, run_dir->directory.text, "control", err)
                : paths_run(run_dir->file.id, &meet->state, err);
    if (r == 0)
        r = meet_key(plan, run_dir->file.id, &key, err);
    if (r == 0)
        r = meet_elect(meet, err);
    if (r == 0)
        r = meet_prepare(meet, &key, run_dir->directory.text, err);
    explicit_bzero(&key, sizeof(key));
    if (r < 0)
        return r;
    *ret = TAKE(meet);
    return 0;
}

/* ---- Slurm ---- */

/* The first name of "n[001-004,7],m3"; false: it is none. */
static bool meet_first_host(const char *list, char *ret, size_t room)
{
    size_t size = 0;

    for (; *list && *list != ','; list++) {
        if (*list == '[') {
            for (list++; isdigit((unsigned char)*list) && size + 1 < room; list++)
                ret[size++] = *list;
            list = strchr(list, ']');
            if (!list)
                return false;
        } else if (size + 1 < room) {
            ret[size++] = *list;
        }
    }
    ret[size] = '\0';
    return size && size + 1 < room;
}

static const char *meet_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID");

    return step ? step : "0";
}

bool meet_slurm_endpoint(char *ret, size_t room)
{
    const char *job = getenv("SLURM_JOB_ID"), *list = getenv("SLURM_STEP_NODELIST");
    char host[ADDRESS_HOST], text[128];
    uint64_t hash;

    if (!list)
        list = getenv("SLURM_JOB_NODELIST");
    if (!job || !list || !meet_first_host(list, host, sizeof(host)))
        return false;
    snprintf(text, sizeof(text), "%.40s.%.40s", job, meet_slurm_step());
    hash = hash64(0, text, strlen(text));
    snprintf(ret, room, "%s:%u", host, (unsigned)(MEET_PORT_FIRST + hash % MEET_PORTS));
    return true;
}

bool meet_slurm_name(char ret[static 64])
{
    const char *job = getenv("SLURM_JOB_ID");

    if (!job)
        return false;
    snprintf(ret, 64, "slurm-%.24s-%.24s", job, meet_slurm_step());
    return true;
}
