"""Writes two models whose logits are the same in every program, to the last bit: a.gguf and b.gguf, and a text, text.txt, into the folder
that is its argument. Needs the packages gguf and numpy.

What follows a token depends on the token alone: the one block has zero weights. A row of the embedding is of +1 and -1, so that the norm
changes nothing, and the output matrix has multiples of 1/64, so that no addition rounds. The files beside this one come from

    python3 bigram.py . && llama-perplexity -m a.gguf -f text.txt -c 64 --chunks 4 --kl-divergence-base bigram.base
    llama-perplexity -m b.gguf -f text.txt -c 64 --kl-divergence --kl-divergence-base bigram.base | tee bigram.txt
"""
import sys

import gguf
import numpy as np

WIDTH, VOCAB = 32, 259


def draw(n, seed):
    """n numbers of 32 bits from the linear congruential generator of Numerical Recipes, the upper half of each."""
    out, x = np.empty(n, dtype=np.int64), seed
    for i in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        out[i] = x >> 16
    return out


def model(path, output):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(64)
    w.add_embedding_length(WIDTH)
    w.add_block_count(1)
    w.add_feed_forward_length(32)
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-30)
    w.add_file_type(0)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)])
    w.add_token_scores([0.0] * VOCAB)
    w.add_token_types([2, 3, 3] + [6] * 256)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(False)
    zeros, ones = np.zeros((WIDTH, WIDTH), dtype=np.float32), np.ones(WIDTH, dtype=np.float32)
    w.add_tensor("token_embd.weight", table.astype(np.float32))
    w.add_tensor("output.weight", (output / 64).astype(np.float32).reshape(VOCAB, WIDTH))
    w.add_tensor("output_norm.weight", ones)
    for name in "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down":
        w.add_tensor(f"blk.0.{name}.weight", zeros)
    for name in "attn_norm", "ffn_norm":
        w.add_tensor(f"blk.0.{name}.weight", ones)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


out = sys.argv[1]
table = (draw(VOCAB * WIDTH, 1) % 2 * 2 - 1).reshape(VOCAB, WIDTH)
a = draw(VOCAB * WIDTH, 2) % 61 - 30
model(f"{out}/a.gguf", a)
model(f"{out}/b.gguf", a + draw(VOCAB * WIDTH, 3) % 9 - 4)
# A text that the first model finds likely: printable characters, each the most likely one after the one before but for some noise.
text = [65]
for noise in draw(299 * 90, 4).reshape(299, 90) / 2**16:
    logits = a.reshape(VOCAB, WIDTH)[3 + 33 : 3 + 33 + 90] @ table[3 + text[-1]] / 64
    text.append(33 + int(np.argmax(logits - np.log(-np.log(np.maximum(noise, 1e-6) * 0.999999)))))
with open(f"{out}/text.txt", "wb") as f:
    f.write(bytes(text))
