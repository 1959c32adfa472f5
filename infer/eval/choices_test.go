package eval_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
)

// bigramIDs is the tokenizer of bigram.py: bytes behind a BOS, spaces as SentencePiece has them.
func bigramIDs(text string) ([]int32, error) {
	ids := []int32{1}
	for _, b := range []byte(strings.ReplaceAll(text, " ", "\u2581")) {
		ids = append(ids, int32(b)+3)
	}
	return ids, nil
}

// questions reads a file of testdata.
func questions(t *testing.T, name string, parse func(string) ([]eval.Question, error)) []eval.Question {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	list, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func tasksOf(t *testing.T, list []eval.Question) []eval.Task {
	t.Helper()
	var tasks []eval.Task
	for _, q := range list {
		task, err := q.Task(bigramIDs)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// What llama-perplexity (of llama_cpp_python 0.3.36) prints for a.gguf of bigram.py with --hellaswag, --winogrande and --multiple-choice: the
// running accuracy. It chooses the same tasks in the same order.
func TestChoicesAreLlamaPerplexitys(t *testing.T) {
	hellaswag := questions(t, "hellaswag.txt", eval.ParseHellaSwag)
	winogrande := questions(t, "winogrande.csv", eval.ParseWinogrande)
	choices := questions(t, "choices.bin", eval.ParseMultipleChoice)
	m := bigram(t, "a")
	// llama-perplexity does not see the last line of a CSV file that ends with one line break.
	seen := winogrande[:4]
	for _, c := range []struct {
		name    string
		list    []eval.Question
		correct []int // after each task
	}{
		{"hellaswag", eval.SelectHellaSwag(hellaswag, 7), []int{0, 0, 0, 0, 0, 1, 1}},
		{"4 of hellaswag", eval.SelectHellaSwag(hellaswag, 4), []int{0, 0, 0, 0}},
		{"winogrande", eval.SelectTasks(seen, 0), []int{1, 2, 2, 3}},
		{"3 of winogrande", eval.SelectTasks(seen, 3), []int{1, 1, 2}},
		{"choices", eval.SelectTasks(choices, 0), []int{0, 1, 2}},
		{"2 choices", eval.SelectTasks(choices, 2), []int{1, 2}},
	} {
		tasks := tasksOf(t, c.list)
		for n, want := range c.correct {
			got, err := eval.Choose(t.Context(), m, tasks[:n+1], nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Correct != want || got.Tasks != n+1 || got.Accuracy != eval.Number(float64(want)/float64(n+1)) {
				t.Errorf("%s: after %d tasks %+v, want %d right", c.name, n+1, got, want)
			}
		}
	}
	all, err := eval.Choose(t.Context(), m, tasksOf(t, hellaswag), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.4f %.4f", 100*all.Low, 100*all.High); got != "2.5680 51.3128" {
		t.Errorf("an interval of %s, want that of 1 in 7, 2.5680 51.3128", got)
	}
	if all.Chance != 0.25 {
		t.Errorf("chance %v", all.Chance)
	}
	// The scores behind it, as --winogrande prints them.
	scores, err := eval.ScoreTasks(m, tasksOf(t, winogrande))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float64{{-7.347351, -7.449460}, {-6.316089, -6.248303}, {-6.375266, -6.470673}, {-6.570515, -6.466223}} {
		for j := range want {
			if got := scores[i][j]; math.Abs(got-want[j]) > 2e-6 { // it adds in float32
				t.Errorf("winogrande task %d: score %d is %.6f, want %.6f", i+1, j+1, got, want[j])
			}
		}
	}
}

// Scores do not depend on what is computed together, and are those of each text by itself.
func TestScoresAreThoseOfEachText(t *testing.T) {
	m := load(t, infer.Options{Precision: infer.Exact, Batch: 8})
	var tasks []eval.Task
	for i := range 9 {
		var task eval.Task
		for j := range 2 + i%3 {
			ids := append(text(3+i), text(1 + i + j)[i/2:]...)
			ids = append(ids, int32(j), int32(i))
			first := 1 + (i+j)%(len(ids)-1)
			task.Answers = append(task.Answers, eval.Answer{IDs: ids, First: first, End: min(first+1+i, len(ids))})
		}
		tasks = append(tasks, task)
	}
	got, err := eval.ScoreTasks(m, tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range tasks {
		for j, a := range task.Answers {
			s, err := m.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			want := 0.0
			for k, id := range a.IDs[:a.End-1] {
				logits, err := s.Append([]int32{id})
				if err != nil {
					t.Fatal(err)
				}
				if k+1 >= a.First {
					sum := 0.0
					for _, l := range logits {
						sum += math.Exp(float64(l))
					}
					want += float64(logits[a.IDs[k+1]]) - math.Log(sum)
				}
			}
			s.Close()
			if want /= float64(a.End - a.First); math.Abs(got[i][j]-want) > 1e-5 {
				t.Errorf("task %d, answer %d: %g, want %g", i, j, got[i][j], want)
			}
		}
	}
	if _, err := eval.Choose(t.Context(), m, []eval.Task{{Answers: []eval.Answer{{IDs: text(65), First: 1, End: 65}}}}, nil); err == nil ||
		!strings.Contains(err.Error(), "task 1 needs 65 tokens") {
		t.Errorf("an answer that is too long: %v", err)
	}
	if _, err := eval.ScoreTasks(m, []eval.Task{{Answers: []eval.Answer{{IDs: []int32{1, vocab}, First: 1, End: 2}}}}); err == nil {
		t.Error("a token past the vocabulary is scored")
	}
}

func TestParseTasks(t *testing.T) {
	list := questions(t, "winogrande.csv", eval.ParseWinogrande)
	if want := "Anna thanked Berit, since Berit had helped with the heavy boxes."; len(list) != 5 || list[1].Answers[1] != want || list[1].Known[0] != "Anna thanked Berit, since Anna" ||
		!slices.Equal(list[1].Right, []bool{false, true}) {
		t.Errorf("%+v", list)
	}
	list = questions(t, "choices.bin", eval.ParseMultipleChoice)
	if len(list) != 4 || len(list[3].Answers) != 5 || list[3].Answers[4] != "Which is the largest? an ant" || !list[3].Right[1] || list[3].Right[0] {
		t.Errorf("%+v", list)
	}
	list = questions(t, "hellaswag.txt", eval.ParseHellaSwag)
	if len(list) != 7 || list[2].Answers[3] != "Gardening: The seeds lie in rows. They are covered with earth and watered." || !list[2].Right[3] {
		t.Errorf("%+v", list)
	}
	whole, err := os.ReadFile(filepath.Join("testdata", "choices.bin"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		parse      func(string) ([]eval.Question, error)
		text, want string
	}{
		"five lines":        {eval.ParseHellaSwag, "a\n1\nb\nc\nd\n", "5 lines"},
		"ending 4":          {eval.ParseHellaSwag, "a\n4\nb\nc\nd\ne\n", `line 2: "4"`},
		"no number":         {eval.ParseHellaSwag, "a\nb\nb\nc\nd\ne\n", `line 2: "b"`},
		"three fields":      {eval.ParseWinogrande, "\n0,a _ b,c,1\n", "line 2"},
		"no blank":          {eval.ParseWinogrande, "0,a b,c,d,1\n", "no _"},
		"answer 3":          {eval.ParseWinogrande, "0,a _ b,c,d,3\n", "answer"},
		"nothing":           {eval.ParseWinogrande, "\n", "no tasks"},
		"no header":         {eval.ParseMultipleChoice, "ab", "cut short"},
		"no tasks":          {eval.ParseMultipleChoice, "\x00\x00\x00\x00", "0 tasks"},
		"too many tasks":    {eval.ParseMultipleChoice, "\xff\xff\xff\xff....", "tasks in 8 bytes"},
		"cut short":         {eval.ParseMultipleChoice, string(whole[:len(whole)-1]), "task 4"},
		"a huge text":       {eval.ParseMultipleChoice, "\x01\x00\x00\x00....\xff\xff\xff\xff", "cut short"},
		"too many answers":  {eval.ParseMultipleChoice, "\x01\x00\x00\x00....\x01\x00\x00\x00q\x65\x00\x00\x00", "101 answers"},
		"an empty question": {eval.ParseMultipleChoice, "\x01\x00\x00\x00....\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "no question"},
	} {
		if _, err := c.parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
