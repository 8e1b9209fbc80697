#!/bin/sh
# What enters the training process: libc only, nothing newer than GLIBC_2.17 (CentOS 7), the public
# names and no others, and nothing that runs by itself.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

limit=2.17

# The versions of libc that a library asks for which are newer than the limit.
too_new() # LIBRARY
{
    objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -u | while read -r version; do
        newest=$(printf '%s\n%s\n' "${version#GLIBC_}" "$limit" | sort -V | tail -n 1)
        [ "$newest" = "$limit" ] || echo "$version"
    done
}

only_old() # LIBRARY
{
    too_new "$1" >"$TAP/new"
    objdump -T "$1" | grep -F -f "$TAP/new"
    [ ! -s "$TAP/new" ]
}

only_libc() # LIBRARY
{
    objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -Evx 'libc\.so\.6|ld-linux.*'
    [ $? = 1 ]
}

command -v objdump >/dev/null || skip_all "no objdump here"
library=$BUILD/liblockstep.so
[ -f "$library" ] || skip_all "no liblockstep.so in $BUILD"
nm -D "$library" | grep -Eq '__(asan|tsan|ubsan|msan)' && skip_all "built with a sanitizer"

ok "needs nothing newer than GLIBC_$limit" only_old "$library"
ok "needs no library but libc" only_libc "$library"

# The functions that a header declares with LOCKSTEP_API.
declared() # HEADER
{
    sed -n 's/^LOCKSTEP_API.*[ *]\(lockstep_[a-z0-9_]*\)(.*/\1/p' "$1" | sort -u
}

# The functions that the library exports in one node of its version script.
exported() # NODE
{
    nm -D --defined-only "$library" | awk -v node="$1" '$2 == "T" && sub("@+" node "$", "", $3) { print $3 }' | sort -u
}

header=$SOURCE/include/lockstep/probe.h
declared "$header" >"$TAP/told"
exported LOCKSTEP_1 >"$TAP/made"
ok "exports every function of the public header, and no other" diff "$TAP/told" "$TAP/made"
grep -Eo '^(LOCKSTEP_API )?[a-z].*[ *]lockstep_[a-z0-9_]*\(' "$header" | grep -v '^LOCKSTEP_API' >"$TAP/out"
is "which all carry LOCKSTEP_API" "$(cat "$TAP/out")" ""
declared "$SOURCE/src/probe/private_table.h" >"$TAP/told"
exported LOCKSTEP_PRIVATE >"$TAP/made"
ok "and one function for our own Python package" diff "$TAP/told" "$TAP/made"
is "whose name is private" "$(cat "$TAP/made")" lockstep_private_table
nm -D --defined-only "$library" | awk '$2 == "T"' | grep -vE '@(LOCKSTEP_1|LOCKSTEP_PRIVATE)$' >"$TAP/out"
is "and nothing else" "$(cat "$TAP/out")" ""
lacks "no enum of the public header has a member that counts the others" '_COUNT' "$header"
sed -n 's/^extern const struct .* \([A-Za-z0-9_]*\);$/\1/p' "$SOURCE/src/probe/nccl_plugin.h" | sort -u >"$TAP/told"
# The version of our names is a symbol, too: A.
nm -D --defined-only "$library" | awk '$2 !~ /^[TA]$/ { sub("@.*", "", $3); print $2, $3 }' | sort -u >"$TAP/data"
sed 's/^. //' "$TAP/data" >"$TAP/made"
ok "exports the tables that NCCL looks for, and no other data" diff "$TAP/told" "$TAP/made"
printf 'ncclProfiler_v3\nncclProfiler_v4\nncclProfiler_v5\nncclProfiler_v6\n' >"$TAP/tables"
ok "which are those of versions 3 to 6" diff "$TAP/tables" "$TAP/made"
# In what is made read-only once its addresses are known.
readelf -SW "$library" | sed -n 's/^ *\[ *\([0-9]*\)\] \.data\.rel\.ro .*/\1/p' >"$TAP/section"
readelf --dyn-syms -W "$library" | grep ncclProfiler_ | grep -vE " $(cat "$TAP/section") ncclProfiler_" >"$TAP/out"
[ -s "$TAP/section" ] && [ ! -s "$TAP/out" ]
tap_result $? "and cannot be written to"

# Nothing that runs by itself: threads, handlers, constructors.
nm -D --undefined-only "$library" >"$TAP/wants"
lacks "starts no thread, sets no handler, allocates nothing" \
    ' (pthread_create|clone|sigaction|signal|atexit|__cxa_atexit|malloc|calloc|realloc|fopen|fork)(@|$)' \
    "$TAP/wants"
# What it is given as a pointer has no symbol.
cat "$SOURCE"/src/probe/*.[ch] >"$TAP/source"
lacks "nor is it given the means to" '(sigaction|sa_handler|pthread_create|atexit)' "$TAP/source"
lacks "needs no call to find its thread's data" '__tls_get_addr' "$TAP/wants"
readelf -SW "$library" | awk '{ for (i = 1; i < NF; i++) if ($i == ".init_array") print $(i + 4) }' >"$TAP/init"
has "has no constructor but the compiler's own" '^0*8$' "$TAP/init" # frame_dummy

readelf -dW "$library" >"$TAP/dynamic"
has "stays when it is closed: a thread may be in it" 'FLAGS_1.*NODELETE' "$TAP/dynamic"

# And the test can fail.
cat >"$TAP/new.c" <<'END'
#include <sys/stat.h>
int lockstep_new(struct stat *st);
int lockstep_new(struct stat *st) { return fstat(0, st); }
END
if cc -shared -fPIC -o "$TAP/new.so" "$TAP/new.c" 2>/dev/null &&
    objdump -T "$TAP/new.so" | grep -q GLIBC_2.33; then
    exits 1 "a newer symbol is seen" only_old "$TAP/new.so"
    has "by name" 'fstat' "$TAP/out"
else
    skip "a newer symbol is seen" "this libc has no newer fstat"
fi
done_testing
