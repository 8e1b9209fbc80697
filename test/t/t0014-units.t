#!/bin/sh
# The units: what systemd thinks of them, and what it hears from the controller.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

for unit in lockstep-control.service lockstep-agent.service lockstep-agent@.service lockstep-tidy.service lockstep-relay.service; do
    sed "s|^ExecStart=[^ ]*|ExecStart=$LOCKSTEP|" "$BUILD/dist/$unit" >"$TAP/$unit"
    words=$(sed -n 's/^ExecStart=[^ ]* //p' "$TAP/$unit")
    ok "$unit begins a command that there is" "$LOCKSTEP" help "${words%% *}"
    for option in $(echo "$words" | tr ' ' '\n' | grep '^--'); do
        has "with an option that it has: $option" "^ *$option " "$TAP/out"
    done
    if command -v systemd-analyze >/dev/null; then
        ok "$unit is well-formed" systemd-analyze verify --man=no "$TAP/$unit"
        [ ! -s "$TAP/err" ]
        tap_result $? "and nothing is said about it"
    else
        skip "$unit is well-formed" "no systemd-analyze here"
        skip "and nothing is said about it" "no systemd-analyze here"
    fi
done
if command -v systemd-analyze >/dev/null; then
    ok "the controller is exposed little" systemd-analyze security --offline=true --threshold=20 \
        "$TAP/lockstep-control.service"
    ok "the relay as little" systemd-analyze security --offline=true --threshold=20 \
        "$TAP/lockstep-relay.service"
    ok "the agent as little as it can be" systemd-analyze security --offline=true --threshold=40 \
        "$TAP/lockstep-agent@.service"
else
    skip "the controller is exposed little" "no systemd-analyze here"
    skip "the relay as little" "no systemd-analyze here"
    skip "the agent as little as it can be" "no systemd-analyze here"
fi

command -v python3 >/dev/null || {
    skip "the manager hears from the controller" "no python3 here"
    done_testing
}
cat >"$TAP/manager.py" <<'END'
import os, signal, socket, subprocess, sys
name = sys.argv[1]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(name)
manager.settimeout(30)
env = dict(os.environ, NOTIFY_SOCKET=name, WATCHDOG_USEC="400000")
child = subprocess.Popen(sys.argv[2:], env=env)
heard = []
try:
    while heard.count("WATCHDOG=1") < 3:
        heard += manager.recv(4096).decode().split("\n")
    child.send_signal(signal.SIGTERM)
    while "STOPPING=1" not in heard:
        heard += manager.recv(4096).decode().split("\n")
finally:
    child.terminate()
    child.wait()
print(heard[0], child.returncode, *heard)
END
LOCKSTEP_STATE=$TAP/site
mkdir "$LOCKSTEP_STATE"
ok "the manager hears from the controller" python3 "$TAP/manager.py" "$TAP/sock" "$LOCKSTEP" control \
    --listen 127.0.0.1:0 --state "$TAP/site"
has "first that it is ready, then that it lives, then that it stops" \
    '^READY=1 0 READY=1 .*WATCHDOG=1 .*WATCHDOG=1 .*STOPPING=1' "$TAP/out"
done_testing
