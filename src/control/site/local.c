/* local.c - the controller of one run: a site whose only run is fed from the spools in its directory.
 *
 * `lockstep run` starts it.  It ends when a signal arrives or its parent is gone: then it reads every spool to its end and
 * closes the run.  HTTP is an addition: a run is judged whether or not its controller can listen.  Where the log and
 * the core differ, the process ends and its parent starts another one, which reads the log again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/net/control_url.h"
#include "control/site/site_private.h"
#include "core/clean.h"
#include "core/time.h"

#define HTTP_AGAIN_NS (30 * NS_PER_S)
#define LAST_INDEX_NS (300 * NS_PER_MS) /* the launcher waits for it */
#define LAST_INDEX_FRAMES 1000

void site_fail(struct site *site, int result, const struct err *why)
{
    if (site->failed == 0) {
        site->failed = result;
        site->failure = *why;
    }
    loop_stop(site->loop);
}

static void local_page_forget(const struct site *site)
{
    struct path path;

    if (path_join(&path, site->state.text, PAGE_URL_FILE, NULL) == 0)
        unlink(path.text);
}

int local_open(struct site *site, struct err *err)
{
    struct rundir dir;
    int result = rundir_open(&dir, site->settings.run_dir, err);

    if (result < 0)
        return result;
    site->state = dir.path;
    site->parent = getppid();
    result = site_add(site, &dir, &site->local, err);
    if (result == 0)
        result = feed_open(site->local, err);
    if (result == 0)
        result = run_open(site->local, err);
    if (result < 0 && result != -EAGAIN)
        return result;
    control_url_remove(site->state.text); /* of a killed one: another process may have its port */
    local_page_forget(site);
    return 0;
}

/* Tokens and port.  The run's token and the one in control.url are new each time: one that was sent to a port of a killed
 * controller, and so to whichever process has that port now, is not valid any more.
 */
static int local_listen(struct site *site, struct err *err)
{
    struct token reader;
    struct path path;
    int result = site_listen(site, err);

    if (result == 0)
        result = path_join(&path, site->state.text, "tokens/agent.token", err);
    if (result == 0)
        result = token_make(&site->local->agent, err);
    if (result == 0)
        result = token_write(path.text, &site->local->agent, err);
    if (result == 0)
        result = token_make(&reader, err);
    if (result == 0)
        result = auth_add(&site->auth, "reader-control.url", AUTH_READER, &reader, err);
    if (result == 0)
        result = site_announce(site, &reader, err);
    if (result < 0)
        http_close(TAKE(site->http));
    return result;
}

/* For the launcher, which prints it; like control.url only its user may read it. */
static void local_page_link(struct site *site)
{
    CLEAN(fd_clean) int fd = -1;
    struct token ticket;
    struct path path;
    char line[256];

    if (path_join(&path, site->state.text, PAGE_URL_FILE, NULL) < 0 ||
        session_link_make(&site->sessions, "launcher", time_mono_ns(), &ticket, NULL) < 0)
        return;
    snprintf(line, sizeof(line), "http://127.0.0.1:%u/login?ticket=%s\n", http_port(site->http),
             ticket.text);
    unlink(path.text);
    fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
        log_error("%s: %m; the link to the page is not printed", path.text);
}

static void local_listen_try(struct site *site, int64_t now_ns)
{
    struct err err = { "" };

    if (site->http || site->local->feed.stopping || now_ns < site->http_at_ns)
        return;
    site->http_at_ns = now_ns + HTTP_AGAIN_NS;
    if (local_listen(site, &err) == 0) {
        site->http_missed = false;
        local_page_link(site);
    } else if (!site->http_missed) {
        site->http_missed = true;
        log_error("the API is not available, the run is judged anyway: %s", err.text);
    }
}

static int local_round(struct site *site, int64_t now_ns, struct err *err)
{
    struct site_run *run = site->local;
    int result, count = feed_turn(run, err);

    if (count == -EAGAIN) /* its log is being read */
        return count;
    if (count < 0) {
        site_trouble(site, count, err);
        if (count == -ENOMEM || count == -ESTALE || !run->log)
            site_fail(site, count, err);
        return count;
    }
    result = run_turn(run, now_ns, err);
    return result < 0 ? result : count;
}

/* How long until the next turn: a burst of facts is many turns without sleep, so its verdicts do not wait for its end. */
int64_t local_turn(struct site *site, int64_t now_ns)
{
    struct site_run *run = site->local;
    struct err err = { "" };
    int result;

    if (getppid() != site->parent)
        feed_stop(run);
    result = local_round(site, now_ns, &err);
    if (run->feed.stopping && site->failed == 0) {
        result = feed_finish(run, result, &err);
        if (result < 0)
            site_fail(site, result, &err);
        else if (result == 1)
            loop_stop(site->loop);
    }
    if (run->log)
        local_listen_try(site, now_ns);
    return run->feed.busy ? 0 : site->settings.tick_ns;
}

void local_close(struct site *site)
{
    int64_t until_ns = time_mono_ns() + LAST_INDEX_NS;

    if (!site->local)
        return;
    control_url_remove(site->state.text);
    local_page_forget(site);
    while (site->failed == 0 && time_mono_ns() < until_ns && run_has_room(site->local) &&
           run_index(site->local, LAST_INDEX_FRAMES) > 0)
        ;
}
