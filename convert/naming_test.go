package convert

import (
	"path/filepath"
	"testing"
)

// Expected values are those of the gguf package 0.19.0 for Python (Metadata.get_model_id_components and id_to_title).
func TestParseName(t *testing.T) {
	for _, c := range []struct {
		id                                                         string
		params                                                     uint64
		name, organization, basename, finetune, version, sizeLabel string
	}{
		{"Mistral-7B-Instruct-v0.2", 7241732096, "Mistral 7B Instruct v0.2", "", "Mistral", "Instruct", "v0.2", "7B"},
		{"SmolLM2-135M-Instruct", 134515008, "SmolLM2 135M Instruct", "", "SmolLM2", "Instruct", "", "135M"},
		{"smollm2-135m", 134515008, "Smollm2 135m", "", "smollm2", "", "", "135M"},
		{"hf", 1000000, "Hf", "", "", "", "", ""},
		{"Llama-3.2-1B", 1235814400, "Llama 3.2 1B", "", "Llama-3.2", "", "", "1B"},
		{"Qwen2.5-0.5B-Instruct", 494032768, "Qwen2.5 0.5B Instruct", "", "Qwen2.5", "Instruct", "", "0.5B"},
		{"bloom-7b1", 7069016064, "Bloom 7b1", "", "bloom", "", "", "7.1B"},
		{"meta-llama/Llama-2-7b-hf", 6738415616, "Llama 2 7b Hf", "Meta Llama", "Llama-2", "hf", "", "7B"},
		{"Mixtral-8x7B-Instruct-v0.1", 46702792704, "Mixtral 8x7B Instruct v0.1", "", "Mixtral", "Instruct", "v0.1", "8x7B"},
		{"my model folder", 5, "My Model Folder", "", "", "", "", ""},
		{"Qwen3-30B-A3B-Q4_K_M", 30532122624, "Qwen3 30B A3B Q4_K_M", "", "Qwen3", "", "", "30B-A3B"},
		{"tinyllama-1.1b-chat-v1.0", 1100048384, "Tinyllama 1.1b Chat v1.0", "", "tinyllama", "chat", "v1.0", "1.1B"},
		{"Phi-3-mini-4k-instruct", 3821079552, "Phi 3 Mini 4k Instruct", "", "Phi-3", "4k-instruct", "", "mini"},
		{"v2", 1000, "v2", "", "", "", "v2", ""},
		{"gpt2-large", 774030080, "Gpt2 Large", "", "gpt2", "", "", "large"},
		{"Meta-Llama-3-8B", 8030261248, "Meta Llama 3 8B", "", "Meta-Llama-3", "", "", "8B"},
		{"NVIDIA-large-7B-x", 7000000000, "NVIDIA Large 7B X", "", "NVIDIA-large", "x", "", "7B"},
		{"--odd--name--", 10, "Odd Name", "", "", "", "", ""},
		{"DeepSeek-R1-Distill-Qwen-1.5B", 1777088000, "DeepSeek R1 Distill Qwen 1.5B", "", "DeepSeek-R1-Distill-Qwen", "", "", "1.5B"},
		{"Yi-34B-200K", 34388917248, "Yi 34B 200K", "", "Yi", "200k", "", "34B"},
		{"unsloth/gemma-2-2b-it", 2614341888, "Gemma 2 2b It", "Unsloth", "gemma-2", "it", "", "2B"},
		{"7B-model", 7000000000, "7B Model", "", "", "7B-model", "", ""},
		{"1-2-3", 10, "1 2 3", "", "", "", "1-2-3", ""},
		{"a-xl-b", 100, "A Xl B", "", "a", "b", "", "xl"},
		{"foo-small-7b-bar", 7000000000, "Foo Small 7b Bar", "", "foo-small", "bar", "", "7B"},
		{"foo_bar1baz-2b", 2000000000, "Foo_Bar1Baz 2b", "", "foo_bar1baz", "", "", "2B"},
		{"x-9B", 1000, "X 9B", "", "x", "9b", "", ""},
		{"ÄB-é", 1, "ÄB É", "", "", "", "", ""},
	} {
		want := naming{c.name, c.organization, c.basename, c.finetune, c.version, c.sizeLabel}
		if got := parseName(c.id, c.params); got != want {
			t.Errorf("%s: %+v, want %+v", c.id, got, want)
		}
	}
}

// Expected values are those of the gguf package 0.19.0 for Python.
func TestSizeOf(t *testing.T) {
	for params, want := range map[uint64]string{
		1: "0.00K", 9: "0.01K", 99: "0.10K", 500: "0.50K", 999: "1.0K", 1000: "1.0K", 9949: "10K", 9950: "10K", 9999: "10K",
		10000: "10K", 99950: "100K", 347904: "348K", 997408: "997K", 999999: "1000K", 1000000: "1000K", 1000001: "1.0M", 1234567: "1.2M",
		9949999: "10M", 9950001: "10M", 134515008: "135M", 999950000: "1000M", 1000000000: "1000M", 1000000001: "1.0B", 6738415616: "6.7B",
		70553706496: "71B", 671026419200: "671B", 1000000000001: "1.0T", 1200000000000: "1.2T",
	} {
		if got := sizeOf(params); got != want {
			t.Errorf("%d: %s, want %s", params, got, want)
		}
	}
}

func TestModelID(t *testing.T) {
	for dir, want := range map[string]string{
		filepath.Join("a", "Llama-3-8B"):                                        "Llama-3-8B",
		filepath.Join("hub", "models--org--Some-Name", "snapshots", "0123abcd"): "org/Some-Name",
		filepath.Join("snapshots", "x"):                                         "x",
	} {
		if got := modelID(dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}
