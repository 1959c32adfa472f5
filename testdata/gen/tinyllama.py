#!/usr/bin/env python3
"""Makes testdata/golden/convert: a tiny Llama checkpoint and what its conversion must give.

Needs the packages numpy and gguf. The checkpoint has all that the family can have at once: its own head_dim, grouped heads,
biases, tied embeddings, llama3 rope scaling, and weights of several element types. The expected files are put together here from
the definition of each step, and written by the gguf package; tiny-llama.json holds their metadata, the sha256 of each tensor's
bytes and of the whole file.
"""
import hashlib
import json
import math
import pathlib
import struct
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "convert"
CKPT = OUT / "tiny-llama"
WIDTH, HEADS, KV_HEADS, HEAD, FF, CONTEXT = 32, 6, 2, 8, 64, 1024
BASE, FACTOR, LOW, HIGH, ORIGINAL = 500000.0, 8.0, 1.0, 4.0, 256
EPS = 1e-5
SAMPLING = {"top_k": 40, "top_p": 0.95, "min_p": None, "temperature": 0.7, "repetition_penalty": 1.05}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def byte_letters():
    """The letter that stands for each byte in byte-level BPE: printable ones for themselves, others from U+0100 on."""
    keep = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) for b in keep] + [chr(256 + i) for i in range(len(rest))]


MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")]
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|pad|>"]
TOKENS = byte_letters() + ["".join(m) for m in MERGES] + SPECIAL
BOS, EOS = TOKENS.index(SPECIAL[0]), TOKENS.index(SPECIAL[2])
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bf16(x):
    """float32 to bfloat16 bits, nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def weights():
    """Source tensors by name: (element type, array as stored)."""
    rng = np.random.default_rng(20240607)
    shapes = {"model.embed_tokens.weight": (len(TOKENS), WIDTH), "model.norm.weight": (WIDTH,)}
    layer = "model.layers.0."
    for name, rows, cols in [("self_attn.q_proj", HEADS * HEAD, WIDTH), ("self_attn.k_proj", KV_HEADS * HEAD, WIDTH),
                             ("self_attn.v_proj", KV_HEADS * HEAD, WIDTH), ("self_attn.o_proj", WIDTH, HEADS * HEAD),
                             ("mlp.gate_proj", FF, WIDTH), ("mlp.up_proj", FF, WIDTH), ("mlp.down_proj", WIDTH, FF)]:
        shapes[layer + name + ".weight"] = (rows, cols)
        if name.startswith("self_attn"):
            shapes[layer + name + ".bias"] = (rows,)
    shapes[layer + "input_layernorm.weight"] = (WIDTH,)
    shapes[layer + "post_attention_layernorm.weight"] = (WIDTH,)
    out = {}
    for name in sorted(shapes):
        x = (rng.standard_normal(shapes[name]) * 0.05 + ("norm" in name)).astype(np.float32)
        if "norm" in name:
            out[name] = ("F32", x)
        elif "v_proj" in name:
            out[name] = ("F16", x.astype(np.float16))
        else:
            out[name] = ("BF16", bf16(x))
    out[layer + "self_attn.rotary_emb.inv_freq"] = ("F32", np.ones(HEAD // 2, np.float32))  # older checkpoints hold it; it is dropped
    return out


def write_checkpoint(tensors):
    CKPT.mkdir(parents=True, exist_ok=True)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (CKPT / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": True, "bos_token_id": BOS, "eos_token_id": EOS, "head_dim": HEAD,
        "hidden_act": "silu", "hidden_size": WIDTH, "intermediate_size": FF, "max_position_embeddings": CONTEXT, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": HEADS, "num_hidden_layers": 1, "num_key_value_heads": KV_HEADS, "rms_norm_eps": EPS,
        "rope_scaling": {"factor": FACTOR, "high_freq_factor": HIGH, "low_freq_factor": LOW, "original_max_position_embeddings": ORIGINAL,
                         "rope_type": "llama3"},
        "rope_theta": BASE, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": len(TOKENS),
    }
    (CKPT / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    added = [{"id": TOKENS.index(s), "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for s in SPECIAL]
    start = {"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {"type": "TemplateProcessing", "single": [start, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [start, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": SPECIAL[0], "type_id": 1}},
                      {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0], "ids": [BOS], "tokens": [SPECIAL[0]]}}}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {t: i for i, t in enumerate(TOKENS) if t not in SPECIAL}, "merges": [list(m) for m in MERGES]},
    }
    (CKPT / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n")
    (CKPT / "generation_config.json").write_text(json.dumps({"do_sample": True, **SAMPLING}, indent=1) + "\n")
    settings = {"add_bos_token": True, "bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "chat_template": TEMPLATE,
                "tokenizer_class": "PreTrainedTokenizerFast"}
    (CKPT / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def metadata(file_type, weight_count):
    size = f"{weight_count / 1000:.0f}K"
    return [
        ("general.architecture", V.STRING, "llama"), ("general.type", V.STRING, "model"),
        ("general.sampling.top_k", V.INT32, SAMPLING["top_k"]), ("general.sampling.top_p", V.FLOAT32, SAMPLING["top_p"]),
        ("general.sampling.temp", V.FLOAT32, SAMPLING["temperature"]),
        ("general.sampling.penalty_repeat", V.FLOAT32, SAMPLING["repetition_penalty"]), ("general.name", V.STRING, "Tiny Llama"),
        ("general.size_label", V.STRING, size), ("llama.block_count", V.UINT32, 1), ("llama.context_length", V.UINT32, CONTEXT),
        ("llama.embedding_length", V.UINT32, WIDTH), ("llama.feed_forward_length", V.UINT32, FF),
        ("llama.attention.head_count", V.UINT32, HEADS), ("llama.attention.head_count_kv", V.UINT32, KV_HEADS),
        ("llama.rope.freq_base", V.FLOAT32, BASE), ("llama.attention.layer_norm_rms_epsilon", V.FLOAT32, EPS),
        ("llama.attention.key_length", V.UINT32, HEAD), ("llama.attention.value_length", V.UINT32, HEAD),
        ("general.file_type", V.UINT32, file_type), ("llama.vocab_size", V.UINT32, len(TOKENS)),
        ("llama.rope.dimension_count", V.UINT32, HEAD), ("general.quantization_version", V.UINT32, 2),
        ("tokenizer.ggml.model", V.STRING, "gpt2"), ("tokenizer.ggml.pre", V.STRING, "llama-bpe"),
        ("tokenizer.ggml.tokens", V.STRING, TOKENS), ("tokenizer.ggml.token_type", V.INT32, [3 if t in SPECIAL else 1 for t in TOKENS]),
        ("tokenizer.ggml.merges", V.STRING, [" ".join(m) for m in MERGES]),
        ("tokenizer.ggml.bos_token_id", V.UINT32, BOS), ("tokenizer.ggml.eos_token_id", V.UINT32, EOS),
        ("tokenizer.ggml.add_bos_token", V.BOOL, True), ("tokenizer.ggml.add_eos_token", V.BOOL, False),
        ("tokenizer.ggml.add_sep_token", V.BOOL, False), ("tokenizer.chat_template", V.STRING, TEMPLATE),
    ]


def pairs(x, heads):
    """Rows of each head from halves (i turns with i + HEAD/2) to adjacent pairs."""
    order = [h * HEAD + half * (HEAD // 2) + i for h in range(heads) for i in range(HEAD // 2) for half in (0, 1)]
    return x[order]


def rope_divisors():
    """llama3's divisor of each pair's frequency, from its definition, in float32 throughout as the model's code computes it."""
    f = np.float32
    out = []
    for i in range(HEAD // 2):
        frequency = f(1) / f(BASE) ** (f(2 * i) / f(HEAD))
        wavelength = f(2 * math.pi) / frequency
        if wavelength < ORIGINAL / HIGH:
            out.append(f(1))
        elif wavelength > ORIGINAL / LOW:
            out.append(f(FACTOR))
        else:
            smooth = (f(ORIGINAL) / wavelength - f(LOW)) / f(HIGH - LOW)
            out.append(f(1) / ((f(1) - smooth) / f(FACTOR) + smooth))
    return np.array(out, np.float32)


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}


def tensors_of(source):
    """The tensors of the output in order: (name, source element type, float32 values)."""
    yield "rope_freqs.weight", "F32", rope_divisors()
    for name, (dtype, array) in source.items():
        x = widen(array) if dtype == "BF16" else array.astype(np.float32)
        if "rotary_emb" in name:
            continue
        if "q_proj" in name:
            x = pairs(x, HEADS)
        if "k_proj" in name:
            x = pairs(x, KV_HEADS)
        stem, _, kind = name.removeprefix("model.").rpartition(".")
        if stem == "embed_tokens":
            yield "token_embd.weight", dtype, x
        elif stem == "norm":
            yield "output_norm.weight", dtype, x
        else:
            yield f"blk.0.{NAMES[stem.removeprefix('layers.0.')]}.{kind}", dtype, x


def stored_type(wanted, name, dtype, x):
    if x.ndim < 2:
        return T.F32
    if wanted == "auto":
        return T[dtype]
    if wanted == "q8_0":
        return T.Q8_0 if x.shape[1] % 32 == 0 else T.F16
    return T[wanted.upper()]


def encode(x, typ):
    if typ == T.F32:
        return x
    if typ == T.F16:
        return x.astype(np.float16)
    if typ == T.BF16:
        return bf16(x)
    return gguf.quants.quantize(x, typ)


def write_expected(source):
    expected = {}
    for wanted, file_type in [("f32", 0), ("f16", 1), ("bf16", 32), ("auto", 32), ("q8_0", 7)]:
        list_ = list(tensors_of(source))
        kv = metadata(file_type, sum(x.size for _, _, x in list_))
        with tempfile.TemporaryDirectory() as tmp:
            path = pathlib.Path(tmp) / "x.gguf"
            w = gguf.GGUFWriter(path, "llama")
            for key, typ, value in kv[1:]:
                if isinstance(value, list):
                    w.add_key_value(key, value, V.ARRAY, sub_type=typ)
                else:
                    w.add_key_value(key, value, typ)
            tensors = []
            for name, dtype, x in list_:
                typ = stored_type(wanted, name, dtype, x)
                data = np.ascontiguousarray(encode(x, typ))
                tensors.append([name, list(reversed(x.shape)), typ.name, hashlib.sha256(data.tobytes()).hexdigest()[:16]])
                if typ == T.F32 or typ == T.F16:
                    w.add_tensor(name, data)
                elif typ == T.BF16:
                    w.add_tensor(name, data.view(np.uint8), raw_dtype=typ)
                else:
                    w.add_tensor(name, data, raw_dtype=typ)
            w.write_header_to_file()
            w.write_kv_data_to_file()
            w.write_tensors_to_file()
            w.close()
            raw = path.read_bytes()
        expected[wanted] = {"kv": [[k, t.name, isinstance(v, list), v] for k, t, v in kv], "tensors": tensors, "bytes": len(raw),
                            "sha256": hashlib.sha256(raw).hexdigest()}
    for name, e in expected.items():  # what all types share is written once
        if name != "f32":
            e["kv"] = [kv for kv in e["kv"] if kv[0] == "general.file_type"]
    (OUT / "tiny-llama.json").write_text(json.dumps(expected, ensure_ascii=False, separators=(",", ":")).replace("},", "},\n") + "\n")


source = weights()
write_checkpoint(source)
write_expected(source)
