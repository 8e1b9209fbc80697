#!/bin/sh
# Ten nights: disks and GPUs, ranks that abort and that stand still.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/slurm/two-am.sh"

for seed in 1 2 3 4 5 6 7 8 9 10; do
    night --seed $seed
    passes "night $seed"
done
done_testing
