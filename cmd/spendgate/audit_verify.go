package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres"
	"spendgate/audit/verify"
	"spendgate/config"
)

// verification is what one call of audit verify is about.
type verification struct {
	from, to timeFlag
	files    []string
	key      string
	archives string
	workers  int
}

func auditVerify(flags *flag.FlagSet) action {
	v := verification{to: timeFlag{last: true}}
	flags.Var(&v.from, "from", "only checks from this `TIME` on, a date or RFC 3339")
	flags.Var(&v.to, "to", "only checks up to this `TIME`; of a date all of the day")
	flags.Func("checkpoint", "hold the chains to this `FILE` of signed checkpoints; once for each file", func(text string) error {
		var file string
		err := notEmpty(&file)(text)
		v.files = append(v.files, file)
		return err
	})
	flags.StringVar(&v.key, "public-key", "", "the `KEY` that verifies the checkpoints; else that of SPENDGATE_CHECKPOINT_KEY")
	flags.StringVar(&v.archives, "archive", "", "the archives of days that were detached are in `DIR`")
	flags.IntVar(&v.workers, "workers", runtime.GOMAXPROCS(0), "`N` readings at once, each with a connection")
	return func(ctx context.Context, p process, args []string) error {
		if len(args) > 0 || v.workers < 1 {
			return usageError{text: "takes no arguments but flags, and at least one worker"}
		}
		if !v.to.at.IsZero() && v.to.at.Before(v.from.at) {
			return usageError{text: "--from must not be later than --to"}
		}
		if v.from.at.After(time.Now()) {
			return usageError{text: "--from lies in the future"}
		}
		return v.run(ctx, p)
	}
}

func (v verification) run(ctx context.Context, p process) error {
	c, err := p.load(config.Audit)
	if err != nil {
		return err
	}
	show := &progress{out: p.stderr}
	o := verify.Options{
		From: v.from.at, To: v.to.at, Archives: v.archives, Workers: v.workers, Progress: show.at,
		Found: func(f verify.Finding) { fmt.Fprintln(p.stdout, f) }, //nolint:errcheck // the count at the end tells
	}
	for _, file := range v.files {
		// As it is now: what is signed later may be of later than the reading.
		lines, closeFile, err := openNow(file)
		if err != nil {
			return err
		}
		defer closeFile()
		if len(v.files) == 1 {
			file = ""
		}
		o.Checkpoints = append(o.Checkpoints, verify.Checkpoints{Name: file, Lines: lines})
	}
	if len(v.files) > 0 {
		if v.key == "" && c.Checkpoints.Key == "" {
			return usageError{text: "--checkpoint needs --public-key or SPENDGATE_CHECKPOINT_KEY"}
		}
		if o.PublicKey, err = publicKey(v.key, c.Checkpoints.Key); err != nil {
			return err
		}
	}
	snapshot, err := postgres.OpenSnapshot(ctx, string(c.DatabaseURL), v.workers)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	o.Evidence = snapshot
	summary, err := verify.Verify(ctx, o)
	if err != nil {
		return fmt.Errorf("the trail could not be verified: %w", err)
	}
	return v.tell(p.stdout, summary)
}

// tell ends with an error unless everything is as it was recorded.
func (v verification) tell(w io.Writer, s verify.Summary) error {
	_, err := fmt.Fprintf(w, "verified %d checks, %d violations and %d policies in %d batches of %d chains\n",
		s.Checks, s.Violations, s.Policies, s.Batches, s.Chains)
	if err != nil {
		return err
	}
	against := "no checkpoints given: a chain whose end was cut off, or a whole chain that is gone, does not show"
	switch {
	case s.Checkpoints > 0:
		against = fmt.Sprintf("held to %d checkpoints, the last of %s", s.Checkpoints, s.LastCheckpoint.UTC().Format(time.RFC3339))
	case len(v.files) > 0:
		against = "held to no checkpoint: the file has none with a signature of this key"
	}
	if s.TornCheckpoints > 0 {
		against += fmt.Sprintf("; %d lines of the file were not written to their end", s.TornCheckpoints)
	}
	if _, err := fmt.Fprintln(w, against); err != nil {
		return err
	}
	if s.Clean() {
		what := "everything is as it was recorded"
		if s.Checks+s.Violations+s.Batches == 0 {
			what = "no check was recorded there"
		}
		_, err := fmt.Fprintln(w, "clean:", what)
		return err
	}
	var counts []string
	for kind, n := range s.Findings {
		counts = append(counts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(counts)
	if len(counts) == 1 && s.Findings[verify.Unchecked] > 0 {
		return errors.New("not all of the trail could be checked: " + counts[0])
	}
	return errors.New("the trail is not as it was recorded: " + strings.Join(counts, ", "))
}

func publicKey(text string, seed config.Secret) (checkpoint.PublicKey, error) {
	if text != "" {
		return checkpoint.ParsePublicKey(text)
	}
	key, err := checkpoint.NewKey([]byte(seed))
	if err != nil {
		return nil, err
	}
	return key.Public(), nil
}

// openNow gives what the file holds at this moment; of a pipe, all that comes.
func openNow(path string) (io.Reader, func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the checkpoints: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		content, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, nil, fmt.Errorf("cannot read the checkpoints: %w", err)
		}
		return bytes.NewReader(content), func() {}, nil
	}
	return io.LimitReader(f, info.Size()), func() { _ = f.Close() }, nil // only read
}

// progress tells, now and then, how far the verification is.
type progress struct {
	out io.Writer

	mu   sync.Mutex
	last time.Time
}

const progressEvery = 2 * time.Second

func (p *progress) at(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.last) > progressEvery {
		p.last = now
		fmt.Fprintf(p.out, "compared %d of about %d checks\n", done, total) //nolint:errcheck // nobody depends on it
	}
}
