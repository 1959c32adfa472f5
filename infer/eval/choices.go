package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/infer"
)

// Task is a question with several answers: texts of which a model shall find a right one the most likely.
type Task struct{ Answers []Answer }

// Answer is a whole text of a task, question included.
type Answer struct {
	IDs        []int32
	First, End int  // IDs[First:End] are scored by the mean of their log-probabilities; First is 1 or more
	Right      bool // one that should be chosen
}

// ChoiceResult is how often the right answer was chosen.
type ChoiceResult struct {
	Accuracy Number `json:"accuracy"` // share of the tasks
	StdErr   Number `json:"stderr"`
	Low      Number `json:"accuracy_low"` // Wilson's interval of 95 %
	High     Number `json:"accuracy_high"`
	Chance   Number `json:"chance"` // of a choice at random
	Tasks    int    `json:"tasks"`
	Correct  int    `json:"correct"`
}

// Choose scores tasks. progress is called now and then with the number of tasks done and the result so far, unless it is nil.
func Choose(ctx context.Context, m *infer.Model, tasks []Task, progress func(done int, running ChoiceResult)) (ChoiceResult, error) {
	for i, t := range tasks {
		for _, a := range t.Answers {
			if len(a.IDs) > m.Context {
				return ChoiceResult{}, fmt.Errorf("task %d needs %d tokens: %w at %d\nhint: give a larger context, -c %d", i+1, len(a.IDs), infer.ErrContextFull, m.Context, len(a.IDs))
			}
		}
	}
	var r ChoiceResult
	answers := 0
	for done := 0; done < len(tasks); {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		n, tokens := 0, 0 // as many as fill a batch, but one at least
		for ; done+n < len(tasks) && (n == 0 || tokens < infer.DefaultBatch); n++ {
			for _, a := range tasks[done+n].Answers {
				tokens += len(a.IDs)
			}
		}
		scores, err := ScoreTasks(m, tasks[done:done+n])
		if err != nil {
			return r, fmt.Errorf("tasks %d to %d: %w", done+1, done+n, err)
		}
		for i, s := range scores {
			best := 0
			for j, x := range s {
				if x > s[best] {
					best = j
				}
			}
			if tasks[done+i].Answers[best].Right {
				r.Correct++
			}
			answers += len(s)
		}
		done += n
		r.fill(done, answers)
		if progress != nil {
			progress(done, r)
		}
	}
	return r, nil
}

// fill works out what follows from the counts.
func (r *ChoiceResult) fill(tasks, answers int) {
	r.Tasks = tasks
	n, p := float64(tasks), float64(r.Correct)/float64(tasks)
	r.Accuracy, r.Chance = Number(p), Number(n/float64(answers))
	if tasks > 1 {
		r.StdErr = Number(math.Sqrt(p * (1 - p) / (n - 1)))
	}
	const z = 1.95996398454 // the normal distribution has 95 % within
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	r.Low, r.High = Number((middle-half)/(1+z*z/n)), Number((middle+half)/(1+z*z/n))
}

// prefix is the number of tokens that all answers begin with, less than the shortest has.
func (t Task) prefix() int {
	for n := 0; ; n++ {
		for _, a := range t.Answers {
			if n >= len(a.IDs)-1 || a.IDs[n] != t.Answers[0].IDs[n] {
				return n
			}
		}
	}
}

// scored is a place in a batch where answers of a task are scored: the logits there predict the token at its position + 1.
type scored struct {
	task, answer int // answer is -1 for all of the task
	next         int
}

// ScoreTasks is the mean log-probability of the scored tokens for each answer of each task. What the answers of a task begin with is computed once.
func ScoreTasks(m *infer.Model, tasks []Task) ([][]float64, error) {
	sums := make([][]float64, len(tasks))
	var batch []infer.Token
	var places []scored
	run := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := m.Step(batch, func(i int, logits []float32) error {
			at := places[i]
			row := newLogitRow(logits)
			if !row.sound() {
				return &infer.LogitsError{Path: m.Path, Where: fmt.Sprintf("token %d of an answer", at.next)}
			}
			for j, a := range tasks[at.task].Answers {
				if (at.answer < 0 || at.answer == j) && a.First <= at.next && at.next < a.End {
					id := a.IDs[at.next]
					if id < 0 || int(id) >= len(logits) {
						return fmt.Errorf("token %d, the vocabulary has 0 to %d", id, len(logits)-1)
					}
					sums[at.task][j] += float64(logits[id]) - row.total
				}
			}
			return nil
		})
		batch, places = batch[:0], places[:0]
		return err
	}
	add := func(s *infer.Session, ids []int32, lo, hi int, at scored) {
		for i := lo; i < hi; i++ {
			at.next = i + 1
			wanted := false
			for j, a := range tasks[at.task].Answers {
				wanted = wanted || (at.answer < 0 || at.answer == j) && a.First <= at.next && at.next < a.End
			}
			batch = append(batch, infer.Token{Seq: s.ID(), Pos: [4]int32{int32(i)}, ID: ids[i], Logits: wanted})
			places = append(places, at)
		}
	}
	sessions := make([]*infer.Session, len(tasks))
	for i, t := range tasks {
		sums[i] = make([]float64, len(t.Answers))
		s, err := m.NewSession()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		sessions[i] = s
		add(s, t.Answers[0].IDs, 0, t.prefix(), scored{task: i, answer: -1})
	}
	if err := run(); err != nil {
		return nil, err
	}
	for i, t := range tasks {
		prefix := t.prefix()
		for j, a := range t.Answers {
			s := sessions[i].Fork()
			defer s.Close()
			add(s, a.IDs, prefix, a.End-1, scored{task: i, answer: j})
		}
	}
	if err := run(); err != nil {
		return nil, err
	}
	for i, t := range tasks {
		for j, a := range t.Answers {
			sums[i][j] /= float64(a.End - a.First)
		}
	}
	return sums, nil
}
