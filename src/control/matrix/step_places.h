/* step_places.h - where the log has each rank's step: RUN/steps.lsp, so that one step is read without walking the log.
 *
 *     header    4096 bytes: magic, version, ranks, first column, checksum
 *     column    a head of 8 bytes (checksum of the rest, column), then by rank the offset of its frame; 0: not known
 *
 * Every place is known by arithmetic.  The file is derived from the log and may be removed at any time; then older steps
 * have no places, and nothing else is lost.  After a compaction it starts over.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_MATRIX_STEP_PLACES_H
#define LOCKSTEP_CONTROL_MATRIX_STEP_PLACES_H

#include <stdint.h>

#include "core/err.h"

#define STEP_PLACES_FILE "steps.lsp"

struct step_places; /* to write */

/* Goes on with the file; one for fewer ranks is made wider first.  One for more ranks, or that begins later, begins anew with this
 * column.
 */
int step_places_open(const char *path, uint32_t ranks, uint64_t column, struct step_places **ret,
                     struct err *err);
void step_places_close(struct step_places *places); /* NULL is fine */
uint32_t step_places_ranks(const struct step_places *places);
/* `offset`: by rank, as many as the file has; 0: not known. */
int step_places_put(struct step_places *places, uint64_t column, const uint64_t *offset,
                    struct err *err);

/* The places of these ranks in a column; 0: not known.  -ENOENT: the file or the column is not there; -EUCLEAN: damaged. */
int step_places_read(const char *path, uint64_t column, const uint32_t *rank, uint32_t count,
                     uint64_t *ret, struct err *err);

#endif
