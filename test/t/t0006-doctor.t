#!/bin/sh
# The doctor says what is there, what is not, and what to do; only what is needed decides.
. "$SOURCE/test/t/tap.sh"

root=$TAP/root
mkdir -p "$root/proc/self" "$root/proc/pressure" "$root/sys/fs/cgroup/job" "$root/dev" \
    "$root/proc/sys/kernel/yama"
echo "1 (sh) S 0" >"$root/proc/self/stat"
printf 'Name:\tsh\nNSpid:\t77\t5\n' >"$root/proc/self/status"
echo "500 20 3" >"$root/proc/self/schedstat"
echo "some avg10=1.00" >"$root/proc/pressure/cpu"
echo "0::/job" >"$root/proc/self/cgroup"
printf 'usage_usec 1\nnr_throttled 42\n' >"$root/sys/fs/cgroup/job/cpu.stat"
echo 0 >"$root/proc/sys/kernel/yama/ptrace_scope"
echo "6,1,1,-;hello" >"$root/dev/kmsg"
LOCKSTEP_DIR=$TAP
export LOCKSTEP_DIR

doctor() { "$LOCKSTEP" doctor --root "$root" "$@"; }

ok "where everything needed works it exits 0" doctor
has "and says so" '^lockstep can run here: ' "$TAP/out"
has "run delay" '^ok +run delay' "$TAP/out"
has "throttling, of this group" '^ok +CPU throttling +/sys/fs/cgroup/job/cpu.stat: throttled 42 times' "$TAP/out"
has "pressure" '^ok +pressure' "$TAP/out"
has "an inner pid namespace" '^ok +pid namespace +2 pids' "$TAP/out"
has "stacks" '^ok +stacks +ptrace_scope 0' "$TAP/out"
has "the kernel's log" '^ok +kernel log' "$TAP/out"

has "NCCL's plugin" '^ok +NCCL plugin +.*liblockstep.so' "$TAP/out"
plugin() { NCCL_PROFILER_PLUGIN=other doctor; }
ok "another plugin of NCCL's decides nothing" plugin
has "and is told, with its fix" 'fix: unset NCCL_PROFILER_PLUGIN' "$TAP/out"

ok "the same as JSON" doctor --json
has "with the answer" '"can_run": true' "$TAP/out"
has "and each row's state" '"state": "ok"' "$TAP/out"

echo "0 0 0" >"$root/proc/self/schedstat"
rm "$root/proc/pressure/cpu" "$root/sys/fs/cgroup/job/cpu.stat" "$root/dev/kmsg"
echo 1 >"$root/proc/sys/kernel/yama/ptrace_scope"
ok "what is only useful does not decide" doctor
has "a schedstat that counts nothing is missing" '^missing +run delay' "$TAP/out"
has "no cpu.stat" '^missing +CPU throttling' "$TAP/out"
has "no pressure, with its fix" 'fix: .*psi=1' "$TAP/out"
has "traced by parents only" '^limited +stacks +ptrace_scope 1: only own children' "$TAP/out"
has "no kernel log" '^missing +kernel log' "$TAP/out"

# Version 1 of control groups, mounted as containers see it: the path is the host's.
mkdir -p "$root/sys/fs/cgroup/cpu,cpuacct"
echo "4:cpu,cpuacct:/docker/abc" >"$root/proc/self/cgroup"
printf 'nr_periods 9\nnr_throttled 7\n' >"$root/sys/fs/cgroup/cpu,cpuacct/cpu.stat"
ok "control groups of version 1" doctor
has "are read too" '/sys/fs/cgroup/cpu,cpuacct/cpu.stat: throttled 7 times' "$TAP/out"

rm "$root/proc/self/stat"
exits 1 "without /proc lockstep cannot run" doctor
has "and says what to do" 'fix: mount /proc' "$TAP/out"
exits 1 "the same as JSON" doctor --json
has "with the answer" '"can_run": false' "$TAP/out"
echo "1 (sh) S 0" >"$root/proc/self/stat"

: >"$TAP/file"
state() { LOCKSTEP_STATE=$1 doctor; }
exits 1 "a state directory below a file is missing" state "$TAP/file/state"
has "and is named" '^missing +state directory +.*/file' "$TAP/out"
rings() { LOCKSTEP_DIR=$1 doctor; }
exits 1 "so is a ring directory below a file" rings "$TAP/file/rings"

state /lockstep-no-such/a/b >"$TAP/out" 2>"$TAP/err"
lacks "a home that was never made is not blamed; the folder above it is" \
    '^missing +state directory +/lockstep-no-such' "$TAP/out"
[ -d "$TAP/state" ]
[ $? = 1 ]
tap_result $? "nothing was made by looking"

"$LOCKSTEP" doctor >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 0 ] || [ $status = 1 ]
tap_result $? "it answers on this very machine"
done_testing
