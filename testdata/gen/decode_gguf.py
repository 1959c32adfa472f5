#!/usr/bin/env python3
"""Decodes a GGUF file of architecture llama into the Hugging Face folder that it could have come from.

    decode_gguf.py IN.gguf OUT_DIR [--bf16]

Needs the packages gguf and numpy, the reference implementation of the format. Weights are dequantized to F32, or with --bf16
rounded to nearest even; they go to one model.safetensors. The folder appears whole or not at all.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

# Tensors outside the blocks and inside them, GGUF name -> Hugging Face name.
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL = 3  # tokenizer.ggml.token_type of special tokens


class Source:
    """A GGUF file with its metadata by key."""

    def __init__(self, path):
        self.reader = GGUFReader(path)

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def need(self, key):
        value = self.get(key)
        if value is None:
            raise SystemExit(f"no metadata key {key}")
        return value

    def expect(self, key, *wanted):
        if self.get(key) not in wanted:
            raise SystemExit(f"{key} is {self.get(key)!r}: only {' or '.join(wanted)} can be decoded")


def hf_name(name):
    """The Hugging Face name of a tensor."""
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("blk."):
        return f"{OUTER[stem]}.{kind}"
    _, block, part = stem.split(".")
    return f"model.layers.{block}.{INNER[part]}.{kind}"


def unpermute(rows, heads):
    """Undoes the order of rows that the converter gives q and k: from adjacent pairs of a head back to its two halves."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def values(source, tensor):
    """The float32 values of a tensor in the checkpoint's shape and order of rows."""
    rows = dequantize(tensor.data, GGMLQuantizationType(tensor.tensor_type)).astype(np.float32, copy=False)
    if ".attn_q." in tensor.name:
        return unpermute(rows, source.need("llama.attention.head_count"))
    if ".attn_k." in tensor.name:
        return unpermute(rows, source.need("llama.attention.head_count_kv"))
    return rows


def to_bf16(x):
    """The bits of bfloat16 values, rounded to nearest even. There are no NaN among weights."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(source, path, bf16):
    """Writes all tensors by name, as save_pretrained does."""
    tensors = sorted(((hf_name(t.name), t) for t in source.reader.tensors), key=lambda x: x[0])
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors:
        size = int(np.prod(t.shape)) * (2 if bf16 else 4)
        shape = [int(n) for n in reversed(t.shape)]
        header[name] = {"dtype": "BF16" if bf16 else "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, t in tensors:
            x = np.ascontiguousarray(values(source, t))
            f.write((to_bf16(x) if bf16 else x).tobytes())


def config(source, bf16):
    heads, width = source.need("llama.attention.head_count"), source.need("llama.embedding_length")
    names = {t.name for t in source.reader.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": "blk.0.attn_q.bias" in names,
        "bos_token_id": source.need("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16" if bf16 else "float32",
        "eos_token_id": source.need("tokenizer.ggml.eos_token_id"),
        "head_dim": source.get("llama.attention.key_length", width // heads),
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": source.need("llama.feed_forward_length"),
        "max_position_embeddings": source.need("llama.context_length"),
        "mlp_bias": "blk.0.ffn_up.bias" in names,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": source.need("llama.block_count"),
        "num_key_value_heads": source.need("llama.attention.head_count_kv"),
        "pad_token_id": source.need("tokenizer.ggml.padding_token_id"),
        # The shortest decimal number that rounds to the float32 value.
        "rms_norm_eps": float(str(np.float32(source.need("llama.attention.layer_norm_rms_epsilon")))),
        "rope_scaling": None,
        "rope_theta": float(str(np.float32(source.need("llama.rope.freq_base")))),
        "tie_word_embeddings": "output.weight" not in names,
        "use_cache": True,
        "vocab_size": source.need("llama.vocab_size"),
    }


def tokenizer(source):
    tokens, types = source.need("tokenizer.ggml.tokens"), source.need("tokenizer.ggml.token_type")
    added = [
        {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, t in enumerate(tokens)
        if types[i] == CONTROL
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        # Concerns offsets alone, as GPT2TokenizerFast writes it.
        "post_processor": {**byte_level, "add_prefix_space": True, "trim_offsets": False},
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(tokens)},
            "merges": [m.split(" ") for m in source.need("tokenizer.ggml.merges")],
        },
    }


def special_tokens(source):
    tokens = source.need("tokenizer.ggml.tokens")
    roles = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    return {role: tokens[source.need(f"tokenizer.ggml.{key}_token_id")] for role, key in roles.items()}


def tokenizer_config(source, added):
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(t["id"]): {k: t[k] for k in flags} for t in added},
        "additional_special_tokens": [t for t in ("<|im_start|>", "<|im_end|>") if t in {a["content"] for a in added}],
        **special_tokens(source),
        "chat_template": source.need("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": source.need("llama.context_length"),
        "tokenizer_class": "GPT2Tokenizer",
    }


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("gguf")
    args.add_argument("out", type=pathlib.Path)
    args.add_argument("--bf16", action="store_true", help="round the weights to bfloat16")
    args = args.parse_args()
    source = Source(args.gguf)
    source.expect("general.architecture", "llama")
    source.expect("tokenizer.ggml.model", "gpt2")
    source.expect("tokenizer.ggml.pre", "smollm")

    part = args.out.with_name(args.out.name + ".tmp")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tok, conf = tokenizer(source), config(source, args.bf16)
    generation = {k: conf[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")}
    files = {
        "config.json": conf,
        "generation_config.json": generation,
        "tokenizer.json": tok,
        "tokenizer_config.json": tokenizer_config(source, tok["added_tokens"]),
        "special_tokens_map.json": special_tokens(source),
    }
    for name, content in files.items():
        (part / name).write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    write_safetensors(source, part / "model.safetensors", args.bf16)
    shutil.rmtree(args.out, ignore_errors=True)
    os.replace(part, args.out)


if __name__ == "__main__":
    main()
