/* page_files.h - the files of the page, as web/ has built them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_PAGE_FILES_H
#define LOCKSTEP_SHOW_PAGE_FILES_H

#include <stddef.h>

extern const unsigned char page_html[], page_script[], page_style[];
extern const size_t page_html_size, page_script_size, page_style_size;
extern const char page_html_sha256[], page_script_sha256[], page_style_sha256[]; /* base64 */
/* The same, compressed. */
extern const unsigned char page_html_gzip[], page_script_gzip[], page_style_gzip[];
extern const size_t page_html_gzip_size, page_script_gzip_size, page_style_gzip_size;

#endif
