package eval

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// QuietLimit is how many processors other programs may use on average while results still count as undisturbed.
const QuietLimit = 0.2

// BusyWatch finds out how much other programs use the machine from the time on when it was started. Where the system does not tell, it does not.
type BusyWatch struct {
	start    time.Time
	all, own time.Duration // of all processors; of this process
	ok       bool
}

// WatchBusy starts a watch.
func WatchBusy() BusyWatch {
	w := BusyWatch{start: time.Now()}
	stat, err1 := os.ReadFile("/proc/stat")
	self, err2 := os.ReadFile("/proc/self/stat")
	if err1 == nil && err2 == nil {
		var ok bool
		w.all, w.ok = busyTime(string(stat))
		w.own, ok = processTime(string(self))
		w.ok = w.ok && ok
	}
	return w
}

// watchMinimum is the time below which the system's clock, which ticks a hundred times a second, says too little.
const watchMinimum = 200 * time.Millisecond

// Others is the mean number of processors that were busy since the watch began, but with this process and with others of the caller's that
// took the given time.
func (w BusyWatch) Others(children time.Duration) (processors float64, ok bool) {
	now := WatchBusy()
	elapsed := now.start.Sub(w.start)
	if !w.ok || !now.ok || elapsed < watchMinimum {
		return 0, false
	}
	others := (now.all - w.all) - (now.own - w.own) - children
	return max(others.Seconds()/elapsed.Seconds(), 0), true
}

// tick is the unit of times in /proc.
const tick = time.Second / 100

// busyTime reads the first line of /proc/stat: "cpu" and the ticks of all processors in user mode, nice, system, idle, waiting for disks,
// interrupts (two kinds) and stolen by other machines; guests count as user.
func busyTime(stat string) (time.Duration, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	return ticks(fields[1], fields[2], fields[3], fields[6], fields[7], fields[8])
}

// processTime reads /proc/self/stat: the name of the program in parentheses, then numbers, user and system time as the 12th and 13th.
func processTime(stat string) (time.Duration, bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	return ticks(fields[11], fields[12])
}

func ticks(fields ...string) (sum time.Duration, ok bool) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		sum += time.Duration(n) * tick
	}
	return sum, true
}
