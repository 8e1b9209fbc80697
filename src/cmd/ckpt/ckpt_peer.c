/* ckpt_peer.c - `lockstep ckpt serve` and `lockstep ckpt mirror`: copies of points on another node.
 *
 * The node that needs a copy asks for it: the one that trains only gives what is committed and verified, in a process of its own at
 * low priority, so no save waits for a network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/net/address.h"
#include "base/net/http.h"
#include "base/paths.h"
#include "ckpt/store/retain.h"
#include "ckpt/tiers/peer_serve.h"
#include "ckpt/tiers/pull.h"
#include "cmd/ckpt/ckpt_private.h"
#include "cmd/lockstep.h"
#include "cmd/progress_bar.h"
#include "cmd/serve.h"
#include "core/clean.h"
#include "core/time.h"

#define CALL_NS (60 * NS_PER_S)
#define OWN_ADDRESSES_MAX 64
#define POINTS_ASKED 256

struct peer_options {
    const char *listen, *token_file, *ca, *pin;
    bool insecure_http, follow, dry_run, json;
    uint64_t step;
    uint32_t keep;
    int64_t interval_ns;
};

#define PEER_TOKEN_OPT                                                                             \
    {                                                                                              \
        "token-file", 0, OPT_TEXT, offsetof(struct peer_options, token_file), "FILE",              \
            "the secret that both sides share, default tokens/ckpt.token of the state directory",  \
            NULL, false                                                                            \
    }

#define PEER_TOKEN "ckpt.token"

/* ---- serve ---- */

static const struct opt serve_opts[] = {
    { "listen", 0, OPT_TEXT, offsetof(struct peer_options, listen), "ADDRESS:PORT",
      "default 127.0.0.1:8790; other addresses than loopback get TLS", NULL, false },
    PEER_TOKEN_OPT,
    { .name = NULL },
};

static int peer_tls_read(const char *listen, struct tls *ret, struct err *err)
{
    char own[OWN_ADDRESSES_MAX][ADDRESS_NUMBER];
    const char *names[OWN_ADDRESSES_MAX];
    size_t count = address_own(listen, own, COUNT(own));
    struct path state, directory;
    int result = paths_state(&state, err);

    for (size_t i = 0; i < count; i++)
        names[i] = own[i];
    if (result == 0)
        result = path_join(&directory, state.text, "ckpt-tls", err);
    if (result == 0)
        result = path_make(directory.text, err);
    return result < 0 ? result : tls_read_or_make(directory.text, names, count, ret, err);
}

static void peer_signal(void *arg, int signal)
{
    (void)signal;
    loop_stop(arg);
}

static int peer_serve_run(const struct peer_options *options, const char *path, int fd,
                          struct err *err)
{
    static const int ends[] = { SIGTERM, SIGINT };
    struct peer_server_settings settings = { .listen = options->listen, .dir_fd = fd };
    struct peer_server *server = NULL;
    struct loop *loop = NULL;
    struct err why = { "" };
    bool loopback = http_address_is_loopback(options->listen, &why);
    struct tls tls = { .key_pem = NULL };
    struct path token;
    int result =
        why.text[0] ? err_set(err, -EINVAL, "--listen %s", why.text) : loop_create(&loop, err);

    if (result == 0)
        result = serve_token_path(options->token_file, PEER_TOKEN, &token, err);
    if (result == 0)
        result = token_read_or_make(token.text, &settings.token, err);
    if (result == 0 && !loopback)
        result = peer_tls_read(options->listen, &tls, err);
    if (result == 0)
        result = loop_signals(loop, ends, COUNT(ends), peer_signal, loop, err);
    settings.tls = loopback ? NULL : &tls;
    if (result == 0)
        result = peer_server_open(loop, &settings, &server, err);
    if (result == 0) {
        printf("serving %s at %s://%.*s:%u, token %s%s%s\n", path, loopback ? "http" : "https",
               (int)(strrchr(options->listen, ':') - options->listen), options->listen,
               peer_server_port(server), token.text, loopback ? "" : ", pin ", tls.pin);
        fflush(stdout);
        result = loop_run(loop, err);
    }
    peer_server_close(server);
    loop_destroy(loop);
    tls_fini(&tls);
    return result;
}

static int peer_serve_main(int argc, char **argv)
{
    struct peer_options options = { .listen = "127.0.0.1:8790" };
    struct err err = { "" };
    const char *path;
    CLEAN(fd_clean) int fd = ckpt_parse(&command_ckpt_serve, argc, argv, &options, &path);
    int result;

    if (fd < 0)
        return -1 - fd;
    signal(SIGPIPE, SIG_IGN);
    ckpt_priority_lower();
    result = peer_serve_run(&options, path, fd, &err);
    return serve_exit(result, &err);
}

const struct command command_ckpt_serve = {
    .name = "ckpt serve",
    .operands = "DIR",
    .summary = "give verified checkpoints to other nodes, for lockstep ckpt mirror",
    .details = "Prints its address, the file of its token and the pin of its key, and runs until\n"
               "SIGTERM.  It only reads; a save never waits for it.",
    .opt = serve_opts,
    .run = peer_serve_main,
};

/* ---- mirror ---- */

static const struct opt mirror_opts[] = {
    { "follow", 'f', OPT_FLAG, offsetof(struct peer_options, follow), NULL,
      "copy each newer point as well, until it is ended", NULL, false },
    { "interval", 0, OPT_DURATION, offsetof(struct peer_options, interval_ns), "TIME",
      "how often to look for a newer point, default 2s", NULL, false },
    { "keep", 0, OPT_U32, offsetof(struct peer_options, keep), "N",
      "remove older points once N newer ones are verified here, default all stay", NULL, false },
    { "step", 0, OPT_U64, offsetof(struct peer_options, step), "N",
      "the point of this step, default: the newest one", NULL, false },
    PEER_TOKEN_OPT,
    { "ca", 0, OPT_TEXT, offsetof(struct peer_options, ca), "FILE", "certificate to trust, in PEM",
      NULL, false },
    { "pin", 0, OPT_TEXT, offsetof(struct peer_options, pin), "PIN",
      "trust the node that has this key: sha256//..., as serve prints it", NULL, false },
    { "insecure-http", 0, OPT_FLAG, offsetof(struct peer_options, insecure_http), NULL,
      "send the token without encryption to another machine", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct peer_options, dry_run), NULL,
      "only print which points the other node has", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct peer_options, json), NULL,
      "one JSON object for each point, a line each", NULL, false },
    { .name = NULL },
};

struct mirror {
    const struct peer_options *options;
    struct peer *peer;
    int dir_fd;
    struct progress_bar bar;
    struct peer_point last; /* that is here; step UINT64_MAX: none yet */
};

/* Committed here, and read back. */
static bool mirror_has(const struct mirror *mirror, struct peer_point wanted)
{
    struct points points = { .point = NULL };
    bool found = false;

    if (points_read(mirror->dir_fd, POINTS_MARKS, &points, NULL) < 0)
        return false;
    for (size_t i = 0; !found && i < points.count; i++) {
        struct commit commit = { .step = 0 };
        CLEAN(fd_clean) int fd = -1;

        if (points.point[i].step != wanted.step || points.point[i].state != POINT_COMMITTED ||
            !points.point[i].read_back)
            continue;
        fd = point_open(mirror->dir_fd, &points.point[i], NULL);
        found = fd >= 0 && point_commit(fd, wanted.step, &commit, NULL) == 0 &&
                commit.job == wanted.job;
        commit_fini(&commit);
    }
    points_fini(&points);
    return found;
}

static void mirror_report(const struct mirror *mirror, struct peer_point point, const char *state,
                          const struct pull *pull)
{
    struct json_object *object;

    if (!mirror->options->json) {
        printf("step %" PRIu64 "  %s: %.3f MB, %.3f MB were there before\n", point.step, state,
               (double)pull->received_bytes / 1e6, (double)pull->kept_bytes / 1e6);
        fflush(stdout);
        return;
    }
    object = json_object_new_object();
    json_object_object_add(object, "step", json_object_new_uint64(point.step));
    json_object_object_add(object, "state", json_object_new_string(state));
    json_object_object_add(object, "moved_bytes", json_object_new_uint64(pull->received_bytes));
    json_object_object_add(object, "kept_bytes", json_object_new_uint64(pull->kept_bytes));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    fflush(stdout);
    json_object_put(object);
}

static int mirror_copy(struct mirror *mirror, struct peer_point point, struct err *err)
{
    struct pull pull = { .peer = mirror->peer,
                         .part_bytes = CKPT_BLOCK,
                         .progress = isatty(STDERR_FILENO) ? progress_bar_show : NULL,
                         .ctx = &mirror->bar };
    bool there = mirror_has(mirror, point);
    int64_t begin_ns = time_mono_ns();
    int result = there ? 0 : pull_point(&pull, mirror->dir_fd, point.step, point.job, err);

    uint64_t took_us = there ? 0 : (uint64_t)((time_mono_ns() - begin_ns) / NS_PER_US);

    progress_bar_end(&mirror->bar);
    if (result < 0)
        return err_wrap(err, result, "step %" PRIu64, point.step);
    mirror_report(mirror, point, there ? "was there" : "copied", &pull);
    mirror->last = point;
    if (mirror->options->keep)
        retain_points(mirror->dir_fd, &(struct retain){ .keep = mirror->options->keep }, NULL);
    return peer_copied(mirror->peer, point, took_us, err);
}

static bool mirror_wants(const struct mirror *mirror, struct peer_point point)
{
    return mirror->options->step == UINT64_MAX || mirror->options->step == point.step;
}

static int mirror_list(const struct mirror *mirror, const struct peer_point *point, size_t count)
{
    const struct pull nothing = { .peer = mirror->peer };

    for (size_t i = 0; i < count; i++) {
        if (mirror_wants(mirror, point[i]))
            mirror_report(mirror, point[i],
                          mirror_has(mirror, point[i]) ? "was there" : "would be copied", &nothing);
    }
    return 0;
}

/* -ENODATA: there is no such point. */
static int mirror_once(struct mirror *mirror, struct err *err)
{
    struct peer_point point[POINTS_ASKED];
    size_t count = 0, i = 0;
    int result = peer_points(mirror->peer, point, COUNT(point), &count, err);

    if (result < 0)
        return result;
    while (i < count && !mirror_wants(mirror, point[i]))
        i++;
    if (i == count)
        return err_set(err, -ENODATA, "the node has no such verified point");
    if (mirror->options->dry_run)
        return mirror_list(mirror, point, count);
    if (point[i].step == mirror->last.step && point[i].job == mirror->last.job)
        return 0;
    return mirror_copy(mirror, point[i], err);
}

/* Until it is ended.  A node that cannot be reached is asked again; each other reason is printed once. */
static int mirror_follow(struct mirror *mirror)
{
    char printed[sizeof(((struct err *)NULL)->text)] = "";

    for (;;) {
        struct err err = { "" };
        int result = mirror_once(mirror, &err);

        if (result == -EACCES || result == -EINVAL) {
            log_error("%s", err.text);
            return 3;
        }
        if (result < 0 && result != -ENODATA && strcmp(printed, err.text) != 0)
            log_info("%s; trying again", err.text);
        snprintf(printed, sizeof(printed), "%s", result < 0 ? err.text : "");
        poll(NULL, 0, (int)MIN(mirror->options->interval_ns / NS_PER_MS, 3600000));
    }
}

static int mirror_open(struct mirror *mirror, const char *url, const char *path, struct err *err)
{
    const struct peer_options *options = mirror->options;
    struct client_settings settings = { .url = url,
                                        .ca_file = options->ca,
                                        .pin = options->pin,
                                        .insecure_http = options->insecure_http,
                                        .timeout_ns = CALL_NS };
    struct token token;
    struct path file;
    int result = client_check_url(url, options->insecure_http, err);

    if (result == 0)
        result = serve_token_path(options->token_file, PEER_TOKEN, &file, err);
    if (result == 0)
        result = token_read(file.text, &token, err);
    if (result == 0)
        result = peer_open(&settings, &token, &mirror->peer, err);
    if (result == 0 && !options->dry_run && mkdir(path, 0755) < 0 && errno != EEXIST)
        result = err_set(err, -EIO, "%s: %m", path);
    if (result == 0) {
        mirror->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mirror->dir_fd < 0 && !(options->dry_run && errno == ENOENT))
            result = err_set(err, -EIO, "%s: %m", path);
    }
    return result;
}

static int mirror_operands(int argc, char **argv, struct peer_options *options,
                           const char *operand[2])
{
    int count = 0, at = opt_parse(&command_ckpt_mirror, argc, argv, options);

    while (at >= 0 && at < argc && count < 2) {
        int more;

        operand[count++] = argv[at];
        more = opt_parse_more(&command_ckpt_mirror, argc - at, argv + at, options);
        at = more < 0 ? more : at + more;
    }
    if (at < 0)
        return OPT_EXIT(at);
    if (count == 2 && at == argc && options->interval_ns >= 10 * NS_PER_MS)
        return -1;
    log_error("expected %s, and an --interval of at least 10ms", command_ckpt_mirror.operands);
    return 2;
}

static int mirror_main(int argc, char **argv)
{
    struct peer_options options = { .step = UINT64_MAX, .interval_ns = 2 * NS_PER_S };
    struct mirror mirror = { .options = &options,
                             .dir_fd = -1,
                             .bar = { .what = "mirror" },
                             .last = { .step = UINT64_MAX } };
    const char *operand[2] = { NULL, NULL };
    struct err err = { "" };
    int status = mirror_operands(argc, argv, &options, operand), result;

    if (status >= 0)
        return status;
    signal(SIGPIPE, SIG_IGN);
    ckpt_priority_lower();
    result = mirror_open(&mirror, operand[0], operand[1], &err);
    if (result == 0 && options.follow && !options.dry_run)
        return mirror_follow(&mirror);
    if (result == 0)
        result = mirror_once(&mirror, &err);
    peer_close(mirror.peer);
    fd_clean(&mirror.dir_fd);
    if (result < 0)
        log_error("%s", err.text);
    return result >= 0 ? 0 : result == -EPROTO ? 1 : result == -EINVAL ? 2 : 3;
}

const struct command command_ckpt_mirror = {
    .name = "ckpt mirror",
    .operands = "URL DIR",
    .summary = "copy checkpoints of another node, which runs lockstep ckpt serve, into DIR",
    .details =
        "The point is committed in DIR after all of its files were read back and compared with\n"
        "their checksums.  An interrupted copy continues where it stopped.  Exits 1 if the point "
        "is\n"
        "damaged, 3 if there is none or the node cannot be reached.",
    .opt = mirror_opts,
    .run = mirror_main,
};
