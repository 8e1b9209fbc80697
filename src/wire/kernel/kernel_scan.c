/* kernel_scan.c - words, numbers and PCI addresses in a message.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "wire/kernel/kernel_private.h"

const char *scan_find(const char *at, const char *end, const char *words)
{
    return memmem(at, (size_t)(end - at), words, strlen(words));
}

bool scan_has(const struct kernel_scan *scan, const char *words)
{
    return scan_find(scan->text, scan->end, words) != NULL;
}

static int kernel_digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

bool scan_number(const char *at, const char *end, int base, uint64_t *ret)
{
    uint64_t value = 0;
    int digits = 0;

    while (at < end && (*at == ' ' || *at == '\''))
        at++;
    for (; at < end && kernel_digit_of(*at) < base && digits < 18; at++, digits++)
        value = value * (uint64_t)base + (uint64_t)kernel_digit_of(*at);
    if (!digits)
        return false;
    *ret = value;
    return true;
}

void scan_word(const char *at, const char *end, const char *stops, char *out, size_t room)
{
    size_t bytes = 0;

    while (at + bytes < end && bytes + 1 < room && !strchr(stops, at[bytes]))
        bytes++;
    memcpy(out, at, bytes);
    out[bytes] = '\0';
}

/* `least` to `most` hexadecimal digits; NULL: it is something else. */
static const char *kernel_hex_field(const char *at, const char *end, int least, int most,
                                    unsigned *ret)
{
    unsigned value = 0;
    int digits = 0;

    for (; at < end && digits < most && kernel_digit_of(*at) < 16; at++, digits++)
        value = value * 16 + (unsigned)kernel_digit_of(*at);
    *ret = value;
    return digits < least || (at < end && kernel_digit_of(*at) < 16) ? NULL : at;
}

const char *scan_pci(const char *at, const char *end, bool function, char out[KERNEL_DEVICE])
{
    unsigned domain = 0, bus, slot, number = 0;
    const char *from = kernel_hex_field(at, end, 4, 8, &domain), *stop;

    if (from && from < end && *from == ':')
        from++;
    else
        from = at;
    if (from == at)
        domain = 0;
    stop = kernel_hex_field(from, end, 2, 2, &bus);
    if (!stop || stop >= end || *stop++ != ':')
        return NULL;
    stop = kernel_hex_field(stop, end, 2, 2, &slot);
    if (!stop || slot > 0xff)
        return NULL;
    if (stop + 1 < end && *stop == '.' && kernel_digit_of(stop[1]) < 8) {
        number = (unsigned)kernel_digit_of(stop[1]);
        stop += 2;
    } else if (from == at || (stop < end && *stop == ':')) {
        return NULL; /* a time of the day looks like an address without a domain */
    }
    snprintf(out, KERNEL_DEVICE, function ? "%04x:%02x:%02x.%u" : "%04x:%02x:%02x", domain, bus,
             slot, number);
    return stop;
}

bool scan_pci_in(const char *at, const char *end, bool function, char out[KERNEL_DEVICE])
{
    const char *begin = at;

    for (const char *colon; (colon = memchr(at, ':', (size_t)(end - at))); at = colon + 1) {
        const char *from = colon;

        while (from > begin && kernel_digit_of(from[-1]) < 16)
            from--;
        if (from < colon && (from == begin || !isalnum((unsigned char)from[-1])) &&
            scan_pci(from, end, function, out))
            return true;
    }
    return false;
}

void scan_pid(const char *at, const char *end, struct kernel_event *event)
{
    uint64_t pid;

    if (scan_number(at, end, 10, &pid) && pid > 0 && pid < INT32_MAX)
        event->pid = (uint32_t)pid;
}
