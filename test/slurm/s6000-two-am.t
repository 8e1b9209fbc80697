#!/bin/sh
# A night on a Slurm cluster: the disk of a node turns slow, the newest checkpoint is damaged, and nobody is awake.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/slurm/two-am.sh"

night --seed 2
passes "two-am with a slow disk"
has "the page says what was done without a person" '^done without a person' "$TAP/out"
has "and what is left to a person" '^left to a person' "$TAP/out"
has "in HTML, too" '<h2>bars</h2>' "$TAP/page.html"
done_testing
