#!/bin/sh
# A real Prometheus scrapes a controller while a run has a slow rank: every query of every dashboard returns data, and the alert
# has the verdict's sentence.  Runs with LOCKSTEP_TEST_PROMETHEUS=1 only: make test-dashboards.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

[ -n "${LOCKSTEP_TEST_PROMETHEUS:-}" ] || skip_all "make test-dashboards runs it"
command -v prometheus >/dev/null || skip_all "prometheus is not installed"
boards="$SOURCE/dist/grafana/lockstep-site.json $SOURCE/dist/grafana/lockstep-run.json $SOURCE/dist/grafana/lockstep-overlay.json"
prometheus='' job=''
trap 'kill -9 $prometheus $job $control 2>/dev/null; rm -rf "$TAP"' EXIT

site_start
printf 'lockstep-plan 1\nnodes 2\nfault gpu-slow:rank=1,factor=4,step=20\n' >"$TAP/plan"
LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" run -q --name slow \
    -n 4 --nodes 2 -- "$LOCKSTEP" trainer --steps 100000 --step-ms 30 --plan "$TAP/plan" >"$TAP/run.out" 2>"$TAP/run.err" &
job=$!
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cp "$SOURCE/dist/prometheus/lockstep.rules.yml" "$TAP/"
cat >"$TAP/prometheus.yml" <<END
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [ $TAP/lockstep.rules.yml ]
scrape_configs:
  - job_name: lockstep
    authorization: { credentials_file: $site/tokens/reader.token }
    static_configs: [ { targets: ["${url#http://}"] } ]
END
prometheus --config.file="$TAP/prometheus.yml" --storage.tsdb.path="$TAP/data" --web.listen-address="127.0.0.1:$port" \
    >"$TAP/prometheus.log" 2>&1 &
prometheus=$!
answers() # shellcheck disable=SC2086 # a list of files
{
    python3 "$SOURCE/test/t/dashboards.py" ask "http://127.0.0.1:$port" slow $boards >"$TAP/out" 2>"$TAP/err"
}
await answers
tap_result $? "every query of every dashboard returns data"
sed 's/^/# /' "$TAP/out"
alerts()
{
    curl -s "http://127.0.0.1:$port/api/v1/alerts" >"$TAP/out"
    grep -q '"summary":"straggler: rank 1 (node n0) delays the others' "$TAP/out"
}
await alerts
tap_result $? "the alert has the verdict's sentence"
has "and a link to its card" '"link":"https://[^"]*/#/run/slow/now[?]verdict=st-' "$TAP/out"
kill -TERM $job
wait $job 2>/dev/null
job=''
done_testing
