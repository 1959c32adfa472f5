package eval

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Question is a task as text.
type Question struct {
	Answers []string // whole texts
	// Known is, for each answer, the beginning that says which one it is. Where enough follows, only that is scored; empty: all that differs is.
	Known []string
	Right []bool
}

// Encode cuts a text into ids, special tokens of its beginning included.
type Encode func(text string) ([]int32, error)

// winogrande: what follows the name is scored, unless it is not more than so many tokens, counted from the first that differs.
const leastTrailing = 3

// Task tokenizes a question. All tokens are scored from the first that differs between the answers. Where Known is set and more than three
// tokens differ, those behind Known are, without the last one if there are several: it is the full stop.
func (q Question) Task(encode Encode) (Task, error) {
	var t Task
	for i, text := range q.Answers {
		ids, err := encode(text)
		if err != nil {
			return Task{}, err
		}
		if len(ids) < 2 {
			return Task{}, fmt.Errorf("answer %q is a single token, which nothing predicts", text)
		}
		t.Answers = append(t.Answers, Answer{IDs: ids, End: len(ids), Right: q.Right[i]})
	}
	prefix := t.prefix()
	enough := true
	for i := range t.Answers {
		a := &t.Answers[i]
		a.First = max(prefix, 1)
		enough = enough && len(a.IDs)-prefix > leastTrailing
	}
	for i := range q.Known {
		a := &t.Answers[i]
		if enough {
			known, err := encode(q.Known[i])
			if err != nil {
				return Task{}, err
			}
			a.First = min(max(len(known), 1), len(a.IDs)-1)
		}
		if a.End-a.First > 1 {
			a.End--
		}
	}
	return t, nil
}

// maxTasks and maxAnswers bound what a file of tasks may hold.
const (
	maxTasks   = 1 << 24
	maxAnswers = 100
)

// ParseHellaSwag reads the form of llama-perplexity --hellaswag: six lines a task, the context, the number of the right ending (from 0), four endings.
func ParseHellaSwag(text string) ([]Question, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines)%6 != 0 {
		return nil, fmt.Errorf("%d lines, expected 6 for each task: context, number of the right ending, 4 endings", len(lines))
	}
	var list []Question
	for i := 0; i < len(lines); i += 6 {
		right, err := strconv.Atoi(strings.TrimSpace(lines[i+1]))
		if err != nil || right < 0 || right > 3 {
			return nil, fmt.Errorf("line %d: %q is not the number of an ending, 0 to 3", i+2, lines[i+1])
		}
		q := Question{Right: make([]bool, 4)}
		q.Right[right] = true
		for _, ending := range lines[i+2:][:4] {
			q.Answers = append(q.Answers, lines[i]+" "+ending)
		}
		list = append(list, q)
	}
	return list, nil
}

// ParseWinogrande reads the form of llama-perplexity --winogrande: lines of number,sentence,name,name,1 or 2. The sentence may stand in double quotes and has an
// underscore where one of the names belongs.
func ParseWinogrande(text string) ([]Question, error) {
	var list []Question
	line := 0
	for l := range strings.Lines(text) {
		line++
		if l = strings.TrimRight(l, "\r\n"); l == "" {
			continue
		}
		q, err := winograndeQuestion(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		list = append(list, q)
	}
	if list == nil {
		return nil, errors.New("no tasks")
	}
	return list, nil
}

func winograndeQuestion(line string) (Question, error) {
	var fields []string
	quoted, start := false, 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ',' && !quoted && len(fields) < 4:
			fields = append(fields, line[start:i])
			start = i + 1
		}
	}
	if len(fields) != 4 {
		return Question{}, errors.New("expected number,sentence,name,name,answer")
	}
	sentence := fields[1]
	if len(sentence) > 1 && sentence[0] == '"' && sentence[len(sentence)-1] == '"' {
		sentence = sentence[1 : len(sentence)-1]
	}
	before, after, ok := strings.Cut(sentence, "_")
	if !ok {
		return Question{}, fmt.Errorf("no _ in %q", sentence)
	}
	right := strings.TrimSpace(line[start:])
	if right != "1" && right != "2" {
		return Question{}, fmt.Errorf("answer %q, expected 1 or 2", right)
	}
	return Question{
		Answers: []string{before + fields[2] + after, before + fields[3] + after},
		Known:   []string{before + fields[2], before + fields[3]},
		Right:   []bool{right == "1", right == "2"},
	}, nil
}

// ParseMultipleChoice reads the binary form of llama-perplexity --multiple-choice: the number of tasks, their positions, and for each the question and
// two lists of answers with a label each, of which the first is used: strings with their lengths, all numbers little-endian in 32 bits.
func ParseMultipleChoice(text string) ([]Question, error) {
	r := &choiceReader{data: text}
	n := r.number()
	if r.err == nil && (n < 1 || n > maxTasks || int(n) > len(text)/4) {
		return nil, fmt.Errorf("%d tasks in %d bytes\nhint: the file is that of llama-perplexity --multiple-choice", n, len(text))
	}
	r.take(4 * int(n)) // the positions: the tasks follow each other
	var list []Question
	for i := 0; i < int(n) && r.err == nil; i++ {
		question := r.text()
		var q Question
		for set := range 2 {
			answers, labels := r.answers()
			if set > 0 {
				continue
			}
			for j, a := range answers {
				q.Answers = append(q.Answers, question+" "+a)
				q.Right = append(q.Right, labels[j] == 1)
			}
		}
		if r.err == nil && (question == "" || len(q.Answers) == 0) {
			return nil, fmt.Errorf("task %d, before byte %d, has no question or no answers", i+1, r.at)
		}
		list = append(list, q)
	}
	if r.err != nil {
		return nil, fmt.Errorf("task %d: %w", len(list), r.err)
	}
	return list, nil
}

// choiceReader reads what ParseMultipleChoice describes. After an error it gives zeros.
type choiceReader struct {
	data string
	at   int
	err  error
}

// take is the next n bytes.
func (r *choiceReader) take(n int) string {
	if r.err == nil && (n < 0 || n > len(r.data)-r.at) {
		r.err = fmt.Errorf("%d bytes at byte %d of %d: the file is cut short", n, r.at, len(r.data))
	}
	if r.err != nil {
		return ""
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *choiceReader) number() uint32 {
	b := r.take(4)
	if r.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint32([]byte(b))
}

func (r *choiceReader) text() string { return r.take(int(r.number())) }

func (r *choiceReader) answers() (texts []string, labels []uint32) {
	n := r.number()
	if n > maxAnswers && r.err == nil {
		r.err = fmt.Errorf("%d answers before byte %d, at most %d", n, r.at, maxAnswers)
	}
	if r.err != nil {
		return nil, nil
	}
	for range n {
		texts = append(texts, r.text())
	}
	for range n {
		labels = append(labels, r.number())
	}
	return texts, labels
}
