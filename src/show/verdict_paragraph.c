/* verdict_paragraph.c - sentences, wrapped to the width of a terminal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/verdict_paragraph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "show/advice.h"
#include "show/verdict_view.h"

#define LINES_SHOWN 4 /* of evidence */
#define ECHOES_SHOWN 5

struct paragraph {
    FILE *out;
    size_t column, width;
};

static void verdict_put_word(struct paragraph *paragraph, const char *word, size_t bytes)
{
    if (paragraph->column && paragraph->column + 1 + bytes > paragraph->width) {
        fputs("\n  ", paragraph->out);
        paragraph->column = 2;
    } else if (paragraph->column > 2) {
        fputc(' ', paragraph->out);
        paragraph->column++;
    }
    fwrite(word, 1, bytes, paragraph->out);
    paragraph->column += bytes;
}

static void __attribute__((format(printf, 2, 3)))
paragraph_put(struct paragraph *paragraph, const char *format, ...)
{
    char text[1024], clean[1024];
    const char *at = clean;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    show_clean(text, clean, sizeof(clean));
    while (*at) {
        size_t bytes = strcspn(at, " ");

        if (bytes)
            verdict_put_word(paragraph, at, bytes);
        at += bytes + (at[bytes] == ' ');
    }
}

static void verdict_put_evidence(struct paragraph *paragraph, const struct verdict *verdict)
{
    uint32_t count = MIN(verdict->because_count, LINES_SHOWN);

    for (uint32_t i = 0; i < count; i++) {
        const struct verdict_line *line = &verdict->because[i];

        if (line->file[0])
            paragraph_put(paragraph, "%s:%" PRIu32 ": \"%s\"%s", line->file, line->line, line->what,
                          i + 1 < count ? ";" : ".");
        else
            paragraph_put(paragraph, "%s (%s)%s", line->what, line->source,
                          i + 1 < count ? ";" : ".");
    }
    for (uint32_t i = 0; i < verdict->ruled_out_count; i++)
        paragraph_put(paragraph, "Not %s: %s.", verdict->ruled_out[i].source,
                      verdict->ruled_out[i].what);
}

static void verdict_put_echoes(struct paragraph *paragraph, const struct verdict *verdict)
{
    uint32_t count = MIN(verdict->echo_count, ECHOES_SHOWN);

    if (!count)
        return;
    paragraph_put(paragraph, "What followed from it:");
    for (uint32_t i = 0; i < count; i++) {
        const struct verdict_line *line = &verdict->echo[i];
        const char *end = i + 1 < count ? ";" : verdict->echo_count > count ? ", and more." : ".";

        if (line->file[0])
            paragraph_put(paragraph, "%s, %s:%" PRIu32 "%s", line->what, line->file, line->line,
                          end);
        else
            paragraph_put(paragraph, "%s%s", line->what, end);
    }
}

/* A job that a scheduler or a person ended did not crash: that is its heading, and the cause goes on behind it. */
static const char *verdict_heading(const struct verdict *verdict, const char **cause)
{
    static const char outside[] = "ended from outside";
    size_t bytes = strlen(outside);

    *cause = verdict->cause;
    if (verdict->kind != VERDICT_CRASH || strncmp(verdict->cause, outside, bytes) != 0 ||
        strncmp(verdict->cause + bytes, ": ", 2) != 0)
        return verdict_kind_name(verdict->kind);
    *cause = verdict->cause + bytes + 2;
    return outside;
}

/* "rank 3 failed first", or that it is not known which */
static void verdict_put_cause(struct paragraph *paragraph, const struct verdict *verdict,
                              const char *cause)
{
    char who[640];

    if (verdict->rank_count || verdict->node_count)
        paragraph_put(paragraph, "%s: %s.", verdict_who(verdict, who, sizeof(who)), cause);
    else
        paragraph_put(paragraph, "%s.", cause);
    if (!verdict->rank_count && verdict->kind == VERDICT_CRASH && cause == verdict->cause)
        paragraph_put(paragraph, "These files do not show which rank.");
}

void verdict_paragraph(const struct verdict *verdict, const struct show_style *style, FILE *out)
{
    struct paragraph paragraph = { .out = out, .width = style->width ? style->width : SHOW_WIDTH };
    const char *cause, *kind = verdict_heading(verdict, &cause);
    char time[32];

    fprintf(out, "%s%s%s:", show_begin(style, SHOW_BAD), kind, show_end(style));
    paragraph.column = strlen(kind) + 1;
    verdict_put_cause(&paragraph, verdict, cause);
    verdict_put_evidence(&paragraph, verdict);
    verdict_put_echoes(&paragraph, verdict);
    paragraph_put(&paragraph, "To do: %s", verdict_advice(verdict));
    if (verdict->would_decide)
        paragraph_put(&paragraph, "To be sure, lockstep needs %s.", verdict->would_decide);
    if (verdict->device[0])
        paragraph_put(&paragraph, "Device %s.", verdict->device);
    if (verdict->group[0])
        paragraph_put(&paragraph, "Group %s.", verdict->group);
    paragraph_put(&paragraph, "(layer %s, confidence %.2f,", verdict_layer_name(verdict->layer),
                  verdict->confidence);
    if (verdict->since_real_ns) {
        time_format_utc(verdict->since_real_ns, time);
        paragraph_put(&paragraph, "at %s,", time);
    }
    paragraph_put(&paragraph, "id %s)", verdict->id);
    fputc('\n', out);
}
