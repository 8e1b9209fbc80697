# As the user of the job, on each node, before each task: slurmd reads lines of "export NAME=VALUE".  A job that has set LOCKSTEP_RUN
# itself stays as it is, and one that wants none of it sets LOCKSTEP_ATTACH=0.
# SPDX-License-Identifier: Apache-2.0
[ -n "${SLURM_JOB_ID-}" ] && [ "${LOCKSTEP_ATTACH-}" != 0 ] && [ -x "$LOCKSTEP" ] || exit 0
[ -z "${LOCKSTEP_RUN-}" ] || [ "${LOCKSTEP_TASK_PROLOG-}" = 1 ] || exit 0
case $SLURM_JOB_ID${SLURM_STEP_ID-}${SLURM_RESTART_COUNT-} in *[!0-9]*) exit 0 ;; esac # lines are parsed by slurmd
run=job-$SLURM_JOB_ID
case ${SLURM_STEP_ID-} in # steps above that number are batch scripts and the like
'' | 0 | 42949672??) ;;
*) run=$run.$SLURM_STEP_ID ;;
esac
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || run=$run-r$SLURM_RESTART_COUNT
rings=/dev/shm/lockstep-$(id -u)
[ ! -L "$rings" ] && mkdir -p -m 700 "$rings" 2>/dev/null && [ -O "$rings" ] || exit 0
echo "export LOCKSTEP_TASK_PROLOG=1"
echo "export LOCKSTEP_RUN=$run"
echo "export LOCKSTEP_DIR=$rings/$run"
case ":${PYTHONPATH-}:" in
*":$PYTHON_SITE:"*) ;;
*) [ ! -d "$PYTHON_SITE" ] || echo "export PYTHONPATH=$PYTHON_SITE${PYTHONPATH:+:$PYTHONPATH}" ;;
esac
[ -n "${NCCL_PROFILER_PLUGIN-}" ] || [ ! -e "$NCCL_PLUGIN" ] || echo "export NCCL_PROFILER_PLUGIN=$NCCL_PLUGIN"
exit 0
