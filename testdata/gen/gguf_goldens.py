#!/usr/bin/env python3
"""Make testdata/golden/gguf with the reference implementation of the format (Python packages gguf and numpy).

    python3 testdata/gen/gguf_goldens.py testdata/golden/gguf

Every NAME.gguf gets a NAME.json that says what the reference reader finds in it. pair-le.gguf and pair-be.gguf are the
same model in both byte orders, the second made by gguf's own converter.
"""
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np

OUT = sys.argv[1]
V = gguf.GGUFValueType
Q = gguf.GGMLQuantizationType

SCALARS = [
    ("u8", V.UINT8, [0, 1, 255]), ("i8", V.INT8, [-128, 0, 127]),
    ("u16", V.UINT16, [0, 65535]), ("i16", V.INT16, [-32768, 32767]),
    ("u32", V.UINT32, [0, 4294967295]), ("i32", V.INT32, [-2147483648, 2147483647]),
    ("u64", V.UINT64, [0, 18446744073709551615]), ("i64", V.INT64, [-9223372036854775808, 9223372036854775807]),
    ("f32", V.FLOAT32, [0.5, -1.25, 3.4028234663852886e38]), ("f64", V.FLOAT64, [0.1, -1e300]),
    ("bool", V.BOOL, [True, False]), ("str", V.STRING, ["", "text", "naïve 漢字 😀", "line\nbreak\x00zero"]),
]


def add_values(w):
    for name, typ, values in SCALARS:
        for i, v in enumerate(values):
            w.add_key_value(f"scalar.{name}.{i}", v, typ)
        w.add_key_value(f"array.{name}", values, V.ARRAY, sub_type=typ)
    w.add_key_value("array.long", list(range(1000)), V.ARRAY, sub_type=V.INT32)
    w.add_key_value("array.words", [f"word {i}" for i in range(100)], V.ARRAY, sub_type=V.STRING)
    w.add_key_value("nested.numbers", [[1, 2, 3], [4], [5, 6]], V.ARRAY)
    w.add_key_value("nested.words", [["a", "bc"], ["def"]], V.ARRAY)
    w.add_key_value("nested.deep", [[[1], [2, 3]], [[4]]], V.ARRAY)


def add_tensors(w, types):
    rng = np.random.default_rng(1)
    for i, (typ, rows, cols) in enumerate(types):
        data = rng.standard_normal((rows, cols)).astype(np.float32)
        if typ == Q.F32:
            w.add_tensor(f"blk.{i}.f32", data)
        elif typ == Q.F16:
            w.add_tensor(f"blk.{i}.f16", data.astype(np.float16))
        else:
            # Random block bytes: only their places matter here.
            block, size = gguf.GGML_QUANT_SIZES[typ]
            raw = rng.integers(0, 256, (rows, cols // block * size), dtype=np.uint8)
            w.add_tensor(f"blk.{i}.{typ.name.lower()}", raw, raw_shape=raw.shape, raw_dtype=typ)


def write(name, fill, **kw):
    path = os.path.join(OUT, name + ".gguf")
    w = gguf.GGUFWriter(path, "test", **kw)
    fill(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def plain(x):
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not math.isfinite(x):
        return repr(x)
    return x


def describe(path):
    """What the reference reader finds. Its reader flattens nested arrays, so those are given as they were written."""
    r = gguf.GGUFReader(path)
    nested = {"nested.numbers": [[1, 2, 3], [4], [5, 6]], "nested.words": [["a", "bc"], ["def"]], "nested.deep": [[[1], [2, 3]], [[4]]]}
    meta = []
    for f in r.fields.values():
        if f.name.startswith("GGUF."):
            continue
        if f.name in nested:
            value = nested[f.name]
        elif f.types[0] == V.ARRAY:
            value = [plain(f.contents(i)) for i in range(len(f.data))]
        else:
            value = plain(f.contents())
        meta.append({"key": f.name, "types": [t.name for t in f.types], "value": value})
    tensors = [{"name": t.name, "type": t.tensor_type.name, "shape": [int(n) for n in t.shape], "at": int(t.data_offset),
                "bytes": int(t.n_bytes), "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()} for t in r.tensors]
    with open(path[:-5] + ".json", "w") as f:
        json.dump({"big_endian": r.endianess == gguf.GGUFEndian.BIG, "alignment": int(r.alignment), "meta": meta, "tensors": tensors}, f, ensure_ascii=False)
        f.write("\n")


def main():
    os.makedirs(OUT, exist_ok=True)
    few = [(Q.F32, 3, 5), (Q.F16, 2, 7), (Q.Q8_0, 2, 32)]
    write("values-le", lambda w: (add_values(w), add_tensors(w, few)))
    write("values-be", lambda w: (add_values(w), add_tensors(w, few[:2])), endianess=gguf.GGUFEndian.BIG)

    def aligned(w):
        w.add_custom_alignment(64)
        add_tensors(w, few)
    write("align64", aligned)

    swappable = [(Q.F32, 2, 3), (Q.F16, 2, 3), (Q.Q4_0, 1, 64), (Q.Q8_0, 2, 32), (Q.Q4_K, 1, 256), (Q.Q6_K, 1, 512)]
    le = write("pair-le", lambda w: (w.add_uint32("test.number", 7), w.add_array("test.words", ["a", "bc"]), add_tensors(w, swappable)))
    be = os.path.join(OUT, "pair-be.gguf")
    shutil.copyfile(le, be)
    subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_convert_endian", be, "big"], input=b"YES\n", check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in sorted(os.listdir(OUT)):
        if name.endswith(".gguf"):
            describe(os.path.join(OUT, name))


if __name__ == "__main__":
    main()
