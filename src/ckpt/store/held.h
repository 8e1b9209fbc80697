/* held.h - the image that a writer still has in memory after its trainer died.
 *
 * The writer leaves a record in the checkpoint directory, DIR/.held-rank-NNNNN, and keeps the memory: a trainer that is started again on
 * the same machine reads the bytes of its file from there.  The record only says where to look: the reader takes nothing from it whose
 * checksum is not that of the committed point, and only memory that nobody can change any more.
 *
 * Layout, little-endian: magic u64, version u32, rank, pid and descriptor u32; start of the process, pid namespace, hash of the boot id,
 * offset of the image, bytes of the file, step and job u64; crc32c u32 of all that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_HELD_H
#define LOCKSTEP_CKPT_STORE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

struct held_image {
    uint32_t rank, pid, fd;           /* fd: of the memory, in the process */
    uint64_t pid_start, pid_ns, boot; /* which process that is */
    uint64_t offset, file_bytes;      /* of the image, page-aligned, and of the file that it is */
    uint64_t step, job;
};

void held_encode(const struct held_image *held, struct buf *out);
int held_parse(const void *data, size_t size, struct held_image *ret, struct err *err);

/* The process that calls. */
int held_self(struct held_image *held, struct err *err);
int held_put(int dir_fd, const struct held_image *held, struct err *err);
bool held_is_there(int dir_fd, const struct held_image *held); /* exactly this one */
void held_remove(int dir_fd, uint32_t rank);
/* The record of a rank's image, of a process of this user that lives on this machine; -errno. */
int held_find(int dir_fd, uint32_t rank, struct held_image *ret, struct err *err);

bool held_is_alive(const struct held_image *held); /* its process */

struct held_map {
    const unsigned char *data; /* file_bytes of it */
    size_t size;
};

/* Its memory, which cannot change: sealed against writing and shrinking. */
int held_map_open(const struct held_image *held, struct held_map *ret, struct err *err);
void held_map_close(struct held_map *map);

#endif
