package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/must"
)

// TestEndedBesideOthers: a connection that the server ended while it was idle says nothing about the others: a query in
// progress on one of them is neither given up nor repeated (F31).
func TestEndedBesideOthers(t *testing.T) {
	url := migrated(t)
	s := open(t, with(t, url, "pool_max_conns", "2"), false)
	admin, err := pgx.Connect(t.Context(), url)
	must.Do(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })

	runs, done, begun := 0, make(chan error, 1), make(chan struct{}, 5)
	held, idle := make(chan uint32, 1), make(chan struct{})
	ended := make(chan error, 1)
	go func() { // a second connection, idle afterwards
		ended <- s.read(t.Context(), "idle", func(_ context.Context, db *pgx.Conn) error {
			held <- db.PgConn().PID()
			<-idle
			return nil
		})
	}()
	pid := <-held
	go func() {
		done <- s.list(t.Context(), "list", func(ctx context.Context, db *pgx.Conn) error {
			runs++
			begun <- struct{}{}
			_, err := db.Exec(ctx, "SELECT pg_sleep(1)")
			return err
		})
	}()
	<-begun
	close(idle)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var ok bool
	if err := admin.QueryRow(t.Context(), "SELECT pg_terminate_backend($1, 10000)", pid).Scan(&ok); err != nil || !ok {
		t.Fatal(ok, err)
	}
	must.Check(t, s.Ping(t.Context()))
	if err := <-done; err != nil || runs != 1 {
		t.Errorf("the query in progress ran %d times: %v", runs, err)
	}
}
