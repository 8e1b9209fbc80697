#!/bin/sh
# The rights that the service gives to the daemon are enough for all it does, and are exactly these.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$SOURCE/dist/lockstep-agent.service.in" | tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
setpriv --bounding-set="-all,$caps" true 2>/dev/null || skip_all "this setpriv cannot limit capabilities"
control_start
cat >"$TAP/lockstep" <<END
#!/bin/sh
exec setpriv --bounding-set=-all,$caps --no-new-privs "$LOCKSTEP" "\$@"
END
chmod +x "$TAP/lockstep"
real=$LOCKSTEP LOCKSTEP=$TAP/lockstep
daemon_start
LOCKSTEP=$real
train $ada work 60
await has_steps work.u$ada 20
tap_result $? "a run is watched"
pid=$(agents $ada | head -n 1)
kill -9 "$pid"
other() { [ -n "$(agents $ada)" ] && [ "$(agents $ada)" != "$pid" ]; }
await other
tap_result $? "its agent is started again"
await has_steps work.u$ada 60
is "each step is told once" "$(number steps)" 60
as $ada rm -rf "$root/lockstep-$ada/work"
gone() { [ ! -e "$state/runs/work.u$ada" ]; }
await gone
tap_result $? "when the rings are gone, nothing stays behind"
train $ada last 100
await has_steps last.u$ada 5
kill -STOP $(agents $ada)
daemon_stop
is "the daemon ends, also with an agent that is stopped" $? 0
done_testing
