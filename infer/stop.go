package infer

import "strings"

// Stops finds stop texts in a text that comes in pieces. What it hands out never holds any part of a stop text: it keeps back the longest end
// of the text that may still become one. How the text is cut into pieces changes nothing but when parts of it come out.
type Stops struct {
	texts []string
	held  string // the start of a text of texts, or ""
	found string
}

// NewStops prepares the search for texts, none of them empty.
func NewStops(texts []string) *Stops { return &Stops{texts: texts} }

// Push adds a piece and returns the text that is sure to come before any stop text. done is set when a stop text is complete: the one that ends
// first, the longest of those that end there. Nothing may be pushed after that.
func (s *Stops) Push(piece string) (text string, done bool) {
	all := s.held + piece
	for end := len(s.held) + 1; end <= len(all); end++ {
		for _, stop := range s.texts {
			if len(stop) > len(s.found) && strings.HasSuffix(all[:end], stop) {
				s.found = stop
			}
		}
		if s.found != "" {
			s.held = ""
			return all[:end-len(s.found)], true
		}
	}
	cut := len(all) - s.open(all)
	s.held = all[cut:]
	return all[:cut], false
}

// open is the length of the longest end of the text that is the start of a stop text, and shorter than that.
func (s *Stops) open(text string) int {
	longest := 0
	for _, stop := range s.texts {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Flush returns what was kept back. It is for the end of a text that no stop text ended.
func (s *Stops) Flush() string {
	text := s.held
	s.held = ""
	return text
}

// Found is the stop text that ended the text, or "".
func (s *Stops) Found() string { return s.found }
