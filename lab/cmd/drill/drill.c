/* drill.c - `lockstep drill`: faults that are real, and a report card of what followed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/cmd/drill/drill.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/json_member.h"
#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/lab.h"

#define DRILL_NIGHTS_MAX 100

struct drill_card { /* of all pages */
    const struct drill_settings *settings;
    FILE *html;                         /* NULL: none is wanted */
    struct json_object *faults, *pages; /* NULL: text is wanted */
    uint32_t passed, of;
};

static int drill_card_open(struct drill_card *card, struct err *err)
{
    if (card->settings->json) {
        card->faults = json_object_new_array();
        card->pages = json_object_new_array();
    }
    if (!card->settings->html)
        return 0;
    card->html = fopen(card->settings->html, "we");
    if (!card->html)
        return err_set(err, -errno, "%s: %m", card->settings->html);
    drill_html_begin("lockstep drill", card->html);
    return 0;
}

static void drill_card_page(struct drill_card *card, const struct drill_page *page)
{
    uint32_t of;

    card->passed += drill_passed(page, &of);
    card->of += of;
    if (card->html)
        drill_page_html(page, card->html);
    if (!card->settings->json) {
        drill_page_text(page, stdout);
        putchar('\n');
        fflush(stdout);
        return;
    }
    for (uint32_t i = 0; i < page->faults; i++)
        json_object_array_add(card->faults, drill_fault_json(&page->fault[i]));
    json_object_array_add(card->pages, drill_page_json(page));
}

/* Exit status. */
static int drill_card_close(struct drill_card *card)
{
    if (card->html) {
        drill_html_end(card->html);
        if (fclose(card->html) != 0) {
            log_error("%s: %m", card->settings->html);
            return 3;
        }
    }
    if (card->settings->json) {
        CLEAN(json_clean) struct json_object *root = json_object_new_object();

        json_object_object_add(root, "faults", card->faults);
        json_object_object_add(root, "score",
                               card->of ? json_object_new_double((double)card->passed / card->of)
                                        : NULL);
        json_object_object_add(root, "pages", card->pages);
        puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    } else {
        printf("score: %u of %u faults passed every bar\n", card->passed, card->of);
    }
    return !card->of ? 3 : card->passed < card->of;
}

/* What cannot be done has a reason; a night that failed on its way is one that did not pass. */
static int drill_nights(const struct drill_settings *settings, struct drill_card *card,
                        struct drill_page *page, struct err *err)
{
    for (uint64_t i = 0; i < settings->nights; i++) {
        uint64_t seed = settings->seed + i;
        int result = drill_night(settings, seed, page, err);
        struct drill_fault *fault;

        if (result == -EPERM || result == -ENOENT || result == -EEXIST)
            return result;
        if (result < 0) {
            *page = (struct drill_page){ .sections = 0 };
            snprintf(page->title, sizeof(page->title), "two-am, seed %" PRIu64 ": %s", seed,
                     err->text);
            fault = drill_fault_add(page, "night");
            snprintf(fault->why, sizeof(fault->why), "%.190s", err->text);
        }
        drill_card_page(card, page);
    }
    return 0;
}

static int drill_failed(int result, const struct err *err)
{
    log_error("%s", err->text);
    return result == -EACCES || result == -EINVAL ? 2 : 3;
}

static int drill_check(const struct drill_settings *settings, int operands)
{
    if (settings->two_am && operands)
        log_error("--two-am starts its own job: no RUN is expected");
    else if (!settings->two_am && operands != 1)
        log_error("expected one RUN, started with 'lockstep run --drill', or --two-am");
    else if (settings->nights < 1 || settings->nights > DRILL_NIGHTS_MAX)
        log_error("--nights %u: expected 1 to %d", settings->nights, DRILL_NIGHTS_MAX);
    else
        return 0;
    return -EINVAL;
}

int drill_main(int argc, char **argv)
{
    struct drill_settings settings = { .seed = 1, .nights = 1, .wait_ns = 60 * NS_PER_S };
    CLEAN(free_clean) struct drill_page *page = calloc(1, sizeof(*page));
    struct drill_card card = { .settings = &settings };
    struct err err = { "" };
    int parsed = opt_parse(&command_drill, argc, argv, &settings), result;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.list_faults) {
        drill_job_list(stdout);
        return 0;
    }
    if (drill_check(&settings, argc - parsed) < 0)
        return 2;
    result = page ? drill_card_open(&card, &err) : err_nomem(&err);
    if (result < 0)
        return drill_failed(result, &err);
    if (settings.two_am)
        result = drill_nights(&settings, &card, page, &err);
    else if ((result = drill_job(&settings, argv[parsed], page, &err)) == 0)
        drill_card_page(&card, page);
    if (result < 0)
        return drill_failed(result, &err);
    return drill_card_close(&card);
}
