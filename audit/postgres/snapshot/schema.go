package snapshot

import (
	"context"
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/verify"
)

var (
	//go:embed schema.sql
	selectSchema string
	//go:embed schema.txt
	madeSchema string // the schema that the migrations make: see TestMadeSchema
)

// Schema implements verify.Evidence.
func (s *Snapshot) Schema(ctx context.Context) (found, made []verify.SchemaObject, err error) {
	for line := range strings.Lines(madeSchema) {
		name, definition, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		made = append(made, verify.SchemaObject{Name: name, Definition: definition})
	}
	err = s.read(ctx, "the schema", func(ctx context.Context, tx pgx.Tx) error {
		var o verify.SchemaObject
		own := "'" + strings.ReplaceAll(s.name, "'", "''") + "'"
		return stream(ctx, tx, []any{&o.Name, &o.Definition}, func() error {
			found = append(found, o)
			return nil
		}, strings.ReplaceAll(selectSchema, "{schema}", own))
	})
	return found, made, err
}
