#!/bin/sh
# Files of torch.save: sealed whole, refused when they are truncated.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $candidate -c 'import torch' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skip_all "no python3 with torch"
mkdir "$TAP/global_step30"
cat >"$TAP/save.py" <<'END'
import sys, torch
net = torch.nn.Linear(300, 200)
opt = torch.optim.Adam(net.parameters())
net(torch.ones(1, 300)).sum().backward()
opt.step()
torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, sys.argv[1] + "/model.pt")
torch.save(net.state_dict(), sys.argv[1] + "/old.pt", _use_new_zipfile_serialization=False)
END
ok "torch saves" $python "$TAP/save.py" "$TAP/global_step30"
ok "its files are sealed" "$LOCKSTEP" ckpt seal --json "$TAP/global_step30"
is "the form of the old format is not known" "$(number unchecked_files)" 1
is "the step" "$(number step)" 30
ok "and verify" "$LOCKSTEP" ckpt verify "$TAP/global_step30"
ok "torch still loads it" $python -c "import torch; torch.load('$TAP/global_step30/model.pt')"
bytes=$(stat -c %s "$TAP/global_step30/model.pt")
for part in 1 22 30 100 $((bytes / 2)) $((bytes - 10)); do
    rm -rf "$TAP/c" && cp -r "$TAP/global_step30" "$TAP/c"
    truncate -s $((bytes - part)) "$TAP/c/model.pt"
    exits 1 "$part bytes less: refused" "$LOCKSTEP" ckpt verify "$TAP/c"
    rm "$TAP/c/lockstep.seal"
    exits 1 "$part bytes less: not sealed" "$LOCKSTEP" ckpt seal "$TAP/c"
    has "$part bytes less: because it is truncated" 'model.pt: truncated' "$TAP/out"
done
done_testing
