package policy

import "time"

// Approval is what a rule asks of people before what it escalated may pass.
type Approval struct {
	Required  int           // how many people must approve
	Expires   time.Duration // how long they may decide
	UseWithin time.Duration // how long it may be used after that
}

const (
	maxApprovers        = 5
	maxExpiresMinutes   = 30 * 24 * 60
	maxUseWithinMinutes = 7 * 24 * 60
)

// approval returns what the rule asks of people, nil when absent. A rule that does
// not escalate may not ask; why says when it may.
func (o *object) approval(escalates bool, why string) *Approval {
	raw := o.value("approval", optional)
	if raw == nil {
		return nil
	}
	if !escalates {
		o.fault("approval", why)
	}
	p, ok := openObject(raw, o.path+".approval", o.log)
	if !ok {
		return nil
	}
	a := &Approval{Required: 1, Expires: 24 * time.Hour, UseWithin: time.Hour}
	if n, given := p.integerIf("required", optional, 1, maxApprovers, "must be an integer from 1 to 5"); given {
		a.Required = int(n)
	}
	if n, given := p.integerIf("expires_minutes", optional, 1, maxExpiresMinutes, "must be an integer from 1 to 43200"); given {
		a.Expires = time.Duration(n) * time.Minute
	}
	if n, given := p.integerIf("use_within_minutes", optional, 1, maxUseWithinMinutes, "must be an integer from 1 to 10080"); given {
		a.UseWithin = time.Duration(n) * time.Minute
	}
	p.refuseOthers()
	return a
}
