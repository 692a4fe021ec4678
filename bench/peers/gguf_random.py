"""A GGUF file with the words and shapes of another, its matrices random and in Q8_0: what a server is measured with where the weights
themselves do not matter. Usage: gguf_random.py FILE OUT; only FILE's header is read, so `--header FILE OUT` may cut it off there."""
import os
import struct
import sys

import numpy

ALIGNED = 32
F32, Q8_0 = 0, 8
BLOCK = 32


def sized(file, path):
    """Where the words end, and name and shape of each tensor."""
    import gguf

    reader = gguf.GGUFReader(path)
    tensors = [(tensor.name, [int(size) for size in tensor.shape]) for tensor in reader.tensors]
    return int(reader.tensors[0].field.offset), tensors, int(reader.data_offset)


def weights(name, shape, draw):
    """Bytes of a tensor: deviations of 0.02, as models begin with."""
    count = int(numpy.prod(shape))
    if len(shape) < 2:
        return (numpy.zeros if name.endswith("bias") else numpy.ones)(count, numpy.float32)
    blocks = numpy.empty((count // BLOCK, 2 + BLOCK), numpy.uint8)
    blocks[:, :2] = numpy.frombuffer(numpy.float16(0.02 / 73).tobytes(), numpy.uint8)
    blocks[:, 2:] = draw.integers(1, 256, (count // BLOCK, BLOCK), numpy.uint8)
    return blocks


def rounded(size):
    return -(-size // ALIGNED) * ALIGNED


def main():
    cut = sys.argv[1] == "--header"
    path, out = sys.argv[-2:]
    with open(path, "rb") as file:
        end, tensors, data = sized(file, path)
        head = file.read(data)
    if cut:
        with open(out, "wb") as file:
            file.write(head)
            file.truncate(os.path.getsize(path))  # a hole: readers look for as many bytes
        return
    draw = numpy.random.default_rng(0)
    with open(out, "wb") as file:
        infos, at = b"", 0
        for name, shape in tensors:
            kind = F32 if len(shape) < 2 else Q8_0
            infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
            count = int(numpy.prod(shape))
            at += rounded(count * 4 if kind == F32 else count // BLOCK * (2 + BLOCK))
        file.write(head[:end] + infos)
        file.write(b"\0" * (rounded(file.tell()) - file.tell()))
        for name, shape in tensors:
            file.write(weights(name, shape, draw).tobytes())
            file.write(b"\0" * (rounded(file.tell()) - file.tell()))


main()
