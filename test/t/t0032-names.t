#!/bin/sh
# No two files and no two structs have the same name, static functions carry the noun of their file, and tools/names would
# notice.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ok "every name is there once" "$SOURCE/tools/names" "$SOURCE"

tree=$TAP/tree
mkdir -p "$tree/src/a/test" "$tree/src/b" "$tree/src/cmd" "$tree/lab/cmd"
echo 'struct one { int x; };' >"$tree/src/a/same.c"
echo 'enum two { TWO };' >"$tree/src/b/same.c"
echo '/* struct one { */ struct one *use; const char *text = "struct one {";' >"$tree/src/b/uses.c"
echo 'struct one { int y; };' >"$tree/src/a/test/test-same.c"
echo 'struct three { int x; };' >"$tree/src/cmd/run.c"
echo 'struct four { int x; };' >"$tree/lab/cmd/run.c"
exits 1 "two files of one name" "$SOURCE/tools/names" "$tree"
is "are found, but not in cmd, and no test" "$(cat "$TAP/out")" "src/b/same.c: is the name of src/a/same.c, too"
mv "$tree/src/b/same.c" "$tree/src/b/other.c"
ok "a mention of a struct is no second one" "$SOURCE/tools/names" "$tree"
echo 'struct one { int z; };' >>"$tree/src/b/other.c"
exits 1 "two structs of one name" "$SOURCE/tools/names" "$tree"
is "are found" "$(cat "$TAP/out")" "src/b/other.c: struct one is also in src/a/same.c"
sed -i '$d' "$tree/src/b/other.c"
echo 'struct part { int x; };
static int parts_count(void) { return 0; }
static const char *other_text(const char *x) { return x; }
/* static int not_code(void) */
static __attribute__((noreturn)) void b_exit(void) { for (;;) ; }' >>"$tree/src/b/other.c"
ok "functions that carry a word of their path or their structs" "$SOURCE/tools/names" "$tree"
echo 'static struct one *count(void) { return 0; }' >>"$tree/src/b/other.c"
exits 1 "one that carries none" "$SOURCE/tools/names" "$tree"
is "is found" "$(cat "$TAP/out")" "src/b/other.c: count() does not carry the noun of its file"
done_testing
