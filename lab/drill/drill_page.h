/* drill_page.h - the page that a drill leaves: sections of rows, each with where it is from, as text, JSON and HTML.
 *
 * Nothing here knows what a row means: who fills the page read it from the run's log, the controller's API or Slurm, and
 * writes the source beside it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_DRILL_DRILL_PAGE_H
#define LOCKSTEP_LAB_DRILL_DRILL_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define DRILL_SECTIONS 8
#define DRILL_ROWS 28
#define DRILL_FAULTS 32

struct json_object;

enum drill_mark { /* of a row */
    DRILL_PLAIN,
    DRILL_PASSED,
    DRILL_MISSED,
    DRILL_SKIPPED, /* never counted as passed */
};

struct drill_row {
    enum drill_mark mark;
    char label[40], value[400], source[48];
};

struct drill_section {
    char title[64];
    struct drill_row row[DRILL_ROWS];
    uint32_t rows, left_out; /* more than there is room for */
};

struct drill_fault { /* one that was injected, and what became of it */
    char name[48];
    bool skipped, right, passed;
    char why[200];                  /* skipped, or not passed: the reason */
    char verdict[240];              /* "": none */
    double detected_s, recovered_s; /* NAN: not, or not known */
    int64_t lost_steps;             /* -1: not known */
};

struct drill_page {
    char title[160];
    struct drill_section section[DRILL_SECTIONS];
    uint32_t sections;
    struct drill_fault fault[DRILL_FAULTS];
    uint32_t faults;
};

/* The section that rows are added to from now on; beyond the room, the last one. */
struct drill_section *drill_section_add(struct drill_page *page, const char *title);
__attribute__((format(printf, 5, 6))) void drill_row_add(struct drill_section *section,
                                                         enum drill_mark mark, const char *label,
                                                         const char *source, const char *value,
                                                         ...);
/* The newest fault; NULL: there is no room. */
struct drill_fault *drill_fault_add(struct drill_page *page, const char *name);

/* Faults that passed, of those that were not skipped. */
uint32_t drill_passed(const struct drill_page *page, uint32_t *ret_of);

void drill_page_text(const struct drill_page *page, FILE *out);
struct json_object *drill_fault_json(const struct drill_fault *fault);
struct json_object *drill_page_json(const struct drill_page *page); /* its sections */
void drill_html_begin(const char *title, FILE *out);
void drill_page_html(const struct drill_page *page, FILE *out);
void drill_html_end(FILE *out);

#endif
