#!/bin/sh
# The demo on a terminal: the line that shows the trainer's progress is cleared before anything else is printed, whoever prints it,
# and parts are separated by one blank line.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

cat >"$TAP/terminal.py" <<'END'
import os
import pty
import re
import sys

data = bytearray()
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    data += part
text = data.decode(errors="replace")
lines, column, at = [""], 0, 0
while at < len(text):
    code = re.compile(r"\x1b\[[0-9;?]*([a-zA-Z])").match(text, at)
    if code:
        if code.group(1) == "K":
            lines[-1] = lines[-1][:column]
        at = code.end()
        continue
    if text[at] == "\n":
        lines.append("")
        column = 0
    elif text[at] == "\r":
        column = 0
    else:
        line = lines[-1].ljust(column)
        lines[-1] = line[:column] + text[at] + line[column + 1:]
        column += 1
    at += 1
print("\n".join(lines).rstrip())
print("progress lines: %d" % text.count("\x1b[Kstep "))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
TERM=xterm python3 "$TAP/terminal.py" "$LOCKSTEP" demo --ranks 2 --steps 60 --step-ms 40 --fault kill:rank=1,step=40 >"$TAP/screen"
is "the demo on a terminal" $? 0
has "its progress is shown" '^progress lines: [1-9]' "$TAP/screen"
has "what the launcher prints begins a line" '^lockstep run: rank 1 killed by signal 9' "$TAP/screen"
has "also that it starts the ranks again" '^lockstep run: restart 1 of 1$' "$TAP/screen"
has "and where to read on" '^lockstep run: [0-9]+ verdicts?; details: lockstep why ' "$TAP/screen"
lacks "progress does not stay in front of it" 'step [0-9]+ .*lockstep run:' "$TAP/screen"
has "a verdict is printed" '^crash: rank 1 ' "$TAP/screen"
is "between two parts there is one blank line" "$(awk '!$0 && NR > 1 && !last { print NR } { last = $0 }' "$TAP/screen")" ""
done_testing
