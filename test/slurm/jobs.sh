# jobs.sh - jobs of a user that lockstep launches; use after cluster.sh.
#
#   jobs_begin ada                    # ~ada/rank, which notes where each rank is
#   submit ada -N4 --no-kill <<END    # a batch script; sets $job.  Its output is ~ada/job.out
#   await trained 60                  # rank 0 has made 60 steps
#   node_of_rank 1; pid_of_rank 1
#   train ada 400 "-n 1 --spares 1 --max-restarts 5" -N4     # the same with the demo trainer on each node
#   decisions; parts                  # what `lockstep why` says of the run: into $TAP/out; seconds of each restart
#   await job_has_ended; job_result   # "exit 0"
# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0

# A rank that finds a living rank of an earlier attempt on its node says so.
jobs_begin() # USER
{
    jobs_home=/home/$1
    mkdir -p "$CLUSTER/bin"
    for program in lockstep lockstep-lab; do ln -sf "$(dirname "$LOCKSTEP")/$program" "$CLUSTER/bin/$program"; done
    PATH=$CLUSTER/bin:$PATH
    cat >"$jobs_home/rank" <<'END'
#!/bin/sh
home=$(pwd)
for file in "$home"/pid.*."$SLURMD_NODENAME"; do
    attempt=${file##*/pid.}
    [ "${attempt%%.*}" -lt "$LOCKSTEP_RESTART" ] 2>/dev/null || continue
    case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$(cat "$file")/status" 2>/dev/null) in
    '' | Z | X) continue ;;
    esac
    echo "attempt $LOCKSTEP_RESTART rank $RANK: $file lives" >>"$home/overlap"
done
echo $$ >"$home/pid.$LOCKSTEP_RESTART.$RANK.$SLURMD_NODENAME"
exec "$@"
END
    chmod 755 "$jobs_home/rank"
}

submit() # USER OPTION... <SCRIPT
{
    submit_user=$1
    shift
    rm -rf "$jobs_home"/pid.* "$jobs_home/overlap" "$jobs_home/points" "$jobs_home/job.out"
    : >"$jobs_home/overlap"
    {
        echo "#!/bin/sh"
        echo "trap : TERM" # or srun outlives it: this cluster has no control groups, and finds processes by their parents
        cat
        echo 'echo "exit $?"'
    } >"$jobs_home/job.sh"
    chown -R "$submit_user:" "$jobs_home/job.sh" "$jobs_home/overlap"
    job=$(as "$submit_user" sbatch --parsable --open-mode=append -o job.out "$@" job.sh)
}

# It saves every 20 steps, of 20 ms each.  The first line of $TAP/want is what an undisturbed job says at its end.
train() # USER STEPS RUN-OPTIONS SBATCH-OPTION...
{
    train_user=$1 train_steps=$2 train_options=$3
    shift 3
    submit "$train_user" --no-kill "$@" <<END
srun --no-kill --kill-on-bad-exit=0 lockstep run --lease 4s --grace 2s $train_options -- \\
    ./rank lockstep trainer --steps $train_steps --step-ms 20 --checkpoint-dir "\$PWD/points" --checkpoint-every 20
END
}

decisions() # [RUN]
{
    as "$train_user" lockstep why "${1:-job-$job}" >"$TAP/out" 2>"$TAP/err"
}

parts() # as a remark: after decisions
{
    sed -n 's/^ *\(first new step after .*\)/# \1/p' "$TAP/out"
}

steps_of_job() { sed -n 's/^.*\[rank 0\] step \([0-9]*\) .*/\1/p' "$jobs_home/job.out" 2>/dev/null | sort -n | tail -n 1; }
trained() # STEPS
{
    trained_now=$(steps_of_job)
    [ "${trained_now:-0}" -ge "$1" ]
}
newest_of_rank() # RANK: its pid file in the newest attempt
{
    for newest in "$jobs_home"/pid.*."$1".*; do [ -e "$newest" ] && echo "$newest"; done | sort -t. -k2,2n | tail -n 1
}
node_of_rank() { newest=$(newest_of_rank "$1") && echo "${newest##*.}"; }
pid_of_rank() { cat "$(newest_of_rank "$1")"; }
job_has_ended()
{
    case $(job_state "$job") in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | PREEMPTED) ;; *) return 1 ;; esac
}
job_result() { grep '^exit ' "$jobs_home/job.out" | tail -n 1; }
show_job()
{
    echo "# $(timeout 5 squeue -h -t all -j "$job" -o '%T %r %N')" >&2
    tail -n 60 "$jobs_home/job.out" | grep -v '\] step ' | sed 's/^/# /' >&2
}
