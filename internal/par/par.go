// Package par runs loops on several threads.
package par

// Threads is the number of threads to use when the user names none: the cores that this process may run on.
func Threads() int { return 1 }

// For calls f(worker, i) for every i in [0, n) on at most threads goroutines and waits. Items are handed out in order, one by one;
// worker is in [0, threads), so that f can own scratch by it.
func For(threads, n int, f func(worker, i int)) {}

// Ranges splits [0, n) into pieces of at most grain and calls f(worker, lo, hi) for each.
func Ranges(threads, n, grain int, f func(worker, lo, hi int)) {}
