package audittest

import (
	"fmt"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const minute = 60_000 // in milliseconds

// rollingCharge takes from a bucket of a minute.
func rollingCharge(bucket int64, takes string) spend.Charge {
	c := charge("rolling", "[]", takes)
	c.Counter.StartMS, c.Counter.BucketMS = bucket*minute, minute
	return c
}

// rollingListing: a past bucket is listed with only the buckets before it.
func rollingListing(t *testing.T, s Subject) {
	f := fence(t, s)
	mustCommit(t, s, charged(newCheck(f), rollingCharge(100, "600")), charged(newCheck(f), rollingCharge(160, "400")))
	mustCommit(t, s, charged(newCheck(f), rollingCharge(161, "600")))
	for past, want := range map[bool]string{false: "[] 1600 3 100", true: "[] 1000 2 100"} {
		q := audit.CounterQuery{PolicyID: "refunds", RuleID: "rolling", Since: 1, StartMS: 160 * minute, BucketMS: minute, Past: past, Limit: 1}
		if got, _, err := s.ListCounters(t.Context(), q); err != nil || len(got) != 1 ||
			fmt.Sprint(got[0].Subject, " ", got[0].Used, " ", got[0].Count, " ", got[0].FirstMS/minute) != want {
			t.Errorf("past %v: %+v, %v; want %s", past, got, err, want)
		}
	}
}

// rollingBudgets: the bucket and the 60 before it count.
func rollingBudgets(t *testing.T, s Subject) {
	f, at := fence(t, s), rollingCharge
	mustCommit(t, s, charged(newCheck(f), at(100, "600")))
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), at(160, "400.1"))}, usage(at(160, "0"), "600", 1))
	mustCommit(t, s, charged(newCheck(f), at(160, "400")))
	mustUse(t, s, at(160, "0"), "1000", 2)
	mustCommit(t, s, charged(newCheck(f), at(161, "600")))
	mustUse(t, s, at(161, "0"), "1000", 2)
	// A clock that is behind counts what others took later.
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), at(159, "1"))}, usage(at(159, "0"), "1600", 3))
	// Two buckets in one commit.
	mustExceed(t, s, []*spend.Check{charged(newCheck(f), at(221, "300")), charged(newCheck(f), at(222, "701"))}, usage(at(222, "0"), "300", 1))
}
