package infer

import (
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

const (
	// attentionQueries is about how many query vectors of one key head a thread takes at a time: a page that is decoded serves all of them.
	attentionQueries = 96
	// attentionChunk is how many positions are attended to by themselves: chunks start at multiples of it, and a query's results for them are
	// merged one after the other. So it changes no bit whether they are computed in turn or at once.
	attentionChunk = 512
	// splitFloats bounds what chunks that are computed at once leave to be merged (4 MB).
	splitFloats = 1 << 20
)

// attention is the operation at hand.
type attention struct {
	*Attention
	out, q, k, v *matrix
	run          *Run // whose keys and values are being stored
	jobs         []attentionJob
	split        []splitRun
	merges       int // rows of heads of all splits
	parts        []float32
	shares       []kernel.Share
}

// attentionJob is rows [lo, hi) of a run for one key head and the query heads that share it.
type attentionJob struct {
	run    *Run
	lo, hi int
	kvHead int
	split  *splitRun // nil: all chunks; else chunk alone
	chunk  int
}

// splitRun is a run whose chunks are computed at once. For each row, head and chunk from the first on that some row sees there is a result in
// attention.parts and attention.shares, from number at on.
type splitRun struct {
	run           *Run
	at            int
	first, chunks int // chunks 0: the run is not split
	merge         int // number of its first row and head among those of all splits
}

// chunksOf gives the first chunk that some of n rows from position start on sees, and the number of chunks.
func (a *Attention) chunksOf(start, n int) (first, chunks int) {
	first = a.firstSeen(start) / attentionChunk
	return first, (start+n-1)/attentionChunk + 1 - first
}

// firstSeen is the first position within the window of a query.
func (a *Attention) firstSeen(pos int) int {
	if a.Window == 0 {
		return 0
	}
	return max(pos+1-a.Window, 0)
}

func (c *cpu) Attention(dst, q, k, v Buffer, a *Attention) {
	at := &c.attention
	at.Attention, at.out, at.q, at.k, at.v = a, mat(dst), mat(q), mat(k), mat(v)
	at.out.reshape(at.q.rows, a.Heads*a.HeadV)
	at.jobs, at.split, at.merges = at.jobs[:0], append(at.split[:0], make([]splitRun, len(a.Runs))...), 0
	results := 0
	for i := range a.Runs {
		run := &a.Runs[i]
		at.run = run
		if run.N == 1 {
			run.State.(*paged).expect(a.Layer, run.Start)
		}
		c.pool.Ranges(run.N, rowGrain, c.loops.put)
		s := &at.split[i]
		*s = splitRun{run: run, at: results, merge: at.merges}
		first, chunks := a.chunksOf(run.Start, run.N)
		more := run.N * a.Heads * chunks
		if chunks == 1 || c.pool.Threads() == 1 || (results+more)*a.HeadV > splitFloats {
			at.addJobs(run, nil, 0)
			continue
		}
		s.first, s.chunks = first, chunks
		for chunk := range chunks {
			at.addJobs(run, s, first+chunk)
		}
		results += more
		at.merges += run.N * a.Heads
	}
	at.parts, at.shares = grow(at.parts, results*a.HeadV), grow(at.shares, results)
	if len(at.jobs) > 0 {
		kernel.Prefetch(at.jobs[len(at.jobs)-1].firstKeys(a))
	}
	c.pool.For(len(at.jobs), c.loops.attend)
	c.pool.Ranges(at.merges, rowGrain, c.loops.merge)
}

// addJobs adds those of a run.
func (a *attention) addJobs(run *Run, split *splitRun, chunk int) {
	grain := max(attentionQueries*a.KVHeads/a.Heads, 1)
	for lo := 0; lo < run.N; lo += grain {
		for h := range a.KVHeads {
			a.jobs = append(a.jobs, attentionJob{run: run, lo: lo, hi: min(lo+grain, run.N), kvHead: h, split: split, chunk: chunk})
		}
	}
}

// put stores keys and values of rows of a run.
func (c *cpu) put(_, lo, hi int) {
	at := &c.attention
	state := at.run.State.(*paged)
	for i := lo; i < hi; i++ {
		state.put(at.Layer, at.run.Start+i, at.k.row(at.run.Row+i), at.v.row(at.run.Row+i))
	}
}

// attendJob does a job. The last ones have the most keys: they go first, so that the threads end together.
func (c *cpu) attendJob(worker, i int) {
	at := &c.attention
	s := &c.workers[worker]
	s.ahead = nil
	if next := len(at.jobs) - 1 - i - c.pool.Threads(); next >= 0 { // probably
		s.ahead = at.jobs[next].firstKeys(at.Attention)
	}
	s.attend(&at.jobs[len(at.jobs)-1-i], at)
}

// firstKeys is the page of keys that a job reads first.
func (j *attentionJob) firstKeys(a *Attention) []byte {
	first := max(a.firstSeen(j.run.Start+j.lo), j.chunk*attentionChunk)
	keys, _ := j.run.State.(*paged).head(a.Layer, first/pagePositions, j.kvHead)
	return keys
}

// scratch is what one worker computes in.
type scratch struct {
	kernel  kernel.AttentionScratch
	spec    kernel.Attention
	queries []kernel.Query // of the chunk at hand
	targets []target       // of those queries
	shares  []kernel.Share // of the rows and heads of the job
	out     []float32      // results on their way to being merged
	state   *paged
	layer   int
	kvHead  int
	ahead   []byte                               // keys that are read after those of the job
	pages   func(page int) (keys, values []byte) // head of state
}

// target is where the result of a query for a chunk belongs.
type target struct {
	share *kernel.Share
	merge []float32 // what to merge it into, or nil
}

// attend computes the results of a job. A query sees the positions up to its own that its window holds.
func (s *scratch) attend(j *attentionJob, a *attention) {
	s.state, s.layer, s.kvHead = j.run.State.(*paged), a.Layer, j.kvHead
	if s.pages == nil {
		s.pages = func(page int) (keys, values []byte) { return s.state.head(s.layer, page, s.kvHead) }
	}
	layout := s.state.layout
	s.spec = kernel.Attention{
		Keys: layout.keys[a.Layer], Values: layout.values[a.Layer], Page: pagePositions, Scale: a.Scale, Softcap: a.Softcap, Exact: layout.typ == gguf.F32,
		Ahead: s.ahead,
	}
	if j.split != nil {
		s.attendChunk(j, a, j.chunk)
		return
	}
	first, chunks := a.chunksOf(j.run.Start+j.lo, j.hi-j.lo)
	s.shares = grow(s.shares, (j.hi-j.lo)*a.Heads/a.KVHeads)
	for chunk := first; chunk < first+chunks; chunk++ {
		s.spec.Ahead = s.ahead
		if chunk+1 < first+chunks {
			s.spec.Ahead, _ = s.pages((chunk + 1) * attentionChunk / pagePositions)
		}
		s.attendChunk(j, a, chunk)
		for i, t := range s.targets {
			if t.merge != nil {
				t.share.Merge(t.merge, s.kernel.Share(i), s.queries[i].Out)
			}
		}
	}
}

// attendChunk computes the results of a job for the positions of one chunk.
func (s *scratch) attendChunk(j *attentionJob, a *attention, chunk int) {
	group := a.Heads / a.KVHeads
	s.queries, s.targets = s.queries[:0], s.targets[:0]
	s.out = grow(s.out, (j.hi-j.lo)*group*a.HeadV)
	for i := j.lo; i < j.hi; i++ {
		row, pos := j.run.Row+i, j.run.Start+i
		seen := kernel.Query{First: max(a.firstSeen(pos), chunk*attentionChunk), End: min(pos+1, (chunk+1)*attentionChunk)}
		if seen.First >= seen.End {
			continue
		}
		first := seen.First == a.firstSeen(pos) // of the chunks that the row sees
		for head := j.kvHead * group; head < (j.kvHead+1)*group; head++ {
			result := a.out.row(row)[head*a.HeadV:][:a.HeadV]
			var t target
			if j.split != nil {
				n := j.split.at + (i*a.Heads+head)*j.split.chunks + chunk - j.split.first
				seen.Out, t.share = a.parts[n*a.HeadV:][:a.HeadV], &a.shares[n]
			} else {
				n := (i-j.lo)*group + head - j.kvHead*group
				seen.Out, t.share = result, &s.shares[n]
				if !first {
					seen.Out, t.merge = s.out[n*a.HeadV:][:a.HeadV], result
				}
			}
			seen.Q = a.q.row(row)[head*a.HeadK:][:a.HeadK]
			s.queries, s.targets = append(s.queries, seen), append(s.targets, t)
		}
	}
	if len(s.queries) == 0 {
		return
	}
	s.kernel.Run(&s.spec, s.queries, s.pages)
	for i, t := range s.targets {
		if t.merge == nil {
			*t.share = s.kernel.Share(i)
		}
	}
}

// merge puts together what the chunks of rows and heads of splits have left.
func (c *cpu) merge(_, lo, hi int) {
	a := &c.attention
	at := 0
	for n := lo; n < hi; n++ {
		for a.split[at].chunks == 0 || n >= a.split[at].merge+a.split[at].run.N*a.Heads {
			at++
		}
		s := &a.split[at]
		i := n - s.merge
		row, head := i/a.Heads, i%a.Heads
		pos := s.run.Start + row
		out := a.out.row(s.run.Row + row)[head*a.HeadV:][:a.HeadV]
		first, last := a.firstSeen(pos)/attentionChunk-s.first, pos/attentionChunk-s.first
		var share kernel.Share
		for chunk := first; chunk <= last; chunk++ {
			n := s.at + i*s.chunks + chunk
			part := a.parts[n*a.HeadV:][:a.HeadV]
			if chunk == first {
				copy(out, part)
				share = a.shares[n]
			} else {
				share.Merge(out, a.shares[n], part)
			}
		}
	}
}
