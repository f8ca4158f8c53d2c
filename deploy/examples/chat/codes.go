package main

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"
)

// Guessing is bounded: of 2^30 codes at most openCodes are valid at once for a person, and
// maxWrong guesses are accepted in lockTime. The chance of finding one in a year is 1 in 2,000,
// and the person is told whenever there were too many wrong ones.
const (
	alphabet  = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // without I, L, O and U, which look like other characters
	codeSize  = 6
	codeTime  = time.Hour // at most; never beyond the approval's own time
	openCodes = 10        // the oldest goes first
	maxWrong  = 5
	lockTime  = time.Hour // after the last of too many wrong codes
)

var (
	errNoCode = errors.New("no such code is yours, or its time is over, or it was used: write waiting for new ones")
	errLocked = errors.New("too many wrong codes: none is taken or given for an hour; the console has your approvals")
	errVoid   = errors.New("too many wrong codes were written in your name: all of yours are void, and none is given for an hour; " +
		"the console has your approvals")
)

// bound is what a code stands for.
type bound struct {
	code, approvalID, actionHash string
	until                        time.Time
}

// codes are the codes of one person. A code is valid for one decision about one action.
type codes struct {
	mu     sync.Mutex
	now    func() time.Time
	open   []bound
	wrong  []time.Time // in the last lockTime
	locked time.Time   // until then
}

// has reports whether there is a code for the approval that can be used.
func (c *codes) has(approvalID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.open {
		if b.approvalID == approvalID && c.now().Before(b.until) {
			return true
		}
	}
	return false
}

// give makes a code. An earlier code for the same approval becomes void.
func (c *codes) give(approvalID, actionHash string, until time.Time) (bound, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Before(c.locked) {
		return bound{}, errLocked
	}
	c.drop(func(b bound) bool { return b.approvalID == approvalID })
	if len(c.open) >= openCodes {
		c.open = c.open[1:]
	}
	var random [codeSize]byte
	_, _ = rand.Read(random[:]) // it never fails
	for i := range random {
		random[i] = alphabet[random[i]%byte(len(alphabet))] // no bias: 256 is a multiple of 32
	}
	if latest := c.now().Add(codeTime); until.After(latest) {
		until = latest
	}
	b := bound{string(random[:]), approvalID, actionHash, until}
	c.open = append(c.open, b)
	return b, nil
}

// take returns what a code stands for, once. Wrong codes are counted, and a right one does not reset
// the count: a decision must not help somebody who guesses meanwhile. One wrong code too many voids
// all open codes, with the error errVoid.
func (c *codes) take(code string) (bound, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Before(c.locked) {
		return bound{}, errLocked
	}
	found := -1
	for i, b := range c.open {
		if subtle.ConstantTimeCompare([]byte(b.code), []byte(strings.ToUpper(code))) == 1 && now.Before(b.until) {
			found = i
		}
	}
	if found >= 0 {
		b := c.open[found]
		c.open = append(c.open[:found], c.open[found+1:]...)
		return b, nil
	}
	for len(c.wrong) > 0 && now.Sub(c.wrong[0]) >= lockTime {
		c.wrong = c.wrong[1:]
	}
	if c.wrong = append(c.wrong, now); len(c.wrong) < maxWrong {
		return bound{}, errNoCode
	}
	c.open, c.wrong, c.locked = nil, nil, now.Add(lockTime)
	return bound{}, errVoid
}

// void removes a code that was not sent to anybody.
func (c *codes) void(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(func(b bound) bool { return b.code == code })
}

func (c *codes) drop(which func(bound) bool) {
	kept := c.open[:0]
	for _, b := range c.open {
		if !which(b) {
			kept = append(kept, b)
		}
	}
	c.open = kept
}
