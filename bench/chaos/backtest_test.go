package main

import (
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
)

func TestPeriodOfOneVersion(t *testing.T) {
	const v9, v10, v11 = 9, 10, 11
	row := func(at int64, policy string, version int) judge.Row {
		return judge.Row{AtMS: at, PolicyID: policy, PolicyVersion: version}
	}
	rows := []judge.Row{
		row(90, "asking", v9), row(100, "asking", v10), row(104, "asking", v9), row(105, "other", v9),
		row(110, "asking", v10), row(150, "other", v11), row(190, "asking", v11), row(195, "asking", v10), row(230, "asking", v11),
	}
	p := period{PolicyID: "asking", Version: v10, From: time.UnixMilli(100), To: time.UnixMilli(200)}
	p.among(rows)
	if from, to := p.From.UnixMilli(), p.To.UnixMilli(); from != 105 || to != 190 {
		t.Errorf("the period of checks that version 10 judged is [%d, %d), want [105, 190)", from, to)
	}
}
