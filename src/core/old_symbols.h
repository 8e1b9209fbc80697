/* old_symbols.h - may a file ask for old versions of libc's symbols?
 *
 * The symbols of libpthread and libdl got new versions when glibc 2.34 took them over.  A library that must load on older
 * systems asks for the old versions, which every glibc has.  Sanitizers replace the current versions only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_OLD_SYMBOLS_H
#define LOCKSTEP_CORE_OLD_SYMBOLS_H

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || !defined(__x86_64__)
#define OLD_SYMBOLS 0
#else
#define OLD_SYMBOLS 1
#endif

#endif
