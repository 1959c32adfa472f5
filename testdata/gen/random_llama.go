// Random_llama writes a checkpoint of a Llama with a thousand million random weights, to measure speed with.
//
//	go run testdata/gen/random_llama.go FOLDER
//
// What it says is noise, but the shapes, the spread of the weights and the cost of a token are those of a real model of that size:
// width 2048, 16 blocks, 32 heads that share 8 key heads, a vocabulary of 32,000 tied to the output. The same bytes come out
// every time. The tokenizer is the demo checkpoint's, with unused tokens up to the size of the vocabulary.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

const (
	width, ff, blocks = 2048, 8192, 16
	heads, kvHeads    = 32, 8
	head              = 64
	vocab, context    = 32000, 8192
	deviation         = 0.02 // of the weights, as models of this size start their training with
	seed              = 1
	demo              = "testdata/demo"
)

// tensor is one entry of the safetensors file. Vectors are scales of norms, which are 1.
type tensor struct {
	name  string
	shape []int
}

// size is the number of values.
func (t tensor) size() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

func tensors() []tensor {
	all := []tensor{{"model.embed_tokens.weight", []int{vocab, width}}}
	for i := range blocks {
		for _, t := range []tensor{
			{"input_layernorm", []int{width}},
			{"self_attn.q_proj", []int{heads * head, width}},
			{"self_attn.k_proj", []int{kvHeads * head, width}},
			{"self_attn.v_proj", []int{kvHeads * head, width}},
			{"self_attn.o_proj", []int{width, heads * head}},
			{"post_attention_layernorm", []int{width}},
			{"mlp.gate_proj", []int{ff, width}},
			{"mlp.up_proj", []int{ff, width}},
			{"mlp.down_proj", []int{width, ff}},
		} {
			all = append(all, tensor{fmt.Sprintf("model.layers.%d.%s.weight", i, t.name), t.shape})
		}
	}
	return append(all, tensor{"model.norm.weight", []int{width}})
}

// bfloat16 rounds to the nearest, ties to even.
func bfloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// writeWeights writes the safetensors file: the length of the header, the header, the values.
func writeWeights(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	type entry struct {
		Dtype   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, offset := map[string]entry{}, 0
	for _, t := range tensors() {
		end := offset + 2*t.size()
		header[t.name], offset = entry{"BF16", t.shape, [2]int{offset, end}}, end
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	rng, row := rand.New(rand.NewPCG(seed, 0)), []byte(nil)
	for _, t := range tensors() {
		n := t.shape[len(t.shape)-1]
		for range t.size() / n {
			row = row[:0]
			for range n {
				x := 1.0
				if len(t.shape) > 1 {
					x = deviation * rng.NormFloat64()
				}
				row = binary.LittleEndian.AppendUint16(row, bfloat16(float32(x)))
			}
			w.Write(row)
		}
	}
	return w.Flush()
}

func run(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"} {
		data, err := os.ReadFile(filepath.Join(demo, name))
		if err != nil {
			return fmt.Errorf("%w\nhint: run this from the root of the repository", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	config, err := json.MarshalIndent(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "dtype": "bfloat16",
		"hidden_size": width, "intermediate_size": ff, "num_hidden_layers": blocks,
		"num_attention_heads": heads, "num_key_value_heads": kvHeads, "head_dim": head,
		"vocab_size": vocab, "max_position_embeddings": context, "tie_word_embeddings": true,
		"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 0, "eos_token_id": 1,
	}, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(config, '\n'), 0o666); err != nil {
		return err
	}
	// The weights get their name last: a run cut short leaves none.
	part := filepath.Join(dir, "weights.part")
	if err := writeWeights(part); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, "model.safetensors"))
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run testdata/gen/random_llama.go FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
