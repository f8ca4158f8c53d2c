package violations

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// printTable prints results for people.
func printTable(out io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(content, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: a page of %d with total_count, ms\n", r.Machine.CPU, r.Sizes[0].Limit)
	row := func(name string, cell func(size) string) {
		fmt.Fprint(w, name)
		for _, s := range r.Sizes {
			fmt.Fprint(w, "\t", cell(s))
		}
		fmt.Fprintln(w)
	}
	row("violations", func(s size) string { return fmt.Sprintf("%d\t", s.Violations) })
	row("filters", func(size) string { return "p50\tp99" })
	for i, l := range r.Sizes[0].Listings {
		row(l.Filters, func(s size) string { return fmt.Sprintf("%.2f\t%.2f", s.Listings[i].P50, s.Listings[i].P99) })
	}
	row("all of these", func(s size) string { return fmt.Sprintf("%.2f\t%.2f", s.All.P50, s.All.P99) })
	row("counting all one by one", func(s size) string { return fmt.Sprintf("%.0f\t", s.CountAllMS) })
	row("table and indexes, MB", func(s size) string { return fmt.Sprintf("%.0f\t", s.TableMB) })
	row("counts, MB", func(s size) string { return fmt.Sprintf("%.1f\t", s.CountsMB) })
	row("roll-up, us a violation", func(s size) string { return fmt.Sprintf("%.1f\t", s.CountUS) })
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nto write a violation: %.1f us and %.0f bytes; with the primary key and an index of agents alone %.1f us "+
		"and %.0f bytes\n",
		r.Write.AllUS, r.Write.AllBytes, r.Write.FewUS, r.Write.FewBytes)
	return err
}
