"""Writes the logits that llama.cpp's library computes for the scored tokens of a base file of llama-perplexity: the arguments are the model, the base file
and the output, float32 in the machine's order, a row for each token. Needs the packages llama-cpp-python and numpy, the former with the library that
llama-perplexity uses. A window is one batch, as with llama-perplexity where -b is -c, so that every logit has the same bits there. The files
demo.* beside this one come from

    ggufkit convert testdata/demo --type F32 -o demo-F32.gguf && ggufkit quantize demo-F32.gguf demo-Q4_K_M.gguf Q4_K_M
    llama-perplexity -m demo-F32.gguf -f testdata/demo/heldout.txt -c 32 -b 32 -t 1 --chunks 7 --kl-divergence-base demo.base
    llama-perplexity -m demo-Q4_K_M.gguf -c 32 -b 32 -t 1 --kl-divergence --kl-divergence-base demo.base | tee demo.txt
    python3 logits.py demo-Q4_K_M.gguf demo.base demo.logits
"""
import struct
import sys

import llama_cpp as llama
import numpy as np

model_path, base_path, out_path = sys.argv[1:]
with open(base_path, "rb") as f:
    assert f.read(8) == b"_logits_"
    context, vocab, windows = struct.unpack("=3i", f.read(12))
    tokens = np.fromfile(f, np.int32, context * windows).reshape(windows, context)

llama.llama_backend_init()
model = llama.llama_model_load_from_file(model_path.encode(), llama.llama_model_default_params())
params = llama.llama_context_default_params()
params.n_ctx = params.n_batch = params.n_ubatch = context
params.n_threads = params.n_threads_batch = 1
ctx = llama.llama_init_from_model(model, params)
vocabulary = llama.llama_model_get_vocab(model)
batch = llama.llama_batch_init(context, 0, 1)
batch.n_tokens = context
with open(out_path, "wb") as out:
    for window in tokens:
        llama.llama_memory_clear(llama.llama_get_memory(ctx), True)
        for i, token in enumerate(window):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = int(token), i, 1, 0
            batch.logits[i] = i >= context // 2
        if llama.llama_vocab_get_add_bos(vocabulary):
            batch.token[0] = llama.llama_vocab_bos(vocabulary)
        assert llama.llama_decode(ctx, batch) == 0
        for i in range(context // 2, context - 1):
            row = np.ctypeslib.as_array(llama.llama_get_logits_ith(ctx, i), (vocab,))
            out.write(row.astype(np.float32).tobytes())
