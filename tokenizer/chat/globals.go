package chat

import (
	"strings"
)

// globalScope holds the functions that every template can call.
func (r *run) globalScope() *scope {
	s := &scope{vars: map[string]value{"self": &blocks{}}}
	define := func(name string, f func(r *run, args []value, named []kwarg) value) {
		s.vars[name] = &function{name: name, class: "function", call: f}
	}
	define("range", globalRange)
	define("namespace", func(r *run, args []value, named []kwarg) value { return &namespace{makeDict(r, args, named)} })
	define("dict", func(r *run, args []value, named []kwarg) value { return makeDict(r, args, named) })
	define("cycler", func(r *run, args []value, named []kwarg) value {
		bind("cycler", nil, 0, nil, named)
		if len(args) == 0 {
			raise("RuntimeError", "at least one item has to be provided")
		}
		return &cycler{items: args}
	})
	define("joiner", func(r *run, args []value, named []kwarg) value {
		a := bind("joiner", []string{"sep"}, 0, args, named)
		if a[0] == nil {
			a[0] = ", "
		}
		return &joiner{sep: a[0]}
	})
	define("lipsum", func(*run, []value, []kwarg) value {
		raise("NotImplementedError", "lipsum is not supported in chat templates: it is random")
		return nil
	})
	define("raise_exception", func(r *run, args []value, named []kwarg) value {
		a := bind("raise_exception", []string{"message"}, 1, args, named)
		panic(&Exception{Message: str(&r.meter, a[0])})
	})
	define("strftime_now", func(r *run, args []value, named []kwarg) value {
		a := bind("strftime_now", []string{"format"}, 1, args, named)
		return strftime(r, needText(a[0]))
	})
	s.vars["range"].(*function).name = "safe_range" // as the sandbox prints it
	return s
}

func globalRange(_ *run, args []value, named []kwarg) value {
	bind("range", nil, 0, nil, named)
	if len(args) == 0 || len(args) > 3 {
		raise("TypeError", "range expected 1 to 3 arguments, got %d", len(args))
	}
	var n [3]int64
	for i, a := range args {
		v, ok := small(a)
		if !ok {
			raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(a))
		}
		n[i] = v
	}
	g := &rng{start: n[0], stop: n[1], step: 1}
	switch len(args) {
	case 1:
		g.start, g.stop = 0, n[0]
	case 3:
		g.step = n[2]
	}
	if g.step == 0 {
		raise("ValueError", "range() arg 3 must not be zero")
	}
	if n := g.len(); n < 0 || n > rangeLimit {
		raise("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", rangeLimit)
	}
	return g
}

// makeDict is dict(): of a mapping or of pairs, and of named arguments.
func makeDict(r *run, args []value, named []kwarg) *dict {
	d := newDict()
	if len(args) > 1 {
		raise("TypeError", "dict expected at most 1 argument, got %d", len(args))
	}
	if len(args) == 1 {
		switch from := args[0].(type) {
		case *undefined:
			from.fail(&r.meter)
		case *dict:
			d = from.copy(&r.meter)
		default:
			for _, pair := range elements(&r.meter, args[0]) {
				kv := unpack(&r.meter, pair, 2)
				d.set(&r.meter, kv[0], kv[1])
			}
		}
	}
	for _, k := range named {
		d.set(&r.meter, k.name, k.v)
	}
	return d
}

// layouts are strftime's directives as Go writes them, in English as the C locale has it.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'e': "_2", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006",
	'r': "03:04:05 PM",
}

// strftime formats the time of the run. As in Python it has no zone.
func strftime(r *run, format string) value {
	r.build(len(format))
	t := text{m: &r.meter}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			t.writeByte(format[i])
			continue
		}
		i++
		padded := true
		if format[i] == '-' && i+1 < len(format) { // no leading zeros
			padded = false
			i++
		}
		var s string
		switch c := format[i]; c {
		case '%':
			s = "%"
		case 'n':
			s = "\n"
		case 't':
			s = "\t"
		case 'z', 'Z':
		case 'f':
			s = pad(&r.meter, itoa(int64(r.now.Nanosecond()/1000)), "0", 6, '>')
		case 'w':
			s = itoa(int64(r.now.Weekday()))
		case 'u':
			s = itoa(int64((r.now.Weekday()+6)%7 + 1))
		case 's':
			s = itoa(r.now.Unix())
		default:
			layout, ok := layouts[c]
			if !ok {
				raise("ValueError", "strftime_now: %%%c is not supported", c)
			}
			s = r.now.Format(layout)
		}
		if !padded {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		t.write(s)
	}
	return t.String()
}
