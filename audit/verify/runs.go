package verify

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// runs are records in a temporary file, for more than fit in memory: in sorted runs that are merged
// at the end.
type runs struct {
	file *os.File
	ends []int64
}

// spill adds a run, which write writes in order.
func (r *runs) spill(write func(io.Writer) error) (err error) {
	if r.file == nil {
		if r.file, err = os.CreateTemp("", "spendgate-verify-"); err != nil {
			return err
		}
	}
	buffer := bufio.NewWriter(r.file)
	err = errors.Join(write(buffer), buffer.Flush())
	end, failed := r.file.Seek(0, io.SeekCurrent)
	r.ends = append(r.ends, end)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("cannot write a temporary file: %w", err)
	}
	return nil
}

func (r *runs) close() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Close(), os.Remove(r.file.Name()))
}

// merged yields the records of the runs and of memory, which is sorted, in order. read returns a
// function that reads a run's next record, and io.EOF after the last.
func merged[T any](r *runs, read func(io.Reader) func() (T, error), memory []T, compare func(a, b T) int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		rest := memory
		all := []func() (T, error){func() (one T, err error) {
			if len(rest) == 0 {
				return one, io.EOF
			}
			one, rest = rest[0], rest[1:]
			return one, nil
		}}
		begin := int64(0)
		for _, end := range r.ends {
			all = append(all, read(bufio.NewReader(io.NewSectionReader(r.file, begin, end-begin))))
			begin = end
		}
		next := merge(compare, all)
		for one, err := next(); !errors.Is(err, io.EOF); one, err = next() {
			if err != nil {
				err = fmt.Errorf("cannot read a temporary file: %w", err)
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// merge merges sorted sequences, each of which returns io.EOF after its last element.
func merge[T any](compare func(a, b T) int, all []func() (T, error)) func() (T, error) {
	if len(all) == 1 {
		return all[0]
	}
	left, right := merge(compare, all[:len(all)/2]), merge(compare, all[len(all)/2:])
	a, errA := left()
	b, errB := right()
	failed := func(err error) bool { return err != nil && !errors.Is(err, io.EOF) }
	return func() (one T, err error) {
		switch {
		case failed(errA):
			err = errA
		case failed(errB):
			err = errB
		case errA == nil && (errB != nil || compare(a, b) <= 0):
			one = a
			a, errA = left()
		default:
			one, err = b, errB
			b, errB = right()
		}
		return one, err
	}
}

// cursor is a position in a sequence.
type cursor[T any] struct {
	at   T    // zero after the last
	some bool // there is one at this position, or an error
	err  error
	next func() (T, error, bool)
	stop func()
}

func newCursor[T any](all iter.Seq2[T, error]) *cursor[T] {
	var c cursor[T]
	c.next, c.stop = iter.Pull2(all)
	c.advance()
	return &c
}

func (c *cursor[T]) advance() { c.at, c.err, c.some = c.next() }

// pass calls each with the next elements as long as they satisfy before, and moves past them.
func (c *cursor[T]) pass(before func(T) bool, each func(T)) {
	for c.some && c.err == nil && before(c.at) {
		each(c.at)
		c.advance()
	}
}

// rest calls each with the remaining elements.
func (c *cursor[T]) rest(each func(T)) error {
	c.pass(func(T) bool { return true }, each)
	return c.err
}
