package auditcmd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"spendgate/audit/checkpoint"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

// verification is the state of one call of audit verify.
type verification struct {
	from, to cli.TimeFlag
	files    []string
	keys     []string
	archives string
	metrics  string
	dataDir  string
	workers  int
}

func auditVerify(flags *flag.FlagSet) cli.Action {
	v := verification{to: cli.TimeFlag{Last: true}}
	flags.Var(&v.from, "from", "only checks from this `TIME` on, a date or RFC 3339")
	flags.Var(&v.to, "to", "only checks up to this `TIME`; of a date all of the day")
	flags.Func("checkpoint", "hold the chains to this `FILE` of signed checkpoints, or to all .jsonl in a folder; once for each",
		cli.EachNotEmpty(&v.files))
	flags.Func("public-key", "the `KEY` that verifies the checkpoints, and what was folded; else that of SPENDGATE_CHECKPOINT_KEY. "+
		"Those behind the first are of earlier folds", cli.EachNotEmpty(&v.keys))
	flags.StringVar(&v.archives, "archive", "", "the archives of what was detached are in `DIR`")
	flags.StringVar(&v.dataDir, "data-dir", "", "verify the record of the single node whose SPENDGATE_DATA_DIR is `DIR`, which may be running")
	flags.Func("metrics-file", "write metrics of the run to `FILE`, for Prometheus' textfile collector", cli.NotEmpty(&v.metrics))
	flags.IntVar(&v.workers, "workers", runtime.GOMAXPROCS(0), "`N` readings at once, each with a connection")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if v.workers < 1 {
			return cli.UsageError{Text: "needs at least one worker"}
		}
		if !v.to.At.IsZero() && v.to.At.Before(v.from.At) {
			return cli.UsageError{Text: "--from must not be later than --to"}
		}
		if v.from.At.After(time.Now()) {
			return cli.UsageError{Text: "--from lies in the future"}
		}
		if v.metrics != "" && v.ranged() {
			return cli.UsageError{Text: "--metrics-file tells of the whole trail: leave --from and --to out"}
		}
		deployment, err := config.LoadDeployment(p.Environ)
		if err != nil {
			return err
		}
		summary, err := v.run(ctx, p)
		if err == nil {
			err = v.tell(p.Stdout, summary)
		}
		if _, usage := errors.AsType[cli.UsageError](err); v.metrics == "" || usage {
			return err
		}
		return errors.Join(err, writeMetrics(v.metrics, deployment, summary, err, time.Now()))
	}
}

// ranged reports whether only a part of the trail is verified.
func (v verification) ranged() bool { return !v.from.At.IsZero() || !v.to.At.IsZero() }

func (v verification) run(ctx context.Context, p cli.Process) (s verify.Summary, err error) {
	seed, err := v.seed(p)
	if err != nil {
		return s, err
	}
	show := &progress{out: p.Stderr, last: time.Now()}
	o := verify.Options{
		From: v.from.At, To: v.to.At, Archives: v.archives, Workers: v.workers, Progress: show.at,
		Found: func(f verify.Finding) { fmt.Fprintln(p.Stdout, f) }, //nolint:errcheck // the count at the end tells
	}
	files, err := checkpointFiles(v.files)
	if err != nil {
		return s, err
	}
	for _, file := range files {
		// Read the file only as far as it goes now: checkpoints that are signed later may cover more than the snapshot.
		lines, closeFile, err := openNow(file)
		if err != nil {
			return s, err
		}
		defer closeFile()
		if len(files) == 1 {
			file = ""
		}
		o.Checkpoints = append(o.Checkpoints, verify.Checkpoints{Name: file, Lines: lines})
	}
	if o.FoldKeys, err = publicKeys(v.keys, seed); err != nil {
		return s, err
	}
	if len(o.FoldKeys) > 0 {
		o.PublicKey = o.FoldKeys[0]
	} else if len(v.files) > 0 {
		return s, cli.UsageError{Text: "--checkpoint needs --public-key or SPENDGATE_CHECKPOINT_KEY"}
	}
	record, done, err := openRecord(ctx, p, v.dataDir, v.workers)
	if err != nil {
		return s, err
	}
	defer done()
	o.Evidence = record
	if s, err = verify.Verify(ctx, o); err != nil {
		return s, fmt.Errorf("the trail could not be verified: %w", err)
	}
	return s, nil
}

// seed returns the key that signs checkpoints, if the settings have one. The checkpoints of an
// embedded record are signed only with the caller's own key.
func (v verification) seed(p cli.Process) (config.Secret, error) {
	if v.dataDir != "" {
		return "", nil
	}
	c, err := p.Load(config.Audit)
	return c.Checkpoints.Key, err
}

// checkpointFiles returns the named files, and all files of a named folder.
func checkpointFiles(paths []string) (files []string, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // an error shows when it is opened
			continue
		}
		inside, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			return nil, fmt.Errorf("there are no checkpoints in %s", path)
		}
		files = append(files, inside...)
	}
	return files, nil
}

// publicKeys returns the keys that were given or, if there are none, the public key of the seed.
func publicKeys(texts []string, seed config.Secret) (keys []checkpoint.PublicKey, err error) {
	if len(texts) == 0 && seed != "" {
		texts = []string{""}
	}
	for _, text := range texts {
		key, err := publicKey(text, seed)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
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

// openNow returns the content that the file has at this moment; for a pipe, everything up to its end.
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

// progress reports from time to time how far the verification has come.
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
