/* environment_view.c - differences of environments for people and for programs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/environment_view.h"

#include <inttypes.h>

#include "core/clean.h"
#include "show/style.h"

static const char *environment_value_text(const struct environment_difference *one,
                                          const char *value, char out[static 144])
{
    char clean[136];

    if (!value[0])
        return "not set";
    snprintf(out, 144, one->digest ? "another value (digest %s)" : "%s",
             show_clean(value, clean, sizeof(clean)));
    return out;
}

static void environment_more_text(const struct environment_differences *differences, FILE *out)
{
    if (differences->count > ENVIRONMENT_DIFFERENCES)
        fprintf(out, "  and %" PRIu32 " more\n", differences->count - ENVIRONMENT_DIFFERENCES);
}

void environment_ranks_text(const struct environment_differences *differences, FILE *out)
{
    char name[FACT_NAME], node[FACT_NAME], usual[144], other[144];

    for (uint32_t i = 0; i < MIN(differences->count, ENVIRONMENT_DIFFERENCES); i++) {
        const struct environment_difference *one = &differences->list[i];

        fprintf(out, "  %s: %s on ", show_clean(one->name, name, sizeof(name)),
                environment_value_text(one, one->other, other));
        if (one->other_ranks == 1 && one->other_rank != UINT32_MAX)
            fprintf(out, "rank %" PRIu32, one->other_rank);
        else
            fprintf(out, "%" PRIu32 " rank%s", one->other_ranks, one->other_ranks == 1 ? "" : "s");
        if (one->node[0])
            fprintf(out, " (node %s)", show_clean(one->node, node, sizeof(node)));
        fprintf(out, ", %s on %" PRIu32 " other%s\n",
                environment_value_text(one, one->usual, usual), one->usual_ranks,
                one->usual_ranks == 1 ? "" : "s");
    }
    environment_more_text(differences, out);
}

void environment_changes_text(const struct environment_differences *differences, FILE *out)
{
    char name[FACT_NAME], usual[144], other[144];

    for (uint32_t i = 0; i < MIN(differences->count, ENVIRONMENT_DIFFERENCES); i++) {
        const struct environment_difference *one = &differences->list[i];

        fprintf(out, "  %s: %s, before: %s\n", show_clean(one->name, name, sizeof(name)),
                environment_value_text(one, one->other, other),
                environment_value_text(one, one->usual, usual));
    }
    environment_more_text(differences, out);
}

/* What the members of one difference are called; `where`: with a rank that has the other value. */
struct environment_members {
    const char *usual, *usual_ranks, *other, *other_ranks;
    bool where;
};

static struct json_object *environment_json(const struct environment_differences *differences,
                                            const struct environment_members *members)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(differences->count, ENVIRONMENT_DIFFERENCES); i++) {
        const struct environment_difference *one = &differences->list[i];
        struct json_object *object = json_object_new_object();

        json_object_object_add(object, "name", show_string(one->name));
        json_object_object_add(object, "digest", json_object_new_boolean(one->digest));
        json_object_object_add(object, members->usual, show_string_or_null(one->usual));
        json_object_object_add(object, members->usual_ranks,
                               json_object_new_int64(one->usual_ranks));
        json_object_object_add(object, members->other, show_string_or_null(one->other));
        json_object_object_add(object, members->other_ranks,
                               json_object_new_int64(one->other_ranks));
        if (members->where) {
            json_object_object_add(
                object, "rank",
                one->other_rank == UINT32_MAX ? NULL : json_object_new_int64(one->other_rank));
            json_object_object_add(object, "node", show_string_or_null(one->node));
        }
        json_object_array_add(list, object);
    }
    return list;
}

struct json_object *environment_ranks_json(const struct environment_differences *differences)
{
    static const struct environment_members members = { "usual", "usual_ranks", "value", "ranks",
                                                        true };

    return environment_json(differences, &members);
}

struct json_object *environment_changes_json(const struct environment_differences *differences)
{
    static const struct environment_members members = { "before", "before_ranks", "after",
                                                        "after_ranks", false };

    return environment_json(differences, &members);
}
