/* fabric_words.h - what a part of the network is called, and why it was named.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_FABRIC_WORDS_H
#define LOCKSTEP_VERIFY_FABRIC_FABRIC_WORDS_H

#include "judge/links/slow_links.h"

struct fabric_names { /* for the numbers of a shape */
    const char *(*node)(const void *ctx, uint32_t node);
    const char *(*leaf)(const void *ctx, uint32_t leaf);
    const char *spine;
    uint32_t rails;
    const struct slow_links_shape *shape;
    const void *ctx;
};

const char *fabric_words_kind(enum slow_links_part part); /* link, nic, rail, switch, node */
void fabric_words_name(const struct fabric_names *names, const struct slow_links_named *named,
                       char *out, size_t room);
/* Rates are Gbit/s. */
void fabric_words_because(const struct fabric_names *names, const struct slow_links_named *named,
                          char *out, size_t room);

#endif
