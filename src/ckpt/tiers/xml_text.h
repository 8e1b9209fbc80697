/* xml_text.h - the few elements that an object store answers with.
 *
 * Not a reader of XML: elements are found by name inside a text, without namespaces and attributes.  Never reads past the end;
 * what is too long or cut off is missing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_XML_TEXT_H
#define LOCKSTEP_CKPT_TIERS_XML_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct xml_text {
    const char *at, *end;
};

/* The next element of this name: its contents in *ret, and *in goes on behind it. */
bool xml_element(struct xml_text *in, const char *name, struct xml_text *ret);
/* The text of the first element of this name, with &amp; and the like decoded.  false: missing, or larger than `room`. */
bool xml_value(struct xml_text in, const char *name, char *out, size_t room);

#endif
