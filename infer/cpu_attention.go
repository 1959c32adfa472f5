package infer

import (
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// attentionQueries is about how many query vectors of one key head a thread takes at a time: a page that is decoded serves all of them.
const attentionQueries = 96

// attentionJob is rows [lo, hi) of a run for one key head and the query heads that share it.
type attentionJob struct {
	run    *Run
	lo, hi int
	kvHead int
}

func (c *cpu) Attention(dst, q, k, v Buffer, a *Attention) {
	out, queries, keys, values := mat(dst), mat(q), mat(k), mat(v)
	out.reshape(queries.rows, a.Heads*a.HeadV)
	grain := max(attentionQueries*a.KVHeads/a.Heads, 1)
	var jobs []attentionJob
	for i := range a.Runs {
		run := &a.Runs[i]
		for lo := 0; lo < run.N; lo += grain {
			for h := range a.KVHeads {
				jobs = append(jobs, attentionJob{run: run, lo: lo, hi: min(lo+grain, run.N), kvHead: h})
			}
		}
		state := run.State.(*paged)
		c.pool.Ranges(run.N, rowGrain, func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				state.put(a.Layer, run.Start+i, keys.row(run.Row+i), values.row(run.Row+i))
			}
		})
	}
	c.pool.For(len(jobs), func(worker, i int) {
		// The last jobs have the most keys: they go first, so that the threads end together.
		c.workers[worker].attend(&jobs[len(jobs)-1-i], out, queries, a)
	})
}

// attend computes the results of a job. A query sees the positions up to its own that its window holds.
func (s *scratch) attend(j *attentionJob, out, q *matrix, a *Attention) {
	state := j.run.State.(*paged)
	group := a.Heads / a.KVHeads
	s.queries = s.queries[:0]
	for i := j.lo; i < j.hi; i++ {
		row := j.run.Row + i
		seen := kernel.Query{End: j.run.Start + i + 1}
		if a.Window > 0 {
			seen.First = max(seen.End-a.Window, 0)
		}
		for head := j.kvHead * group; head < (j.kvHead+1)*group; head++ {
			seen.Q, seen.Out = q.row(row)[head*a.HeadK:][:a.HeadK], out.row(row)[head*a.HeadV:][:a.HeadV]
			s.queries = append(s.queries, seen)
		}
	}
	keys, values := state.layout.caches(a.Layer)
	s.attention.Run(&kernel.Attention{
		Keys: keys, Values: values, Page: pagePositions, Scale: a.Scale, Softcap: a.Softcap, Exact: state.layout.typ == gguf.F32,
	}, s.queries, func(page int) (keys, values []byte) { return state.head(a.Layer, page, j.kvHead) })
}
