#!/bin/sh
# Rules for Prometheus raise what they should and nothing else; dashboards can be imported and ask valid queries.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v promtool >/dev/null || skip_all "promtool is not installed (package prometheus)"
boards="$SOURCE/dist/grafana/lockstep-site.json $SOURCE/dist/grafana/lockstep-run.json $SOURCE/dist/grafana/lockstep-overlay.json"
cp "$SOURCE/dist/prometheus/lockstep.rules.yml" "$SOURCE/test/t/lockstep.rules.test.yml" "$TAP/"

ok "the rules are valid" promtool check rules "$TAP/lockstep.rules.yml"
ok "and raise what they should, and nothing else" promtool test rules "$TAP/lockstep.rules.test.yml"
sed 's/ > 120 and/ > 120 or/' "$SOURCE/dist/prometheus/lockstep.rules.yml" >"$TAP/lockstep.rules.yml"
exits 1 "a rule that raises too much is found" promtool test rules "$TAP/lockstep.rules.test.yml"

# shellcheck disable=SC2086 # a list of files
{
    ok "dashboards have a shape that Grafana imports" python3 "$SOURCE/test/t/dashboards.py" shape $boards
    python3 "$SOURCE/test/t/dashboards.py" rules $boards >"$TAP/queries.yml"
}
ok "and valid queries" promtool check rules "$TAP/queries.yml"
is "which are not few" "$(($(grep -c record: "$TAP/queries.yml") > 30))" 1

# Metrics that rules and dashboards name, without those that Prometheus or the rules make: the controller exports them.
grep -ohE 'lockstep_[a-z_]+' "$SOURCE/dist/prometheus/lockstep.rules.yml" "$SOURCE"/dist/grafana/*.json | sort -u >"$TAP/used"
grep -rhoE '"(run_|agent_|log_|http_|tokens_|ingest_|nodes|runs|resident_|build_)[a-z_]*"' "$SOURCE/src/control" --include='metrics*.c' |
    tr -d '"' | sed 's/^/lockstep_/' | sort -u >"$TAP/exported"
comm -23 "$TAP/used" "$TAP/exported" >"$TAP/out"
is "no metric is named that is not exported" "$(cat "$TAP/out")" ''

# Each alert has its runbook.
sed -n '/^# ALERTS/,/^# SEE/p' "$SOURCE/man/lockstep-faults.7.scd" >"$TAP/runbooks"
sed -n 's/^ *- alert: //p' "$SOURCE/dist/prometheus/lockstep.rules.yml" | while read -r alert; do
    grep -q "\*$alert\*" "$TAP/runbooks" || echo "$alert"
done >"$TAP/out"
is "lockstep-faults(7) says what to do about each alert" "$(cat "$TAP/out")" ''
done_testing
