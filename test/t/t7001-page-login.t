#!/bin/sh
# A browser's session: one link, one session; a cookie without its key opens nothing, and neither lasts.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start
link() { LOCKSTEP_STATE=$site "$LOCKSTEP" control --page 2>>"$TAP/link.err" | head -n 1; }
login() # LINK: status; headers in $TAP/head
{
    curl -s -o "$TAP/out" -D "$TAP/head" -w '%{http_code}' "$1"
}
cookie() { sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\);.*/\1/p' "$TAP/head" | tr -d '\r'; }
key() { sed -n 's/^[Ll]ocation: .*#key=\([a-z0-9_]*\).*/\1/p' "$TAP/head" | tr -d '\r'; }

is "everyone gets the page" "$(status "$url/")" 200
has "which is HTML" '<!doctype html>' "$TAP/out"
is "and its script" "$(status "$url/app.js")" 200
curl -s -D "$TAP/head" -o "$TAP/out" "$url/"
has "scripts of other origins and inline ones are forbidden" "^Content-Security-Policy: default-src 'none'; script-src 'self';" "$TAP/head"
lacks "nothing weakens that" 'unsafe' "$TAP/head"
tag=$(sed -n 's/^ETag: \(.*\)\r$/\1/p' "$TAP/head")
is "what is known is not sent again" "$(status -H "If-None-Match: $tag" "$url/")" 304
is "without a session no data" "$(status "$api/runs")" 401
is "a link needs a token" "$(status -X POST -d '{}' "$api/login-links")" 401

address=$(link)
has "a link is printed" '^0$' - <<END
$(case $address in "$url/login?ticket=lst_"*) echo 0 ;; *) echo "$address" ;; esac)
END
is "a look at it does not use it up" "$(status -I "$address")" 200
is "it begins a session" "$(login "$address")" 303
has "with a cookie that scripts cannot read" '^Set-Cookie: lockstep-[0-9a-f]*=lst_[0-9a-f]*; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict.?$' "$TAP/head"
cookie=$(cookie) key=$(key)
is "cookie and key read" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" "$api/runs")" 200
is "a foreign cookie beside it does no harm" "$(status -H "Cookie: a=b; $cookie; c=d" -H "Lockstep-Key: $key" "$api/runs")" 200
is "the cookie alone does not" "$(status -H "Cookie: $cookie" "$api/runs")" 401
is "nor the key alone" "$(status -H "Lockstep-Key: $key" "$api/runs")" 401
is "nor a wrong key" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: lst_$(printf %064d 0)" "$api/runs")" 401
is "a session cannot write" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" -d '{"run":"x"}' "$api/runs")" 403
is "nor make links" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" -d '{}' "$api/login-links")" 403
is "nor be used from a page of another origin" \
    "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" -H 'Origin: http://evil.example' "$api/runs")" 403
is "a link works once" "$(login "$address")" 403
has "and the next one is named" 'lockstep control --page' "$TAP/out"

address=$(link)
is "a second session" "$(login "$address")" 303
is "has its own key" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $(key)" "$api/runs")" 401
is "and the first goes on" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" "$api/runs")" 200
address=$(SSH_CONNECTION=1 LOCKSTEP_STATE=$site "$LOCKSTEP" control --page | tail -n 1)
is "over ssh one line says how to forward the port" "${address%% -L*}" "from your own machine first: ssh -N"

for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
    last=$(curl -s -K "$(bearer "$site/tokens/reader.token")" -X POST -d '{}' "$api/login-links" | sed 's/.*"path":"\([^"]*\)".*/\1/')
    [ "$i" != 1 ] || first=$last
done
is "of many links the newest works" "$(login "$url$last")" 303
is "and the oldest is dropped" "$(login "$url$first")" 403
site_stop
site_start
is "sessions end with the controller" "$(status -H "Cookie: $cookie" -H "Lockstep-Key: $key" "$api/runs")" 401
site_stop
exits 2 "without a controller there is no link" env LOCKSTEP_STATE="$TAP/none" "$LOCKSTEP" control --page
has "and it says so" 'no controller is running in' "$TAP/err"
has "and how to see a run that is over" 'lockstep report RUN -o FILE' "$TAP/err"
done_testing
