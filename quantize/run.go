package quantize

import (
	"context"
	"errors"
)

// RunOptions say how to carry out a plan.
type RunOptions struct {
	Threads int // par.Threads() if below 1
	// MaxRMSE, if above 0, is the largest relative RMSE (rmse over the rms of the source) that any tensor may have.
	MaxRMSE float64
	// Progress, if set, is called after every few megabytes, from one goroutine.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Tensor      string
	Done, Total uint64 // bytes of the result's tensors
}

// Run carries out the plan and writes the result to path. See run.go.
func (p *Plan) Run(ctx context.Context, path string, o RunOptions) (*Report, error) {
	return nil, errors.New("todo")
}
