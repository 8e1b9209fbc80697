/* save_note.h - the note in which a rank describes a save of its part of a checkpoint.
 *
 * A trainer that saves with the checkpoint engine puts it into its ring once the save is read back.  A line for people, with one
 * form only, so that the judges and the metrics can read it: a text that is not byte for byte what save_note_text() makes is another
 * note.  The Python package writes the same text (checkpoint/report.py).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_SAVE_NOTE_H
#define LOCKSTEP_WIRE_SAVE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAVE_DISK 64

struct save_note {
    uint64_t step;     /* of the checkpoint, as the program counts */
    uint64_t saved_in; /* the step of the ring that was open, or had just ended */
    uint64_t bytes;    /* of this rank's part */
    /* What each stage took.  write: until the file is synced, digests included; commit: until all ranks have written theirs. */
    uint64_t snapshot_us, write_us, digest_us, commit_us, verify_us;
    /* Tensors with elements, and how many of them are bit for bit as in this rank's save before; the same of the optimizer's. */
    uint64_t tensors, tensors_unchanged, moments, moments_unchanged;
    uint64_t arena_bytes;     /* of the copies in memory */
    uint64_t skipped, failed; /* saves of this rank since it began */
    char disk[SAVE_DISK];     /* "nvme0n1p1 (ext4)"; "": not known */
};

/* False: it does not fit. */
bool save_note_text(const struct save_note *note, char *out, size_t room);
bool save_note_parse(const char *text, struct save_note *ret);

/* What copies of a checkpoint took, as the rank that noticed them writes it; 0: there is no such copy so far. */
struct copy_note {
    uint64_t step;
    uint64_t replicate_us, upload_us; /* to another node, to an object store */
};

bool copy_note_text(const struct copy_note *note, char *out, size_t room);
bool copy_note_parse(const char *text, struct copy_note *ret);

#endif
