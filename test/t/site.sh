# site.sh - a site's controller for a test: starts it, asks it, sends it frames by hand; use after tap.sh.
#
#   site_start                      # controller of $site at a free port of loopback; sets $url, $api, $control
#   is "a page" "$(status -K "$(reader)" "$api/runs")" 200     # the body is in $TAP/out
#   site_stop                       # its log is $TAP/control.err
# SPDX-License-Identifier: Apache-2.0
site=$TAP/site control=''
trap '[ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

site_start() # OPTION...
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 "$@" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url") api=$(cat "$site/control.url")/api/v1
    await curl -sfk "$url/healthz"
}

site_stop()
{
    kill -TERM $control
    wait $control
    control=''
}

reader()
{
    bearer "$site/tokens/reader.token"
}

status() # CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    curl -sk -m 60 -o "$TAP/out" -w '%{http_code}' "$@"
}

site_run() # NAME RANKS STEPS: trains and sends everything
{
    LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
        timeout -k 5 100 "$LOCKSTEP" run -q --name "$1" -n "$2" -- "$LOCKSTEP" trainer --steps "$3" --step-ms 5 \
        >"$TAP/run.out" 2>"$TAP/run.err"
}

register() # RUN
{
    status -K "$(bearer "$site/tokens/launch.token")" -d "{\"run\":\"$1\"}" "$api/runs"
}

post() # RUN FILE: frames, with the run's own token
{
    status -K "$(bearer "$site/runs/$1/agent.token")" --data-binary @"$2" "$api/frames?run=$1"
}

show() # PATH: what the controller answers a reader
{
    curl -sk -K "$(reader)" "$url/$1"
}

memory_kb() # of the controller
{
    sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$control/status"
}
