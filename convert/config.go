package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ggufkit/ggufkit/arch"
)

// maxConfigBytes bounds config.json; real ones have a few kilobytes.
const maxConfigBytes = 16 << 20

// config is a JSON file of settings. Values are read strictly by type; null is the same as absent. The rope settings of config.json are
// in the layout of transformers 5, whatever the file has (normalizeRope).
type config struct {
	file string // for error messages
	root object
}

type object = map[string]jsontext.Value

// readConfig reads config.json of a checkpoint folder.
func readConfig(dir string) (*config, error) {
	c, err := readSettings(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w\nhint: a checkpoint folder holds config.json beside the weights", err)
	}
	if err != nil {
		return nil, err
	}
	if err := c.settle(); err != nil {
		return nil, err
	}
	return c, nil
}

// settle brings the settings into one form: those of the text model at the top, rope as in transformers 5. A class that is not known
// changes nothing here; it is refused later.
func (c *config) settle() error {
	s := &arch.Spec{}
	if class, err := c.class(); err == nil {
		if known, err := arch.ForHF(class); err == nil {
			s = known
		}
	}
	if s.Nested != "" {
		if err := c.unnest(s.Nested); err != nil {
			return err
		}
	}
	return c.normalizeRope(s.Block.Window.FreqBase > 0)
}

// unnest moves the settings of the text model from their object to the top. What stood there counts where the object says nothing.
func (c *config) unnest(name string) error {
	text, err := c.object(name)
	if err != nil {
		return err
	}
	for key, v := range text {
		if key != "architectures" && v.Kind() != 'n' {
			c.root[key] = v
		}
	}
	return nil
}

// readSettings reads a JSON object from a file.
func readSettings(path string) (*config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() > maxConfigBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxConfigBytes)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &config{file: path, root: object{}}
	if err := json.Unmarshal(b, &c.root); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.root == nil {
		return nil, fmt.Errorf("%s: the file says null, expected an object", path)
	}
	return c, nil
}

// lookup finds the value at a path of object members joined by dots.
func (c *config) lookup(path string) (jsontext.Value, bool, error) {
	at := c.root
	for rest, done := path, false; ; {
		var name string
		name, rest, done = strings.Cut(rest, ".")
		v, ok := at[name]
		if !ok || v.Kind() == 'n' {
			return nil, false, nil
		}
		if !done {
			return v, true, nil
		}
		if v.Kind() != '{' {
			return nil, false, c.mismatch(strings.TrimSuffix(path, "."+rest), v, "an object")
		}
		at = object{}
		if err := json.Unmarshal(v, &at); err != nil {
			return nil, false, fmt.Errorf("%s: %s: %w", c.file, path, err)
		}
	}
}

func (c *config) mismatch(path string, v jsontext.Value, want string) error {
	const most = 60
	text := string(v)
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Errorf("%s: %s is %s, expected %s", c.file, path, text, want)
}

// float reads a number.
func (c *config) float(path string) (float64, bool, error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return 0, false, err
	}
	if v.Kind() != '0' {
		return 0, false, c.mismatch(path, v, "a number")
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return 0, false, c.mismatch(path, v, "a number that fits 64 bits")
	}
	return f, true, nil
}

// uint reads a whole number that is not negative and fits bits bits.
func (c *config) uint(path string, bits int) (uint64, bool, error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseUint(string(v), 10, bits)
	if v.Kind() != '0' || err != nil {
		return 0, false, c.mismatch(path, v, fmt.Sprintf("a whole number of up to %d bits, not negative", bits))
	}
	return n, true, nil
}

// bool reads true or false.
func (c *config) bool(path string) (value, ok bool, err error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return false, false, err
	}
	if v.Kind() != 't' && v.Kind() != 'f' {
		return false, false, c.mismatch(path, v, "true or false")
	}
	return v.Kind() == 't', true, nil
}

// text reads a string.
func (c *config) text(path string) (string, bool, error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return "", false, err
	}
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return "", false, c.mismatch(path, v, "a string")
	}
	return s, true, nil
}

// object reads an object; nil if it is absent.
func (c *config) object(path string) (object, error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return nil, err
	}
	var o object
	if v.Kind() != '{' || json.Unmarshal(v, &o) != nil {
		return nil, c.mismatch(path, v, "an object")
	}
	return o, nil
}

// class is the model class: the first of architectures.
func (c *config) class() (string, error) {
	v, ok, err := c.lookup("architectures")
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%s has no architectures, so the model class is unknown\nhint: add the class, as in \"architectures\": [\"LlamaForCausalLM\"]", c.file)
	}
	var classes []string
	if v.Kind() != '[' || json.Unmarshal(v, &classes) != nil || len(classes) == 0 {
		return "", c.mismatch("architectures", v, "a list of class names")
	}
	return classes[0], nil
}

// spec finds the architecture and refuses settings that it cannot express.
func (c *config) spec() (*arch.Spec, error) {
	class, err := c.class()
	if err != nil {
		return nil, err
	}
	s, err := arch.ForHF(class)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.file, err)
	}
	if q, err := c.object("quantization_config"); err != nil {
		return nil, err
	} else if q != nil {
		return nil, fmt.Errorf("%s: the checkpoint is already quantized (quantization_config, method %s), which is not supported yet\n"+
			"hint: convert the unquantized checkpoint that it was made from", c.file, q["quant_method"])
	}
	for _, r := range s.Require {
		if err := c.require(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// require checks one setting that the architecture cannot vary.
func (c *config) require(r arch.Require) error {
	v, ok, err := c.lookup(r.Config)
	if !ok || err != nil {
		return err
	}
	var got any
	if err := json.Unmarshal(v, &got); err != nil {
		return fmt.Errorf("%s: %s: %w", c.file, r.Config, err)
	}
	for _, literal := range r.Values {
		var want any
		if json.Unmarshal([]byte(literal), &want) == nil && reflect.DeepEqual(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", c.mismatch(r.Config, v, strings.Join(r.Values, " or ")), r.Reason)
}

// normalizeRope brings the rope settings into the layout of transformers 5: one object rope_parameters that holds rope_theta, rope_type and
// what the type needs. transformers 4 has rope_theta and partial_rotary_factor at the top and the rest in rope_scaling, where the type may be
// called "type". Where a file has both layouts they must agree. With local, windowed blocks have a base of their own, which comes to
// stand at the top as rope_local_base_freq.
func (c *config) normalizeRope(local bool) error {
	params, err := c.flatRope(local)
	if err != nil {
		return err
	}
	scaling, err := c.object("rope_scaling")
	if err != nil {
		return err
	}
	for _, name := range []string{"rope_theta", "partial_rotary_factor"} {
		if v, ok, err := c.lookup(name); err != nil {
			return err
		} else if ok {
			if err := c.merge(params, name, name, v); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(scaling) {
		if err := c.merge(params, renamedType(name), "rope_scaling."+name, scaling[name]); err != nil {
			return err
		}
	}
	b, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: rope_parameters: %w", c.file, err)
	}
	c.root["rope_parameters"] = b
	return nil
}

// flatRope is a copy of rope_parameters. Settings per layer type are taken if all types have the same; with local, those of windowed blocks
// may have another base.
func (c *config) flatRope(local bool) (object, error) {
	params, err := c.object("rope_parameters")
	if err != nil {
		return nil, err
	}
	flat, nested := object{}, 0
	for _, name := range sortedKeys(params) {
		v := params[name]
		if v.Kind() != '{' {
			if err := c.merge(flat, renamedType(name), "rope_parameters."+name, v); err != nil {
				return nil, err
			}
			continue
		}
		inner := object{}
		if err := json.Unmarshal(v, &inner); err != nil {
			return nil, fmt.Errorf("%s: rope_parameters.%s: %w", c.file, name, err)
		}
		nested++
		if local && name == "sliding_attention" {
			if err := c.localRope(inner); err != nil {
				return nil, err
			}
			continue
		}
		for _, key := range sortedKeys(inner) {
			if err := c.merge(flat, renamedType(key), "rope_parameters."+name+"."+key, inner[key]); err != nil {
				return nil, fmt.Errorf("%w\nhint: rope settings that differ by layer type are not supported for this architecture", err)
			}
		}
	}
	if nested > 0 && nested < len(params) {
		return nil, fmt.Errorf("%s: rope_parameters mixes settings with layer types", c.file)
	}
	return flat, nil
}

// localRope takes the base of windowed blocks from their section, which can hold no scaling.
func (c *config) localRope(section object) error {
	for _, key := range sortedKeys(section) {
		v, path := section[key], "rope_parameters.sliding_attention."+key
		switch renamedType(key) {
		case "rope_theta":
			if err := c.merge(c.root, "rope_local_base_freq", path, v); err != nil {
				return err
			}
		case "rope_type":
			if string(v) != `"default"` {
				return c.mismatch(path, v, `"default", since only global blocks are scaled`)
			}
		default:
			return c.mismatch(path, v, "nothing, since only global blocks are scaled")
		}
	}
	return nil
}

// renamedType gives the type of a rope section its newer name.
func renamedType(name string) string {
	if name == "type" {
		return "rope_type"
	}
	return name
}

// merge sets a rope setting, or checks that the one from elsewhere is the same.
func (c *config) merge(params object, name, path string, v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	old, ok := params[name]
	if !ok || old.Kind() == 'n' {
		params[name] = v
		return nil
	}
	var a, b any
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(v, &b) != nil || !reflect.DeepEqual(a, b) {
		return c.mismatch(path, v, fmt.Sprintf("%s as elsewhere in the file", old))
	}
	return nil
}

func sortedKeys(o object) []string {
	return slices.Sorted(maps.Keys(o))
}
