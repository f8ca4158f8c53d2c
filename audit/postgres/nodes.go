package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// NodeNote is what a node says of itself while it runs. Times are the database's.
type NodeNote struct {
	Process spend.ID // names the process; Node is its present incarnation
	Node    spend.ID
	Host    string // where it serves
	Redis   string // which Redis it uses

	Started time.Time // its first note
	Since   time.Time // its first note with this Redis
	Seen    time.Time // its last note
}

// noteLives is how long after its last note a node counts as running.
const noteLives = 20 * time.Second

// NoteNode records a node's note in the place of its last one, and returns since when the node has used this Redis.
func (s *Store) NoteNode(ctx context.Context, n NodeNote) (since time.Time, err error) {
	return one(ctx, s, "cannot note the node", pgx.RowTo[time.Time], // may be repeated, like a read
		`INSERT INTO nodes AS n (process, node, host, redis, started, since, seen)
			VALUES ($1, $2, $3, $4, statement_timestamp(), statement_timestamp(), statement_timestamp())
		ON CONFLICT (process) DO UPDATE SET node = excluded.node, host = excluded.host, redis = excluded.redis, seen = excluded.seen,
			since = CASE WHEN n.redis = excluded.redis THEN n.since ELSE excluded.since END
		RETURNING since`, [16]byte(n.Process), [16]byte(n.Node), n.Host, n.Redis)
}

// Nodes returns the notes of the nodes that run, and the database's time.
func (s *Store) Nodes(ctx context.Context) (nodes []NodeNote, now time.Time, err error) {
	err = s.read(ctx, "cannot read which nodes run", func(ctx context.Context, db *pgx.Conn) error {
		if err := db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
			return err
		}
		rows, _ := db.Query(ctx, "SELECT process, node, host, redis, started, since, seen FROM nodes WHERE seen > $1 ORDER BY started, process",
			now.Add(-noteLives)) // the rows return its error
		nodes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n NodeNote, err error) {
			return n, row.Scan(pg.UUID(&n.Process), pg.UUID(&n.Node), &n.Host, &n.Redis, &n.Started, &n.Since, &n.Seen)
		})
		return err
	})
	return nodes, now, err
}

// RemoveNode removes the note of a node that stops.
func (s *Store) RemoveNode(ctx context.Context, process spend.ID) error {
	_, err := database{s}.Exec(ctx, "cannot remove the node's note", "DELETE FROM nodes WHERE process = $1", process)
	return err
}
