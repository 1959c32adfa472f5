"""Writes two models whose logits are given, to the last bit: a.gguf has rows of SmolLM2's logits as transformers computed them, b.gguf the same, smoothed and
rounded; and a text, text.txt. The arguments are the folder of those rows (smollm2-135m.N.last.f32) and that of the output. Needs the packages gguf and numpy.

What follows a token depends on the token alone: the embedding is 16 in a column of the token's own, which the norm leaves as it is, the one block has zero
weights, and that column of the output matrix is a 16th of the logits. The text goes round the printable characters. A character's row is one of
SmolLM2's, rotated so that one of its four most likely tokens becomes the next character. The files smollm2.* beside this one come from

    python3 lookup.py real . && llama-perplexity -m a.gguf -f text.txt -c 32 -b 32 --chunks 7 --kl-divergence-base base
    llama-perplexity -m b.gguf -c 32 -b 32 --kl-divergence --kl-divergence-base base | tee smollm2.txt; sha256sum base >> smollm2.txt
"""
import sys

import gguf
import numpy as np

WIDTH, FIRST, LAST = 256, 33, 126  # characters
source, out = sys.argv[1:]
rows = [np.fromfile(f"{source}/smollm2-135m.{i}.last.f32", "<f4") for i in range(3)]
VOCAB = len(rows[0])


def model(path, change):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(64)
    w.add_embedding_length(WIDTH)
    w.add_block_count(1)
    w.add_feed_forward_length(32)
    w.add_head_count(4)
    w.add_layer_norm_rms_eps(1e-30)
    w.add_file_type(0)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"<{i}>" for i in range(259, VOCAB)])
    w.add_token_scores([0.0] * VOCAB)
    w.add_token_types([2, 3, 3] + [6] * 256 + [5] * (VOCAB - 259))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(False)
    embedding, output = np.zeros((VOCAB, WIDTH), np.float32), np.zeros((VOCAB, WIDTH), np.float32)
    for n, c in enumerate(range(FIRST, LAST + 1)):
        embedding[3 + c, n] = 16
        row = rows[n % 3]
        following = FIRST if c == LAST else c + 1
        ranks = np.argsort(-row, kind="stable")
        output[:, n] = change(n, np.roll(row, 3 + following - int(ranks[n % 4]))) / 16
    embedding[1, WIDTH - 1] = 16
    w.add_tensor("token_embd.weight", embedding)
    w.add_tensor("output.weight", output)
    w.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for name, shape in ("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, WIDTH)), ("attn_v", (WIDTH, WIDTH)), ("attn_output", (WIDTH, WIDTH)), (
        "ffn_gate", (32, WIDTH)), ("ffn_up", (32, WIDTH)), ("ffn_down", (WIDTH, 32)):
        w.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
    for name in "attn_norm", "ffn_norm":
        w.add_tensor(f"blk.0.{name}.weight", np.ones(WIDTH, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def smooth(n, x):
    x = (np.rint(x.astype(np.float64) * (13 + n % 7)) / 16).astype(np.float32)
    if n % 5 == 2:
        top = int(np.argmax(x))
        x[top] -= 1
    return x


model(f"{out}/a.gguf", lambda n, x: x)
model(f"{out}/b.gguf", smooth)
with open(f"{out}/text.txt", "w") as f:
    f.write("".join(chr(FIRST + i % (LAST + 1 - FIRST)) for i in range(300)))
