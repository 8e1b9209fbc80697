/* drill_page.c - a page as text for a terminal, as JSON, and as HTML that needs no network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/drill/drill_page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <json-c/json.h>

#include "core/clean.h"

static const char *const drill_words[] = { "", "ok", "MISSED", "skipped" };

struct drill_section *drill_section_add(struct drill_page *page, const char *title)
{
    struct drill_section *section =
        &page->section[page->sections < DRILL_SECTIONS ? page->sections++ : DRILL_SECTIONS - 1];

    snprintf(section->title, sizeof(section->title), "%s", title);
    return section;
}

void drill_row_add(struct drill_section *section, enum drill_mark mark, const char *label,
                   const char *source, const char *value, ...)
{
    struct drill_row *row = &section->row[section->rows];
    va_list list;

    if (section->rows == DRILL_ROWS) {
        section->left_out++;
        return;
    }
    section->rows++;
    row->mark = mark;
    snprintf(row->label, sizeof(row->label), "%s", label);
    snprintf(row->source, sizeof(row->source), "%s", source);
    va_start(list, value);
    vsnprintf(row->value, sizeof(row->value), value, list);
    va_end(list);
}

struct drill_fault *drill_fault_add(struct drill_page *page, const char *name)
{
    struct drill_fault *fault;

    if (page->faults == DRILL_FAULTS)
        return NULL;
    fault = &page->fault[page->faults++];
    *fault = (struct drill_fault){ .detected_s = NAN, .recovered_s = NAN, .lost_steps = -1 };
    snprintf(fault->name, sizeof(fault->name), "%s", name);
    return fault;
}

uint32_t drill_passed(const struct drill_page *page, uint32_t *ret_of)
{
    uint32_t passed = 0, of = 0;

    for (uint32_t i = 0; i < page->faults; i++) {
        of += !page->fault[i].skipped;
        passed += !page->fault[i].skipped && page->fault[i].passed;
    }
    *ret_of = of;
    return passed;
}

/* ---- text ---- */

/* The source stands behind the last of the rows that have the same. */
static void drill_text_row(const struct drill_row *row, bool last, FILE *out)
{
    if (row->mark != DRILL_PLAIN)
        fprintf(out, "  %-7s ", drill_words[row->mark]);
    else
        fprintf(out, "  ");
    fprintf(out, "%-13s %s", row->label, row->value);
    if (row->source[0] && last)
        fprintf(out, "  [%s]", row->source);
    fputc('\n', out);
}

void drill_page_text(const struct drill_page *page, FILE *out)
{
    fprintf(out, "%s\n", page->title);
    for (uint32_t i = 0; i < page->sections; i++) {
        const struct drill_section *section = &page->section[i];

        fprintf(out, "\n%s\n", section->title);
        for (uint32_t k = 0; k < section->rows; k++)
            drill_text_row(&section->row[k],
                           k + 1 == section->rows ||
                               strcmp(section->row[k].source, section->row[k + 1].source) != 0,
                           out);
        if (section->left_out)
            fprintf(out, "  %u more: --json\n", section->left_out);
    }
}

/* ---- JSON ---- */

static struct json_object *drill_number(double value)
{
    return isfinite(value) ? json_object_new_double(value) : NULL;
}

static struct json_object *drill_string(const char *text)
{
    return text[0] ? json_object_new_string(text) : NULL;
}

struct json_object *drill_fault_json(const struct drill_fault *fault)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "fault", json_object_new_string(fault->name));
    json_object_object_add(root, "skipped", json_object_new_boolean(fault->skipped));
    json_object_object_add(root, "detected_s", drill_number(fault->detected_s));
    json_object_object_add(root, "verdict", drill_string(fault->verdict));
    json_object_object_add(root, "right", json_object_new_boolean(fault->right));
    json_object_object_add(root, "recovered_s", drill_number(fault->recovered_s));
    json_object_object_add(root, "lost_steps",
                           fault->lost_steps < 0 ? NULL : json_object_new_int64(fault->lost_steps));
    json_object_object_add(root, "passed", json_object_new_boolean(fault->passed));
    json_object_object_add(root, "why", drill_string(fault->why));
    return root;
}

struct json_object *drill_page_json(const struct drill_page *page)
{
    struct json_object *root = json_object_new_object(), *sections = json_object_new_array();

    json_object_object_add(root, "title", json_object_new_string(page->title));
    json_object_object_add(root, "sections", sections);
    for (uint32_t i = 0; i < page->sections; i++) {
        struct json_object *section = json_object_new_object(), *rows = json_object_new_array();

        json_object_object_add(section, "title", json_object_new_string(page->section[i].title));
        json_object_object_add(section, "rows", rows);
        json_object_array_add(sections, section);
        for (uint32_t k = 0; k < page->section[i].rows; k++) {
            const struct drill_row *row = &page->section[i].row[k];
            struct json_object *item = json_object_new_object();

            json_object_object_add(item, "mark", drill_string(drill_words[row->mark]));
            json_object_object_add(item, "label", json_object_new_string(row->label));
            json_object_object_add(item, "value", json_object_new_string(row->value));
            json_object_object_add(item, "source", drill_string(row->source));
            json_object_array_add(rows, item);
        }
    }
    return root;
}

/* ---- HTML ---- */

static void drill_html_escape(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fputc(*text, out);
    }
}

void drill_html_begin(const char *title, FILE *out)
{
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", out);
    drill_html_escape(title, out);
    fputs("</title>\n<style>\n"
          "body { font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; "
          "padding: 0 1em; }\n"
          "h1 { font-size: 1.3em; } h2 { font-size: 1.05em; margin: 1.4em 0 .3em; }\n"
          "table { border-collapse: collapse; width: 100%; } td { vertical-align: top; padding: "
          ".15em .8em .15em 0; }\n"
          "td.label { white-space: nowrap; font-variant-numeric: tabular-nums; }\n"
          "td.source { color: #666; white-space: nowrap; text-align: right; }\n"
          ".ok { color: #06702f; } .MISSED { color: #b00020; font-weight: bold; } .skipped { "
          "color: #666; }\n"
          "@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd; } "
          "td.source { color: #999; }\n"
          ".ok { color: #62c98a; } .MISSED { color: #ff7b8a; } }\n"
          "</style></head><body>\n",
          out);
}

static void drill_html_cell(const char *class, const char *text, FILE *out)
{
    fprintf(out, "<td class=\"%s\">", class);
    drill_html_escape(text, out);
    fputs("</td>", out);
}

void drill_page_html(const struct drill_page *page, FILE *out)
{
    fputs("<h1>", out);
    drill_html_escape(page->title, out);
    fputs("</h1>\n", out);
    for (uint32_t i = 0; i < page->sections; i++) {
        const struct drill_section *section = &page->section[i];

        fputs("<h2>", out);
        drill_html_escape(section->title, out);
        fputs("</h2>\n<table>\n", out);
        for (uint32_t k = 0; k < section->rows; k++) {
            const struct drill_row *row = &section->row[k];

            fputs("<tr>", out);
            if (row->mark != DRILL_PLAIN)
                drill_html_cell(drill_words[row->mark], drill_words[row->mark], out);
            drill_html_cell("label", row->label, out);
            drill_html_cell("value", row->value, out);
            drill_html_cell("source", row->source, out);
            fputs("</tr>\n", out);
        }
        fputs("</table>\n", out);
    }
}

void drill_html_end(FILE *out)
{
    fputs("</body></html>\n", out);
}
