// Package cpu tells which instruction sets the program may use.
package cpu

import (
	"fmt"
	"os"
	"strings"
)

// Level is a set of instructions that kernels are written for. A higher one of the same architecture includes the lower ones.
type Level int

// Levels.
const (
	Generic Level = iota // what every processor of the architecture has
	AVX2                 // amd64 with AVX2, FMA and F16C
)

// levels by their names in Variable.
var levels = map[string]Level{"generic": Generic, "avx2": AVX2}

// Variable is the environment variable that limits the level.
const Variable = "GGUFKIT_CPU"

// String is the name of the level.
func (l Level) String() string {
	for name, level := range levels {
		if level == l {
			return name
		}
	}
	return fmt.Sprintf("level %d", int(l))
}

// Choose is the best level that the processor has and the environment allows. A value of the environment that cannot be followed is
// an error, with the level that is used in spite of it.
func Choose() (Level, error) { return choose(os.Getenv(Variable)) }

func choose(limit string) (Level, error) {
	best, missing := detect()
	if limit == "" {
		return best, nil
	}
	level, ok := levels[strings.ToLower(limit)]
	if !ok {
		return best, fmt.Errorf("%s=%q: not a level\nhint: it can be generic or avx2", Variable, limit)
	}
	if level > best {
		return best, fmt.Errorf("%s=%s: this processor lacks %s\nhint: unset %s to use what there is (%s)",
			Variable, limit, strings.Join(missing(level), ", "), Variable, best)
	}
	return level, nil
}
