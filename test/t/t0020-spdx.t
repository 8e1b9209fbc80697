#!/bin/sh
# Each source file names its licence in its opening comment, and tools/spdx would notice if one did not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ok "every source file names its licence" "$SOURCE/tools/spdx" --check "$SOURCE"

tree=$TAP/tree
mkdir -p "$tree/test/recorded"
printf '/* a.c - one line. */\n#include <stdio.h>\n' >"$tree/a.c"
printf '/* b.h - more.\n *\n * Than one.\n */\nint b;\n' >"$tree/b.h"
printf 'int c;\n' >"$tree/c.c"
printf '#!/bin/sh\n# d - a test.\necho\n' >"$tree/d.t"
printf '"""e - a module."""\nimport os\n' >"$tree/e.py"
printf '#!/usr/bin/env python3\n"""f - a program."""\n' >"$tree/f.py"
printf "project('g')\n" >"$tree/meson.build"
printf '#!/bin/sh\necho\n# SPDX-License-Identifier: Apache-2.0\n' >"$tree/late.sh"
printf 'SPDX-License-Identifier: Apache-2.0\n' >"$tree/page.md"
printf '#!/usr/bin/python3\n"""tool - a program."""\n' >"$tree/tool"
printf 'page(1)\n\n# NAME\n' >"$tree/page.1.scd"
printf '[Unit]\n' >"$tree/u.service.in"
printf 'int recorded;\n' >"$tree/test/recorded/r.c"

exits 1 "files without the line" "$SOURCE/tools/spdx" --check "$tree"
is "are named, also where it comes too late, and no others" "$(sed 's/: no .*//' "$TAP/out" | tr '\n' ' ')" \
    "a.c b.h c.c d.t e.py f.py late.sh meson.build page.1.scd tool u.service.in "
ok "are given it" "$SOURCE/tools/spdx" --fix "$tree"
ok "and then have it" "$SOURCE/tools/spdx" --check "$tree"
is "in C" "$(cat "$tree/a.c" "$tree/b.h" "$tree/c.c")" "/* a.c - one line.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
/* b.h - more.
 *
 * Than one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
int b;
/* SPDX-License-Identifier: Apache-2.0 */
int c;"
is "in shell" "$(cat "$tree/d.t")" "#!/bin/sh
# d - a test.
# SPDX-License-Identifier: Apache-2.0
echo"
is "in Python" "$(cat "$tree/e.py" "$tree/f.py")" '# SPDX-License-Identifier: Apache-2.0
"""e - a module."""
import os
#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""f - a program."""'
is "in a program without an ending" "$(cat "$tree/tool")" '#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tool - a program."""'
is "in a page" "$(cat "$tree/page.1.scd")" 'page(1)
; SPDX-License-Identifier: Apache-2.0

# NAME'
is "in a unit" "$(cat "$tree/u.service.in")" '# SPDX-License-Identifier: Apache-2.0
[Unit]'
cp -r "$tree" "$TAP/once"
ok "and are not given it twice" "$SOURCE/tools/spdx" --fix "$tree"
ok "as nothing changes" diff -r "$tree" "$TAP/once"
exits 2 "anything else is refused" "$SOURCE/tools/spdx" --nonsense
done_testing
