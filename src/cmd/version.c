/* version.c - which lockstep this is, and which formats it speaks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "wire/frame.h"
#include "wire/ring.h"

struct version_settings {
    bool json;
};

static const struct opt version_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct version_settings, json), NULL, "one JSON object", NULL,
      false },
    { .name = NULL },
};

static void version_print_json(void)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "version", json_object_new_string(LOCKSTEP_VERSION));
    json_object_object_add(root, "ring_format", json_object_new_int(RING_VERSION));
    json_object_object_add(root, "frame_format", json_object_new_int(FRAME_VERSION));
    json_object_object_add(root, "compiler", json_object_new_string(__VERSION__));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    json_object_put(root);
}

static int version_run(int argc, char **argv)
{
    struct version_settings settings = { 0 };
    int parsed = opt_parse_all(&command_version, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.json)
        version_print_json();
    else
        printf("lockstep %s\nring format %d, frame format %d\n", LOCKSTEP_VERSION, RING_VERSION,
               FRAME_VERSION);
    return 0;
}

const struct command command_version = {
    .name = "version",
    .operands = "",
    .summary = "which lockstep this is, and which formats it speaks",
    .opt = version_opts,
    .run = version_run,
};
