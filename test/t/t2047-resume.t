#!/bin/sh
# LOCKSTEP_RESUME: the newest checkpoint that was committed and read back; a damaged one is left out with the reason; all nodes of a
# job get the same one, and a node that does not see it does not start.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"
train=$BUILD/test/ckpt-train
points=$TAP/points

resumes() { "$LOCKSTEP" run --no-watch --checkpoints "$1" -n 1 -- sh -c 'echo "resume: <$LOCKSTEP_RESUME>"' >"$TAP/out" 2>"$TAP/err"; }
mkdir "$TAP/empty"
resumes "$TAP/empty"
has "without a checkpoint it is empty" 'resume: <>' "$TAP/out"
resumes "$TAP/nowhere"
has "without a directory as well" 'resume: <>' "$TAP/out"
has "which is said" 'nowhere: No such file.*LOCKSTEP_RESUME is empty' "$TAP/err"
"$train" "$points" steps=4 mb=1 wait=verified >"$TAP/out" 2>&1
ok "a directory with checkpoints" "$LOCKSTEP" ckpt ls "$points"
newest=$(ls -d "$points"/step-* | sed 's/.*step-//' | sort -n | tail -n 1)
before=$(ls -d "$points"/step-* | sed 's/.*step-//' | sort -n | tail -n 2 | head -n 1)
resumes "$points"
has "the newest one" "resume: <$points/step-$newest>" "$TAP/out"
rm "$points/step-$newest"/rank-00000.verified
resumes "$points"
has "not one that was not read back" "resume: <$points/step-$before>" "$TAP/out"
has "and why" "checkpoint not taken: step-$newest: it was not read back" "$TAP/err"

# Two nodes; the second sees another directory in the last run.
nodes_begin
cat >"$TAP/say" <<'END'
#!/bin/sh
echo "resume: <$LOCKSTEP_RESUME>"
END
chmod +x "$TAP/say"
node() # RUN NODE DIR
{
    {
        LOCKSTEP_STATE=$TAP/$1-$2 timeout -k 5 60 "$LOCKSTEP" run --name "$1" --nnodes 2 --node "$2" -n 1 --checkpoints "$3" -- "$TAP/say" \
            >"$TAP/$1-$2.out" 2>"$TAP/$1-$2.err"
        echo $? >"$TAP/$1-$2.status"
    } &
}
both() { [ -s "$TAP/$1-n1.status" ] && [ -s "$TAP/$1-n2.status" ]; }
node two n1 "$points"
node two n2 "$points"
await both two
is "two nodes begin with the same one" "$(cat "$TAP"/two-n?.out | sort -u)" "[rank 0] resume: <$points/step-$before>
[rank 1] resume: <$points/step-$before>"
cp -r "$points" "$TAP/other"
rm -r "$TAP/other/step-$before"
older=$(ls -d "$TAP"/other/step-* | sed 's/.*step-//' | sort -n | tail -n 2 | head -n 1)
node apart n1 "$points"
node apart n2 "$TAP/other"
await both apart
is "two nodes with different directories begin with what both have" "$(sed -n 's/.*step-\([0-9]*\)>/\1/p' "$TAP"/apart-n?.out | sort -u)" "$older"
rm -r "$points/step-$older"
node none n1 "$points"
node none n2 "$TAP/other"
await both none
is "a node that does not see it does not start, and the run ends" "$(cat "$TAP"/none-n?.status | sort -u)" 125
has "with the reason" "the checkpoint of step $older is not there" "$TAP/none-n1.err"
site_stop
done_testing
