#!/usr/bin/env python3
"""Makes testdata/badsafetensors and testdata/golden/safetensors.

Needs the packages safetensors, numpy and ml_dtypes. Every case is a file NAME.safetensors with NAME.txt beside it:

    expect: ok | a part of the error that the file must give
    reference: accepts | rejects      what the Rust implementation (package safetensors) says of the file
    comment: ...

The values of every element type, widened to float32 by numpy, go to golden/safetensors/dtypes.json.
"""
import json
import pathlib
import struct

import ml_dtypes
import numpy as np
import safetensors

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAD = ROOT / "badsafetensors"
GOLDEN = ROOT / "golden" / "safetensors"


def st(header, data=b"", length=None):
    """A file from a header (an object, text or bytes) and the bytes that follow it."""
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header, separators=(",", ":"))
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensor(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def one(dtype="F32", shape=(1,), offsets=(0, 4), size=4):
    """A file of one tensor with size bytes of data."""
    return st({"a": tensor(dtype, shape, offsets)}, bytes(range(size)))


def text(body, size=4):
    """A file whose tensor "a" has a description written by hand."""
    return st('{"a":%s}' % body, bytes(range(size)))


OFF4 = '"data_offsets":[0,4]'
cases = {}


def case(name, expect, data, comment=""):
    assert name not in cases, name
    cases[name] = (expect, data, comment)


def length_cases():
    case("length-none", "the file is empty", b"", "an empty file")
    case("length-cut", "5 bytes cannot hold a header", b"\x10\0\0\0\0", "cut inside the length")
    case("length-zero", "the JSON text ends too early", st(b"", b"abcd"), "a header of no bytes")
    case("length-2-63", "exceeds the limit", st("{}", length=1 << 63))
    case("length-max", "exceeds the limit", st("{}", length=(1 << 64) - 1), "adding 8 overflows")
    case("length-100000001", "exceeds the limit", st("{}", length=100_000_001), "one byte over the limit of the format")
    case("length-past-end", "98 of them are missing", st("{}", length=100), "the header is cut")
    case("length-short", "the JSON text ends too early", st("{}    ", length=1), "the header ends inside the object")


def json_cases():
    case("json-text", "bad JSON", st("hello, world"))
    case("json-array", "the header: an array where an object is due", st("[]"))
    case("json-null", "the header: null where an object is due", st("null"))
    case("json-string", "the header: a string where an object is due", st('"a"'))
    case("json-empty-object", "ok", st("{}"), "no tensors at all")
    case("json-trailing-blanks", "ok", st("{}      "), "writers pad with blanks")
    case("json-leading-blank", "ok", st(" {}"), "the format wants '{' first; the reference does not insist")
    case("json-trailing-text", "follows the JSON object", st("{}x"))
    case("json-trailing-value", "follows the JSON object", st("{}{}"))
    case("json-trailing-nul", "follows the JSON object", st(b"{}\0\0\0\0\0\0"), "padded with zero bytes")
    case("json-bom", "bad JSON", st(b"\xef\xbb\xbf{}"))
    case("json-comma", "bad JSON", st('{"__metadata__":{},}'))
    case("json-unquoted", "bad JSON", st("{a:1}"))
    case("json-depth", "the description: an array where an object is due", st('{"a":' + "[" * 10100 + "]" * 10100 + "}"), "nested 10,100 deep")
    case("json-depth-extra", "bad JSON", text('{"x":' + "[" * 10100 + "]" * 10100 + "}"), "nested 10,100 deep under a key that is skipped")


def name_cases():
    a, b = tensor(), tensor(offsets=(4, 8))
    dup = '{"a":%s,"%s":%s}'
    case("name-escaped", "ok", st('{"\\u0061":%s}' % json.dumps(a), b"abcd"))
    case("name-unicode", "ok", st({"gewicht.\u00e4\u2713": a}, b"abcd"))
    case("name-empty", "ok", st({"": a}, b"abcd"))
    case("name-utf8", "invalid UTF-8", st(b'{"\xff\xfe":' + json.dumps(a).encode() + b"}", b"abcd"))
    case("name-surrogate", "surrogate", st('{"\\ud800":%s}' % json.dumps(a), b"abcd"), "half of a pair")
    case("name-twice", "duplicate", st(dup % (json.dumps(a), "a", json.dumps(a)), b"abcd"), "we are stricter: the reference takes the last")
    case("name-twice-differs", "duplicate", st(dup % (json.dumps(a), "a", json.dumps(b)), bytes(8)))
    case("name-twice-escaped", "duplicate", st(dup % (json.dumps(a), "\\u0061", json.dumps(a)), b"abcd"), "we are stricter: the reference takes the last")


def metadata_cases():
    a = tensor()
    case("metadata-strings", "ok", st({"__metadata__": {"format": "pt", "x": ""}, "a": a}, b"abcd"))
    case("metadata-null", "ok", st({"__metadata__": None, "a": a}, b"abcd"))
    case("metadata-number", "a value in __metadata__: a number where a string is due", st({"__metadata__": {"step": 1}, "a": a}, b"abcd"))
    case("metadata-object", "a value in __metadata__: an object where", st({"__metadata__": {"x": {}}, "a": a}, b"abcd"))
    case("metadata-array", "__metadata__: an array where", st({"__metadata__": [], "a": a}, b"abcd"))
    case("metadata-twice", "duplicate", st('{"__metadata__":{},"__metadata__":{}}'))


def entry_cases():
    case("entry-null", 'tensor "a": the description: null where', text("null"))
    case("entry-number", 'tensor "a": the description: a number where', text("7"))
    case("entry-array", 'tensor "a": the description: an array where', text('["F32",[1],[0,4]]'), "we are stricter: no writer makes this form")
    case("entry-no-dtype", 'tensor "a": dtype, shape or data_offsets is absent', text('{"shape":[1],%s}' % OFF4))
    case("entry-no-shape", 'tensor "a": dtype, shape or data_offsets is absent', text('{"dtype":"F32",%s}' % OFF4))
    case("entry-no-offsets", 'tensor "a": dtype, shape or data_offsets is absent', text('{"dtype":"F32","shape":[1]}'))
    case("entry-extra-key", "ok", text('{"dtype":"F32","shape":[1],%s,"x":{"y":[1,2]}}' % OFF4), "a key of a later version")
    case("entry-key-twice", "duplicate", text('{"dtype":"F32","shape":[1],"shape":[1],%s}' % OFF4))
    case("entry-key-case", 'tensor "a": dtype, shape or data_offsets is absent', text('{"DType":"F32","shape":[1],%s}' % OFF4))


def dtype_cases():
    case("dtype-unknown", 'tensor "a": dtype "F33" is not known', one("F33"))
    case("dtype-lower-case", 'tensor "a": dtype "f32" is not known', one("f32"))
    case("dtype-number", "dtype: a number where a string is due", text('{"dtype":32,"shape":[1],%s}' % OFF4))
    for name in ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"]:
        case("dtype-" + name.lower(), "ok", one(name, (2, 2)))
    case("dtype-f4", "ok", one("F4", (4, 2)))
    case("dtype-f4-odd", "does not fill whole bytes", one("F4", (3,), (0, 2), 2))
    case("dtype-f6_e2m3", "ok", one("F6_E2M3", (4,), (0, 3), 3))
    case("dtype-f6_e3m2", "ok", one("F6_E3M2", (8,), (0, 6), 6))
    case("dtype-c64", "ok", one("C64", (1,), (0, 8), 8))
    case("dtype-mixed", "ok", st({"a": tensor("F8_E4M3", (4,)), "b": tensor("F32", (1,), (4, 8))}, bytes(8)),
         "one type that the module does not know beside one that it knows")


def shape_cases():
    def shape(s, offsets="[0,4]", size=4):
        return text('{"dtype":"F32","shape":%s,"data_offsets":%s}' % (s, offsets), size)

    case("shape-scalar", "ok", shape("[]"))
    case("shape-zero", "ok", shape("[0]", "[0,0]", 0))
    case("shape-zero-overflow", "ok", shape("[0,9223372036854775808,4]", "[0,0]", 0), "a zero in front hides the overflow")
    case("shape-overflow-zero", "more than 2^64 elements", shape("[9223372036854775808,4,0]", "[0,0]", 0))
    case("shape-negative", "not an integer", shape("[-1]"))
    case("shape-minus-zero", "not an integer", shape("[-0]", "[0,0]", 0))
    case("shape-float", "not an integer", shape("[1.0]"))
    case("shape-exponent", "not an integer", shape("[1e0]"))
    case("shape-2-64", "not an integer", shape("[18446744073709551616]"))
    case("shape-string", "shape: a string where a number is due", shape('["1"]'))
    case("shape-null", "shape: null where an array is due", shape("null"))
    case("shape-number", "shape: a number where an array is due", shape("1"))
    case("shape-overflow", "more than 2^64 elements", shape("[4294967296,4294967296]"))
    case("shape-overflow-wraps", "more than 2^64 elements", shape("[4294967297,4294967297,18446744069414584321]"), "the wrapped product is small")
    case("shape-bytes-overflow", "more than 2^64 bits", shape("[4611686018427387905]"), "the wrapped number of bytes is 4")
    case("shape-billion", "more than 2^64 bits", shape("[1000000000,1000000000]"))
    case("shape-too-big", "needs 8 bytes, data_offsets [0,4] hold 4", shape("[2]"))
    case("shape-too-small", "needs 4 bytes, data_offsets [0,8] hold 8", shape("[1]", "[0,8]", 8))
    case("shape-rank-64", "ok", shape("[" + ",".join(["1"] * 64) + "]"))
    case("shape-rank-65", "more than 64 elements", shape("[" + ",".join(["1"] * 65) + "]"), "we are stricter: a limit on everything read")


def offset_cases():
    def offsets(o, size=4):
        return text('{"dtype":"F32","shape":[1],"data_offsets":%s}' % o, size)

    case("offsets-none", "data_offsets are 0 numbers", offsets("[]"))
    case("offsets-one", "data_offsets are 1 numbers", offsets("[5]"))
    case("offsets-three", "more than 2 elements", offsets("[0,4,4]"))
    case("offsets-swapped", "end before they begin", offsets("[8,4]", 8))
    case("offsets-negative", "not an integer", offsets("[-4,0]"))
    case("offsets-float", "not an integer", offsets("[0,4.0]"))
    case("offsets-1e18", "not an integer", offsets("[0,1e18]"))
    case("offsets-huge", "needs 4 bytes", offsets("[0,1000000000000000000]"))
    case("offsets-huge-agree", "1599999999999999996 bytes of", text('{"dtype":"F32","shape":[400000000,1000000000],"data_offsets":[0,1600000000000000000]}'))
    case("offsets-wrap", "needs 4 bytes", offsets("[0,18446744073709551615]"), "adding the header's size overflows")
    case("offsets-late", "leaves a hole", offsets("[4,8]", 8), "the first tensor does not begin at 0")
    case("offsets-object", "data_offsets: an object where an array is due", offsets("{}"))


def layout_cases():
    def two(a, b, size=8):
        return st({"a": tensor(offsets=a), "b": tensor(offsets=b)}, bytes(size))

    case("layout-any-order", "ok", two((4, 8), (0, 4)), "the header need not be in the order of the data")
    case("layout-hole", "leaves a hole", two((0, 4), (8, 12), 12))
    case("layout-overlap", "overlaps", two((0, 4), (2, 6)))
    case("layout-same", "overlaps", two((0, 4), (0, 4)), "two names for the same bytes")
    case("layout-truncated", 'from tensor "b" on', two((0, 4), (4, 8), 5), "3 bytes are missing")
    case("layout-no-data", 'from tensor "a" on', two((0, 4), (4, 8), 0))
    case("layout-trailing", "3 bytes follow the last tensor", two((0, 4), (4, 8), 11))
    case("layout-zero-between", "ok", st({"a": tensor(), "z": tensor(shape=[0], offsets=(4, 4)), "b": tensor(offsets=(4, 8))}, bytes(8)))


def foreign_cases():
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 269060552\n" % ("7ef915c9" * 8)
    case("foreign-lfs", "git LFS pointer", pointer.encode())
    case("foreign-html", "web page", b"<!DOCTYPE html>\n<html><head><title>Not found</title></head></html>\n")
    case("foreign-html-lower", "web page", b"\n  <html lang=en></html>\n")
    case("foreign-xml", "web page", b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>')
    case("foreign-zip", "ZIP archive", b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00archive/data.pkl")
    case("foreign-pickle", "Python pickle", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    case("foreign-gguf", "GGUF file", b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    case("foreign-ggjt", "GGML file", b"tjgg" + struct.pack("<I", 3))
    case("foreign-gzip", "gzip archive", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    case("foreign-numpy", "NumPy array", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}")
    case("foreign-zeros", "zero bytes only", bytes(64), "space reserved by a download that never came")
    case("foreign-json", "JSON text", b'{"weight_map":{}}')


def verdict(data):
    try:
        safetensors.deserialize(data)
        return "accepts"
    except safetensors.SafetensorError:
        return "rejects"


def write_cases():
    BAD.mkdir(exist_ok=True)
    for old in BAD.iterdir():
        old.unlink()
    for name, (expect, data, comment) in sorted(cases.items()):
        reference = verdict(data)
        if (expect == "ok") != (reference == "accepts"):
            assert comment.startswith("we are stricter"), (name, expect, reference)
        lines = ["expect: " + expect, "reference: " + reference]
        if comment:
            lines.append("comment: " + comment)
        (BAD / (name + ".safetensors")).write_bytes(data)
        (BAD / (name + ".txt")).write_text("\n".join(lines) + "\n")


def samples():
    """Values of every type that can be widened, with the edges of its range."""
    f16 = [0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xBC01, 0x3555, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
    bf16 = [0x0000, 0x8000, 0x0001, 0x007F, 0x0080, 0x3F80, 0xBF81, 0x3EAB, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0]
    f32 = [0.0, -0.0, 1.0, -1.5, 1e-45, 1.17549435e-38, 3.4028235e38, np.inf, -np.inf, np.nan, np.pi]
    # Ties, the largest value that rounds down to the largest float32, one that overflows, and a subnormal result.
    f64 = [0.0, -0.0, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 3.4028235677973362e38, 3.4028235677973366e38, 1e-310, 1.4e-45, np.pi, np.nan]
    yield "BOOL", np.array([False, True, True, False])
    for code in "u1 i1 u2 i2 u4 i4 u8 i8".split():
        info = np.iinfo(code)
        edge = [info.min, info.max, 0, 1, info.max // 3]
        if info.bits > 16:
            # Ties between neighbouring float32 values.
            edge += [2**24 + 1, 2**24 + 3, 2**25 + 2]
        yield ("U" if code[0] == "u" else "I") + str(info.bits), np.array(edge, code)
    yield "F16", np.array(f16, "u2").view(np.float16)
    yield "BF16", np.array(bf16, "u2").view(ml_dtypes.bfloat16)
    yield "F32", np.array(f32, np.float32)
    yield "F64", np.array(f64, np.float64)


def write_golden():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    header, data, want = {}, b"", {}
    for dtype, values in samples():
        raw = values.tobytes()
        header[dtype] = tensor(dtype, values.shape, (len(data), len(data) + len(raw)))
        data += raw
        with np.errstate(over="ignore"):
            wide = values.astype(np.float32)
        want[dtype] = ["nan" if np.isnan(v) else "%08x" % v.view(np.uint32) for v in wide]
    (GOLDEN / "dtypes.safetensors").write_bytes(st(header, data))
    (GOLDEN / "dtypes.json").write_text(json.dumps(want, indent=1) + "\n")


def main():
    for fill in (length_cases, json_cases, name_cases, metadata_cases, entry_cases, dtype_cases, shape_cases, offset_cases, layout_cases, foreign_cases):
        fill()
    write_cases()
    write_golden()
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
