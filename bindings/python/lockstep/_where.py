"""Who this process is among the ranks, as its launcher told it in the environment."""
import os

# Rank and world by torchrun and `lockstep run`, Slurm, Open MPI, MPICH and those derived from it.
_NAMES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def under_lockstep():
    """Is anybody there to read a ring?"""
    return bool(os.environ.get("LOCKSTEP_DIR") or os.environ.get("LOCKSTEP_RUN"))


def rank_and_world():
    """(rank, world), or None when no launcher said so, or said nonsense."""
    for rank_name, world_name in _NAMES:
        try:
            rank, world = int(os.environ[rank_name]), int(os.environ[world_name])
        except (KeyError, ValueError):
            continue
        if 0 <= rank < world < 1 << 32:
            return rank, world
    return None


def is_worker():
    """Was this process started by multiprocessing, as loaders' workers and some ranks are?"""
    # Not imported by us: a process that never imported it was not started by it.
    import sys
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
