/* xml_text.c - finds elements in the answers of an object store.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/xml_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

/* Behind the tag, or NULL. */
static const char *xml_tag_find(struct xml_text in, const char *tag, size_t size)
{
    const char *at = in.at < in.end ? memmem(in.at, (size_t)(in.end - in.at), tag, size) : NULL;

    return at ? at + size : NULL;
}

bool xml_element(struct xml_text *in, const char *name, struct xml_text *ret)
{
    char open[64], close[64];
    int open_size = snprintf(open, sizeof(open), "<%s>", name),
        close_size = snprintf(close, sizeof(close), "</%s>", name);
    const char *begin, *end;

    if (open_size >= (int)sizeof(open) || close_size >= (int)sizeof(close))
        return false;
    begin = xml_tag_find(*in, open, (size_t)open_size);
    end =
        begin ? xml_tag_find((struct xml_text){ begin, in->end }, close, (size_t)close_size) : NULL;
    if (!end)
        return false;
    *ret = (struct xml_text){ begin, end - close_size };
    in->at = end;
    return true;
}

/* One character; *at moves behind it.  -1: not valid. */
static int xml_character(const char **at, const char *end)
{
    static const struct {
        const char *name;
        char is;
    } names[] = { { "&amp;", '&' },   { "&lt;", '<' },  { "&gt;", '>' },   { "&quot;", '"' },
                  { "&apos;", '\'' }, { "&#34;", '"' }, { "&#39;", '\'' }, { "&#x22;", '"' } };

    if (**at != '&')
        return (unsigned char)*(*at)++;
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t size = strlen(names[i].name);

        if ((size_t)(end - *at) >= size && memcmp(*at, names[i].name, size) == 0) {
            *at += size;
            return names[i].is;
        }
    }
    return -1;
}

bool xml_value(struct xml_text in, const char *name, char *out, size_t room)
{
    struct xml_text value;
    size_t size = 0;

    if (!xml_element(&in, name, &value))
        return false;
    while (value.at < value.end) {
        int character = xml_character(&value.at, value.end);

        if (character < 0x20 || size + 1 >= room)
            return false;
        out[size++] = (char)character;
    }
    out[size] = '\0';
    return true;
}
