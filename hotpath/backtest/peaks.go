package backtest

import (
	"strconv"

	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// peak is the most that was taken from any counter of a budget.
type peak struct {
	used, count     spend.Usage
	byUsed, byCount spend.Charge
}

// noteTaken looks at counters after a check took from them.
func (e *Engine) noteTaken(charges []spend.Charge) {
	for i := range charges {
		charge := &charges[i]
		p := e.peaks[charge.RuleID]
		if p == nil {
			p = new(peak)
			e.peaks[charge.RuleID] = p
		}
		usage := e.taken[candidate].usage(charge)
		if usage.Used.Cmp(p.used.Used) > 0 {
			p.used, p.byUsed = usage, *charge
		}
		if usage.Count > p.count.Count {
			p.count, p.byCount = usage, *charge
		}
	}
}

// budgetPeaks returns the peaks of all budgets of the candidate.
func (e *Engine) budgetPeaks() []report.Peak {
	all := []report.Peak{}
	for _, info := range e.o.Candidate.Budgets() {
		one := report.Peak{RuleID: info.RuleID}
		if info.Currency != "" {
			one.Currency = &info.Currency
		}
		if info.Limited {
			one.Limit = &info.Limit
		}
		if info.Counted {
			one.MaxCount = &info.MaxCount
		}
		if p := e.peaks[info.RuleID]; p != nil {
			if info.Currency != "" && !p.used.Used.IsZero() {
				one.Used = highest(&info, &p.byUsed, p.used.Used, p.byUsed.Granted.Used)
			}
			one.Count = highest(&info, &p.byCount, number(p.count.Count), number(p.byCount.Granted.Count))
		}
		all = append(all, one)
	}
	return all
}

func number(n int64) spend.Total {
	total, _ := spend.ParseTotal(strconv.FormatInt(n, 10)) // of an integer that is not negative
	return total
}

// highest says which counter it is.
func highest(info *policy.BudgetInfo, charge *spend.Charge, value, granted spend.Total) *report.Highest {
	per := make(map[string]string)
	if values, err := info.Values(charge.Subject); err == nil {
		for i, name := range info.Per {
			per[name] = policy.TextOf(values[i])
		}
	}
	h := &report.Highest{Value: value, Per: per, Granted: granted}
	if charge.Counter.StartMS != 0 {
		start := report.Time(info.WindowStart(charge.Counter))
		h.WindowStart = &start
	}
	return h
}
