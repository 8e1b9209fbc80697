# SPDX-License-Identifier: Apache-2.0
"""seal-make.py - checkpoints of other programs' layouts, and damage to them.

usage: seal-make.py hf DIR | dcp DIR | tensors FILE DTYPE SHAPE HEX | straddle FILE | flip FILE AT | zero FILE FROM TO | cut FILE SIZE
"""
import json
import os
import random
import struct
import sys


def noise(size, seed):
    return random.Random(seed).randbytes(size)


def floats(count, seed):
    """float32 numbers that are all finite"""
    rng = random.Random(seed)
    return struct.pack("<%df" % count, *(rng.uniform(-1, 1) for _ in range(count)))


def safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def hf(top):
    """the layout of Hugging Face's libraries: shards of one size and an index"""
    os.makedirs(top)
    weights = {}
    for i in (1, 2):
        shard = "model-%05d-of-00002.safetensors" % i
        names = ["layer%d.weight" % i, "layer%d.bias" % i]
        safetensors(top + "/" + shard, {names[0]: ("F32", [512, 64], floats(32768, i)), names[1]: ("F32", [64], bytes(256))})
        weights.update({name: shard for name in names})
    with open(top + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": 1}, "weight_map": weights}, f)
    with open(top + "/config.json", "w") as f:
        f.write("{}")
    os.mkdir(top + "/extra")
    with open(top + "/extra/rng_state", "wb") as f:
        f.write(noise(5 << 20, 3))


def dcp(top):
    """the layout of torch.distributed.checkpoint, of its names and sizes only"""
    os.makedirs(top)
    for rank in (0, 1):
        with open(top + "/__%d_0.distcp" % rank, "wb") as f:
            f.write(noise(100000, rank))
    with open(top + "/.metadata", "wb") as f:
        f.write(b"\x80\x04\x95" + b"".join(b"\x8c\x0d__%d_0.distcp\x94" % rank for rank in (0, 1)) + b".")


def main(command, path, *rest):
    if command in ("hf", "dcp"):
        {"hf": hf, "dcp": dcp}[command](path)
    elif command == "tensors":
        dtype, shape, data = rest
        safetensors(path, {"first": ("F32", [3], floats(3, 1)), "second": (dtype, json.loads(shape), bytes.fromhex(data))})
    elif command == "straddle":  # a NaN that lies on the border of two blocks
        safetensors(path, {"a": ("U8", [4 << 20], noise(4 << 20, 1)), "b": ("F32", [4], floats(4, 1))})
        with open(path, "rb") as f:
            begin = 8 + struct.unpack("<Q", f.read(8))[0]
        first = (4 << 20) - begin - 2
        safetensors(path, {"a": ("U8", [first], noise(first, 1)), "b": ("F32", [1024], b"\0\0\xc0\x7f" + floats(1023, 1))})
    elif command == "flip":
        with open(path, "r+b") as f:
            f.seek(int(rest[0]))
            byte = f.read(1)[0]
            f.seek(int(rest[0]))
            f.write(bytes([byte ^ 0x10]))
    elif command == "zero":
        first, last = int(rest[0]), int(rest[1])
        with open(path, "r+b") as f:
            f.seek(first)
            f.write(bytes(last - first))
    elif command == "cut":
        os.truncate(path, int(rest[0]))
    else:
        sys.exit("seal-make.py: unknown command " + command)


main(*sys.argv[1:])
