package chat

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// filter is a filter of Jinja: f gets its parameters in order, those that were not given as nil.
type filter struct {
	params   string // names, separated by blanks; the first is the value
	required int
	f        func(r *run, a []value) value
	free     func(r *run, v value, args []value, named []kwarg) value // in place of f: takes any arguments
}

// applyFilter runs a filter.
func (r *run) applyFilter(name string, v value, args []value, named []kwarg) value {
	f, ok := r.t.filters[name]
	if !ok {
		raise("TemplateRuntimeError", "No filter named %s found.", shown(name))
	}
	if f.free != nil {
		return f.free(r, v, args, named)
	}
	all := append([]value{v}, args...)
	return f.f(r, bind(name, strings.Fields(f.params), f.required, all, named))
}

// filterTable lists all filters. It is made for each template, since some of its functions come back to it.
func filterTable() map[string]filter {
	byText := func(f func(string) string) filter {
		return filter{params: "s", required: 1, f: func(r *run, a []value) value {
			s := str(&r.meter, a[0])
			r.build(len(s))
			return like(a[0], f(s))
		}}
	}
	fallback := filter{params: "value default_value boolean", required: 1, f: filterDefault}
	count := filter{params: "obj", required: 1, f: filterLength}
	escaper := filter{params: "s", required: 1, f: func(r *run, a []value) value { return escape(&r.meter, a[0]) }}
	return map[string]filter{
		"upper": byText(upperText), "lower": byText(lowerText), "capitalize": byText(capitalize), "title": byText(titleFilter),
		"default": fallback, "d": fallback, "length": count, "count": count, "e": escaper, "escape": escaper,
		"forceescape": {params: "value", required: 1, f: func(r *run, a []value) value { return escape(&r.meter, str(&r.meter, a[0])) }},
		"safe":        {params: "value", required: 1, f: func(r *run, a []value) value { return markup(str(&r.meter, a[0])) }},
		"string": {params: "s", required: 1, f: func(r *run, a []value) value {
			return like(a[0], str(&r.meter, a[0]))
		}},
		"trim": {params: "value chars", required: 1, f: func(r *run, a []value) value {
			s := str(&r.meter, a[0])
			r.scan(len(s))
			if chars, ok := asString(orNone(a[1])); ok && chars == "" {
				return like(a[0], s)
			}
			chars := optText(a[1], "")
			r.scan(len(chars))
			return like(a[0], strip(s, chars, true, true))
		}},
		"replace": {params: "s old new count", required: 3, f: filterReplace},
		"center": {params: "value width", required: 1, f: func(r *run, a []value) value {
			return like(a[0], pad(&r.meter, str(&r.meter, a[0]), " ", optInt(a[1], 80), '~'))
		}},
		"indent":         {params: "s width first blank", required: 1, f: filterIndent},
		"wordcount":      {params: "s", required: 1, f: filterWordcount},
		"wordwrap":       {params: "s width break_long_words wrapstring break_on_hyphens", required: 1, f: filterWordwrap},
		"truncate":       {params: "s length killwords end leeway", required: 1, f: filterTruncate},
		"striptags":      {params: "value", required: 1, f: filterStriptags},
		"urlencode":      {params: "value", required: 1, f: filterURLEncode},
		"urlize":         {params: "value trim_url_limit nofollow target rel extra_schemes", required: 1, f: unsupportedFilter("urlize")},
		"xmlattr":        {params: "d autospace", required: 1, f: filterXMLAttr},
		"pprint":         {params: "value", required: 1, f: filterPprint},
		"filesizeformat": {params: "value binary", required: 1, f: filterFileSize},
		"format":         {free: filterFormat},
		"tojson":         {params: "x ensure_ascii indent separators sort_keys", required: 1, f: toJSON},
		"abs":            {params: "x", required: 1, f: filterAbs},
		"int":            {params: "value default base", required: 1, f: filterInt},
		"float":          {params: "value default", required: 1, f: filterFloat},
		"round":          {params: "value precision method", required: 1, f: filterRound},
		"list":           {params: "value", required: 1, f: func(r *run, a []value) value { return newList(&r.meter, slices.Clip(elements(&r.meter, a[0]))) }},
		"items":          {params: "value", required: 1, f: filterItems},
		"join":           {params: "value d attribute", required: 1, f: filterJoin},
		"first":          {params: "seq", required: 1, f: filterFirst},
		"last":           {params: "seq", required: 1, f: filterLast},
		"random":         {params: "seq", required: 1, f: unsupportedFilter("random")},
		"reverse":        {params: "value", required: 1, f: filterReverse},
		"batch":          {params: "value linecount fill_with", required: 2, f: filterBatch},
		"slice":          {params: "value slices fill_with", required: 2, f: filterSlice},
		"sort":           {params: "value reverse case_sensitive attribute", required: 1, f: filterSort},
		"dictsort":       {params: "value case_sensitive by reverse", required: 1, f: filterDictsort},
		"unique":         {params: "value case_sensitive attribute", required: 1, f: filterUnique},
		"min":            {params: "value case_sensitive attribute", required: 1, f: extreme(-1)},
		"max":            {params: "value case_sensitive attribute", required: 1, f: extreme(1)},
		"sum":            {params: "iterable attribute start", required: 1, f: filterSum},
		"groupby":        {params: "value attribute default case_sensitive", required: 2, f: filterGroupby},
		"attr":           {params: "obj name", required: 2, f: filterAttr},
		"map":            {free: filterMap},
		"select":         {free: selector(false, false)},
		"reject":         {free: selector(true, false)},
		"selectattr":     {free: selector(false, true)},
		"rejectattr":     {free: selector(true, true)},
	}
}

// unsupportedFilter refuses what has no place in a chat template: random would make prompts differ from run to run.
func unsupportedFilter(name string) func(*run, []value) value {
	return func(*run, []value) value {
		raise("NotImplementedError", "the filter %s is not supported in chat templates", name)
		return nil
	}
}

// isTrue is the truth of an argument that may be left out.
func isTrue(v value) bool { return v != nil && truth(v) }

func filterDefault(_ *run, a []value) value {
	_, missing := a[0].(*undefined)
	if missing || isTrue(a[2]) && !truth(a[0]) {
		if a[1] == nil {
			return ""
		}
		return a[1]
	}
	return a[0]
}

func filterLength(r *run, a []value) value {
	n, ok := length(a[0])
	if !ok {
		raise("TypeError", "object of type '%s' has no len()", typeName(a[0]))
	}
	if s, ok := asString(a[0]); ok {
		r.scan(len(s))
	}
	return int64(n)
}

func filterReplace(r *run, a []value) value {
	m := &r.meter
	n := -1
	if a[3] != nil && a[3] != (none{}) {
		n = toIndex(a[3])
	}
	if !r.escape {
		return replace(m, str(m, a[0]), str(m, a[1]), str(m, a[2]), n)
	}
	s, with := str(m, a[0]), string(escape(m, a[2]))
	if isMarkup(a[1]) || isMarkup(a[2]) && !isMarkup(a[0]) {
		return markup(replace(m, string(escape(m, a[0])), str(m, a[1]), with, n))
	}
	if isMarkup(a[0]) {
		return markup(replace(m, s, str(m, a[1]), with, n))
	}
	return replace(m, s, str(m, a[1]), str(m, a[2]), n)
}

func filterFormat(r *run, v value, args []value, named []kwarg) value {
	if len(args) > 0 && len(named) > 0 {
		raise("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	s := str(&r.meter, v)
	if len(named) > 0 {
		return like(v, r.percent(s, v, keywords(named)))
	}
	return like(v, r.percent(s, v, &tuple{args}))
}

func filterAbs(r *run, a []value) value {
	switch v := a[0].(type) {
	case float64:
		return math.Abs(v)
	case bool, int64, *big.Int:
		i, _ := integer(v)
		return shrink(new(big.Int).Abs(i))
	}
	raise("TypeError", "bad operand type for abs(): '%s'", typeName(a[0]))
	return nil
}

func filterInt(r *run, a []value) value {
	base, otherwise := optInt(a[2], 10), a[1]
	if otherwise == nil {
		otherwise = int64(0)
	}
	switch v := a[0].(type) {
	case string, markup:
		s, _ := asString(v)
		r.scan(len(s))
		if i, ok := parseInt(s, base); ok {
			return i
		}
		if f, ok := parseFloat(s); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return truncate(f)
		}
	case bool:
		return toInt(v)
	case int64, *big.Int:
		return v
	case float64:
		if math.IsInf(v, 0) {
			raise("OverflowError", "cannot convert float infinity to integer")
		}
		if !math.IsNaN(v) {
			return truncate(v)
		}
	case *undefined:
		v.fail(&r.meter)
	}
	return otherwise
}

func filterFloat(r *run, a []value) value {
	if isNumber(a[0]) {
		return toFloat(a[0])
	}
	if u, ok := a[0].(*undefined); ok {
		u.fail(&r.meter)
	}
	if s, ok := asString(a[0]); ok {
		r.scan(len(s))
		if f, ok := parseFloat(s); ok {
			return f
		}
	}
	if a[1] == nil {
		return 0.0
	}
	return a[1]
}

func filterRound(r *run, a []value) value {
	precision := optInt(a[1], 0)
	how := optText(a[2], "common")
	if how != "common" && how != "ceil" && how != "floor" {
		raise("FilterArgumentError", "method must be common, ceil or floor")
	}
	if !isNumber(a[0]) {
		raise("TypeError", "type %s doesn't define __round__ method", typeName(a[0]))
	}
	if how == "common" {
		return round(r, a[0], precision)
	}
	power := r.binary("**", int64(10), int64(precision))
	scaled := r.binary("*", a[0], power)
	var whole value
	if f, ok := scaled.(float64); ok && how == "ceil" {
		whole = truncate(math.Ceil(f))
	} else if ok {
		whole = truncate(math.Floor(f))
	} else {
		whole = scaled
	}
	return r.binary("/", whole, power)
}

// round is Python's round with a number of digits: to the nearest, ties to the even digit.
func round(r *run, v value, digits int) value {
	f, isFloat := v.(float64)
	if !isFloat {
		i, _ := integer(v)
		if digits >= 0 {
			return shrink(i)
		}
		if digits < -digitLimit {
			return int64(0)
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
		rest := new(big.Int).Mod(i, unit)
		low := new(big.Int).Sub(i, rest)
		switch c := new(big.Int).Lsh(rest, 1).Cmp(unit); {
		case c > 0, c == 0 && new(big.Int).Quo(low, unit).Bit(0) == 1:
			low.Add(low, unit)
		}
		return shrink(low)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 350 {
		return f
	}
	if digits < -310 {
		return math.Copysign(0, f)
	}
	if digits >= 0 {
		s := spec{precision: digits, verb: 'f'}.floatDigits(math.Abs(f))
		g, _ := parseFloat(s)
		return math.Copysign(g, f)
	}
	i, exact := new(big.Float).SetMode(big.ToNearestEven).SetFloat64(f).Int(nil)
	n := round(r, shrink(i), digits)
	if exact != big.Exact { // a tie that is none: there is something behind the point
		unit := math.Pow(10, float64(-digits))
		return math.Copysign(math.Round(math.Abs(f)/unit)*unit, f)
	}
	return toFloat(n)
}

func filterSum(r *run, a []value) value {
	total := a[2]
	if total == nil {
		total = int64(0)
	}
	if _, ok := asString(total); ok {
		raise("TypeError", "sum() can't sum strings [use ''.join(seq) instead]")
	}
	get := r.getter(orNone(a[1]), nil, false)
	for next := walk(&r.meter, a[0]); ; {
		item, ok := next()
		if !ok {
			return total
		}
		total = r.binary("+", total, get(item))
	}
}

func filterAttr(r *run, a []value) value {
	name := needText(a[1])
	if u, ok := a[0].(*undefined); ok {
		u.fail(&r.meter)
	}
	if m := r.member(a[0], name); m != nil {
		return m
	}
	return &undefined{obj: a[0], name: name, kind: "UndefinedError"}
}
