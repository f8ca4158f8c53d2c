package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spendgate/bench/load"
)

// sample is a line of the file of samples.
type sample struct {
	At time.Time `json:"at"`
	tally
	Latency load.Latency       `json:"latency_ms"`       // of the answers since the sample before, from when each request was due
	Faults  []string           `json:"faults,omitempty"` // since the sample before
	Values  map[string]float64 `json:"values"`           // by their names
	Unread  string             `json:"unread,omitempty"` // why values are missing
}

const (
	mebibyte = 1 << 20
	kibibyte = 1 << 10
	leftOver = 3 << 30 // bytes on the disk, below which the run ends
)

var errDiskFull = errors.New("the disk is almost full")

// sampleAll looks until going ends.
func (s *soak) sampleAll(going, lasting context.Context, every time.Duration) error {
	return repeat(going, every, func() error { return s.sample(lasting) })
}

// sample writes a line to the file, and a shorter one to the output. What does not answer because of a fault is left out.
func (s *soak) sample(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	counted, since := s.traffic.take()
	missing, err := s.Postgres.Missing(ctx, since.answered)
	if err != nil {
		s.traffic.putBack(since.answered)
	} else if missing > 0 {
		s.traffic.missing(missing)
	}
	line := sample{
		At: time.Now().UTC(), tally: counted, Latency: since.took.Summary(), Faults: since.faults, Values: make(map[string]float64),
	}
	err = errors.Join(err, s.nodeValues(ctx, line.Values), s.redisValues(ctx, line.Values), s.postgresValues(ctx, line.Values))
	if err != nil {
		line.Unread = err.Error()
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = s.samples.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot keep a sample: %w", err)
	}
	v := line.Values
	_, err = fmt.Fprintf(s.out, "%s %9d checks  p99 %6.1f ms  node0 %4.0f MiB  redis %4.0f MiB  database %6.0f MiB  failed %d  wrong %d  %q\n",
		line.At.Format(time.TimeOnly), line.Checks, line.Latency.P99, v["node0 resident MiB"], v["redis used MiB"], v["database MiB"],
		line.Failed, line.Wrong, line.Faults)
	return errors.Join(err, s.room())
}

// room fails if hardly anything is left of the disk.
func (s *soak) room() error {
	var disk unix.Statfs_t
	err := unix.Fstatfs(int(s.samples.Fd()), &disk)
	if err == nil && disk.Bavail*uint64(disk.Bsize) < leftOver {
		err = errDiskFull
	}
	return err
}

func (s *soak) nodeValues(ctx context.Context, values map[string]float64) error {
	var failed error
	for _, n := range s.Nodes {
		a, err := n.Metrics(ctx)
		if err != nil {
			failed = err
			continue
		}
		m := load.ParseMetrics(a.Body)
		values[n.Name+" resident MiB"] = m.Sum("process_resident_memory_bytes") / mebibyte
		values[n.Name+" heap MiB"] = m.Sum("go_memstats_heap_inuse_bytes") / mebibyte
		values[n.Name+" goroutines"] = m.Sum("go_goroutines")
		values[n.Name+" open files"] = m.Sum("process_open_fds")
	}
	return failed
}

func (s *soak) redisValues(ctx context.Context, values map[string]float64) error {
	info, err := s.Redis.Client.InfoMap(ctx, "memory", "clients").Result()
	if err != nil {
		return fmt.Errorf("cannot ask Redis: %w", err)
	}
	number := func(section, name string) float64 {
		n, _ := strconv.ParseFloat(info[section][name], 64)
		return n
	}
	names, err := s.Redis.Client.DBSize(ctx).Result()
	values["redis used MiB"] = number("Memory", "used_memory") / mebibyte
	values["redis resident MiB"] = number("Memory", "used_memory_rss") / mebibyte
	values["redis clients"] = number("Clients", "connected_clients")
	values["redis names"] = float64(names)
	return err
}

func (s *soak) postgresValues(ctx context.Context, values map[string]float64) error {
	var connections, log, size float64
	err := s.Postgres.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		(SELECT sum(size) FROM pg_ls_waldir()), pg_database_size(current_database())`).Scan(&connections, &log, &size)
	if err != nil {
		return fmt.Errorf("cannot ask PostgreSQL: %w", err)
	}
	values["postgres connections"], values["postgres log MiB"], values["database MiB"] = connections, log/mebibyte, size/mebibyte
	rows, err := s.Postgres.Pool.Query(ctx, `SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text,
		sum(pg_total_relation_size(c.oid)), sum(t.n_live_tup), sum(t.n_dead_tup)
		FROM pg_class AS c JOIN pg_stat_user_tables AS t ON t.relid = c.oid WHERE c.relkind = 'r' GROUP BY 1`)
	if err != nil {
		return fmt.Errorf("cannot ask PostgreSQL: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var bytes, live, dead float64
		if err := rows.Scan(&table, &bytes, &live, &dead); err != nil {
			return fmt.Errorf("cannot ask PostgreSQL: %w", err)
		}
		values[table+" KiB"], values[table+" rows"], values[table+" dead rows"] = bytes/kibibyte, live, dead
	}
	return rows.Err()
}
