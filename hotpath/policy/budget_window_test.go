package policy

import (
	"math/rand/v2"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func mustZone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	zone, err := LoadZone(name)
	if err != nil {
		tb.Fatalf("zone %q: %v", name, err)
	}
	return zone
}

// labels numbers the windows of each unit that a clock shows at a time, so that
// later ones have greater numbers.
func labels(t time.Time) [lifetime]int64 {
	year, month, day := t.Date()
	days := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86400
	isoYear, week := t.ISOWeek()
	return [lifetime]int64{
		hourly: days*24 + int64(t.Hour()), daily: days,
		weekly: int64(isoYear*100 + week), monthly: int64(year*12) + int64(month), yearly: int64(year),
	}
}

// Windows against a walk from minute to minute: a window begins when the clock
// first shows it, or a later one, and ends when the next begins.
func TestWindowsAgainstAWalk(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	walk := func(name string, from, years int) {
		t.Helper()
		zone := mustZone(t, name)
		end := time.Date(from+years, 1, 1, 12, 0, 0, 0, time.UTC)
		at := time.Date(from, 1, 1, 12, 0, 0, 0, time.UTC)
		shown, lastHour := labels(at.In(zone)), -1
		_, lastOffset := at.In(zone).Zone()
		changed := at // the minutes after a change of the clock are all looked at
		var started [lifetime]time.Time
		for at = at.Add(time.Minute); at.Before(end); at = at.Add(time.Minute) {
			clock := at.In(zone)
			if _, offset := clock.Zone(); offset != lastOffset {
				lastOffset, changed = offset, at
			}
			recent := at.Sub(changed) < 3*time.Hour
			if hour := clock.Hour(); hour == lastHour && !recent && draw.IntN(1000) > 0 {
				continue
			}
			lastHour = clock.Hour()
			now := labels(clock)
			for u := range lifetime {
				p := period{unit: u, zone: zone}
				switch {
				case now[u] > shown[u]:
					before, after := p.window(at.Add(-time.Millisecond)), p.window(at)
					if before.end != at.UnixMilli() || after.start != before.end || !started[u].IsZero() && before.start != started[u].UnixMilli() {
						t.Fatalf("%s: a %s begins at %v: windows %v, %v", name, unitNames[u], at, before, after)
					}
					shown[u], started[u] = now[u], at
				case !started[u].IsZero() && (recent || draw.IntN(20) == 0):
					if w := p.window(at); w.start != started[u].UnixMilli() || !w.has(at.UnixMilli()) {
						t.Fatalf("%s: a %s at %v began at %v: window %v", name, unitNames[u], at, started[u], w)
					}
				}
			}
		}
	}
	walk("UTC", 2026, 1)
	walk("Europe/Berlin", 2026, 2)
	walk("America/New_York", 2026, 1)
	walk("Australia/Lord_Howe", 2026, 2)        // by half an hour
	walk("America/Sao_Paulo", 2017, 2)          // at midnight
	walk("Africa/Cairo", 2025, 2)               // at midnight
	walk("Asia/Beirut", 2025, 2)                // at midnight
	walk("America/Havana", 2026, 1)             // to midnight
	walk("America/St_Johns", 2006, 1)           // at a minute past midnight, back into the day before
	walk("Pacific/Apia", 2011, 2)               // over a whole day
	walk("Asia/Kathmandu", 2026, 1)             // by a quarter of an hour
	walk("Antarctica/Troll", 2026, 1)           // by two hours
	walk("Africa/Casablanca", 2025, 2)          // by the moon
	walk("America/Argentina/San_Luis", 2007, 3) // at new year's midnight
}

// Windows contain the moment that they are made for and leave no gaps, at any time in every zone.
func TestWindowsTile(t *testing.T) {
	draw := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for _, file := range zoneFiles().File {
		if file.FileInfo().IsDir() {
			continue
		}
		zone := mustZone(t, file.Name)
		for range 20 {
			at := time.UnixMilli(draw.Int64N(4_102_444_800_000)) // until 2100
			for u := range lifetime {
				p := period{unit: u, zone: zone}
				w := p.window(at)
				next, last := p.window(time.UnixMilli(w.end)), p.window(time.UnixMilli(w.start-1))
				if !w.has(at.UnixMilli()) || p.window(time.UnixMilli(w.end-1)) != w || next.start != w.end || last.end != w.start {
					t.Fatalf("%s: a %s at %v: %v after %v, before %v", file.Name, unitNames[u], at.UTC(), w, last, next)
				}
			}
		}
	}
}

// S37: a counter is named by the local date of its window, so newer rules of the zone open no second one. Until
// release 2025c clocks in Vancouver were those of Los Angeles (F137).
func TestNewerRulesContinueACounter(t *testing.T) {
	before, now, pays := mustZone(t, "America/Los_Angeles"), mustZone(t, "America/Vancouver"), action(t)
	for u, name := range unitNames[:lifetime] {
		parameters := `{"max_count":5,"window":"` + name + `","time_zone":"America/Vancouver"}`
		older, newer := mustCompile(t, rule1("budget", parameters)), mustCompile(t, rule1("budget", parameters))
		older.budgets[0].period.zone = before
		moved := 0
		for at := mustTime(t, "2026-09-01T00:00:00Z"); at.Before(mustTime(t, "2027-09-01T00:00:00Z")); at = at.Add(time.Hour) {
			charge := func(p *Program) spend.Charge { return p.Charges(nil, pays, named(spend.Spend), "", at)[0] }
			a, b := charge(older), charge(newer)
			if same := labels(at.In(before))[u] == labels(at.In(now))[u]; same != (a.Counter == b.Counter) {
				t.Fatalf("S37: a %s at %v: %+v and %+v", name, at, a, b)
			}
			if a.Counter == b.Counter && (a.BeginMS() != b.BeginMS() || a.EndMS != b.EndMS) {
				moved++
			}
			info := newer.Budgets()[0]
			if got := info.Counter("desk", b.Subject, at); got != b.Counter || info.WindowStart(got).UnixMilli() != b.BeginMS() {
				t.Fatalf("S38: a %s at %v: %+v, want %+v", name, at, got, b)
			}
		}
		if unit(u) != hourly && moved == 0 {
			t.Errorf("no %s moved", name)
		}
	}
}

// S34: 60 buckets, aligned to the epoch.
func TestBuckets(t *testing.T) {
	f := func(minutes, at int64, want span) {
		t.Helper()
		p := period{rolling: minutes}
		if w := p.window(time.UnixMilli(at)); w != want || p.bucketMS() != want.end-want.start {
			t.Errorf("S34: %d minutes at %d: %v, want %v", minutes, at, w, want)
		}
	}
	f(1, 0, span{0, 1000, 0})
	f(60, 119_999, span{60_000, 120_000, 60_000})
	f(60, 120_000, span{120_000, 180_000, 120_000})
	f(7, 20_999, span{14_000, 21_000, 14_000})
	f(44_640, 44_640_001, span{44_640_000, 89_280_000, 44_640_000})
}

// Names are exact, and the machine's zones do not matter.
func TestZones(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	for _, name := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "UTC"} {
		if zone := mustZone(t, name); zone.String() != name {
			t.Errorf("zone %q is named %q", name, zone)
		}
	}
	for _, name := range []string{
		"europe/berlin", "Local", "Europe", "Europe/", "../Europe/Berlin", "/Europe/Berlin", "CEST", "+01:00", "utc",
	} {
		if zone, err := LoadZone(name); err == nil {
			t.Errorf("S33: %q is the zone %q", name, zone)
		}
	}
}

func mustTime(tb testing.TB, s string) time.Time {
	tb.Helper()
	at := must.Get(time.Parse(time.RFC3339, s))(tb)
	return at
}
