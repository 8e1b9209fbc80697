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

/* A number of a note, and what stands before it in the text. */
struct note_field {
    const char *before;
    size_t offset;
};

static const struct note_field save_fields[] = {
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

static const struct note_field copy_fields[] = {
    { "copied checkpoint ", offsetof(struct copy_note, step) },
    { "; microseconds: replicate ", offsetof(struct copy_note, replicate_us) },
    { ", upload ", offsetof(struct copy_note, upload_us) },
};

static bool note_put(char *out, size_t room, size_t *used, const char *text)
{
    size_t size = strlen(text);

    if (size >= room - *used)
        return false;
    memcpy(out + *used, text, size + 1);
    *used += size;
    return true;
}

static bool note_numbers_put(const struct note_field *fields, size_t count, const void *note,
                             char *out, size_t room, size_t *used)
{
    char number[24];

    for (size_t i = 0; i < count; i++) {
        uint64_t value;

        memcpy(&value, (const char *)note + fields[i].offset, sizeof(value));
        snprintf(number, sizeof(number), "%" PRIu64, value);
        if (!note_put(out, room, used, fields[i].before) || !note_put(out, room, used, number))
            return false;
    }
    return true;
}

bool save_note_text(const struct save_note *note, char *out, size_t room)
{
    size_t used = 0;

    return note_numbers_put(save_fields, COUNT(save_fields), note, out, room, &used) &&
           note_put(out, room, &used, DISK) && note_put(out, room, &used, note->disk);
}

bool copy_note_text(const struct copy_note *note, char *out, size_t room)
{
    size_t used = 0;

    return note_numbers_put(copy_fields, COUNT(copy_fields), note, out, room, &used);
}

static bool note_number(const char **text, uint64_t *ret)
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

/* The text behind the numbers; NULL: it is another note. */
static const char *note_numbers(const struct note_field *fields, size_t count, const char *text,
                                void *ret)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(fields[i].before);
        uint64_t value;

        if (strncmp(text, fields[i].before, size) != 0)
            return NULL;
        text += size;
        if (!note_number(&text, &value))
            return NULL;
        memcpy((char *)ret + fields[i].offset, &value, sizeof(value));
    }
    return text;
}

bool save_note_parse(const char *text, struct save_note *ret)
{
    struct save_note note = { .disk = "" };

    text = note_numbers(save_fields, COUNT(save_fields), text, &note);
    if (!text || strncmp(text, DISK, strlen(DISK)) != 0 ||
        strlen(text + strlen(DISK)) >= sizeof(note.disk))
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

bool copy_note_parse(const char *text, struct copy_note *ret)
{
    struct copy_note note = { .step = 0 };

    text = note_numbers(copy_fields, COUNT(copy_fields), text, &note);
    if (!text || text[0])
        return false;
    *ret = note;
    return true;
}
