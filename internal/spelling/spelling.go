// Package spelling compares names that people wrote, for hints.
package spelling

// maxName is the most bytes of a name that count: names may come from a file.
const maxName = 200

// Distance is Levenshtein's distance over bytes: how many to insert, drop or replace to make a into b.
func Distance(a, b string) int {
	a, b = a[:min(len(a), maxName)], b[:min(len(b), maxName)]
	row := make([]int, len(b)+1) // distances of what was read of a from each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
