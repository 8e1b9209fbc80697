#!/bin/sh
# Judge, autopsy and policy read no clock, file, socket or environment: controller, simulator and a recorded run
# go through the very same code.  What its library may want from outside is a list of names;
# anything else, however harmless it looks, is a decision to be made here.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# memory, strings, sorting, numbers as text into memory, mathematics, assert
cat >"$TAP/allowed" <<'END'
_GLOBAL_OFFSET_TABLE_
__assert_fail
__errno_location
__isoc99_sscanf
__stack_chk_fail
abort
aligned_alloc
bsearch
calloc
ceil
ceilf
exp
exp2
expm1
fabs
floor
fmax
fmin
fmod
free
ldexp
llround
log
log10
log2
lround
malloc
memchr
memcmp
memcpy
memmem
memmove
memset
nearbyint
posix_memalign
pow
qsort
qsort_r
realloc
reallocarray
round
snprintf
sqrt
strchr
strcmp
strcpy
strcspn
strerror
strlen
strncasecmp
strncmp
strnlen
strrchr
strspn
strstr
strtoul
vsnprintf
END

undefined() # LIBRARY...: names it needs and does not itself define, nor core nor wire
{
    nm -u "$@" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u >"$TAP/needs"
    nm --defined-only "$@" "$BUILD"/src/core/libcore.a "$BUILD"/src/wire/libwire.a 2>/dev/null |
        awk 'NF == 3 { print $3 }' | sort -u >"$TAP/has"
    comm -23 "$TAP/needs" "$TAP/has" | grep -Ev '^__(asan|ubsan|tsan|sanitizer|gcov|llvm)'
}

strangers() # LIBRARY...
{
    undefined "$@" | grep -Fvx -f "$TAP/allowed" >"$TAP/strangers"
    cat "$TAP/strangers"
    [ ! -s "$TAP/strangers" ]
}

command -v nm >/dev/null || skip_all "no nm here"
judge="$BUILD/src/judge/libjudge.a $BUILD/src/autopsy/libautopsy.a $BUILD/src/policy/libpolicy.a"
# shellcheck disable=SC2086 # three libraries
ok "the libraries are there" ls $judge
ok "judge, autopsy and policy need nothing but memory, text and mathematics" strangers $judge
site="$BUILD/src/control/libcontrol.a.p/nodes_"
ok "nor does the core of a site" strangers "${site}site_core.c.o" "${site}site_orders.c.o" "${site}node_owners.c.o" "${site}node_lives.c.o" "${site}node_evidence.c.o" "${site}node_freshness.c.o" "${site}finding_counts.c.o"

# core is linked in too, so the judge must not come to the clock through it.
nm -u $judge 2>/dev/null | awk '$1 == "U" { print $2 }' >"$TAP/wants"
lacks "the judge asks core for no clock" '^time_(ns|mono_ns|real_ns)$' "$TAP/wants"

# And the test can fail: a library that reads the clock, the environment and a file.
cat >"$TAP/impure.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long impure(void);
long impure(void) { return time(NULL) + (getenv("X") != NULL) + (fopen("x", "r") != NULL); }
END
cc -c -o "$TAP/impure.o" "$TAP/impure.c"
exits 1 "a library that is not pure is seen" strangers "$TAP/impure.o"
has "its clock" '^time$' "$TAP/out"
has "its environment" '^getenv$' "$TAP/out"
has "its file" '^fopen$' "$TAP/out"
done_testing
