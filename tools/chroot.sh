# chroot.sh - a bare Debian 12 in $root, for the scripts that source it; removed when they end, mounts first.
#
# Mirror, proxy and credentials are those of this machine's apt, read now and kept nowhere but in the
# scratch directory.  Needs root and debootstrap.  Set before: suite, keep (yes or no), and from, if the mirror of another suite has it.
# SPDX-License-Identifier: Apache-2.0
scratch=$(mktemp -d "${LOCKSTEP_SCRATCH:-${TMPDIR:-/var/tmp}}/lockstep-chroot.XXXXXX")
root=$scratch/root
mkdir "$root"

mounts() # below the root, innermost first
{
    awk -v root="$root/" 'index($5 "/", root) == 1 { print $5 }' /proc/self/mountinfo | sort -r
}

cleanup()
{
    status=$?
    trap - EXIT INT TERM HUP
    for place in $(mounts); do
        umount "$place" 2>/dev/null || umount -l "$place"
    done
    if [ -n "$(mounts)" ]; then
        echo "$0: still mounted, so not removed: $root" >&2
        [ $status != 0 ] || status=1
    elif [ $keep = yes ]; then
        echo "$0: kept $root" >&2
    else
        rm -rf --one-file-system "$scratch"
    fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The mirror that this machine's own apt uses for the suite, from both styles of sources.
mirror()
{
    {
        cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
            sed -n 's/^deb  *\(\[[^]]*\]  *\)\{0,1\}\([^ ]*\)  *\([^ ]*\) .*/\2 \3/p'
        awk 'FNR == 1 { uri = suites = "" }
            /^URIs:/ { uri = $2 }
            /^Suites:/ { suites = $0 }
            /^[[:space:]]*$/ { show() }
            END { show() }
            function show(  n, i, word)
            {
                n = split(suites, word, " ")
                for (i = 2; i <= n; i++) print uri, word[i]
                uri = suites = ""
            }' /etc/apt/sources.list.d/*.sources 2>/dev/null
    } | awk -v suite=$suite '$2 == suite { print $1; exit }'
}

from=${from:-$(mirror)}
if [ -z "$from" ]; then
    echo "$0: this machine's apt has no source for $suite" >&2
    exit 3
fi

echo "=== a bare Debian: $suite"
# debootstrap fetches with wget and so knows apt's proxy only from the environment.
proxy=$(apt-config dump Acquire::http::Proxy | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then
    export http_proxy="$proxy" https_proxy="$proxy"
fi
if ! debootstrap --variant=minbase --include=make "$suite" "$root" "$from" >"$scratch/debootstrap.log" 2>&1; then
    tail -n 30 "$scratch/debootstrap.log"
    echo "$0: debootstrap failed" >&2
    exit 1
fi

# apt inside as apt here: sources of Debian itself, proxy, credentials, certificates.
for place in apt.conf auth.conf auth.conf.d; do
    [ ! -e "/etc/apt/$place" ] || cp -a "/etc/apt/$place" "$root/etc/apt/"
done
apt-config dump Acquire | grep -E '^Acquire::(http|https|Check-Valid-Until|Retries)' \
    >"$root/etc/apt/apt.conf.d/90host" || true
[ ! -d /etc/ssl/certs ] || { mkdir -p "$root/etc/ssl" && cp -aL /etc/ssl/certs "$root/etc/ssl/"; }
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
cp -L /etc/hosts "$root/etc/hosts"

mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777,size=256m shm "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"

