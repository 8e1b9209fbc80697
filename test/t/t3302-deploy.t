#!/bin/sh
# The commands of docs/DEPLOY.md: a controller with TLS, tokens, the daemons of two nodes, one run on both, questions,
# Prometheus, backup.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "node daemons need root"
state=$TAP/controller pids='' control=''
leave()
{
    for pid in $pids $control; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
trap leave EXIT

# Controller.
begin()
{
    rm -f "$state/control.url"
    "$LOCKSTEP" control --state "$state" --listen 0.0.0.0:0 --host-name controller.example 2>>"$TAP/control.err" &
    control=$!
    await test -s "$state/control.url"
    LOCKSTEP_CONTROL=$(sed s/0.0.0.0/127.0.0.1/ "$state/control.url")
    port=${LOCKSTEP_CONTROL##*:}
}
begin
LOCKSTEP_CONTROL_PIN=$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err")
is "it is ready" "$(curl -sk "$LOCKSTEP_CONTROL/readyz")" ok
has "it prints its pin" '^sha256//' - <<END
$LOCKSTEP_CONTROL_PIN
END

# Tokens.
status() # TOKEN-FILE
{
    curl -sk -o /dev/null -w '%{http_code}' -K "$(bearer "$1")" "$LOCKSTEP_CONTROL/metrics"
}
extra=$state/tokens/reader-prometheus.token
(umask 077 && printf 'lst_%s\n' "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$extra")
cp -p "$extra" "$TAP/prometheus.token"
is "a token that it has not read yet" "$(status "$TAP/prometheus.token")" 401
kill -HUP $control
allowed() { [ "$(status "$TAP/prometheus.token")" = "$1" ]; }
await allowed 200
tap_result $? "is valid after SIGHUP"

# Daemons of two nodes, and a run with a rank on each.
LOCKSTEP_TOKEN_FILE=$TAP/launch.token
cp -p "$state/tokens/launch.token" "$LOCKSTEP_TOKEN_FILE"
export LOCKSTEP_CONTROL LOCKSTEP_CONTROL_PIN LOCKSTEP_TOKEN_FILE
master=$((20000 + $$ % 10000)) # below those that the kernel gives away
for node in 0 1; do
    mkdir -m 1777 "$TAP/shm$node"
    "$LOCKSTEP" agent --every-run --every-root "$TAP/shm$node" --state "$TAP/agents$node" --node "n$node" \
        2>"$TAP/agent$node.err" &
    pids="$pids $!"
    mkdir -p -m 700 "$TAP/shm$node/lockstep-0"
    RANK=$node WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$master LOCKSTEP_RUN=job-4211 \
        LOCKSTEP_DIR="$TAP/shm$node/lockstep-0/job-4211" "$LOCKSTEP" trainer --steps 1000000 --step-ms 20 \
        --stop-file "$TAP/stop" >"$TAP/rank$node.out" 2>&1 &
    pids="$pids $!"
done
both() { "$LOCKSTEP" why --json job-4211.u0 >"$TAP/out" 2>"$TAP/err"; [ "$(number ranks_seen)" = 2 ] && [ "$(number steps)" -ge 40 ]; }
await both
shown=$?
[ $shown = 0 ] || cat "$TAP"/rank?.out "$TAP"/agent?.err >&2
tap_result $shown "two nodes are one run"
"$LOCKSTEP" why job-4211.u0 >"$TAP/out" 2>"$TAP/err"
has "why shows it as a whole" '^run job-4211.u0: 2 ranks' "$TAP/out"
ok "ps lists it" "$LOCKSTEP" ps
has "by its name" '^job-4211.u0 +running +2 ' "$TAP/out"
ok "its log can be replayed from any machine" "$LOCKSTEP" why --replay job-4211.u0

# A rank in a container: another pid namespace, the directory of the rings shared.
if unshare -pf --mount-proc true 2>/dev/null; then
    RANK=0 WORLD_SIZE=1 LOCKSTEP_RUN=boxed LOCKSTEP_DIR="$TAP/shm0/lockstep-0/boxed" unshare -pf --mount-proc "$LOCKSTEP" trainer \
        --steps 1000000 --step-ms 20 --stop-file "$TAP/stop" >"$TAP/boxed.out" 2>&1 &
    pids="$pids $!"
    boxed() { "$LOCKSTEP" why --json boxed.u0 >"$TAP/out" 2>"$TAP/err"; [ "$(number steps)" -ge 20 ]; }
    await boxed
    tap_result $? "a rank in a container is observed"
else
    skip "a rank in a container is observed" "no pid namespace here"
fi

# Prometheus.
if command -v promtool >/dev/null; then
    curl -sk -K "$(bearer "$TAP/prometheus.token")" "$LOCKSTEP_CONTROL/metrics" >"$TAP/metrics"
    ok "promtool reads the metrics" sh -c "promtool check metrics <'$TAP/metrics'"
    section() # KEY: the indented block of the document that begins with it
    {
        awk -v key="    $1:" '$0 == key { on = 1 } on && !/^    / && NF { exit } on { print substr($0, 5) }' "$SOURCE/docs/DEPLOY.md"
    }
    section scrape_configs | sed "s|/etc/prometheus/lockstep.pem|$state/tls/cert.pem|; s|/etc/prometheus/lockstep.token|$TAP/prometheus.token|" \
        >"$TAP/prometheus.yml"
    ok "the scrape configuration is valid" promtool check config "$TAP/prometheus.yml"
else
    skip "promtool reads the metrics" "no promtool here"
fi
is "the certificate is trusted by its name" "$(curl -s --cacert "$state/tls/cert.pem" --resolve "controller.example:$port:127.0.0.1" \
    "https://controller.example:$port/healthz")" ok
rm "$extra"
kill -HUP $control
await allowed 401
tap_result $? "a token whose file is removed is not valid after SIGHUP"

# Backup while it runs, and restore.
tar -C "$state" --exclude='*.lsm' --exclude='index.sqlite*' --exclude=control.lock --exclude=control.url -czf "$TAP/backup.tar.gz" . \
    2>"$TAP/err"
[ $? -le 1 ] # 1: a file grew meanwhile
tap_result $? "a backup while it runs"
touch "$TAP/stop"
for pid in $pids; do kill "$pid" 2>/dev/null; done
wait $pids
pids=''
kill $control
wait $control
rm -rf "$state"
mkdir -m 700 "$state"
tar -C "$state" -xzf "$TAP/backup.tar.gz"
begin
is "a restored controller has the same key" "$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err" | uniq | wc -l)" 1
"$LOCKSTEP" why --json job-4211.u0 >"$TAP/out" 2>"$TAP/err"
is "and the run" "$(number ranks_seen)" 2
kill $control
wait $control
control=''
ok "its index can be made at once" "$LOCKSTEP" control --reindex --state "$state"
ok "and old logs be compacted" "$LOCKSTEP" control --tidy --state "$state"
done_testing
