/* slurm_config.h - the lines of slurm.conf that lockstep wants, compared with what `scontrol show config` prints.
 *
 * PURE.  slurm_wants[] is the list: a line, what it is good for, and how a value is compared.  Nothing here changes a configuration.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_CONFIG_H
#define LOCKSTEP_SLURM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define SLURM_CONFIG_VALUE 1024
#define SLURM_CONFIG_LINE (SLURM_CONFIG_VALUE + 256)

enum slurm_want_kind {
    SLURM_WANT_PROGRAM, /* DIR/value; another program that is there stays */
    SLURM_WANT_WORD,    /* a word of the list */
    SLURM_WANT_SET,     /* a list of exactly these words */
    SLURM_WANT_LEAST,   /* a number, at least */
    SLURM_WANT_VALUE,
    SLURM_WANT_WITHOUT, /* a list without this word */
};

struct slurm_want {
    const char *key, *value, *why;
    uint8_t kind;   /* enum slurm_want_kind */
    bool advice;    /* the site decides: it is named, and no line is written */
    const char *of; /* only if this key has our program; NULL: always */
    uint32_t from;  /* 2511: Slurm 25.11 is the first that knows it; 0: all do */
};

enum slurm_want_state {
    SLURM_WANT_OK,
    SLURM_WANT_ADD,    /* nothing is set: the line adds it */
    SLURM_WANT_CHANGE, /* the line has what is set, too */
    SLURM_WANT_TAKEN,  /* another program is there: a person calls ours from it */
    SLURM_WANT_ADVICE, /* otherwise than advised */
    SLURM_WANT_NEWER,  /* this Slurm does not know it */
};

struct slurm_wanted {
    const struct slurm_want *want;
    uint8_t state;                /* enum slurm_want_state */
    char now[SLURM_CONFIG_VALUE]; /* "": nothing is set */
    char line[SLURM_CONFIG_LINE]; /* for slurm.conf; "": there is nothing to be written */
};

extern const struct slurm_want slurm_wants[];
extern const size_t slurm_want_count;

const char *slurm_want_state_name(unsigned state);

/* -ENOENT: no such key; -EBADMSG: it is there twice; -EMSGSIZE: longer than fits.  "(null)" and "none" are "". */
int slurm_config_value(const char *text, size_t size, const char *key, char *ret, size_t room);
/* 2205 of "22.05.8"; 0: not known. */
uint32_t slurm_config_version(const char *text, size_t size);
/* `dir`: where our programs are.  -EBADMSG: the text is none of `scontrol show config`. */
int slurm_config_compare(const char *text, size_t size, const char *dir,
                         const struct slurm_want *want, struct slurm_wanted *ret, struct err *err);

#endif
