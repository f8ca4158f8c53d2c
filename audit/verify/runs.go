package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
)

// form is how records are sorted, written and read.
type form[T any] struct {
	compare func(a, b T) int
	encode  func(io.Writer) func(T) error
	decode  func(io.Reader) func() (T, error) // which returns io.EOF after the last
}

// jsonForm is the form of records that are written as JSON.
func jsonForm[T any](compare func(a, b T) int) form[T] {
	return form[T]{
		compare,
		func(w io.Writer) func(T) error {
			encoder := json.NewEncoder(w)
			return func(one T) error { return encoder.Encode(one) }
		},
		func(r io.Reader) func() (T, error) {
			decoder := json.NewDecoder(r)
			return func() (one T, err error) {
				err = decoder.Decode(&one)
				return one, err
			}
		},
	}
}

// runs are records in a temporary file, for more than fit in memory: in sorted runs that are merged
// at the end.
type runs[T any] struct {
	form[T]
	most int // how many are in memory
	file *os.File
	ends []int64
}

// spill adds a run.
func (r *runs[T]) spill(all []T) (err error) {
	if r.file == nil {
		if r.file, err = os.CreateTemp("", "spendgate-verify-"); err != nil {
			return err
		}
	}
	slices.SortFunc(all, r.compare)
	buffer := bufio.NewWriter(r.file)
	encode := r.encode(buffer)
	for i := 0; i < len(all) && err == nil; i++ {
		err = encode(all[i])
	}
	err = errors.Join(err, buffer.Flush())
	end, failed := r.file.Seek(0, io.SeekCurrent)
	r.ends = append(r.ends, end)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("cannot write a temporary file: %w", err)
	}
	return nil
}

func (r *runs[T]) close() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Close(), os.Remove(r.file.Name()))
}

// merged yields the records of the runs and of memory in order.
func (r *runs[T]) merged(memory []T) iter.Seq2[T, error] {
	slices.SortFunc(memory, r.compare)
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
			all = append(all, r.decode(bufio.NewReader(io.NewSectionReader(r.file, begin, end-begin))))
			begin = end
		}
		next := merge(r.compare, all)
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

// sorter sorts records.
type sorter[T any] struct {
	runs[T]
	mu     sync.Mutex
	memory []T
}

func (s *sorter[T]) add(one T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory = append(s.memory, one); len(s.memory) < s.most {
		return nil
	}
	err := s.spill(s.memory)
	s.memory = s.memory[:0]
	return err
}

// all yields the records in order.
func (s *sorter[T]) all() iter.Seq2[T, error] { return s.merged(s.memory) }

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
