#!/bin/sh
# `lockstep why` on what people have: one file, several, directories, archives, standard input, in every encoding; and on
# what would block or fill a careless reader.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

mkdir "$TAP/logs"
cat >"$TAP/train.log" <<'END'
step 1 loss 2.5
[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 12, in step
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited or there was a network error
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
END
says() # NAME LAYER RANKS: of the only verdict in $TAP/out
{
    has "$1: layer" "\"layer\": *\"$2\"" "$TAP/out"
    got=$(tr -d ' \n' <"$TAP/out" | sed 's/.*"ranks":\[\([^]]*\)\],"nodes".*/\1/')
    is "$1: ranks" "$got" "$3"
}

exits 1 "one file" "$LOCKSTEP" why --json "$TAP/train.log"
says "one file" gpu-memory 3
has "the evidence names its file" '"file": *".*train.log"' "$TAP/out"
has "and its line" '"line": *4' "$TAP/out"
has "the others' errors follow" 'a peer is gone' "$TAP/out"
exits 1 "in words" "$LOCKSTEP" why "$TAP/train.log"
has "the cause comes first" '^crash: rank 3: GPU memory is exhausted' "$TAP/out"
has "with the line" 'train.log:4:' "$TAP/out"

cp "$TAP/train.log" "$TAP/logs/job.log"
python3 - "$TAP" <<'END'
import gzip, io, sys, tarfile
folder = sys.argv[1]
text = open(folder + "/train.log", "rb").read()
open(folder + "/utf16.log", "wb").write(text.decode().encode("utf-16"))
open(folder + "/crlf.log", "wb").write(text.replace(b"\n", b"\r\n"))
open(folder + "/bar.log", "wb").write(b" 10%|#\r 20%|##\r" + text.replace(b"[rank3]: torch", b"\x1b[31m[rank3]: torch"))
gzip.open(folder + "/train.log.gz", "wb").write(text)
for mode, name in (("w", "logs.tar"), ("w:gz", "logs.tar.gz")):
    with tarfile.open(folder + "/" + name, mode) as archive:
        archive.add(folder + "/train.log", "job/train.log")
        link = tarfile.TarInfo("job/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/dev/zero"
        archive.addfile(link)
open(folder + "/cut.gz", "wb").write(gzip.compress(text * 1000)[:400])
END
for file in utf16.log crlf.log bar.log train.log.gz logs.tar logs.tar.gz logs; do
    exits 1 "$file" "$LOCKSTEP" why --json "$TAP/$file"
    says "$file" gpu-memory 3
done
exits 1 "standard input" sh -c "'$LOCKSTEP' why --json - <'$TAP/logs.tar.gz'"
says "standard input" gpu-memory 3
if command -v zstd >/dev/null; then
    zstd -q "$TAP/logs.tar" -o "$TAP/logs.tar.zst"
    exits 1 "tar.zst" "$LOCKSTEP" why --json "$TAP/logs.tar.zst"
    says "tar.zst" gpu-memory 3
else
    skip "tar.zst" "no zstd here"
fi

# Several operands: the kernel's log says why a rank was killed.
cat >"$TAP/torchrun.log" <<'END'
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: /usr/bin/python3
END
echo 'Mar  1 10:42:07 n2 kernel: [98712.3] Memory cgroup out of memory: Killed process 77 (python3) total-vm:104857600kB' >"$TAP/dmesg.txt"
exits 1 "a log and a kernel's log" "$LOCKSTEP" why --json "$TAP/torchrun.log" "$TAP/dmesg.txt"
says "a log and a kernel's log" host-memory 1

# Rotated: the older part has the cause.
mkdir "$TAP/rotated"
echo "RuntimeError: CUDA error: device-side assert triggered" | gzip >"$TAP/rotated/train.log.1.gz"
echo "RuntimeError: CUDA out of memory." >"$TAP/rotated/train.log"
exits 1 "a rotated log" "$LOCKSTEP" why --json "$TAP/rotated"
says "a rotated log" user-code ''

# Names of nodes are no ranks.
mkdir "$TAP/nodes"
echo "RuntimeError: CUDA out of memory. Tried to allocate" >"$TAP/nodes/node3.log"
exits 1 "a node's log" "$LOCKSTEP" why --json "$TAP/nodes"
says "a node's log" gpu-memory ''
for node in n1 n2; do
    mkdir "$TAP/nodes/$node"
    for rank in 0 1; do echo "step 1" >"$TAP/nodes/$node/rank_$rank.log"; done
done
mv "$TAP/nodes/node3.log" "$TAP/nodes/n2/rank_1.log"
exits 1 "the same ranks on two nodes" "$LOCKSTEP" why --json "$TAP/nodes"
says "the same ranks on two nodes" gpu-memory ''

# Ended from outside.
echo "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T10:42:08 DUE TO TIME LIMIT ***" >"$TAP/limit.out"
exits 1 "a time limit" "$LOCKSTEP" why "$TAP/limit.out"
has "is what it is" 'ended from outside: the job reached its time limit' "$TAP/out"

# Hostile.
mkdir "$TAP/odd"
mkfifo "$TAP/odd/fifo"
ln -s loop "$TAP/odd/loop"
ln -s .. "$TAP/odd/up"
cp "$TAP/train.log" "$TAP/odd/job.log"
exits 1 "a fifo, loops and a log" timeout 60 "$LOCKSTEP" why --json "$TAP/odd"
says "a fifo, loops and a log" gpu-memory 3
exits 2 "a fifo alone" timeout 60 "$LOCKSTEP" why "$TAP/odd/fifo"
has "is refused in words" 'not a regular file' "$TAP/err"
exits 1 "a gzip that was cut counts as far as it goes" "$LOCKSTEP" why "$TAP/cut.gz"
has "and is listed" 'skipped .*cut.gz: gzip ends early' "$TAP/err"
exits 2 "a file that is not there" "$LOCKSTEP" why "$TAP/train.log" "$TAP/absent"
has "is named" 'absent: No such file' "$TAP/err"
exits 3 "a log without any cause" "$LOCKSTEP" why "$TAP/logs/../nodes/n1/rank_0.log"
ok "a run with a name" "$LOCKSTEP" run --quiet --name named -- true
cp "$TAP/train.log" "$TAP/named"
exits 3 "a run whose name a file has, too" sh -c 'cd "$1" && "$2" why named' sh "$TAP" "$LOCKSTEP"
has "is the run" '^run named: ' "$TAP/out"
exits 1 "with a slash it is the file" sh -c 'cd "$1" && "$2" why ./named' sh "$TAP" "$LOCKSTEP"
has "with its cause" '^crash: rank 3: GPU memory is exhausted' "$TAP/out"
exits 2 "a run beside a file" "$LOCKSTEP" why named "$TAP/train.log"
has "is named as one" 'named is a run: give one run' "$TAP/err"
exits 2 "several operands are not a run" "$LOCKSTEP" why --replay "$TAP/train.log" "$TAP/dmesg.txt"
done_testing
