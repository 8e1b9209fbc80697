/* autopsy_case.c - what a person answers about the files of a dead job, and how good another answer is.
 *
 * Only the first verdict counts, because that is what a person reads.  A wrong kind, layer or rank is worse than
 * silence, so one of them makes the whole answer wrong, whatever else it says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/autopsy_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "core/clean.h"

#define COLUMNS 8

const char *autopsy_grade_name(enum autopsy_grade grade)
{
    static const char *const names[GRADE_COUNT] = { "right", "vague", "silent", "wrong" };

    return names[grade];
}

void autopsy_cases_fini(struct autopsy_cases *cases)
{
    free(cases->list);
    *cases = (struct autopsy_cases){ 0 };
}

/* Is the word one of a list that is separated by commas?  "*" has every word but "none". */
static bool autopsy_list_has(const char *list, const char *word)
{
    size_t size = strlen(word);
    bool any = strcmp(word, "none") != 0;

    for (const char *at = list; at;) {
        size_t here = strcspn(at, ",");

        if ((here == size && strncmp(at, word, size) == 0) || (any && here == 1 && *at == '*'))
            return true;
        at = at[here] ? at + here + 1 : NULL;
    }
    return false;
}

/* Splits a line at its tabs; returns how many columns there are. */
static size_t autopsy_columns_split(char *line, char *column[COLUMNS])
{
    size_t count = 0;

    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; at && count < COLUMNS;) {
        column[count++] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return count;
}

static int autopsy_ranks_parse(const char *text, struct autopsy_case *at)
{
    at->ranks_optional = *text == '?';
    if (strcmp(text, "-") == 0)
        return 0;
    for (text += at->ranks_optional; *text;) {
        char *end;
        unsigned long rank = strtoul(text, &end, 10);

        if (end == text || (*end && *end != ',') || at->ranks == AUTOPSY_RANKS || rank > UINT32_MAX)
            return -EPROTO;
        at->rank[at->ranks++] = (uint32_t)rank;
        text = *end ? end + 1 : end;
    }
    return 0;
}

static bool case_copy(char *out, size_t room, const char *text)
{
    return (size_t)snprintf(out, room, "%s", text) < room;
}

static int case_parse(char *line, struct autopsy_case *ret)
{
    struct autopsy_case at = { .ranks = 0 };
    char *column[COLUMNS];

    if (autopsy_columns_split(line, column) != COLUMNS ||
        !case_copy(at.name, sizeof(at.name), column[0]) ||
        !case_copy(at.category, sizeof(at.category), column[1]) ||
        !case_copy(at.kind, sizeof(at.kind), column[2]) ||
        !case_copy(at.layer, sizeof(at.layer), column[3]) ||
        autopsy_ranks_parse(column[4], &at) < 0 ||
        !case_copy(at.words, sizeof(at.words), column[5]) || !*at.name || strchr(at.name, '/'))
        return -EPROTO;
    at.none = autopsy_list_has(at.kind, "none");
    *ret = at;
    return 0;
}

int autopsy_cases_read(const char *directory, struct autopsy_cases *cases, struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    CLEAN(free_clean) char *line = NULL;
    struct path path;
    size_t room = 0, number = 0;
    int result = path_join(&path, directory, "cases.tsv", err);

    if (result < 0)
        return result;
    file = fopen(path.text, "re");
    if (!file)
        return err_set(err, -errno, "%s: %m", path.text);
    while (getline(&line, &room, file) > 0) {
        if (number++ == 0) /* the names of the columns */
            continue;
        if (!ARRAY_FIT(cases->list, cases->room, cases->count + 1))
            return err_set(err, -ENOMEM, "no memory for the cases");
        if (case_parse(line, &cases->list[cases->count]) < 0)
            return err_set(err, -EPROTO, "%s line %zu: not a case", path.text, number);
        cases->count++;
    }
    return 0;
}

/* Does the text contain one of the words? */
static bool autopsy_text_has(const char *text, const char *words)
{
    for (const char *at = words; at && strcmp(words, "-") != 0;) {
        char word[80];
        size_t here = strcspn(at, ",");

        snprintf(word, sizeof(word), "%.*s", (int)here, at);
        if (strcasestr(text, word))
            return true;
        at = at[here] ? at + here + 1 : NULL;
    }
    return strcmp(words, "-") == 0;
}

static const char *autopsy_field_text(struct json_object *object, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_string(value) : "";
}

static struct json_object *autopsy_first_verdict(struct json_object *answer)
{
    struct json_object *list;

    if (!answer || !json_object_object_get_ex(answer, "verdicts", &list) ||
        !json_object_is_type(list, json_type_array) || !json_object_array_length(list))
        return NULL;
    return json_object_array_get_idx(list, 0);
}

static bool case_has_rank(const struct autopsy_case *at, int64_t rank)
{
    for (uint32_t i = 0; i < at->ranks; i++) {
        if (at->rank[i] == rank)
            return true;
    }
    return false;
}

/* Counts the ranks of all verdicts: naming a rank in the second one is naming it. */
static void autopsy_ranks_grade(const struct autopsy_case *at, struct json_object *answer,
                                size_t *wrong, size_t *right)
{
    struct json_object *verdicts, *ranks;
    bool seen[AUTOPSY_RANKS] = { false };

    *wrong = *right = 0;
    if (!answer || !json_object_object_get_ex(answer, "verdicts", &verdicts))
        return;
    for (size_t i = 0; i < json_object_array_length(verdicts); i++) {
        if (!json_object_object_get_ex(json_object_array_get_idx(verdicts, i), "ranks", &ranks) ||
            !json_object_is_type(ranks, json_type_array))
            continue;
        for (size_t k = 0; k < json_object_array_length(ranks); k++) {
            int64_t rank = json_object_get_int64(json_object_array_get_idx(ranks, k));

            *wrong += !case_has_rank(at, rank);
            for (uint32_t n = 0; n < at->ranks; n++)
                seen[n] |= at->rank[n] == rank;
        }
    }
    for (uint32_t n = 0; n < at->ranks; n++)
        *right += seen[n];
}

/* What a person reads of the verdict, without the errors that only follow. */
static bool autopsy_verdict_has_words(struct json_object *verdict, const char *words)
{
    struct json_object *copy = NULL;
    bool found;

    if (json_object_deep_copy(verdict, &copy, NULL) < 0)
        return false;
    json_object_object_del(copy, "echoes");
    json_object_object_del(copy, "ruled_out");
    found = autopsy_text_has(json_object_to_json_string_ext(copy, JSON_C_TO_STRING_NOSLASHESCAPE),
                             words);
    json_object_put(copy);
    return found;
}

static void autopsy_ranks_count(const struct autopsy_case *at, size_t wrong, size_t right,
                                struct autopsy_ranks *ranks)
{
    if (at->ranks_optional)
        return;
    ranks->expected += at->ranks;
    ranks->named += wrong + right;
    ranks->right += right;
}

enum autopsy_grade autopsy_grade(const struct autopsy_case *at, struct json_object *answer,
                                 struct autopsy_ranks *ranks, char *why, size_t room)
{
    struct json_object *verdict = autopsy_first_verdict(answer);
    const char *kind = verdict ? autopsy_field_text(verdict, "kind") : "";
    const char *layer = verdict ? autopsy_field_text(verdict, "layer") : "";
    size_t wrong, right;

    *why = '\0';
    autopsy_ranks_grade(at, answer, &wrong, &right);
    autopsy_ranks_count(at, wrong, right, ranks);
    if (!verdict)
        return at->none ? GRADE_RIGHT : GRADE_SILENT;
    if (!autopsy_list_has(at->kind, kind))
        snprintf(why, room, "%s instead of %s", kind, at->kind);
    else if (wrong)
        snprintf(why, room, "%zu ranks named that are not culprits", wrong);
    else if (strcmp(layer, "unknown") != 0 && !autopsy_list_has(at->layer, layer))
        snprintf(why, room, "layer %s instead of %s", layer, at->layer);
    if (*why)
        return GRADE_WRONG;
    if (!autopsy_list_has(at->layer, layer))
        snprintf(why, room, "layer unknown instead of %s", at->layer);
    else if (!at->ranks_optional && right < at->ranks)
        snprintf(why, room, "%zu of %u ranks named", right, at->ranks);
    else if (!autopsy_verdict_has_words(verdict, at->words))
        snprintf(why, room, "none of the words %s", at->words);
    return *why ? GRADE_VAGUE : GRADE_RIGHT;
}
