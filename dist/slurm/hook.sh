# Nothing that is written here keeps a job away but a check that failed: an error of lockstep itself lets it run.
# SPDX-License-Identifier: Apache-2.0
[ -x "$LOCKSTEP" ] || exit 0
exec "$LOCKSTEP" slurm-hook "$HOOK"
