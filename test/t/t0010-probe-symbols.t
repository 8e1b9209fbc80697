#!/bin/sh
# What enters the training process: libc only, nothing newer than GLIBC_2.17 (CentOS 7), the public
# names and no others, and nothing that runs by itself.
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

# The headers, the public one and those for our own Python package and for NCCL, and the library agree.
cat "$SOURCE/include/lockstep/probe.h" "$SOURCE/src/probe/python.h" "$SOURCE/src/probe/gloo.h" "$SOURCE/src/probe/nccl_plugin.h" >"$TAP/headers"
sed -n 's/.*\(lockstep_[a-z0-9_]*\)(.*/\1/p' "$TAP/headers" | sort -u |
    while read -r name; do
        grep -Eq "^[a-z].*[ *]$name\(" "$TAP/headers" && echo "$name"
    done >"$TAP/told"
nm -D --defined-only "$library" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort -u >"$TAP/made"
ok "exports what the headers tell and nothing else" diff "$TAP/told" "$TAP/made"
sed -n 's/^extern const struct .* \([A-Za-z0-9_]*\);$/\1/p' "$TAP/headers" | sort -u >"$TAP/told"
# The version of our names is a symbol, too: A.
nm -D --defined-only "$library" | awk '$2 !~ /^[TA]$/ { sub("@.*", "", $3); print $2, $3 }' | sort -u >"$TAP/data"
sed 's/^. //' "$TAP/data" >"$TAP/made"
ok "exports the tables that NCCL looks for, and no other data" diff "$TAP/told" "$TAP/made"
printf 'ncclProfiler_v4\nncclProfiler_v5\n' >"$TAP/tables"
ok "which are those of versions 4 and 5" diff "$TAP/tables" "$TAP/made"
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
