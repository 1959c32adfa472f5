#!/usr/bin/env python3
"""Makes tokenizer/testdata/variants.json: what the library tokenizers gives for changed copies of the golden tokenizers.

    python3 -m venv V && V/bin/pip install tokenizers==0.22.2 && V/bin/python testdata/gen/tokenizer_variants.py
"""
import json
import pathlib

import tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tokenizer" / "testdata"


def metaspace(scheme):
    """What transformers makes of a SentencePiece model with "legacy": false."""
    decoders = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if scheme != "never":
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "decoder": {"type": "Sequence", "decoders": decoders},
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False},
    }


def split(pattern):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    stage = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [stage, byte_level]}


UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD, ENDING = r"[^\r\n\p{L}\p{N}]?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = rf"{LEAD}{UPPER}*{LOWER}+{ENDING}|{LEAD}{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}" + REST

# Markers touch words, spaces and each other; A and B are two special tokens of the vocabulary.
SPECIAL = ["Atext", "AtextB", "A two", "  lead", "xA", "xA yB  z", "A\n\nB\n", "A B", "AB", " A", "A ", "x \tA\u00a0\u2003\u0085y", "A▁x", "▁x", " ▁ x", "\nA\n"]
PLAIN = [
    "", " ", "   ", "\n", "\n\n\n\n", "\r\n \n", "\t\tx", "hello", " hello", "hello world", "The  two   spaces", "x\x00y", "你好，世界", "日本語テキスト",
    "한국어", "🚀 😶‍🌫️", "naïve café", "1234567 ½ Ⅷ", "it's I'LL we'Ve", "a/b//c\n//d\r\n/", "\ufeffbom", "<s> <unk> </s>",
]
MARKS = [
    "e\u0301", "cafe\u0301 au lait", "A\u030a \u212b \u2126 \u2460 \ufb01", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "Vie\u0323\u0302t Na\u0302\u0301m", "q\u0307\u0323 q\u0323\u0307",
    "a" + 40 * "\u0301", "\u0301", "\u0344\u0958\u2adc", "n\u0303A", "\u0928\u093c \u0915\u093c",
]
CASES = [
    "HelloWorld helloWORLD HTTPServer", "ПриветМир приветМИР", "ΑθήναΕλλάδα ΣΊΣΥΦΟΣ", "ǅungla ǅǅ ʰʰA Aʰa", "éÉéÉ E\u0301E\u0301a", "\u0301\u0301Ab", "ªAºB",
    "文字ABC文字abc", "ñandúÑANDÚ's IT'S It'S'T don'T", "A'b C'D'", "ĲsselmeerĲ ŒUVREœuvre", "ⅧaⅧA ⓐⓑⒶⒷ", "ÀÉÎaÕÜ", "aʼbA", "العربيةABC हिन्दीABC", ".ABc !aBC", "_FooBar__baz",
]


def with_flags(**flags):
    def change(t):
        for added in t["added_tokens"]:
            added.update(flags)

    return change


# llama.cpp's readers do not take a U+2581 in the text for a space where spaces are a token of their own; we do as they do.
GEMMA_SPECIAL = [t for t in SPECIAL if "▁" not in t]

# name, folder, entries to replace (top-level ones, or within "model") or a function, special tokens for A and B, texts
VARIANTS = [
    ("as it is", "spm", {}, ("<s>", "</s>"), PLAIN + SPECIAL),
    ("metaspace first", "spm", metaspace("first"), ("<s>", "</s>"), PLAIN + SPECIAL),
    ("metaspace always", "spm", metaspace("always"), ("<s>", "</s>"), PLAIN + SPECIAL),
    ("metaspace never", "spm", metaspace("never"), ("<s>", "</s>"), PLAIN + SPECIAL),
    ("as it is", "gemma", {}, ("<start_of_turn>", "<end_of_turn>"), PLAIN + GEMMA_SPECIAL + MARKS),
    ("as it is", "phi3", {}, ("<|user|>", "<|endoftext|>"), PLAIN + SPECIAL),
    ("lstrip", "bpe", with_flags(lstrip=True), ("<|eot_id|>", "<|eom_id|>"), PLAIN + SPECIAL),
    ("lstrip and rstrip", "bpe", with_flags(lstrip=True, rstrip=True), ("<|eot_id|>", "<|eom_id|>"), PLAIN + SPECIAL),
    ("NFC", "bpe", {"normalizer": {"type": "NFC"}}, ("<|eot_id|>", "<|eom_id|>"), PLAIN + SPECIAL + MARKS),
    ("as it is", "tekken", {}, ("[INST]", "[/INST]"), PLAIN + SPECIAL + MARKS + CASES),
    ("gpt-4o", "bpe", {"pre_tokenizer": split(GPT4O), "model": {"ignore_merges": False}}, ("<|eot_id|>", "<|eom_id|>"), PLAIN + SPECIAL + MARKS + CASES),
]


def main():
    out = []
    for name, folder, change, (a, b), texts in VARIANTS:
        whole = json.loads((FOLDER / folder / "tokenizer.json").read_text(encoding="utf-8"))
        if callable(change):
            change(whole)
            patch = {"added_tokens": whole["added_tokens"]}
        else:
            patch = change
            whole["model"].update(patch.get("model", {}))
            whole.update({k: v for k, v in patch.items() if k != "model"})
        tok = tokenizers.Tokenizer.from_str(json.dumps(whole))
        cases = []
        for text in texts:
            if text in SPECIAL:
                text = text.replace("A", a).replace("B", b)
            with_special, without = (tok.encode(text, add_special_tokens=on).ids for on in (True, False))
            cases.append({"text": text, "ids": with_special, "ids_no_special": without, "decoded": tok.decode(without, skip_special_tokens=False)})
        out.append({"name": name, "folder": folder, "patch": patch, "cases": cases})
    text = json.dumps(out, ensure_ascii=True, separators=(",", ":")).replace('{"text"', '\n{"text"').replace('{"name"', '\n{"name"')
    (FOLDER / "variants.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
