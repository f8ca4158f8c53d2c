package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// events reads a stream of server-sent events.
type events struct{ in *bufio.Reader }

type event struct {
	id    string
	retry time.Duration
	data  []byte
}

func newEvents(r io.Reader) *events { return &events{bufio.NewReaderSize(r, 64<<10)} }

var errEventTooLong = errors.New("an event is too long")

// next returns the next event. With an error it is incomplete and has no data.
func (e *events) next() (event, error) {
	var next event
	size := 0
	for {
		line, err := e.line(maxServerMessage - size)
		size += len(line)
		if err != nil {
			return event{id: next.id, retry: next.retry}, err
		}
		if len(line) == 0 {
			if next.data != nil || next.id != "" || next.retry > 0 {
				return next, nil
			}
			continue
		}
		name, text, _ := bytes.Cut(line, []byte(":"))
		text = bytes.TrimPrefix(text, []byte(" "))
		switch string(name) {
		case "data":
			if next.data != nil {
				next.data = append(next.data, '\n')
			}
			next.data = append(next.data, text...)
		case "id":
			next.id = string(text)
		case "retry":
			if ms, err := strconv.Atoi(string(text)); err == nil && ms >= 0 {
				next.retry = min(time.Duration(ms)*time.Millisecond, time.Minute)
			}
		}
	}
}

// line returns the next line without its end.
func (e *events) line(most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := e.in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > most {
			return nil, errEventTooLong
		}
		if err == nil {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
