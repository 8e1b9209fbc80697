# site.sh - a site's controller for tests that send it frames by hand; use after tap.sh.
#
# $site is its state directory, $url where it listens, $control its pid, its log $TAP/control.err.
site=$TAP/site
control=

begin() # [OPTION...]: a controller on a free port
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 "$@" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sf "$url/healthz"
}

end()
{
    kill -TERM "$control" && wait "$control"
}
trap '[ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

status() # TOKEN-FILE CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$1")" >"$TAP/curlrc"
    shift
    curl -s -K "$TAP/curlrc" -o "$TAP/out" -w '%{http_code}' "$@"
}

register() # RUN
{
    status "$site/tokens/launch.token" -d "{\"run\":\"$1\"}" "$url/api/v1/runs"
}

post() # RUN FILE
{
    status "$site/runs/$1/agent.token" --data-binary @"$2" "$url/api/v1/frames?run=$1"
}

show() # PATH: what the controller answers an administrator
{
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$site/tokens/admin.token")" >"$TAP/showrc"
    curl -s -K "$TAP/showrc" "$url/$1"
}

memory_kb() # of the controller
{
    sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$control/status"
}

train() # RUN: a small real job that reports to it
{
    LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
        timeout -k 5 90 "$LOCKSTEP" run -q --name "$1" -n 2 -- \
        "$LOCKSTEP" trainer --steps 20 >"$TAP/run.out" 2>"$TAP/run.err"
}
