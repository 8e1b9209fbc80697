/* point.h - the points of a checkpoint directory: which are there, and whether one is complete and right.
 *
 *     DIR/step-N/                      a committed point
 *     DIR/.step-N.JOB.part/            one that is being written; once it has a COMMIT, it is committed, too
 *         rank-NNNNN.safetensors       what a rank saved
 *         rank-NNNNN.manifest          its tensors, blobs and checksums
 *         rank-NNNNN.verified          it was read back from the disk
 *         rank-NNNNN.failed            instead: the rank could not save it
 *         COMMIT                       every manifest, with its digest
 *         REFUSED                      a reader found it damaged: never taken again
 *         PEER, STORE                  it was copied to another node, to an object store
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_POINT_H
#define LOCKSTEP_CKPT_STORE_POINT_H

#include "ckpt/format/commit.h"
#include "ckpt/format/manifest.h"
#include "ckpt/store/blocks.h"

enum point_state {
    POINT_COMMITTED,
    POINT_REFUSED,    /* damaged, or marked as such */
    POINT_INCOMPLETE, /* without COMMIT: being written, or lost in a crash */
    POINT_FOREIGN,    /* of another user, in a directory that everyone may write */
    POINT_GONE,       /* removed or replaced since the directory was read */
    POINT_OTHERS, /* another program's directory that is called step-N: none of our files is in it */
};

struct point {
    uint64_t step;
    char name[96];
    bool published; /* under its final name */
    enum point_state state;
    bool read_back;         /* all ranks have been read back once, */
    uint32_t parts;         /* of some rank one of so many parts, where it is more than 1 */
    bool on_peer, in_store; /* copied to another node, to an object store */
    char why[256];          /* not committed: the reason */
    uint64_t bytes;         /* of all files of tensors */
    uint32_t ranks;         /* that have saved */
    uint64_t inode;         /* of its directory: a later point may get the same name */
};

#define POINTS_MAX 4096       /* that a list holds: the newest */
#define POINTS_FOREIGN_MAX 64 /* of them, so that no other user can displace ours */

struct points {
    struct point *point; /* newest first */
    size_t count, room;
    size_t foreign,
        left_out; /* left_out: older ones, and those of other users, beyond the limits */
};

enum points_depth {
    POINTS_NAMES,   /* the directory only: each point is still to be read by point_read() */
    POINTS_COMMITS, /* and every COMMIT */
    POINTS_MARKS,   /* and whether each rank was read back: a file for each rank of each point */
};

/* No data is read.  An empty list is success.  Directories of other programs are left out where the depth lets one know them. */
int points_read(int dir_fd, enum points_depth depth, struct points *ret, struct err *err);
void points_fini(struct points *points);
void point_read(int dir_fd, bool marks, struct point *point);

/* Whether the directory called `name` holds files of a point, or is gone; else it is another program's. */
bool point_is_ours(int dir_fd, const char *name);

void point_part_name(uint64_t step, uint64_t job, char *out, size_t room);
void point_rank_name(uint32_t rank, const char *ending, char *out, size_t room);

/* A descriptor.  -ESTALE: another point has this name by now. */
int point_open(int dir_fd, const struct point *point, struct err *err);
/* Of the open point.  -EPROTO: it is damaged, or of another step. */
int point_commit(int point_fd, uint64_t step, struct commit *ret, struct err *err);
/* The manifest of the i-th rank of its COMMIT.  -EPROTO: it is not the one that was committed. */
int point_manifest(int point_fd, const struct commit *commit, uint32_t i, struct manifest *ret,
                   struct err *err);
/* One file of tensors, opened for blocks_run() in the fastest way that works here. */
int point_file_open(int point_fd, uint32_t rank, uint64_t bytes, enum blocks_way *way,
                    struct err *err);

struct point_check {
    unsigned threads;     /* 0: as many as are useful */
    bool digests;         /* also compare the digest of each tensor; one thread */
    uint64_t bytes_per_s; /* 0: no limit */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t bytes); /* NULL: none */
    void *ctx;
    uint64_t done_bytes, bytes; /* progress: before this file, and of all files */
    bool mark;                  /* ranks that were not read back as a whole are marked so */
    uint32_t part,
        parts; /* parts > 1: every parts-th block, from block `part` on; not for files of fewer blocks */
    bool (*stop)(void *ctx); /* asked before each block; NULL: never.  Then -ECANCELED. */
    uint64_t
        *next; /* the block to begin with; gets the next one; one thread.  NULL: from the first. */
};

/* Reads everything, past the page cache where possible.  0: complete and right.  -EPROTO: refused, err says why.  -ESTALE: it
 * was removed or replaced meanwhile.  Others: it could not be read.
 */
int point_verify(int dir_fd, const struct point *point, const struct point_check *check,
                 struct err *err);
/* One digest of the digests of all tensors of all ranks: two points with the same one have the same tensors. */
int point_contents(int dir_fd, const struct point *point, struct ckpt_digest *ret, struct err *err);
/* How many parts a file has, if it shall have `parts`: small files are read as a whole. */
uint32_t point_file_parts(const struct manifest *manifest, uint32_t parts);
/* The blocks of one file against the manifest. */
int point_verify_file(int point_fd, const struct manifest *manifest,
                      const struct point_check *check, struct err *err);
/* Marks it: no reader takes it again.  false: it could not be marked, such as in a read-only directory. */
bool point_refuse(int dir_fd, const struct point *point, const char *why);
bool point_refuse_open(int point_fd, const char *why);
/* Removes a point and what is in it; -errno. */
int point_remove(int dir_fd, const struct point *point, struct err *err);
/* What point_remove() left when it was killed. */
void points_remove_gone(int dir_fd);
/* Points that another one of the same step replaced, up to `step`. */
void points_remove_old(int dir_fd, uint64_t step);

/* The mark that a rank was read back, as a whole (`parts` 1) or one of so many parts; it names the manifest. */
int point_mark_verified(int point_fd, uint32_t rank, const struct ckpt_digest *manifest,
                        uint32_t parts, struct err *err);
/* Of how many parts one was read back; 1: all of it; 0: nothing. */
uint32_t point_rank_parts(int point_fd, const struct commit_rank *rank);

/* The mark that a rank could not save its part; its text is the reason. */
#define POINT_FAILED "failed"
void point_failure_read(int point_fd, uint32_t rank, char *out, size_t room);

/* The mark that another place has the point, too; it names the start of the job, and what the copy took: 0 if that is not known. */
#define POINT_PEER "PEER"
#define POINT_STORE "STORE"
int point_mark_copied(int point_fd, const char *place, uint64_t job, uint64_t took_us,
                      struct err *err);
/* `ret_us` may be NULL. */
bool point_was_copied(int point_fd, const char *place, uint64_t job, uint64_t *ret_us);

#endif
