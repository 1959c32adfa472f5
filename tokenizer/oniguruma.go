package tokenizer

import "strings"

// fromOniguruma rewrites what the expressions of tokenizer.json write otherwise than this engine: a class within a class, which adds its members; the
// intersection with a negated class; possessive quantifiers; and the end of a line.
func fromOniguruma(pattern string) string {
	var out strings.Builder
	atom := 0 // where the last atom starts in what is written
	var groups []int
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; c {
		case '\\':
			atom = out.Len()
			n := escapeLength(pattern[i:])
			out.WriteString(pattern[i : i+n])
			i += n
		case '[':
			atom = out.Len()
			class, n := classOfOniguruma(pattern[i:])
			out.WriteString(class)
			i += n
		case '(':
			groups = append(groups, out.Len())
			out.WriteByte(c)
			i++
		case ')':
			if len(groups) > 0 {
				atom, groups = groups[len(groups)-1], groups[:len(groups)-1]
			}
			out.WriteByte(c)
			i++
		case '?', '*', '+':
			if possessive := i+1 < len(pattern) && pattern[i+1] == '+' && i > 0 && pattern[i-1] != '('; possessive {
				text := out.String()
				out.Reset()
				out.WriteString(text[:atom] + "(?>" + text[atom:] + string(c) + ")")
				i += 2
				continue
			}
			out.WriteByte(c)
			i++
		case '$':
			out.WriteString(`(?=\n|\z)`)
			i++
		default:
			atom = out.Len()
			out.WriteByte(c)
			i++
		}
	}
	return out.String()
}

// escapeLength is the length of the escape at the start of s: \p{...}, \x{...} or two bytes.
func escapeLength(s string) int {
	if len(s) > 2 && strings.IndexByte("pPx", s[1]) >= 0 && s[2] == '{' {
		if end := strings.IndexByte(s, '}'); end > 0 {
			return end + 1
		}
	}
	return min(2, len(s))
}

// classOfOniguruma rewrites the class at the start of s, and tells its length there.
func classOfOniguruma(s string) (class string, length int) {
	var out strings.Builder
	depth, subtracted := 0, false
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\\':
			n := escapeLength(s[i:])
			out.WriteString(s[i : i+n])
			i += n
			continue
		case strings.HasPrefix(s[i:], "&&[^"):
			out.WriteString("-[")
			subtracted = true
			depth++
			i += len("&&[^")
			continue
		case s[i] == '[':
			if depth == 0 {
				out.WriteByte('[')
			}
			depth++
		case s[i] == ']':
			depth--
			if depth == 0 || subtracted {
				out.WriteByte(']')
				subtracted = false
			}
			if depth == 0 {
				return out.String(), i + 1
			}
		default:
			out.WriteByte(s[i])
		}
		i++
	}
	return out.String(), len(s)
}
