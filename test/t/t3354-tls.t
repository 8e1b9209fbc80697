#!/bin/sh
# TLS 1.2 or newer on both sides, and a certificate that names the addresses of the controller.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v openssl >/dev/null || skip_all "no openssl here"

site_start --tls --host-name ctl.example
ca=$site/tls/cert.pem port=${url##*:}
handshake() # OPTION...
{
    openssl s_client -connect "127.0.0.1:$port" -cipher 'ALL:@SECLEVEL=0' "$@" </dev/null >"$TAP/tls" 2>&1 &&
        grep -Eq 'Cipher is [A-Z0-9_-]+' "$TAP/tls" && ! grep -q 'Cipher is (NONE)' "$TAP/tls"
}
for version in tls1 tls1_1; do
    if handshake -$version; then false; else true; fi
    tap_result $? "$version is refused"
done
for version in tls1_2 tls1_3; do
    handshake -$version
    tap_result $? "$version is spoken"
done
is "curl says the same" "$(status --ciphers 'ALL:@SECLEVEL=0' --tlsv1.0 --tls-max 1.1 "$url/healthz")" 000

# The client: a server of TLS 1.1 gets no request from it.
"$LOCKSTEP" run -q --name r1 -- true >/dev/null 2>&1
openssl s_server -accept 127.0.0.1:0 -key "$site/tls/key.pem" -cert "$ca" -tls1_1 -cipher 'ALL:@SECLEVEL=0' -www \
    >"$TAP/server" 2>&1 &
server=$!
await grep -q '^ACCEPT' "$TAP/server"
old=$(sed -n 's/^ACCEPT .*:\([0-9]*\)$/\1/p' "$TAP/server")
openssl s_client -connect "127.0.0.1:$old" -tls1_1 -cipher 'ALL:@SECLEVEL=0' </dev/null >"$TAP/tls" 2>&1
has "a server of TLS 1.1" 'Protocol *: TLSv1.1' "$TAP/tls"
# What OpenSSL's own settings forbid is no merit of ours: they are told to allow everything.
printf 'openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n' \
    >"$TAP/openssl.cnf"
OPENSSL_CONF=$TAP/openssl.cnf LOCKSTEP_CONTROL_CA=$ca "$LOCKSTEP" send --token-file "$site/tokens/launch.token" --patience 2s \
    --control "https://localhost:$old" r1 >"$TAP/out" 2>"$TAP/err"
has "is not spoken to" 'protocol version|TLS|SSL' "$TAP/err"
lacks "not even as far as an answer" 'the controller responded' "$TAP/err"
kill $server

# Names.
for host in 127.0.0.1 localhost; do
    is "curl --cacert reaches https://$host" "$(curl -s -m 60 -o "$TAP/out" -w '%{http_code}' --cacert "$ca" "https://$host:$port/healthz")" 200
done
is "and the name that was configured" "$(curl -s -m 60 -o "$TAP/out" -w '%{http_code}' --cacert "$ca" \
    --resolve "ctl.example:$port:127.0.0.1" "https://ctl.example:$port/healthz")" 200
is "but no other" "$(curl -s -m 60 -o "$TAP/out" -w '%{http_code}' --cacert "$ca" \
    --resolve "evil.example:$port:127.0.0.1" "https://evil.example:$port/healthz")" 000
openssl x509 -in "$ca" -noout -ext subjectAltName >"$TAP/names"
has "it names 127.0.0.1" 'IP Address:127.0.0.1' "$TAP/names"
has "and ::1" 'IP Address:0:0:0:0:0:0:0:1' "$TAP/names"
site_stop
pin=$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err" | tail -n 1)

# Another address and another name: the key stays, and with it what agents pinned.
: >"$TAP/control.err" # now: the shell that starts the controller empties it at some later time
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.3:0 --tls --host-name new.example 2>"$TAP/control.err" &
control=$!
await grep -q 'LOCKSTEP_CONTROL_PIN' "$TAP/control.err"
url=$(cat "$site/control.url")
await curl -sfk "$url/healthz"
is "the address that it listens on is in the certificate" \
    "$(curl -s -m 60 -o "$TAP/out" -w '%{http_code}' --cacert "$ca" "$url/healthz")" 200
openssl x509 -in "$ca" -noout -ext subjectAltName >"$TAP/names"
has "so is the new name" 'DNS:new.example' "$TAP/names"
is "the key is the same" "$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err" | tail -n 1)" "$pin"
has "and the log says that the certificate was made again" 'reissued .*cert.pem with the same key' "$TAP/control.err"
site_stop
: >"$TAP/control.err"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.3:0 --tls --host-name new.example 2>"$TAP/control.err" &
control=$!
await grep -q 'LOCKSTEP_CONTROL_PIN' "$TAP/control.err"
lacks "with the same names it stays" 'reissued' "$TAP/control.err"
site_stop

# A certificate of the site's own is never touched.
cp "$ca" "$TAP/cert.pem"
cp "$site/tls/key.pem" "$TAP/key.pem"
before=$(sha256sum <"$TAP/cert.pem")
: >"$TAP/control.err"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.4:0 --cert "$TAP/cert.pem" --key "$TAP/key.pem" 2>"$TAP/control.err" &
control=$!
await grep -q 'LOCKSTEP_CONTROL_PIN' "$TAP/control.err"
is "the site's own certificate stays as it is" "$(sha256sum <"$TAP/cert.pem")" "$before"
site_stop
done_testing
