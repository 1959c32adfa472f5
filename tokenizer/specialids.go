package tokenizer

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// idKinds are the special ids that the files of a checkpoint name, in the order in which they are written.
var idKinds = []string{"bos", "eos", "unk", "sep", "pad", "mask"}

// keyOf is the metadata key of a kind of id.
func keyOf(kind string) string {
	switch kind {
	case "unk":
		return "tokenizer.ggml.unknown_token_id"
	case "sep":
		return "tokenizer.ggml.seperator_token_id" // the format spells it so
	case "pad":
		return "tokenizer.ggml.padding_token_id"
	}
	return "tokenizer.ggml." + kind + "_token_id"
}

// specialIDs finds the special ids and the flags that say which of them are added to a text.
func (b *vocabBuilder) specialIDs() error {
	b.addFlags()
	type source struct {
		file string
		find func(kind string) int32
	}
	byText := func(o object) func(string) int32 {
		return func(kind string) int32 { return b.idOfText(b.tokenOf(o, kind)) }
	}
	byID := func(o object) func(string) int32 {
		return func(kind string) int32 {
			if ids := o.ids(kind + "_token_id"); len(ids) > 0 {
				return ids[0]
			}
			return -1
		}
	}
	sources := []source{
		{"tokenizer_config.json", byText(b.f.tokenizerConfig)}, {"special_tokens_map.json", byText(b.f.specialMap)},
		{"config.json", byID(b.f.config)}, {"generation_config.json", byID(b.f.genConfig)},
	}
	if m := b.f.pieces; m != nil {
		own := map[string]int32{"bos": m.bos, "eos": m.eos, "unk": m.unk, "pad": m.pad}
		sources = append(sources, source{"tokenizer.model", func(kind string) int32 {
			if id, ok := own[kind]; ok {
				return id
			}
			return -1
		}})
	}
	chosen := map[string]bool{}
	for _, s := range sources {
		for _, kind := range idKinds {
			id := s.find(kind)
			if id < 0 {
				continue
			}
			if int(id) >= b.rows {
				b.note("%s: %s_token_id %d has no row in the embedding: left out", s.file, kind, id)
				continue
			}
			dst := b.v.idOf(keyOf(kind))
			if chosen[kind] {
				if *dst != id {
					b.note("%s_token_id: %s says %d, but %d was found before", kind, s.file, id, *dst)
				}
				continue
			}
			chosen[kind] = true
			*dst = id
			b.v.order = append(b.v.order, keyOf(kind))
			b.detail("%s_token_id %d %q: from %s", kind, id, b.v.Tokens[id], s.file)
		}
	}
	b.endOfGeneration()
	return nil
}

// tokenOf is the text that a file has for a kind of id. The ends of a text have other names in BERT's files.
func (b *vocabBuilder) tokenOf(o object, kind string) string {
	text := o.str(kind + "_token")
	if text == "" && b.v.Model == "bert" {
		switch kind {
		case "bos":
			return o.str("cls_token")
		case "eos":
			return o.str("sep_token")
		}
	}
	return text
}

// idOfText is the id of an added token, else of any token, with the text; -1 if there is none.
func (b *vocabBuilder) idOfText(text string) int32 {
	found := int32(-1)
	if text == "" {
		return found
	}
	for id, s := range b.v.Tokens {
		if s != text {
			continue
		}
		if typ := b.v.Types[id]; typ == Control || typ == UserDefined {
			return int32(id)
		}
		if found < 0 {
			found = int32(id)
		}
	}
	return found
}

// idOf is the field of a metadata key.
func (v *Vocab) idOf(key string) *int32 {
	for _, f := range v.idFields() {
		if f.key == key {
			return f.id
		}
	}
	panic("no such id: " + key)
}

// endOfGeneration collects every id that ends a generation. GGUF has keys for three; what is over goes to a key of our own.
func (b *vocabBuilder) endOfGeneration() {
	v := b.v
	known := v.eogIDs()
	for _, s := range []struct {
		file string
		o    object
	}{{"config.json", b.f.config}, {"generation_config.json", b.f.genConfig}} {
		for _, id := range s.o.ids("eos_token_id") {
			if int(id) >= b.rows {
				b.note("%s: eos_token_id %d has no row in the embedding: left out", s.file, id)
				continue
			}
			if slices.Contains(known, id) {
				continue
			}
			known = append(known, id)
			key := keyExtraEOG
			switch {
			case v.EOT < 0:
				v.EOT, key = id, keyOf("eot")
			case v.EOM < 0:
				v.EOM, key = id, keyOf("eom")
			default:
				v.EOG = append(v.EOG, id)
			}
			b.note("token %d %q ends a generation too, says %s: written as %s", id, v.Tokens[id], s.file, key)
		}
	}
	v.EOG = v.eogIDs()
}

// addFlags finds out whether BOS, EOS and SEP are added to a text: the post-processor of tokenizer.json knows, else tokenizer_config.json does.
func (b *vocabBuilder) addFlags() {
	flags := map[string]bool{}
	set := func(kind string, on bool) {
		if _, ok := flags[kind]; !ok {
			b.v.order = append(b.v.order, "tokenizer.ggml.add_"+kind+"_token")
		}
		flags[kind] = on
	}
	if b.f.tokenizer != nil {
		for _, p := range flatten(b.f.tokenizer.PostProcessor) {
			switch p.Type {
			case "ByteLevel":
				for _, kind := range []string{"bos", "eos"} {
					if _, ok := flags[kind]; !ok {
						set(kind, false)
					}
				}
			case "TemplateProcessing":
				b.templateFlags(&p, set)
			}
		}
	}
	for _, kind := range idKinds {
		on := b.f.tokenizerConfig.flag("add_" + kind + "_token")
		if on == nil || kind != "bos" && kind != "eos" && kind != "sep" {
			continue
		}
		if old, ok := flags[kind]; !ok {
			set(kind, *on)
		} else if old != *on {
			b.note("add_%s_token: tokenizer_config.json says %v, but tokenizer.json adds by its own rule: %v", kind, *on, old)
		}
	}
	for kind, dst := range map[string]**bool{"bos": &b.v.AddBOS, "eos": &b.v.AddEOS, "sep": &b.v.AddSEP} {
		if on, ok := flags[kind]; ok {
			*dst = &on
		}
	}
}

// templateFlags reads a TemplateProcessing: what stands before and behind a text, and between two.
func (b *vocabBuilder) templateFlags(p *component, set func(kind string, on bool)) {
	config := b.f.tokenizerConfig
	bos, eos, sep, cls := b.tokenOf(config, "bos"), b.tokenOf(config, "eos"), config.str("sep_token"), config.str("cls_token")
	special := func(v jsontext.Value) string {
		var item struct {
			SpecialToken struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		}
		if json.Unmarshal(v, &item) != nil {
			return ""
		}
		return item.SpecialToken.ID
	}
	first, last := "", ""
	if n := len(p.Single); n > 1 {
		if first = special(p.Single[0]); first != "" {
			set("bos", first == bos || first == cls)
		}
		if last = special(p.Single[n-1]); last != "" {
			set("eos", last == eos)
		}
	}
	pair := p.Pair
	if len(pair) > 0 && first != "" && special(pair[0]) == first {
		pair = pair[1:]
	}
	if n := len(pair); n > 0 && last != "" && special(pair[n-1]) == last {
		pair = pair[:n-1]
	}
	if len(pair) < 3 || special(pair[0]) != "" || special(pair[len(pair)-1]) != "" {
		return
	}
	between := pair[1 : len(pair)-1]
	separates := func(v jsontext.Value) bool { s := special(v); return s != "" && (s == sep || s == eos) }
	set("sep", separates(between[0]) && last == "" || len(between) == 2 && separates(between[1]))
}
