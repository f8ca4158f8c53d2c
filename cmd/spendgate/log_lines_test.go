package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
)

// Whoever logs does not wait for a log that nobody reads. Once it is read again, it says how many
// lines it lacks.
func TestLogIsNotWaitedFor(t *testing.T) {
	read, out := io.Pipe()
	lines, log := newLogLines(out, textLog(slog.LevelInfo))
	registry := prometheus.NewRegistry()
	lines.observe(registry, "")
	const logged = waitingLines + 100
	for range logged {
		log.Info("a line")
	}
	written, lost := 0, 0
	for text := bufio.NewScanner(read); written+lost < logged && text.Scan(); {
		if strings.Contains(text.Text(), `msg="a line"`) {
			written++
		} else if _, err := fmt.Sscanf(text.Text()[strings.LastIndex(text.Text(), "lines="):], "lines=%d", &lost); err != nil {
			t.Fatal(text.Text(), err)
		}
	}
	if lost == 0 || written < waitingLines {
		t.Errorf("%d lines are written and %d lost", written, lost)
	}
	metric := fmt.Sprintf("# TYPE spendgate_log_lines_lost_total counter\nspendgate_log_lines_lost_total %d\n", lost)
	must.Check(t, testutil.GatherAndCompare(registry, strings.NewReader("# HELP spendgate_log_lines_lost_total "+
		"Lines of the log that could not be written, or not in time.\n"+metric)))
}

// A log that its reader has closed costs its lines only. Go ends a process that writes to such a
// standard error.
func TestLogOfAClosedPipe(t *testing.T) {
	read, out, err := os.Pipe()
	must.Do(t, err)
	lines, log := newLogLines(out, textLog(slog.LevelInfo))
	must.Do(t, read.Close())
	log.Info("a line")
	lines.flush()
	if lost := lines.lost.Load(); lost != 1 {
		t.Errorf("%d lines are lost", lost)
	}
}

// What serves does so, and ends, though nobody reads its log, which has lines from the start.
func TestServesWhoseLogNobodyReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "agent_id: bot\nshadow: true\nupstreams:\n  psp:\n    command: [\"true\"]\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for _, command := range [][]string{{"dev"}, {"mcp"}, {"gateway", file}} {
		t.Run(command[0], func(t *testing.T) {
			_, unread := io.Pipe()
			agent, hello := io.Pipe()
			answer, stdout := io.Pipe()
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan int)
			go func() {
				environ := []string{
					"SPENDGATE_DATA_DIR=" + t.TempDir(), "SPENDGATE_LISTEN_ADDR=127.0.0.1:0", "SPENDGATE_OPS_ADDR=127.0.0.1:0",
					"SPENDGATE_IGNORE_UNKNOWN_SETTINGS=true", "SPENDGATE_API_URL=http://127.0.0.1:1", "SPENDGATE_URL=http://127.0.0.1:1",
				}
				if command[0] == "gateway" {
					environ = append(environ, "SPENDGATE_API_KEY=sg_live_"+strings.Repeat("0", 48))
				}
				ended <- run(ctx, cli.Process{Stdin: agent, Stdout: stdout, Stderr: unread, Environ: environ}, command)
			}()
			go func() { _, _ = fmt.Fprintln(hello, initialize) }()
			must.Get(answer.Read(make([]byte, 1)))(t)
			go func() { _, _ = io.Copy(io.Discard, answer) }()
			end()
			if code := <-ended; code != 0 {
				t.Errorf("it ended with %d", code)
			}
		})
	}
}
