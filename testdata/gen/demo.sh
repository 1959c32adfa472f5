#!/bin/sh
# The main job on the demo checkpoint, step by step. Run it with `make demo`; the files stay in bin/demo.
set -eu
cd "$(dirname "$0")/../.."
ggufkit=$PWD/bin/ggufkit
source=../../testdata/demo
rm -rf bin/demo
mkdir -p bin/demo
cd bin/demo

step() { printf '\n== %s\n' "$1"; }
show() { printf '$ ggufkit %s\n' "$*"; "$ggufkit" "$@"; }
sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi; }

step 'A Hugging Face checkpoint becomes a GGUF file with weights in 32 bits.'
show convert "$source" --type F32 -o demo-F32.gguf

step 'It is quantized to 4.5 bits and more where it matters; the table says what each tensor lost (first rows and totals).'
show quantize demo-F32.gguf Q4_K_M > quantize.txt
{ sed -n '1,13p' quantize.txt; echo '...'; tail -n 3 quantize.txt; }

step 'One metadata value is changed in place and put back: the file is the same again, bit for bit.'
sum demo-Q4_K_M.gguf
show meta set demo-Q4_K_M.gguf llama.rope.freq_base=500000
sum demo-Q4_K_M.gguf
show meta set demo-Q4_K_M.gguf llama.rope.freq_base=10000
sum demo-Q4_K_M.gguf

step 'What is in the file.'
show inspect demo-Q4_K_M.gguf

step 'It writes: what follows "HAMLET." (the seed makes it the same every time).'
show run -m demo-Q4_K_M.gguf -p 'HAMLET.' -n 80 --seed 1

step 'How well both files predict text that the model never saw: lower is better, and the two should differ by less than the error.'
for type in F32 Q4_K_M; do
  show perplexity -m "demo-$type.gguf" -f "$source/heldout.txt" --chunks 4 -q
done
