"""Prints the perplexity of the first windows of a text as transformers' guide to perplexities of fixed-length models defines it, in float32. Needs the
packages torch and transformers.

    python3 transformers_perplexity.py CHECKPOINT TEXT CONTEXT STRIDE WINDOWS

The guide weighs each window with one token less than it scores; the second number gives every scored token the same weight, as a mean does.
"""
import math
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

path, text = sys.argv[1:3]
context, stride, windows = map(int, sys.argv[3:])
with open(text, encoding="utf-8") as f:
    ids = AutoTokenizer.from_pretrained(path)(f.read(), return_tensors="pt").input_ids
model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

guide, mean, end = [], [], 0
for start in range(0, min(windows * stride, ids.size(1)), stride):
    before, end = end, min(start + context, ids.size(1))
    window = ids[:, start:end]
    labels = window.clone()
    labels[:, : before - start] = -100  # the window before had these
    with torch.no_grad():
        loss = model(window, labels=labels).loss.item()
    guide.append((loss, (labels != -100).sum().item() - 1))
    mean.append((loss, (labels[:, 1:] != -100).sum().item()))
    if end == ids.size(1):
        break
for name, list in ("guide", guide), ("mean of all", mean):
    tokens = sum(n for _, n in list)
    print(f"{name}: {math.exp(sum(loss * n for loss, n in list) / tokens):.6f} over {tokens} tokens")
