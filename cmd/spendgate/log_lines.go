package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// waitingLines is how many lines of the log may wait to be written.
	waitingLines = 4096
	// lastLinesWithin bounds how long the end of a process waits for its last lines.
	lastLinesWithin = time.Second
)

// logLines writes the log of a process that serves in the background. A request that logs does not wait for the
// log: a pipe that nobody reads, or a disk that hangs, would keep it, and the process's end, for ever.
// Lines for which there is no room are lost, and counted.
type logLines struct {
	out   io.Writer
	queue chan logLine
	lost  atomic.Uint64
	// report writes to out at once. Only write uses it.
	report atomic.Pointer[slog.Logger]
}

// logLine is a line, or without text the question whether all lines before it are written.
type logLine struct {
	text    []byte
	written chan<- struct{}
}

// newLogLines begins to write what is logged with the logger. From then on a closed pipe does not
// end the process: its lines are lost.
func newLogLines(out io.Writer, format func(io.Writer) slog.Handler) (*logLines, *slog.Logger) {
	l := &logLines{out: out, queue: make(chan logLine, waitingLines)}
	l.report.Store(slog.New(format(out)))
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else Go ends the process
	go l.write()
	return l, slog.New(format(l))
}

// Write implements io.Writer for a slog.Handler, which calls it once for each line.
func (l *logLines) Write(line []byte) (int, error) {
	select {
	case l.queue <- logLine{text: bytes.Clone(line)}:
	default:
		l.lost.Add(1)
	}
	return len(line), nil
}

func (l *logLines) write() {
	var reported uint64
	for line := range l.queue {
		if line.written != nil {
			close(line.written)
			continue
		}
		if _, err := l.out.Write(line.text); err != nil {
			l.lost.Add(1)
			continue
		}
		if lost, log := l.lost.Load(), l.report.Load(); lost > reported {
			log.Warn("lines of this log are lost: nothing took them in time", "lines", lost-reported)
			reported = lost
		}
	}
}

// textLog returns a format of lines for people.
func textLog(level slog.Leveler) func(io.Writer) slog.Handler {
	return func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}) }
}

// observe has the lines that are lost among the metrics of a deployment.
func (l *logLines) observe(registry prometheus.Registerer, deployment string) {
	l.report.Store(ofDeployment(l.report.Load(), deployment))
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "spendgate", Subsystem: "log", Name: "lines_lost_total",
		Help: "Lines of the log that could not be written, or not in time.",
	}, func() float64 { return float64(l.lost.Load()) }))
}

// flush waits until the lines so far are written, for a moment at most.
func (l *logLines) flush() {
	end := time.NewTimer(lastLinesWithin)
	defer end.Stop()
	written := make(chan struct{})
	select {
	case l.queue <- logLine{written: written}:
	case <-end.C:
		return
	}
	select {
	case <-written:
	case <-end.C:
	}
}
