/* save_note.c - the note in which a rank describes a save of its part of a checkpoint.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/save_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/text.h"

/* The numbers of a note in the order of its text, and what stands before each. */
static const struct save_field {
    const char *before;
    size_t offset;
} fields[] = {
    { "saved checkpoint ", offsetof(struct save_note, step) },
    { " in step ", offsetof(struct save_note, saved_in) },
    { ": ", offsetof(struct save_note, bytes) },
    { " bytes; microseconds: snapshot ", offsetof(struct save_note, snapshot_us) },
    { ", write ", offsetof(struct save_note, write_us) },
    { ", digest ", offsetof(struct save_note, digest_us) },
    { ", commit ", offsetof(struct save_note, commit_us) },
    { ", verify ", offsetof(struct save_note, verify_us) },
    { "; unchanged ", offsetof(struct save_note, tensors_unchanged) },
    { "/", offsetof(struct save_note, tensors) },
    { " tensors, ", offsetof(struct save_note, moments_unchanged) },
    { "/", offsetof(struct save_note, moments) },
    { " moments; arena ", offsetof(struct save_note, arena_bytes) },
    { "; skipped ", offsetof(struct save_note, skipped) },
    { ", failed ", offsetof(struct save_note, failed) },
};
#define DISK "; disk "

static bool save_note_put(char *out, size_t room, size_t *used, const char *text)
{
    size_t size = strlen(text);

    if (size >= room - *used)
        return false;
    memcpy(out + *used, text, size + 1);
    *used += size;
    return true;
}

bool save_note_text(const struct save_note *note, char *out, size_t room)
{
    size_t used = 0;
    char number[24];

    for (size_t i = 0; i < COUNT(fields); i++) {
        uint64_t value;

        memcpy(&value, (const char *)note + fields[i].offset, sizeof(value));
        snprintf(number, sizeof(number), "%" PRIu64, value);
        if (!save_note_put(out, room, &used, fields[i].before) ||
            !save_note_put(out, room, &used, number))
            return false;
    }
    return save_note_put(out, room, &used, DISK) && save_note_put(out, room, &used, note->disk);
}

static bool save_note_number(const char **text, uint64_t *ret)
{
    const char *at = *text;
    uint64_t value = 0;

    if (*at == '0' && at[1] >= '0' && at[1] <= '9')
        return false; /* never written so */
    for (; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (at == *text)
        return false;
    *ret = value;
    *text = at;
    return true;
}

bool save_note_parse(const char *text, struct save_note *ret)
{
    struct save_note note = { .disk = "" };

    for (size_t i = 0; i < COUNT(fields); i++) {
        size_t size = strlen(fields[i].before);
        uint64_t value;

        if (strncmp(text, fields[i].before, size) != 0)
            return false;
        text += size;
        if (!save_note_number(&text, &value))
            return false;
        memcpy((char *)&note + fields[i].offset, &value, sizeof(value));
    }
    if (strncmp(text, DISK, strlen(DISK)) != 0 || strlen(text + strlen(DISK)) >= sizeof(note.disk))
        return false;
    snprintf(note.disk, sizeof(note.disk), "%s", text + strlen(DISK));
    if (note.tensors_unchanged > note.tensors || note.moments_unchanged > note.moments)
        return false;
    for (const char *at = note.disk; *at; at++) {
        if (*at < ' ' || *at > '~')
            return false; /* the name of a disk goes to terminals and into labels */
    }
    *ret = note;
    return true;
}
