# boot.sh - starts the system in $root under its own systemd, for the scripts that source it; no container program needed.
#
# systemd is process 1 of namespaces of its own (the network, too: only its loopback), with a part of the machine's cgroup2 tree.  That may be the only tree,
# or beside those of version 1.  Set before: root.  Then: boot_why_not says why it cannot be, or nothing; boot; booted
# COMMAND...; boot_end.
# SPDX-License-Identifier: Apache-2.0
boot_tree=
boot_group=
boot_pid=

boot_why_not()
{
    boot_tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    if [ "$(id -u)" != 0 ]; then
        echo "it needs root"
    elif [ -z "$boot_tree" ]; then
        echo "no cgroup2 tree is mounted here"
    elif ! mkdir "$boot_tree/lockstep-boot.$$" 2>/dev/null; then
        echo "no group can be made in $boot_tree"
    elif ! unshare --mount --uts --ipc --pid --cgroup --net --fork true 2>/dev/null; then
        rmdir "$boot_tree/lockstep-boot.$$"
        echo "no namespaces can be made here"
    else
        rmdir "$boot_tree/lockstep-boot.$$"
    fi
}

boot()
{
    boot_tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    boot_group=$boot_tree/lockstep-boot.$$
    mkdir "$boot_group"
    # shellcheck disable=SC2016 # for the inner shell
    setsid sh -c 'echo $$ >"$2/cgroup.procs"
        exec unshare --mount --uts --ipc --pid --cgroup --net --fork --kill-child sh -c '\''
            set -e
            mount --make-rprivate /
            mount --rbind "$1" "$1" # units with namespaces of their own need a root that is a mount
            cd "$1"
            mount -t proc proc proc
            mount --bind proc/sys proc/sys # the kernel is not theirs to set
            mount -o remount,bind,ro proc/sys
            mount -t cgroup2 cgroup2 sys/fs/cgroup
            mount -t tmpfs -o mode=755 run run
            mkdir run/lock
            mount -t tmpfs -o mode=1777 tmp tmp
            hostname lockbox
            exec chroot . /usr/bin/env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
                systemd.unified_cgroup_hierarchy=1
        '\'' sh "$1"' sh "$root" "$boot_group" >"$scratch/boot.log" 2>&1 &
    boot_outer=$!
    boot_left=300
    until [ "$(booted systemctl is-system-running 2>/dev/null)" = running ] ||
        [ "$(booted systemctl is-system-running 2>/dev/null)" = degraded ]; do
        boot_left=$((boot_left - 1))
        if [ $boot_left = 0 ] || ! kill -0 $boot_outer 2>/dev/null; then
            cat "$scratch/boot.log"
            return 1
        fi
        sleep 0.2
    done
}

booted() # COMMAND...: inside
{
    if [ -z "$boot_pid" ]; then # process 1 of the new namespace is the only child of unshare
        boot_pid=$(ps -o pid= --ppid "$boot_outer" 2>/dev/null | tr -d ' ')
        [ -n "$boot_pid" ] || return 1
    fi
    nsenter -t "$boot_pid" --mount --uts --ipc --pid --cgroup --net --root --wd /usr/bin/env -i HOME=/root \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

boot_end()
{
    [ -z "$boot_pid" ] || kill -9 "$boot_pid" 2>/dev/null || true
    [ -z "$boot_group" ] || for boot_left in 1 2 3 4 5 6 7 8 9 10; do
        find "$boot_group" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$boot_group" ] || break
        sleep 0.3
    done
    boot_pid='' boot_group=''
}
