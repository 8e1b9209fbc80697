# SPDX-License-Identifier: Apache-2.0
"""Who this process is among the ranks, as its launcher set it in the environment."""
import os
import struct

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
    """(rank, world), or None when no launcher set the variables, or they are not valid."""
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


def is_taken(rank):
    """Does another living process of this attempt write that rank's ring?

    Programs that a rank starts inherit its environment, and so the look of a rank.
    """
    directory = os.environ.get("LOCKSTEP_DIR")
    if not directory:
        return False
    attempt = os.environ.get("LOCKSTEP_RESTART") or "0"
    for number in range(100):  # as the library numbers them: without holes
        try:
            with open(os.path.join(directory, "rank-%d.%d.ring" % (rank, number)), "rb") as file:
                header = file.read(288)
        except OSError:
            return False
        if len(header) < 288:
            continue
        ring_attempt, pid = struct.unpack_from("<II", header, 40)
        closed, = struct.unpack_from("<I", header, 280)
        if not closed and str(ring_attempt) == attempt and pid != os.getpid() and _lives(pid):
            return True
    return False


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
