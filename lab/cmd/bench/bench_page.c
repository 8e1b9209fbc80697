/* bench_page.c - how soon the page of a very large job is painted, and how soon it answers a key.
 *
 * A controller judges a made-up job, a real browser opens its page.  From a key to the picture is measured inside the page: from the time
 * stamp of the event to the frame in which the canvas has been painted again.  Beside it the same for a canvas of the same size
 * that is only filled: nothing in this browser, on this machine, can be faster than that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/net/control_url.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "control/site/site.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/bench/browser.h"
#include "lab/bench/fleet.h"
#include "lab/cmd/lab.h"
#include "show/page_files.h"

#define RUN "bench"
#define WIDTH 1440
#define HEIGHT 900
#define OPS 4u
#define STEP_NS (100 * NS_PER_MS)
#define JUDGED_NS (600 * NS_PER_S)
#define PAINT_NS (30 * NS_PER_S)
#define LOADS 5
#define BYTES_BAR 81920
#define INPUT_BAR_MS 50.0 /* more than an empty canvas */

struct bench_page {
    const struct bench_page_settings *settings;
    struct path state, run, profile;
    pid_t control;
    struct browser *browser;
    double first_paint_ms, input_p50_ms, input_p95_ms, empty_p50_ms, empty_p95_ms;
};

static void page_fini(struct bench_page *bench)
{
    browser_close(bench->browser);
    if (bench->control > 0) {
        kill(bench->control, SIGKILL);
        waitpid(bench->control, NULL, 0);
    }
    if (bench->state.text[0])
        tree_remove(bench->state.text);
}

/* ---- the job ---- */

static int page_put(FILE *file, struct buf *frames, struct err *err)
{
    int result = 0;

    if (frames->failed)
        result = err_nomem(err);
    else if (fwrite(frames->data, 1, frames->size, file) != frames->size)
        result = err_set(err, errno ? -errno : -EIO, "the spool: %m");
    frames->size = 0;
    return result;
}

/* All senders in one file, step by step: as a controller that keeps up would read them. */
static int page_job_write(const struct bench_page *bench, struct fleet *fleet, FILE *file,
                          struct err *err)
{
    int64_t begin_ns = time_mono_ns() - (int64_t)bench->settings->steps * STEP_NS;
    CLEAN(free_clean) uint64_t *number = calloc(fleet->nodes, sizeof(*number));
    CLEAN(buf_fini) struct buf frames = { 0 };
    int result = number ? 0 : err_nomem(err);

    if (result == 0)
        fleet_launch(fleet, RUN, 1, &frames);
    for (uint32_t node = 0; node < fleet->nodes && result == 0; node++) {
        fleet_hello(fleet, node, RUN, 1, &number[node], &frames);
        result = page_put(file, &frames, err);
    }
    for (uint64_t step = 0; step < bench->settings->steps; step++) {
        for (uint32_t node = 0; node < fleet->nodes && result == 0; node++) {
            fleet_step(fleet, node, step, begin_ns, 1, &number[node], &frames);
            result = page_put(file, &frames, err);
        }
    }
    if (result == 0 && fflush(file) != 0)
        result = err_set(err, -errno, "the spool: %m");
    return result;
}

static int page_job(struct bench_page *bench, struct err *err)
{
    CLEAN(free_clean) struct fleet *fleet = calloc(1, sizeof(*fleet));
    CLEAN(file_clean) FILE *file = NULL;
    struct path spool, all;
    int result = paths_run_of(bench->state.text, RUN, &bench->run, err);

    if (result == 0)
        result = path_join(&spool, bench->run.text, "spool", err);
    if (result == 0)
        result = path_make(spool.text, err);
    if (result == 0)
        result = path_join(&all, spool.text, "all.lsf", err);
    if (result < 0)
        return result;
    file = fopen(all.text, "we");
    if (!file)
        return err_set(err, -errno, "%s: %m", all.text);
    if (!fleet || fleet_init(fleet, bench->settings->ranks / FLEET_NODE_RANKS, OPS, STEP_NS) < 0)
        return err_nomem(err);
    fleet->slow_rank = bench->settings->ranks / 2 + 1;
    fleet->slow_from = bench->settings->steps / 2;
    result = page_job_write(bench, fleet, file, err);
    fleet_fini(fleet);
    return result;
}

static int page_control(struct bench_page *bench, struct err *err)
{
    struct site_settings site = { .run_dir = bench->run.text,
                                  .listen = "127.0.0.1:0",
                                  .tick_ns = 50 * NS_PER_MS };
    struct err why = { "" };

    bench->control = fork();
    if (bench->control < 0)
        return err_set(err, -errno, "fork: %m");
    if (bench->control > 0)
        return 0;
    log_quiet(1);
    if (site_run(&site, &why) < 0)
        log_error("%s", why.text);
    _exit(why.text[0] != '\0');
}

/* The link to the page, as soon as the controller listens. */
static int page_link(const struct bench_page *bench, char ret[static 256], struct err *err)
{
    int64_t until_ns = time_mono_ns() + JUDGED_NS;
    struct path path;
    int result = path_join(&path, bench->run.text, PAGE_URL_FILE, err);

    while (result == 0) {
        CLEAN(file_clean) FILE *file = fopen(path.text, "re");
        struct timespec pause = time_spec(20 * NS_PER_MS);

        if (file && fgets(ret, 256, file) && strchr(ret, '\n')) {
            ret[strcspn(ret, "\n")] = '\0';
            return 0;
        }
        if (time_mono_ns() > until_ns || waitpid(bench->control, NULL, WNOHANG) != 0)
            return err_set(err, -ETIMEDOUT, "the controller did not start");
        nanosleep(&pause, NULL);
    }
    return result;
}

/* ---- the page ---- */

static int page_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double page_quantile(double *value, size_t count, double share)
{
    qsort(value, count, sizeof(*value), page_compare);
    return count ? value[MIN((size_t)(share * (double)count), count - 1)] : 0;
}

static int page_open(struct bench_page *bench, struct err *err)
{
    char link[256], judged[256];
    int result = page_link(bench, link, err);

    if (result == 0)
        result = browser_open(bench->settings->browser, bench->profile.text, WIDTH, HEIGHT,
                              &bench->browser, err);
    if (result == 0)
        result = browser_go(bench->browser, link, err);
    if (result == 0)
        result = browser_await(bench->browser, "!!document.querySelector('[role=status]')",
                               PAINT_NS, err);
    if (result == 0)
        result =
            browser_await(bench->browser, "location.hash = '#/run/" RUN "/heatmap'", PAINT_NS, err);
    /* All steps are judged, and the picture has them. */
    snprintf(judged, sizeof(judged),
             "!!document.querySelector('canvas[aria-label^=\"Heatmap of %u ranks and %u steps\"]')",
             bench->settings->ranks, bench->settings->steps);
    return result < 0 ? result : browser_await(bench->browser, judged, JUDGED_NS, err);
}

/* First contentful paint of a page that is opened again; the session stays. */
static int page_first_paint(struct bench_page *bench, struct err *err)
{
    static const char paint[] =
        "(performance.getEntriesByName('first-contentful-paint')[0] || {startTime: 0}).startTime";
    double ms[LOADS];
    int result = 0;

    for (size_t i = 0; i < LOADS && result == 0; i++) {
        struct json_object *value = NULL;

        result = browser_await(bench->browser, "window.old = true, location.reload(), true",
                               PAINT_NS, err);
        if (result == 0)
            result = browser_await(bench->browser,
                                   "!window.old && performance.getEntriesByName("
                                   "'first-contentful-paint').length > 0 && "
                                   "!!document.querySelector('canvas[aria-label]')",
                                   PAINT_NS, err);
        if (result == 0)
            result = browser_ask(bench->browser, paint, &value, err);
        ms[i] = json_object_get_double(value);
        json_object_put(value);
    }
    if (result == 0)
        bench->first_paint_ms = page_quantile(ms, LOADS, 0.5);
    return result;
}

/* Times from the stamp of a key to the frame behind the paint that it caused.  `drawn` is set by whatever fills the canvas. */
static const char page_watch[] =
    "(() => {"
    "  const canvas = document.querySelector('canvas'), fill = "
    "CanvasRenderingContext2D.prototype.fillRect;"
    "  let drawn = 0; window.taken = []; window.open_keys = 0;"
    "  if (!window.watched) CanvasRenderingContext2D.prototype.fillRect = function (...a) {"
    "    window.drawn_at = performance.now(); return fill.apply(this, a); };"
    "  window.watched = true;"
    "  addEventListener('keydown', (event) => {"
    "    const pressed = event.timeStamp; window.open_keys++; let tries = 0;"
    "    const look = () => requestAnimationFrame(() => {"
    "      const channel = new MessageChannel();"
    "      channel.port1.onmessage = () => {"
    "        if ((window.drawn_at || 0) > pressed) window.taken.push(performance.now() - pressed);"
    "        else if (++tries < 120) return look();"
    "        window.open_keys--; };"
    "      channel.port2.postMessage(0); });"
    "    look();"
    "  }, true);"
    "  canvas.focus(); return true; })()";

static const char page_empty[] =
    "(() => {"
    "  const old = document.querySelector('canvas'), box = old.getBoundingClientRect(), next = "
    "document.createElement('canvas');"
    "  next.width = old.width; next.height = old.height; next.tabIndex = 0;"
    "  document.body.replaceChildren(next);"
    "  next.style.width = box.width + 'px'; next.style.height = box.height + 'px';"
    "  const paint = next.getContext('2d', { alpha: false }); let n = 0;"
    "  next.addEventListener('keydown', () => {"
    "    paint.fillStyle = n++ % 2 ? '#111' : '#eee'; paint.fillRect(0, 0, next.width, "
    "next.height); });"
    "  next.focus(); window.taken = []; return true; })()";

static int page_press_all(struct bench_page *bench, double *p50, double *p95, struct err *err)
{
    static const char *const keys[] = { "ArrowRight", "ArrowRight", "ArrowDown", "+", "ArrowLeft",
                                        "ArrowUp",    "ArrowRight", "ArrowDown", "-", "ArrowLeft" };
    CLEAN(free_clean) double *ms = calloc(bench->settings->keys, sizeof(*ms));
    struct json_object *taken = NULL;
    size_t count;
    int result = ms ? 0 : err_nomem(err);

    for (uint32_t i = 0; i < bench->settings->keys && result == 0; i++) {
        result = browser_press(bench->browser, keys[i % COUNT(keys)], err);
        if (result == 0)
            result = browser_await(bench->browser, "window.open_keys === 0", PAINT_NS, err);
    }
    if (result == 0)
        result = browser_ask(bench->browser, "window.taken", &taken, err);
    if (result < 0)
        return result;
    count = MIN(json_object_array_length(taken), (size_t)bench->settings->keys);
    for (size_t i = 0; i < count; i++)
        ms[i] = json_object_get_double(json_object_array_get_idx(taken, i));
    json_object_put(taken);
    if (count * 2 < bench->settings->keys)
        return err_set(err, -EPROTO, "only %zu of %u keys changed the picture", count,
                       bench->settings->keys);
    *p50 = page_quantile(ms, count, 0.5);
    *p95 = page_quantile(ms, count, 0.95);
    return 0;
}

static int page_input(struct bench_page *bench, struct err *err)
{
    int result = browser_await(bench->browser, page_watch, PAINT_NS, err);

    if (result == 0)
        result = page_press_all(bench, &bench->input_p50_ms, &bench->input_p95_ms, err);
    if (result == 0)
        result = browser_await(bench->browser, page_empty, PAINT_NS, err);
    return result < 0 ? result
                      : page_press_all(bench, &bench->empty_p50_ms, &bench->empty_p95_ms, err);
}

/* ---- the answer ---- */

static size_t page_bytes(void)
{
    return page_html_gzip_size + page_script_gzip_size + page_style_gzip_size;
}

static void page_print(const struct bench_page *bench)
{
    const struct bench_page_settings *settings = bench->settings;
    struct json_object *root = json_object_new_object();
    const struct {
        const char *name;
        double value;
    } figures[] = {
        { "ranks", settings->ranks },
        { "steps", settings->steps },
        { "first_paint_ms", bench->first_paint_ms },
        { "input_p50_ms", bench->input_p50_ms },
        { "input_p95_ms", bench->input_p95_ms },
        { "empty_p50_ms", bench->empty_p50_ms },
        { "empty_p95_ms", bench->empty_p95_ms },
        { "input_p95_over_empty_ms", bench->input_p95_ms - bench->empty_p95_ms },
        { "bytes_gzip", (double)page_bytes() },
        { "bytes_bar", BYTES_BAR },
        { "input_bar_ms", INPUT_BAR_MS },
    };

    for (size_t i = 0; i < COUNT(figures); i++)
        json_object_object_add(root, figures[i].name, json_object_new_double(figures[i].value));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void page_print_text(const struct bench_page *bench)
{
    printf("%u ranks, %u steps; the page has %zu bytes compressed (limit: at most %d)\n",
           bench->settings->ranks, bench->settings->steps, page_bytes(), BYTES_BAR);
    printf("first paint after %.0f ms\n", bench->first_paint_ms);
    printf("from a key to the picture: p50 %.1f ms, p95 %.1f ms; an empty canvas of the same size "
           "%.1f ms, %.1f ms (limit: at most %.0f ms more)\n",
           bench->input_p50_ms, bench->input_p95_ms, bench->empty_p50_ms, bench->empty_p95_ms,
           INPUT_BAR_MS);
}

static int page_measure(struct bench_page *bench, struct err *err)
{
    const char *parent = getenv("TMPDIR");
    int result = path_join(&bench->state, parent && parent[0] ? parent : "/tmp",
                           "lockstep-page-bench-XXXXXX", err);

    if (result < 0)
        return result;
    if (!mkdtemp(bench->state.text)) {
        result = err_set(err, -errno, "%s: %m", bench->state.text);
        bench->state.text[0] = '\0';
        return result;
    }
    result = path_join(&bench->profile, bench->state.text, "browser", err);
    if (result == 0)
        result = page_job(bench, err);
    if (result == 0)
        result = page_control(bench, err);
    if (result == 0)
        result = page_open(bench, err);
    if (result == 0)
        result = page_first_paint(bench, err);
    return result < 0 ? result : page_input(bench, err);
}

int bench_page_main(int argc, char **argv)
{
    struct bench_page_settings settings = {
        .ranks = 16384, .steps = 20, .keys = 100, .browser = "/usr/bin/chromium"
    };
    CLEAN(page_fini) struct bench_page bench = { .settings = &settings };
    int parsed = opt_parse_all(&command_bench_page, argc, argv, &settings);
    struct err err = { "" };
    int result;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.ranks < 16 || settings.ranks % FLEET_NODE_RANKS || settings.ranks > 131072 ||
        settings.steps < 8 || settings.steps > 10000 || settings.keys < 10 ||
        settings.keys > 100000) {
        log_error("expected 16 to 131072 --ranks, a multiple of 8, 8 to 10000 --steps and 10 to "
                  "100000 --keys");
        return 2;
    }
    result = page_measure(&bench, &err);
    if (result < 0) {
        log_error("%s", err.text);
        if (result == -ENOENT)
            log_error("install the package chromium, or name a browser of that kind with "
                      "--browser");
        return 3;
    }
    if (settings.json)
        page_print(&bench);
    else
        page_print_text(&bench);
    return page_bytes() <= BYTES_BAR && bench.input_p95_ms - bench.empty_p95_ms <= INPUT_BAR_MS ? 0
                                                                                                : 1;
}
