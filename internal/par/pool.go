package par

import (
	"context"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// How long a worker without work looks for more before it sleeps: first it spins, then it lets other goroutines run between two looks.
const (
	spinTime  = 50 * time.Microsecond
	yieldTime = 500 * time.Microsecond
	// spinsPerLook is the number of pauses between two looks at the clock.
	spinsPerLook = 32
)

// Pool keeps goroutines ready for jobs that follow each other within microseconds, as the layers of a model do. A job is handed over
// in well under a microsecond while the workers are awake; idle workers go to sleep.
//
// On a machine that is busy with other things a job does not wait for workers that the system does not let run: the caller works
// itself, every item is taken by whoever comes first, and only items that have been started are waited for.
type Pool struct {
	threads  int
	pause    func()
	mu       sync.Mutex // held during a job: there is one at a time
	jobs     []*job     // that have been used and may be again
	job      atomic.Pointer[job]
	count    atomic.Uint64 // of jobs so far; changes after job does
	sleepers atomic.Int32
	wake     chan struct{}
	finished chan struct{}
	stop     atomic.Bool
	labels   atomic.Pointer[context.Context] // see SetLabels
	workers  sync.WaitGroup
}

// job is one call of For or Ranges. The counters are on cache lines of their own.
type job struct {
	f      func(worker, i int)
	ranges func(worker, lo, hi int) // or this one, for pieces of grain
	grain  int
	total  int
	n      int64
	_      [24]byte
	next   atomic.Int64 // the first item that nobody has taken
	_      [56]byte
	done   atomic.Int64 // items that are finished
	waits  atomic.Int32 // see wait
	users  atomic.Int32 // workers that may be looking at it: it is not used again before they are gone
	failed atomic.Pointer[any]
	_      [40]byte
}

// States of job.waits.
const (
	callerLooks int32 = iota
	callerSleeps
	callerWoken
)

// NewPool starts threads-1 goroutines (threads < 1: Threads()); the caller of For is the last worker. pause is called while a
// worker spins: an instruction that saves power and gives way to the core's other thread, or nil. Close ends the goroutines.
func NewPool(threads int, pause func()) *Pool {
	if threads < 1 {
		threads = Threads()
	}
	if pause == nil {
		pause = func() {}
	}
	p := &Pool{threads: threads, pause: pause, wake: make(chan struct{}, threads), finished: make(chan struct{}, 1)}
	for w := 1; w < threads; w++ {
		p.workers.Go(func() { p.work(w) })
	}
	return p
}

// Threads is the number of workers, the caller of For among them.
func (p *Pool) Threads() int { return p.threads }

// SetLabels lets the workers carry the profiler labels of ctx from their next jobs on. The caller of For has its own.
func (p *Pool) SetLabels(ctx context.Context) { p.labels.Store(&ctx) }

// Close ends the goroutines and waits for them. The pool must not be used afterwards.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop.Store(true)
	close(p.wake)
	p.workers.Wait()
}

// For calls f(worker, i) for every i in [0, n) and waits. Items are taken in order, one by one; worker is in [0, Threads()), so
// that f can own scratch by it, and 0 is the calling goroutine. Calls from several goroutines take turns; f must not call For.
// A panic of f is raised again in the caller, after the other workers have stopped taking items.
func (p *Pool) For(n int, f func(worker, i int)) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads == 1 || n == 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	j := p.unused()
	j.f, j.ranges, j.n = f, nil, int64(n)
	p.do(j)
}

// Ranges splits [0, n) into pieces of at most grain and calls f(worker, lo, hi) for each, as For does. The pieces depend on n and
// grain alone.
func (p *Pool) Ranges(n, grain int, f func(worker, lo, hi int)) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	pieces := (n-1)/grain + 1
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads == 1 || pieces == 1 {
		for lo := 0; lo < n; lo += grain {
			f(0, lo, min(lo+grain, n))
		}
		return
	}
	j := p.unused()
	j.f, j.ranges, j.grain, j.total, j.n = nil, f, grain, n, int64(pieces)
	p.do(j)
}

// unused is a job that no worker looks at, with its counters at zero.
func (p *Pool) unused() *job {
	current := p.job.Load()
	for _, j := range p.jobs {
		if j != current && j.users.Load() == 0 {
			j.next.Store(0)
			j.done.Store(0)
			j.waits.Store(callerLooks)
			j.failed.Store(nil)
			return j
		}
	}
	j := &job{}
	p.jobs = append(p.jobs, j)
	return j
}

// do hands a job over, works on it and waits for it.
func (p *Pool) do(j *job) {
	p.job.Store(j)
	p.count.Add(1)
	for range min(int(p.sleepers.Load()), int(j.n)-1) {
		select {
		case p.wake <- struct{}{}:
		default: // as many are being woken already
		}
	}
	p.take(j, 0)
	p.wait(j)
	if v := j.failed.Load(); v != nil {
		panic(*v)
	}
}

// take works on items of j until there are none left.
func (p *Pool) take(j *job, worker int) {
	for {
		i := j.next.Add(1) - 1
		if i >= j.n {
			return
		}
		j.run(worker, int(i))
		if j.done.Add(1) == j.n && j.waits.CompareAndSwap(callerSleeps, callerWoken) {
			p.finished <- struct{}{}
		}
	}
}

// run calls f. After a panic the remaining items count as done.
func (j *job) run(worker, i int) {
	defer func() {
		if v := recover(); v != nil {
			failure := v // a variable of its own: only this one is allocated
			j.failed.CompareAndSwap(nil, &failure)
			if skipped := j.n - j.next.Swap(j.n); skipped > 0 {
				j.done.Add(skipped)
			}
		}
	}()
	if j.f != nil {
		j.f(worker, i)
		return
	}
	lo := i * j.grain
	j.ranges(worker, lo, min(lo+j.grain, j.total))
}

// wait returns when all items are finished. What is left when the caller has none to take is at most an item for each other worker.
func (p *Pool) wait(j *job) {
	complete := func() bool { return j.done.Load() == j.n }
	if p.look(complete) {
		return
	}
	j.waits.Store(callerSleeps)
	if complete() && j.waits.CompareAndSwap(callerSleeps, callerLooks) {
		return
	}
	<-p.finished
}

// work is the life of a worker.
func (p *Pool) work(worker int) {
	faultsPanic()
	var (
		seen   uint64 // how many jobs this worker need not look at
		labels *context.Context
	)
	changed := func() bool { return p.count.Load() != seen || p.stop.Load() }
	for !p.stop.Load() {
		if n := p.count.Load(); n != seen {
			seen = n
			if l := p.labels.Load(); l != labels {
				labels = l
				pprof.SetGoroutineLabels(*l)
			}
			j := p.job.Load()
			// If it is still the current job, it is not used again until users is back at zero.
			j.users.Add(1)
			if p.job.Load() == j {
				p.take(j, worker)
			}
			j.users.Add(-1)
			continue
		}
		if p.look(changed) {
			continue
		}
		p.sleepers.Add(1)
		if !changed() { // else For may have seen no sleeper
			<-p.wake
		}
		p.sleepers.Add(-1)
	}
}

// look waits a while for a condition and tells whether it came true.
func (p *Pool) look(condition func() bool) bool {
	start := time.Now()
	for spinning := true; ; {
		for range spinsPerLook {
			if condition() {
				return true
			}
			if spinning {
				p.pause()
			} else {
				runtime.Gosched()
			}
		}
		elapsed := time.Since(start)
		if elapsed > yieldTime {
			return false
		}
		spinning = elapsed < spinTime
	}
}
