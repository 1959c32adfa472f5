package tokenizer

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// The golden folders hold the tokenizer files of small checkpoints made for this project, and what is recorded of them: ids and texts by
// the models' own tokenizers (tokens.json, chat.json), and the keys that llama.cpp's converter writes (kv.json).
func TestGolden(t *testing.T) {
	for _, name := range []string{"bpe", "spm", "gemma", "phi3", "tekken"} {
		dir := filepath.Join("testdata", name)
		texts := readJSON[[]textCase](t, filepath.Join(dir, "tokens.json"))
		chats := readJSON[[]chatCase](t, filepath.Join(dir, "chat.json"))
		for source, tok := range checkpoint(t, dir, rowsOf(t, dir)) {
			t.Run(name+"/"+source, func(t *testing.T) {
				checkTexts(t, tok, texts, chats)
				if source == "checkpoint" {
					checkKeys(t, tok.Vocab, name, recordedKeys(name, readJSON[[][3]any](t, filepath.Join(dir, "kv.json"))))
				}
			})
		}
	}
}

// What the library tokenizers makes of changed copies of the golden folders (testdata/gen/tokenizer_variants.py) (field report R072).
func TestVariants(t *testing.T) {
	for _, c := range readJSON[[]struct {
		Name, Folder string
		Patch        map[string]any
		Cases        []textCase
	}](t, filepath.Join("testdata", "variants.json")) {
		dir := filepath.Join("testdata", c.Folder)
		changed := variant(t, dir, map[string]any{"tokenizer.json": func(o map[string]any) {
			model := obj(o, "model")
			if changes, ok := c.Patch["model"]; ok {
				maps.Copy(model, obj(changes))
			}
			maps.Copy(o, c.Patch)
			o["model"] = model
		}})
		for source, tok := range checkpoint(t, changed, rowsOf(t, dir)) {
			t.Run(c.Folder+" "+c.Name+"/"+source, func(t *testing.T) { checkTexts(t, tok, c.Cases, nil) })
		}
	}
}

// A SentencePiece tokenizer is whole in either of its files.
func TestSentencePieceFiles(t *testing.T) {
	for _, folder := range []string{"spm", "gemma", "phi3"} {
		dir := filepath.Join("testdata", folder)
		texts := readJSON[[]textCase](t, filepath.Join(dir, "tokens.json"))
		chats := readJSON[[]chatCase](t, filepath.Join(dir, "chat.json"))
		for _, without := range []string{"tokenizer.json", "tokenizer.model"} {
			for source, tok := range checkpoint(t, variant(t, dir, map[string]any{without: nil}), rowsOf(t, dir)) {
				t.Run(folder+" without "+without+"/"+source, func(t *testing.T) {
					checkTexts(t, tok, texts, chats)
					if strings.Contains(strings.Join(tok.Vocab.Notes, "\n"), "without being among the merges") {
						t.Errorf("the merges are complete: %q", tok.Vocab.Notes)
					}
				})
			}
		}
	}
	dir := filepath.Join("testdata", "spm")
	incomplete := variant(t, dir, map[string]any{"tokenizer.model": nil, "tokenizer.json": func(o map[string]any) {
		merges := obj(o, "model")["merges"].([]any)
		obj(o, "model")["merges"] = append(merges[:10:10], merges[11:]...)
	}})
	v, err := FromCheckpoint(incomplete, rowsOf(t, dir), "")
	if err != nil || !strings.Contains(strings.Join(v.Notes, "\n"), "1 pairs of tokens make a token without being among the merges") {
		t.Errorf("%v %v", v.Notes, err)
	}
	other := variant(t, dir, map[string]any{"tokenizer.model": pieceFile(2, "<unk>", "<s>")})
	_, err = FromCheckpoint(other, rowsOf(t, dir), "")
	checkError(t, err, "tokenizer.model", "different tokenizers")
}

// obj walks decoded JSON.
func obj(v any, path ...string) map[string]any {
	for _, key := range path {
		v = v.(map[string]any)[key]
	}
	return v.(map[string]any)
}

func addTokens(texts ...string) func(map[string]any) {
	return func(o map[string]any) {
		tokens := o["added_tokens"].([]any)
		next := len(obj(o, "model", "vocab")) + len(tokens)
		for _, text := range texts {
			o["added_tokens"] = append(o["added_tokens"].([]any), map[string]any{"id": next, "content": text, "special": false})
			next++
		}
	}
}

const bpeRows = 408

// checkError wants an error that holds all of these texts.
func checkError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// The vocabulary plays no part in recognizing the pre-tokenizer, and unknown structures are refused by what is unknown in them (field report R001).
func TestRecognize(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	v, err := FromCheckpoint(variant(t, dir, map[string]any{"tokenizer.json": addTokens("one more", "😀")}), bpeRows+2, "")
	if err != nil || v.Pre != "llama-bpe" {
		t.Fatalf("%v %v", v, err)
	}
	if v.Tokens[bpeRows] != "one more" || v.Types[bpeRows] != UserDefined {
		t.Errorf("token %q of type %d", v.Tokens[bpeRows], v.Types[bpeRows])
	}
	pattern := func(p string) func(map[string]any) {
		return func(o map[string]any) {
			obj(o, "pre_tokenizer")["pretokenizers"].([]any)[0].(map[string]any)["pattern"] = map[string]any{"Regex": p}
		}
	}
	unknown := variant(t, dir, map[string]any{"tokenizer.json": pattern(`\w+|.`)})
	_, err = FromCheckpoint(unknown, bpeRows, "")
	checkError(t, err, "tokenizer.json", `\\w+|.`, "--pre")
	if v, err := FromCheckpoint(unknown, bpeRows, "gpt-2"); err != nil || v.Pre != "gpt-2" {
		t.Errorf("with --pre: %v", err)
	}
	_, err = FromCheckpoint(unknown, bpeRows, "gpt-9")
	checkError(t, err, "gpt-9")
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"normalizer": {func(o map[string]any) { o["normalizer"] = map[string]any{"type": "Lowercase"} }, "Lowercase"},
		"ignore":     {func(o map[string]any) { obj(o, "model")["ignore_merges"] = false }, ""},
		"part": {func(o map[string]any) {
			parts := obj(o, "pre_tokenizer")["pretokenizers"].([]any)
			obj(o, "pre_tokenizer")["pretokenizers"] = append([]any{map[string]any{"type": "Whitespace"}}, parts...)
		}, "Whitespace"},
		"bytes": {func(o map[string]any) {
			obj(o, "pre_tokenizer")["pretokenizers"] = obj(o, "pre_tokenizer")["pretokenizers"].([]any)[:1]
		}, "ByteLevel"},
		"prefix": {func(o map[string]any) {
			o["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}
		}, "add_prefix_space"},
		"model":  {func(o map[string]any) { obj(o, "model")["type"] = "Unigram" }, "Unigram"},
		"suffix": {func(o map[string]any) { obj(o, "model")["end_of_word_suffix"] = "</w>" }, "</w>"},
	} {
		v, err := FromCheckpoint(variant(t, dir, map[string]any{"tokenizer.json": c.change}), bpeRows, "")
		if c.want != "" {
			checkError(t, err, c.want)
		} else if err != nil || v.Pre != "dbrx" {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
	digits := func(o map[string]any) {
		o["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Digits", "individual_digits": true}, map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		}}
	}
	for pre, c := range map[string]struct {
		modelType string
		change    func(map[string]any)
	}{
		"qwen2": {"qwen2", pattern(qwen2Pattern)},
		"gpt-2": {"gpt2", func(o map[string]any) {
			o["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false}
		}},
		"smollm":    {"llama", digits},
		"starcoder": {"starcoder2", digits}, // the same splits: the family decides
	} {
		dir := variant(t, dir, map[string]any{
			"tokenizer.json": func(o map[string]any) {
				obj(o, "model")["ignore_merges"] = false
				c.change(o)
			},
			"config.json": func(o map[string]any) { o["model_type"] = c.modelType },
		})
		if v, err := FromCheckpoint(dir, bpeRows, ""); err != nil || v.Pre != pre {
			t.Errorf("%s: %v %v", pre, v, err)
		}
	}
}

// The rows of the embedding are the truth about the number of tokens (field report R003).
func TestRows(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	_, err := FromCheckpoint(variant(t, dir, map[string]any{"tokenizer.json": addTokens("<x>", "<y>")}), bpeRows, "")
	checkError(t, err, `408 "<x>"`, `409 "<y>"`, "which has 408")
	v, err := FromCheckpoint(dir, bpeRows+2, "")
	if err != nil || len(v.Tokens) != bpeRows+2 || v.Tokens[409] != "[PAD409]" || v.Types[409] != Unused {
		t.Errorf("padding: %v", err)
	}
	// Files that say again what is known are no harm, those that contradict are.
	restated := variant(t, dir, map[string]any{"added_tokens.json": map[string]int{"!": 0, `"`: 1, "<|eot_id|>": 406}})
	if v, err = FromCheckpoint(restated, bpeRows, ""); err != nil || v.Types[0] != Normal || v.Types[406] != Control {
		t.Errorf("restated: %v", err)
	}
	_, err = FromCheckpoint(variant(t, dir, map[string]any{"added_tokens.json": map[string]int{"?!": 0}}), bpeRows, "")
	checkError(t, err, "added_tokens.json", `"?!"`)
}

// Merges may be written in two ways, and must be there (field report R007).
func TestMerges(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	plain, err := FromCheckpoint(dir, bpeRows, "")
	if err != nil {
		t.Fatal(err)
	}
	asStrings := variant(t, dir, map[string]any{"tokenizer.json": func(o map[string]any) {
		merges := obj(o, "model")["merges"].([]any)
		for i, m := range merges {
			merges[i] = fmt.Sprint(m.([]any)[0], " ", m.([]any)[1])
		}
	}})
	v, err := FromCheckpoint(asStrings, bpeRows, "")
	if err != nil || !slices.Equal(v.Merges, plain.Merges) {
		t.Errorf("merges as strings differ: %v", err)
	}
	none := map[string]any{"tokenizer.json": func(o map[string]any) { obj(o, "model")["merges"] = []any{} }}
	_, err = FromCheckpoint(variant(t, dir, none), bpeRows, "")
	checkError(t, err, "merges")
	none["merges.txt"] = "#version: 0.2\n" + strings.Join(plain.Merges, "\n") + "\n"
	if v, err = FromCheckpoint(variant(t, dir, none), bpeRows, ""); err != nil || !slices.Equal(v.Merges, plain.Merges) {
		t.Errorf("merges.txt: %v", err)
	}
	spaced := map[string]any{"tokenizer.json": func(o map[string]any) {
		vocab := obj(o, "model", "vocab")
		for i, text := range []string{"a b", "a bc"} {
			delete(vocab, plain.Tokens[300+i])
			vocab[text] = 300 + i
		}
		obj(o, "model")["merges"] = []any{[]any{"a b", "c"}}
	}}
	if v, err = FromCheckpoint(variant(t, dir, spaced), bpeRows, ""); err != nil || v.Merges[0] != "aĠb c" {
		t.Errorf("a space within a pair: %v", err)
	}
	for _, bad := range []any{"ab", "a b c", []any{"a"}, []any{"a", ""}, 7} {
		wrong := map[string]any{"tokenizer.json": func(o map[string]any) { obj(o, "model")["merges"] = []any{bad} }}
		_, err = FromCheckpoint(variant(t, dir, wrong), bpeRows, "")
		checkError(t, err, "model.merges: element 0")
	}
	// Texts that are no tokens: a part, and what the parts make.
	for merge, missing := range map[string]string{"a? b": `"a?"`, "a b?": `"b?"`, "! !": `"!!"`} {
		foreign := map[string]any{"tokenizer.json": func(o map[string]any) { obj(o, "model")["merges"] = []any{merge} }}
		_, err = FromCheckpoint(variant(t, dir, foreign), bpeRows, "")
		checkError(t, err, fmt.Sprintf("merge 0, %q: %s is not in the vocabulary of tokenizer.json", merge, missing))
	}
}

// A token that tokenizer.json flags as special is control, whatever the pieces say (field report R006).
func TestSpecialFlag(t *testing.T) {
	dir := variant(t, filepath.Join("testdata", "spm"), map[string]any{"tokenizer.json": func(o map[string]any) {
		vocab := obj(o, "model", "vocab")
		for text, id := range vocab {
			if id.(float64) == 300 {
				o["added_tokens"] = append(o["added_tokens"].([]any), map[string]any{"id": 300, "content": text, "special": true})
			}
		}
	}})
	for _, tok := range checkpoint(t, dir, 643) {
		if typ := tok.Vocab.Types[300]; typ != Control {
			t.Errorf("type %d", typ)
		}
		ids, err := tok.Encode("x"+tok.Vocab.Tokens[300]+"x", EncodeOptions{ParseSpecial: true})
		if err != nil || !slices.Contains(ids, 300) {
			t.Errorf("%v %v", ids, err)
		}
	}
}

// A token that the template writes and nobody flags is told.
func TestUnflaggedMarker(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	v, err := FromCheckpoint(dir, bpeRows, "")
	if err != nil || strings.Contains(strings.Join(v.Notes, "\n"), "marker") {
		t.Fatalf("%v %v", v, err)
	}
	dir = variant(t, dir, map[string]any{
		"tokenizer_config.json": func(o map[string]any) { o["chat_template"] = "{{ '<turn>' + messages[0].role + '<other>' }}" },
		"tokenizer.json": func(o map[string]any) {
			vocab := obj(o, "model", "vocab")
			delete(vocab, v.Tokens[300])
			vocab["<turn>"] = 300
			obj(o, "model")["merges"] = []any{[]any{"i", "n"}}
		},
	})
	v, err = FromCheckpoint(dir, bpeRows, "")
	if err != nil || !strings.Contains(strings.Join(v.Notes, "\n"), `token 300 "<turn>" is a marker`) {
		t.Errorf("%v %q", err, v.Notes)
	}
}

// Every id that ends a generation survives; null and -1 are no ids (field report R009).
func TestIDSources(t *testing.T) {
	dir := variant(t, filepath.Join("testdata", "bpe"), map[string]any{
		"tokenizer_config.json":   map[string]any{"pad_token": nil},
		"special_tokens_map.json": nil,
		"config.json":             map[string]any{"bos_token_id": nil, "eos_token_id": 2, "pad_token_id": -1},
		"generation_config.json":  map[string]any{"eos_token_id": []int{2, 7, 8, 9}, "pad_token_id": -1},
	})
	for source, tok := range checkpoint(t, dir, bpeRows) {
		v := tok.Vocab
		if v.EOS != 2 || v.PAD != -1 || v.BOS != -1 || v.EOT != 7 || v.EOM != 8 {
			t.Errorf("%s: eos %d pad %d bos %d eot %d eom %d", source, v.EOS, v.PAD, v.BOS, v.EOT, v.EOM)
		}
		for _, id := range []int32{2, 7, 8, 9} {
			if !tok.IsEOG(id) {
				t.Errorf("%s: %d does not end a generation", source, id)
			}
		}
		if tok.IsEOG(3) {
			t.Errorf("%s: 3 ends a generation", source)
		}
		if source == "checkpoint" && !slices.ContainsFunc(v.Details, func(n string) bool {
			return strings.Contains(n, "eos_token_id 2") && strings.Contains(n, "config.json")
		}) {
			t.Errorf("no detail says where eos comes from: %q", v.Details)
		}
	}
}

// Templates: the .jinja file wins over tokenizer_config.json, and differences are told (field report R011).
func TestTemplates(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	edited := func(template any) func(map[string]any) {
		return func(o map[string]any) { o["chat_template"] = template }
	}
	for name, c := range map[string]struct {
		changes map[string]any
		want    map[string]string
		note    string
	}{
		"jinja": {map[string]any{"chat_template.jinja": "J", "tokenizer_config.json": edited("C")}, map[string]string{"": "J"}, "tokenizer_config.json holds another one"},
		"list": {map[string]any{"tokenizer_config.json": edited([]any{
			map[string]any{"name": "default", "template": "D"}, map[string]any{"name": "tool-use", "template": "T"},
		})}, map[string]string{"": "D", "tool_use": "T"}, ""},
		"more": {map[string]any{"tokenizer_config.json": edited(nil), "chat_template.jinja": "J", "additional_chat_templates/rag.jinja": "R"},
			map[string]string{"": "J", "rag": "R"}, ""},
		"json": {map[string]any{"tokenizer_config.json": edited(nil), "chat_template.json": map[string]any{"chat_template": "X"}}, map[string]string{"": "X"}, ""},
		"none": {map[string]any{"tokenizer_config.json": edited(nil)}, map[string]string{}, ""},
	} {
		for source, tok := range checkpoint(t, variant(t, dir, c.changes), bpeRows) {
			v := tok.Vocab
			if fmt.Sprint(v.Templates) != fmt.Sprint(c.want) {
				t.Errorf("%s, %s: %v, want %v", name, source, v.Templates, c.want)
			}
			if source == "checkpoint" && !strings.Contains(strings.Join(v.Notes, "\n"), c.note) {
				t.Errorf("%s: no note %q in %q", name, c.note, v.Notes)
			}
		}
	}
}

// Without tokenizer.json the class says how words are split.
func TestVocabAndMerges(t *testing.T) {
	v, err := FromCheckpoint(filepath.Join("testdata", "bpe"), bpeRows, "")
	if err != nil {
		t.Fatal(err)
	}
	vocab := map[string]int{}
	for id, text := range v.Tokens[:400] {
		vocab[text] = id
	}
	changes := map[string]any{
		"tokenizer.json": nil, "vocab.json": vocab, "merges.txt": strings.Join(v.Merges, "\n"),
		"tokenizer_config.json": func(o map[string]any) { o["tokenizer_class"] = "Qwen2TokenizerFast" },
	}
	w, err := FromCheckpoint(variant(t, filepath.Join("testdata", "bpe"), changes), bpeRows, "")
	if err != nil || w.Pre != "qwen2" || w.Normalizer != "NFC" || !slices.Equal(w.Tokens, v.Tokens) || !slices.Equal(w.Types, v.Types) || !slices.Equal(w.Merges, v.Merges) {
		t.Fatalf("%v", err)
	}
	changes["tokenizer_config.json"] = map[string]any{"tokenizer_class": "OddTokenizer"}
	_, err = FromCheckpoint(variant(t, filepath.Join("testdata", "bpe"), changes), bpeRows, "")
	checkError(t, err, "OddTokenizer", "--pre")
}

func TestBadFiles(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	for name, c := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"nothing":  {map[string]any{"tokenizer.json": nil}, "no tokenizer"},
		"json":     {map[string]any{"tokenizer.json": "{"}, "tokenizer.json"},
		"shape":    {map[string]any{"tokenizer.json": map[string]any{"model": map[string]any{"type": "BPE", "vocab": []int{1}}}}, "tokenizer.json"},
		"twice":    {map[string]any{"tokenizer.json": func(o map[string]any) { obj(o, "model", "vocab")["twice"] = 5 }}, `"twice"`},
		"pieces":   {map[string]any{"tokenizer.json": nil, "tokenizer.model": "\x0a\xff"}, "tokenizer.model"},
		"unigram":  {map[string]any{"tokenizer.json": nil, "tokenizer.model": pieceFile(1, "a")}, "Unigram"},
		"template": {map[string]any{"tokenizer_config.json": map[string]any{"chat_template": 7}}, "chat_template"},
		"negative": {map[string]any{"tokenizer.json": func(o map[string]any) { obj(o, "model", "vocab")["minus"] = -5 }}, `-5 "minus"`},
		"decoder":  {map[string]any{"tokenizer_config.json": map[string]any{"added_tokens_decoder": map[string]any{"x": map[string]any{}}}}, `"x"`},
	} {
		if _, err := FromCheckpoint(variant(t, dir, c.changes), bpeRows, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s named", name, err, c.want)
		}
	}
	_, err := FromCheckpoint(dir, 0, "")
	checkError(t, err, "0 rows")
}

// pieceFile is a SentencePiece model of the given type.
func pieceFile(kind uint64, pieces ...string) []byte {
	var out []byte
	for _, p := range pieces {
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p))
	}
	trainer := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), kind)
	return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), trainer)
}

func FuzzPieces(f *testing.F) {
	f.Add(pieceFile(2, "a", "b"))
	f.Fuzz(func(t *testing.T, data []byte) { parsePieces(data) })
}
