package infer

import "math"

// attentionQueries is about how many query vectors of one key head a thread takes at a time, so that a decoded page serves all of them.
const attentionQueries = 48

// attentionJob is rows [lo, hi) of a run for one key head and the query heads that share it.
type attentionJob struct {
	run    *Run
	state  *paged
	lo, hi int
	kvHead int
}

func (c *cpu) Attention(dst, q, k, v Buffer, a *Attention) {
	d, queries, keys, values := mat(dst), mat(q), mat(k), mat(v)
	d.reshape(queries.rows, a.Heads*a.HeadV)
	group := a.Heads / a.KVHeads
	grain := max(attentionQueries/group, 1)
	var jobs []attentionJob
	for i := range a.Runs {
		run := &a.Runs[i]
		state := run.State.(*paged)
		for lo := 0; lo < run.N; lo += grain {
			for h := range a.KVHeads {
				jobs = append(jobs, attentionJob{run: run, state: state, lo: lo, hi: min(lo+grain, run.N), kvHead: h})
			}
		}
		c.pool.Ranges(run.N, rowGrain, func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				state.put(a.Layer, run.Start+i, keys.row(run.Row+i), values.row(run.Row+i))
			}
		})
	}
	c.pool.For(len(jobs), func(worker, i int) {
		// The last jobs have the most keys: they go first, so that the threads end together.
		jobs[len(jobs)-1-i].attend(&c.workers[worker], d, queries, a)
	})
}

// attend computes softmax(q K^T * scale) V for its queries, page by page. A query sees the positions up to its own that its window holds; pages that
// no query sees are not touched. Sums run over the elements of a head, or over the positions seen, from first to last.
func (j *attentionJob) attend(s *scratch, dst, q *matrix, a *Attention) {
	group := a.Heads / a.KVHeads
	n := (j.hi - j.lo) * group
	seen := func(i int) (from, to int) {
		to = j.run.Start + j.lo + i/group + 1
		if a.Window > 0 {
			from = max(to-a.Window, 0)
		}
		return from, to
	}
	first, _ := seen(0)
	first = first / pagePositions * pagePositions
	_, last := seen(n - 1)
	stride := roundUp(last, pagePositions) - first
	width := roundUp(a.HeadV, tileRows)
	s.scores = grow(s.scores, n*stride)
	s.sums = grow(s.sums, n*width)
	clear(s.sums)
	query := func(i int) []float32 {
		head := j.kvHead*group + i%group
		return q.row(j.run.Row + j.lo + i/group)[head*a.HeadK:][:a.HeadK]
	}
	scores := func(i, from, to int) []float32 { return s.scores[i*stride:][from-first : to-first] }

	for page := first; page < last; page += pagePositions {
		keys := j.state.keys(s, a.Layer, page/pagePositions, j.kvHead)
		s.multiply(keys, pagePositions, n, query, func(i, p int, y []float32) { copy(s.scores[i*stride+page-first+p:], y) })
	}
	for i := range n {
		from, to := seen(i)
		softmax(scores(i, from, to), a.Scale, a.Softcap)
	}
	for page := first; page < last; page += pagePositions {
		values := j.state.values(s, a.Layer, page/pagePositions, j.kvHead)
		for i := range n {
			from, to := seen(i)
			if from, to = max(from, page), min(to, page+pagePositions); from < to {
				weigh(s.sums[i*width:][:width], values[from-page:], scores(i, from, to))
			}
		}
	}
	for i := range n {
		head := j.kvHead*group + i%group
		copy(dst.row(j.run.Row + j.lo + i/group)[head*a.HeadV:][:a.HeadV], s.sums[i*width:])
	}
}

// weigh adds the values of positions of a page, which hold one row of positions per element, each weighted by its position's probability.
func weigh(sum, values, p []float32) {
	for r := 0; r < len(sum); r += tileRows {
		tile4x1((*[tileRows]float32)(sum[r:]), values[r*pagePositions:], pagePositions, p)
	}
}

// softmax replaces x by exp(x*scale), divided by their sum. A limit above 0 caps the scaled values first.
func softmax(x []float32, scale, limit float32) {
	top := float32(math.Inf(-1))
	for i, v := range x {
		x[i] = v * scale
		if limit > 0 {
			x[i] = softcap(x[i], limit)
		}
		top = max(top, x[i])
	}
	var sum float64
	for i, v := range x {
		x[i] = exp32(v - top)
		sum += float64(x[i])
	}
	inverse := float32(1 / sum)
	for i := range x {
		x[i] *= inverse
	}
}

// roundUp is the smallest multiple of unit from n on.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
