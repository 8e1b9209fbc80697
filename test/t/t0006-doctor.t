#!/bin/sh
# The doctor says what is there, what is not, and what to do; only what is needed decides.
# SPDX-License-Identifier: Apache-2.0
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
has "an inner pid namespace" '^ok +pid namespace +processes have 2 pids' "$TAP/out"
has "stacks" '^ok +stacks +ptrace_scope 0' "$TAP/out"
has "the kernel's log" '^ok +kernel log' "$TAP/out"

has "NCCL's plugin" '^ok +NCCL plugin +.*liblockstep.so' "$TAP/out"
plugin() { NCCL_PROFILER_PLUGIN=$1 doctor; }
ok "another plugin of NCCL's" plugin other
has "is called behind ours" '^ok +NCCL plugin +.*liblockstep.so.*; it calls other as well' "$TAP/out"
ok "no plugin at all decides nothing" plugin none
has "and is told, with its fix" 'fix: unset NCCL_PROFILER_PLUGIN' "$TAP/out"

# GPUs by libraries that a script drives; one that never answers holds up nobody.
echo "nvml.count value 1" >"$TAP/fake"
gpus() { LD_LIBRARY_PATH=$BUILD/src/device LOCKSTEP_FAKE_DEVICE=$TAP/fake doctor; }
ok "a node with a GPU" gpus
has "names it" '^ok +GPUs +driver [0-9.]+, 1 GPU, NVIDIA H100' "$TAP/out"
echo "nvml.3.temperature error 15" >"$TAP/fake"
ok "a node with a lost GPU" gpus
has "says which" '^limited +GPUs +1 of 8 GPUs not healthy, first GPU 3: GPU is lost' "$TAP/out"
echo "nvml.init hang" >"$TAP/fake"
ok "a driver that does not answer" timeout 20 sh -c "LD_LIBRARY_PATH=$BUILD/src/device LOCKSTEP_FAKE_DEVICE=$TAP/fake \
    '$LOCKSTEP' doctor --root '$root'"
has "is not known, and not called ok" '^unknown +GPUs +NVML does not answer' "$TAP/out"

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
exits 1 "without /proc lockstep cannot watch" doctor
has "and says what to do" 'fix: mount it: mount -t proc' "$TAP/out"
exits 1 "the same as JSON" doctor --json
has "with the answer" '"can_run": false' "$TAP/out"
echo "1 (sh) S 0" >"$root/proc/self/stat"

# Every row says what is there and why it matters; one that is not ok also says what to do.
doctor >"$TAP/out" 2>"$TAP/err"
awk '/^(ok|limited|missing|unknown) / { rows++; state = $1; line = NR }
    NR == line + 1 && /^ +[A-Za-z]/ { why++ }
    /^ +fix: ./ { fixes++ }
    /^(limited|missing|unknown) / { bad++ }
    END { exit !(rows > 10 && why == rows && fixes == bad) }' "$TAP/out"
tap_result $? "each row has its reason, and its fix where it is not ok"

# What 'lockstep run' does decides: it takes another directory where the state directory cannot be created.
: >"$TAP/file"
state() { LOCKSTEP_STATE=$1 doctor; }
run_in() { LOCKSTEP_STATE=$1 TMPDIR=$TAP "$LOCKSTEP" run --quiet -- true; }
ok "a run starts where the state directory cannot be created" run_in "$TAP/file/state"
ok "so the doctor does not say that it cannot" state "$TAP/file/state"
has "the directory at fault is named, with the cause" \
    '^limited +state directory +.*/file/state: cannot be created: Not a directory' "$TAP/out"
has "and what to do" 'fix: set LOCKSTEP_STATE to a directory that you can write to; until then each run' "$TAP/out"
ok "one in a file system that refuses everything" state /proc/lockstep/state
has "is named, not the directory above it" \
    '^limited +state directory +/proc/lockstep: cannot be created' "$TAP/out"
lacks "nobody has to make / writable" 'make / writable' "$TAP/out"
rings() { LOCKSTEP_DIR=$1 doctor; }
ok "a ring directory below a file matters to other launchers only" rings "$TAP/file/rings"
has "and is named" '^limited +rings +LOCKSTEP_DIR: .*/file/rings: cannot be created' "$TAP/out"

ok "a state directory that has to be made" state "$TAP/new/a/b"
has "can be used" '^ok +state directory +.*/new/a/b, ' "$TAP/out"
[ ! -e "$TAP/new" ] && [ ! -e "$TAP/state" ]
tap_result $? "and nothing of it stays"
ls -d "$TAP"/lockstep.* >"$TAP/left" 2>/dev/null
state() { TMPDIR=$TAP LOCKSTEP_STATE=$1 doctor; }
ok "where a temporary directory is tried" state "$TAP/file/state"
ls -d "$TAP"/lockstep.* 2>/dev/null | cmp -s - "$TAP/left"
tap_result $? "that does not stay either"

"$LOCKSTEP" doctor >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 0 ] || [ $status = 1 ]
tap_result $? "it answers on this very machine"
done_testing
