package auditcmd

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"spendgate/audit"
	"spendgate/audit/export"
	"spendgate/audit/verify"
	"spendgate/cmd/spendgate/cli"
)

// exporting is the state of one call of audit export.
type exporting struct {
	from, to cli.TimeFlag
	format   export.Format
	bom      bool
	sample   int
	seed     string
	out      string
	manifest string
	archives string
	dataDir  string

	check string // the manifest to be checked; empty to export
	file  string
	files []string // of checkpoints
	key   string
}

const manifestSuffix = ".manifest.json"

func auditExportCommand() cli.Command {
	return cli.Command{
		Name: "export", Summary: "write the recorded checks as a file for auditors, or check such a file", Setup: auditExport,
		Details: "A line for each check with its decision, version, rules, approvers, outcome, redemption and batch, in the order of\n" +
			"time, as of one moment of the database of SPENDGATE_DATABASE_URL, or with --data-dir of a single node. The manifest, in\n" +
			"FILE.manifest.json or on standard error, has the counts, the SHA-256 of the file and the heads of the hash chains. Fails, " +
			"having written both, if archived\n" +
			"days are absent or the record is not as it was written.\n\n" +
			"With --check it compares a file with its manifest, and both with the record, and with checkpoints.",
	}
}

func auditExport(flags *flag.FlagSet) cli.Action {
	e := exporting{to: cli.TimeFlag{Last: true}, format: export.CSV}
	flags.Var(&e.from, "from", "only checks from this `TIME` on, a date or RFC 3339")
	flags.Var(&e.to, "to", "only checks up to this `TIME`; of a date all of the day")
	flags.Func("format", "`FORMAT` of the file: csv, which is the default, or jsonl", func(text string) error {
		if e.format = export.Format(text); e.format != export.CSV && e.format != export.JSONL {
			return errors.New("must be csv or jsonl")
		}
		return nil
	})
	flags.BoolVar(&e.bom, "bom", false, "begin a csv file with a byte order mark: Excel needs it to read UTF-8 when such a file is opened")
	flags.IntVar(&e.sample, "sample", 0, "only `N` checks, chosen by --seed: anybody who knows that makes the same choice")
	flags.Func("seed", "choose the sample by this `SEED`", cli.NotEmpty(&e.seed))
	flags.Func("out", "write to `FILE`, and the manifest beside it, instead of standard output", cli.NotEmpty(&e.out))
	flags.Func("manifest", "write the manifest to `FILE`", cli.NotEmpty(&e.manifest))
	flags.StringVar(&e.archives, "archive", "", "the archives of what was detached are in `DIR`")
	flags.StringVar(&e.dataDir, "data-dir", "", "read the single node whose SPENDGATE_DATA_DIR is `DIR`, which may be running")
	flags.Func("check", "check the file of this `MANIFEST`, instead of writing one", cli.NotEmpty(&e.check))
	flags.Func("file", "the `FILE` of the manifest to be checked, if it is not beside it", cli.NotEmpty(&e.file))
	flags.Func("checkpoint", "check also by this `FILE` of signed checkpoints; once for each", cli.EachNotEmpty(&e.files))
	flags.StringVar(&e.key, "public-key", "", "the `KEY` that verifies the checkpoints")
	given := make(map[string]bool)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if err := e.usage(given); err != nil {
			return err
		}
		record, done, err := openRecord(ctx, p, e.dataDir, exportConnections)
		if err != nil {
			return err
		}
		defer done()
		of := verify.Range{High: audit.MaxID()} // when checking a manifest, any head may be needed
		if e.check == "" {
			of.Low, of.High = audit.ViolationQuery{From: e.from.At, To: e.to.At}.IDRange()
		}
		left, err := unfold(ctx, record, e.archives, of)
		if err != nil {
			return err
		}
		o := export.Options{Record: left, Archives: e.archives, Batches: left.batches}
		if e.check != "" {
			return e.compare(ctx, p, o)
		}
		return e.write(ctx, p, o)
	}
}

// exportConnections are for the rows, and for look-ups meanwhile.
const exportConnections = 3

func (e *exporting) usage(given map[string]bool) error {
	if e.check != "" {
		for _, name := range []string{"from", "to", "format", "bom", "sample", "seed", "out", "manifest"} {
			if given[name] {
				return cli.UsageError{Text: "--check takes --" + name + " from the manifest"}
			}
		}
		if len(e.files) > 0 && e.key == "" {
			return cli.UsageError{Text: "--checkpoint needs --public-key"}
		}
		return nil
	}
	switch {
	case e.bom && e.format != export.CSV:
		return cli.UsageError{Text: "--bom goes with --format csv"}
	case given["file"] || len(e.files) > 0 || e.key != "":
		return cli.UsageError{Text: "--file, --checkpoint and --public-key go with --check"}
	case given["sample"] != given["seed"]:
		return cli.UsageError{Text: "--sample and --seed go together"}
	case given["sample"] && (e.sample < 1 || e.sample > maxSample):
		return cli.UsageError{Text: fmt.Sprintf("--sample must be 1 to %d", maxSample)}
	case e.out != "" && filepath.Clean(e.manifest) == filepath.Clean(e.out):
		return cli.UsageError{Text: "--out and --manifest must be different files"}
	case !e.to.At.IsZero() && e.to.At.Before(e.from.At):
		return cli.UsageError{Text: "--from must not be later than --to"}
	}
	return nil
}

// maxSample bounds the memory of a sample: 100 bytes a check.
const maxSample = 1_000_000

func (e *exporting) write(ctx context.Context, p cli.Process, o export.Options) (err error) {
	o.From, o.To, o.Format, o.BOM = e.from.At, e.to.At, e.format, e.bom
	if e.sample > 0 {
		o.Sample = &export.Sample{Checks: e.sample, Seed: e.seed}
	}
	var m *export.Manifest
	write := func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<16)
		if m, err = export.Write(ctx, buffered, o); err != nil {
			return err
		}
		return buffered.Flush()
	}
	if e.out == "" {
		err = write(p.Stdout)
	} else {
		err = writeWhole(e.out, write)
	}
	if err != nil {
		return fmt.Errorf("cannot export: %w", err)
	}
	text := func(w io.Writer) error {
		_, err := w.Write(m.Text())
		return err
	}
	switch {
	case e.manifest != "":
		err = writeWhole(e.manifest, text)
	case e.out != "":
		err = writeWhole(e.out+manifestSuffix, text)
	default:
		err = text(p.Stderr)
	}
	return errors.Join(err, m.Whole())
}

// writeWhole writes a file that only its owner can read, and gives it its name once it is complete.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// compare checks a file.
func (e *exporting) compare(ctx context.Context, p cli.Process, o export.Options) error {
	text, err := os.ReadFile(e.check)
	if err != nil {
		return err
	}
	m, err := export.ParseManifest(text)
	if err != nil {
		return fmt.Errorf("%s: %w", e.check, err)
	}
	if e.file == "" {
		name, ok := strings.CutSuffix(e.check, manifestSuffix)
		if !ok {
			return cli.UsageError{Text: "--check needs --file unless the manifest is FILE" + manifestSuffix}
		}
		e.file = name
	}
	file, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	findings := 0
	found := func(what string) {
		findings++
		fmt.Fprintln(p.Stdout, what) //nolint:errcheck // the count at the end tells
	}
	later, err := export.Check(ctx, bufio.NewReaderSize(file, 1<<16), m, o, found)
	if err != nil {
		return fmt.Errorf("the file could not be checked: %w", err)
	}
	held, err := e.hold(m, found)
	if err != nil {
		return err
	}
	if findings > 0 {
		return fmt.Errorf("the file is not what the record has: %d findings", findings)
	}
	if later > 0 {
		held += fmt.Sprintf("; %d checks were recorded after them", later)
	}
	_, err = fmt.Fprintf(p.Stdout, "%d checks are as the record has them up to the heads of the manifest; %s\n", m.Checks, held)
	return errors.Join(err, m.Whole())
}

// hold compares the manifest with files of checkpoints, and returns what they cover.
func (e *exporting) hold(m *export.Manifest, found func(string)) (string, error) {
	paths, err := checkpointFiles(e.files)
	if err != nil || len(paths) == 0 {
		return "no checkpoint was given that covers it", err
	}
	key, err := publicKey(e.key, "")
	if err != nil {
		return "", err
	}
	covered := ""
	for _, path := range paths {
		lines, done, err := openNow(path)
		if err != nil {
			return "", err
		}
		at, err := m.Hold(lines, key, found)
		done()
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if covered == "" && !at.IsZero() {
			covered = "the checkpoint of " + stamp(at) + " covers it"
		}
	}
	if covered == "" {
		covered = "no checkpoint covers it yet"
	}
	return covered, nil
}
