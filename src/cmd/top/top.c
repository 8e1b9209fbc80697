/* top.c - lockstep top: a run on a terminal, as it trains.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Its functions, not its macros, some of which have names such as `move`. */
#define NCURSES_NOMACROS
#include <curses.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/report/run_source.h"
#include "cmd/top/top_screen.h"
#include "core/clean.h"
#include "core/time.h"

#define SLICE_NS (8 * NS_PER_MS) /* of reading, a look */
#define LATER_NS (200 * NS_PER_MS)

struct top_settings {
    int64_t delay_ns;
    struct site_options site;
};

static const struct opt top_opts[] = {
    { "delay", 'd', OPT_DURATION, offsetof(struct top_settings, delay_ns), "TIME",
      "time between two updates, default 1s", NULL, false },
    SITE_ASK_OPTS(offsetof(struct top_settings, site)),
    { .name = NULL },
};

struct top {
    const struct top_settings *settings;
    struct run_source source;
    struct live_run *live;
    struct top_screen screen;
    pid_t fetcher; /* 0: none; it copies a site's log as it grows */
    char trouble[256];
};

static void top_close(struct top *top)
{
    if (top->fetcher > 0) {
        kill(top->fetcher, SIGTERM);
        waitpid(top->fetcher, NULL, 0);
    }
    top_screen_fini(&top->screen);
    live_run_close(top->live);
    run_source_close(&top->source);
}

static void top_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

/* In a process of its own: a controller that does not answer must not stop the screen. */
static void top_fetch(const struct top *top, const char *run)
{
    CLEAN(top_ask_clean) struct site_ask *ask = NULL;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    if (site_ask_open(&top->settings->site, &ask, NULL) == 0)
        site_ask_follow(ask, run, &top->source.directory, top->settings->delay_ns);
}

static int top_fetch_start(struct top *top, struct err *err)
{
    const char *slash = strrchr(top->source.directory.text, '/');

    if (!top->source.fetched || !slash)
        return 0;
    top->fetcher = fork();
    if (top->fetcher < 0)
        return err_set(err, -errno, "fork: %m");
    if (top->fetcher == 0) {
        top_fetch(top, slash + 1);
        _exit(3);
    }
    return 0;
}

static bool top_is_alive(struct top *top)
{
    if (top->fetcher <= 0)
        return rundir_is_alive(&top->live->dir);
    if (waitpid(top->fetcher, NULL, WNOHANG) == top->fetcher) {
        top->fetcher = -1;
        snprintf(top->trouble, sizeof(top->trouble),
                 "the controller no longer answers: what is shown is old");
        top->screen.trouble = top->trouble;
    }
    return top->fetcher > 0 && !top->live->last;
}

static int top_update(struct top *top, struct err *err)
{
    int result = 0;

    if (!top->screen.paused) {
        top->screen.alive = top_is_alive(top);
        result = live_run_read(top->live, SLICE_NS, err);
    }
    if (result < 0)
        return result;
    if (result > 0 && live_run_read_pct(top->live) < 99 && top->screen.trouble != top->trouble) {
        static char reading[48];

        snprintf(reading, sizeof(reading), "reading the log: %u %%", live_run_read_pct(top->live));
        top->screen.trouble = reading;
    } else if (top->screen.trouble != top->trouble) {
        top->screen.trouble = NULL;
    }
    top_screen_draw(&top->screen, top->live, time_real_ns());
    return result;
}

/* Keys are read without waiting; one that resizes the terminal is one of them. */
static bool top_keys(struct top *top)
{
    int key;

    while ((key = getch()) != ERR) {
        if (!top_screen_key(&top->screen, top->live, key))
            return false;
    }
    return true;
}

/* poll() and not base/loop.h: there is one descriptor, and the log is read between two looks at it, not when something arrives. */
static int top_loop(struct top *top, struct err *err)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

    for (;;) {
        int result = top_update(top, err);
        int64_t wait_ns = result > 0 ? LATER_NS : top->settings->delay_ns;

        if (result < 0)
            return result;
        if (result > 0 && live_run_read_pct(top->live) < 99)
            wait_ns = 0;
        poll(&input, 1, (int)(wait_ns / NS_PER_MS));
        if (input.revents & (POLLHUP | POLLERR | POLLNVAL) || !top_keys(top))
            return 0;
    }
}

static int top_show(struct top *top, struct err *err)
{
    SCREEN *terminal;
    int result;

    setlocale(LC_ALL, "");
    set_escdelay(25);
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return err_set(err, -ENOTTY, "cannot use a terminal of type '%s'",
                       getenv("TERM") ? getenv("TERM") : "");
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    curs_set(0);
    /* As tmux and PuTTY send them, whatever TERM says: unknown, they would be the key "1" or "4". */
    define_key("\033[1~", KEY_HOME);
    define_key("\033[4~", KEY_END);
    define_key("\033[H", KEY_HOME);
    define_key("\033[F", KEY_END);
    top_screen_init(&top->screen);
    result = top_loop(top, err);
    endwin();
    delscreen(terminal);
    return result;
}

static int top_answer(const char *run, const struct top_settings *settings)
{
    CLEAN(top_close) struct top top = { .settings = settings };
    struct err err = { "" };
    int result = run_source_open(run, &settings->site, &top.source, &err);

    if (result == 0)
        result = live_run_open(top.source.directory.text, &top.live, &err);
    if (result == 0)
        result = top_fetch_start(&top, &err);
    if (result == 0)
        result = top_show(&top, &err);
    if (result == 0)
        return 0;
    log_error("%s", err.text);
    return site_ask_exit(result);
}

static int top_main(int argc, char **argv)
{
    struct top_settings settings = { .delay_ns = NS_PER_S };
    const char *run = NULL;

    for (int first = opt_parse(&command_top, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_top, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        if (run) {
            log_error("one run at a time: '%s' is one too many", argv[first]);
            return 2;
        }
        run = argv[first];
        argv += first;
        argc -= first;
    }
    if (settings.delay_ns < 100 * NS_PER_MS || settings.delay_ns > 60 * NS_PER_S) {
        log_error("--delay: expected 100ms to 60s");
        return 2;
    }
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        log_error("needs a terminal; lockstep why prints the same for files and pipes");
        return 2;
    }
    return top_answer(run, &settings);
}

const struct command command_top = {
    .name = "top",
    .operands = "[RUN]",
    .summary = "a run on the terminal, as it trains: ranks, verdicts, ledger, nodes",
    .details = "Without RUN it is the newest.  F1 explains the keys.",
    .opt = top_opts,
    .run = top_main,
};
