# SPDX-License-Identifier: Apache-2.0
"""A StorageWriter and StorageReader for torch.distributed.checkpoint: DCP plans and reshards, lockstep stores and verifies.

    writer = lockstep.checkpoint.dcp.StorageWriter("ckpt")
    dcp.save(state, checkpoint_id=step, storage_writer=writer)
    reader = lockstep.checkpoint.dcp.StorageReader("ckpt")       # the newest point that is complete and right
    dcp.load(state, storage_reader=reader)

Each save is a point of the directory, which `lockstep ckpt` lists and verifies.  Keep the writer: its memory is allocated once.
DCP's metadata is stored as JSON in the manifest of the first rank; values that are no tensors are stored as DCP pickles them.
"""
import dataclasses
import io
import json
import os
import re

import torch
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader as _Reader
from torch.distributed.checkpoint.storage import StorageWriter as _Writer
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import state
from .engine import CheckpointError, Engine, Part

BLOB = "dcp.metadata"
SIZE = "@bytes"  # behind the name of a value that is no tensor: its size
FORMAT = 1


def _step_of(checkpoint_id):
    """12, "12" or "ckpt/step-12" is step 12; None: not given."""
    if checkpoint_id is None:
        return None
    found = re.fullmatch(r"(?:.*/)?(?:step-)?(\d+)/?", os.fspath(checkpoint_id) if not isinstance(checkpoint_id, int)
                         else str(checkpoint_id))
    if not found:
        raise CheckpointError("checkpoint_id %r names no step: give a number, or a name that ends in step-N" % (checkpoint_id,))
    return int(found.group(1))


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _key(fqn, offset):
    return fqn, tuple(offset) if offset is not None else ()


class _Catalogue:
    """What all ranks save: by name and offset, under which name the engine has it."""

    def __init__(self):
        self.items = {}  # (fqn, offset): [name, dtype, shape, global shape]; dtype None: no tensor

    def add(self, plans):
        for plan in plans:
            here = set()
            for item in plan.items:
                fqn, tensor = item.index.fqn, item.tensor_data
                if item.type == WriteItemType.BYTE_IO:
                    self.items[_key(fqn, None)] = [fqn, None, None, None]
                    continue
                offset, name = tuple(tensor.chunk.offsets), fqn
                if name in here:  # a rank has several parts of it
                    name = "%s@%s" % (fqn, ",".join(map(str, offset)))
                here.add(name)
                self.items[_key(fqn, offset)] = [name, str(tensor.properties.dtype).replace("torch.", ""),
                                                 list(tensor.chunk.sizes), list(tensor.size)]

    def text(self, planner_data):
        describe = state.Describe(torch)
        return json.dumps({"format": FORMAT, "items": [[fqn, list(offset), *rest] for (fqn, offset), rest in self.items.items()],
                           "planner": describe(planner_data, "planner")})

    @staticmethod
    def read(text):
        whole, found = json.loads(text), _Catalogue()
        if whole.get("format") != FORMAT:
            raise CheckpointError("DCP's metadata has format %r, expected %d" % (whole.get("format"), FORMAT))
        for fqn, offset, *rest in whole["items"]:
            found.items[_key(fqn, offset)] = rest
        return found, state.read(whole["planner"], None, torch)

    def metadata(self, planner_data):
        answer, storage = {}, {}
        for (fqn, offset), (name, dtype, shape, size) in self.items.items():
            storage[MetadataIndex(fqn, torch.Size(offset) if dtype else None)] = name
            if dtype is None:
                answer[fqn] = BytesStorageMetadata()
                continue
            if fqn not in answer:
                answer[fqn] = TensorStorageMetadata(TensorProperties(dtype=getattr(torch, dtype)), torch.Size(size), [])
            answer[fqn].chunks.append(ChunkStorageMetadata(torch.Size(offset), torch.Size(shape)))
        return Metadata(answer, planner_data, storage)


def _part(tensor, shape, global_shape, offset):
    """For the engine, with its place in the global tensor where the engine has such a tensor."""
    whole = list(tensor.shape) == list(shape) and len(shape)
    return Part(tensor, tuple(global_shape) if whole else None, tuple(offset) if whole else None)


class StorageWriter(_Writer):
    """Saves points into `directory`; `keep`: how many verified points stay."""

    def __init__(self, directory, step=None, keep=0, timeout=1800):
        super().__init__()
        self.directory, self.step, self._given, self._keep, self._timeout = directory, step, step, keep, timeout
        self._engine = self._place = None
        self._job = int.from_bytes(os.urandom(7), "little") | 1  # the coordinator's is that of all

    def reset(self, checkpoint_id=None):
        step = _step_of(checkpoint_id)
        self.step = self._given if step is None else step

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        try:
            return _step_of(checkpoint_id) is not None
        except CheckpointError:
            return False

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        if self.step is None:
            raise CheckpointError("no step: give dcp.save(checkpoint_id=step), or StorageWriter(directory, step)")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        """Each rank learns its place; the first one gets the metadata of all."""
        catalogue, planner = _Catalogue(), {}
        catalogue.add(plans)
        for plan in plans:
            planner.update(plan.planner_data or {})
        text = catalogue.text(planner)
        return [dataclasses.replace(plan, storage_data=[rank, len(plans), self._job, text if rank == 0 else ""])
                for rank, plan in enumerate(plans)]

    def _open(self, rank, world, job):
        if self._place != (rank, world, job):
            if self._engine:
                self._engine.close()
            self._engine, self._place = Engine(self.directory, rank, world, job, self._keep), (rank, world, job)

    def _fail(self):
        raise CheckpointError("step %d is not saved: %s" % (self.step, self._engine.error))

    def write_data(self, plan, planner):
        rank, world, job, text = plan.storage_data
        self._open(rank, world, job)
        parts, sizes, catalogue = {}, [], _Catalogue()
        catalogue.add([plan])
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                data = data.getbuffer()
                tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
                parts[item.index.fqn] = Part(tensor)
                parts[item.index.fqn + SIZE] = Part(torch.tensor([tensor.numel()]))  # a reader does not know it
            else:
                name, _, shape, size = catalogue.items[_key(item.index.fqn, item.tensor_data.chunk.offsets)]
                tensor = state.Entry(data.detach()).stored(torch)
                parts[name] = _part(tensor, shape, size, item.tensor_data.chunk.offsets)
            sizes.append(tensor.numel() * tensor.element_size())
        engine = self._engine
        if not (engine.register(parts) and engine.blob_set(BLOB, text.encode()) and engine.begin(self.step) and engine.fence()):
            self._fail()
        return _done([WriteResult(index=item.index, size_in_bytes=size, storage_data=None)
                      for item, size in zip(plan.items, sizes)])

    def finish(self, metadata, results):
        """By the coordinator, when all ranks have handed over their data."""
        if not self._engine.wait("written", self._timeout):
            self._fail()

    def storage_meta(self):
        return None

    def close(self):
        if self._engine:
            self._engine.close()
        self._engine = self._place = None


class StorageReader(_Reader):
    """Reads a point of `directory`: that of `step`, or of dcp.load(checkpoint_id=step), else the newest that is right."""

    def __init__(self, directory, step=None):
        super().__init__()
        self.directory, self.step, self._given = directory, step, step
        self._engine = self._catalogue = None

    def reset(self, checkpoint_id=None):
        step = _step_of(checkpoint_id)
        self.step = self._given if step is None else step
        self._catalogue = None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return StorageWriter.validate_checkpoint_id(checkpoint_id)

    def read_metadata(self, *args, **kwargs):
        if self._engine is None:
            self._engine = Engine(self.directory)  # as the first of one rank: it has the manifest with the metadata
        engine = self._engine
        engine.register({})
        why = "the directory has no point"
        for step in [self.step] if self.step is not None else engine.steps():
            text = engine.blob_get(BLOB) if engine.restore(step) else None
            why = engine.error
            if text:
                self.step = step
                self._catalogue, planner_data = _Catalogue.read(text)
                return self._catalogue.metadata(planner_data)
        raise CheckpointError("%s: nothing that DCP has saved can be loaded: %s" % (self.directory, why))

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        if self._catalogue is None:  # the metadata came from the coordinator
            self.read_metadata()

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def _rounds(self, plan):
        """The parts to read; parts of one name one after the other."""
        rounds = []
        for key in dict.fromkeys(_key(item.storage_index.fqn, item.storage_index.offset) for item in plan.items):
            name = self._catalogue.items[key][0]
            free = next((taken for taken in rounds if name not in taken), None)
            if free is None:
                free = {}
                rounds.append(free)
            free[name] = key
        return rounds

    def _sizes(self, plan):
        """Of values that are no tensors."""
        parts = {item.storage_index.fqn: Part(torch.zeros(1, dtype=torch.int64)) for item in plan.items
                 if item.type == LoadItemType.BYTE_IO}
        self._fetch({name + SIZE: part for name, part in parts.items()})
        return {name: int(part.tensor) for name, part in parts.items()}

    def _fetch(self, parts):
        if parts and not (self._engine.register(parts) and self._engine.restore(self.step)):
            raise CheckpointError("step %d: %s" % (self.step, self._engine.error))

    def _empty(self, key, sizes):
        _, dtype, shape, size = self._catalogue.items[key]
        if dtype is None:
            return Part(torch.empty(sizes[key[0]], dtype=torch.uint8))
        stored, form = state.stored_form(torch, dtype, shape)
        return _part(torch.empty(form, dtype=stored), shape, size, key[1])

    def _read(self, plan):
        """The tensors, by name and offset."""
        found, sizes = {}, self._sizes(plan)
        for wanted in self._rounds(plan):
            parts = {name: self._empty(key, sizes) for name, key in wanted.items()}
            self._fetch(parts)
            for name, key in wanted.items():
                _, dtype, shape, _ = self._catalogue.items[key]
                found[key] = state.true_form(torch, parts[name].tensor, dtype, shape) if dtype else parts[name].tensor
        return found

    def read_data(self, plan, planner):
        found = self._read(plan)
        for item in plan.items:
            value = found[_key(item.storage_index.fqn, item.storage_index.offset)]
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(bytes(value.numpy().tobytes())))
                continue
            for dim, (begin, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                value = value.narrow(dim, begin, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(value)
            planner.commit_tensor(item, target)
        return _done(None)

    def close(self):
        if self._engine:
            self._engine.close()
        self._engine = None
