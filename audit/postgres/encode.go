package postgres

import (
	"fmt"
	"math"
	"strings"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// encodable refuses values that do not fit their columns. It leaves text to the server, which
// refuses invalid UTF-8 and U+0000.
func encodable(c *spend.Check) error {
	if c.LatencyMS < math.MinInt32 || c.LatencyMS > math.MaxInt32 ||
		c.Decision.PolicyVersion < math.MinInt32 || c.Decision.PolicyVersion > math.MaxInt32 {
		return &audit.RowError{Err: fmt.Errorf("check %s: latency %d ms or policy version %d is out of range",
			c.ID.Text(spend.PrefixCheck), c.LatencyMS, c.Decision.PolicyVersion)}
	}
	return nil
}

// The functions below invert the mappings of letters.

func typeOf(letter byte) spend.ActionType {
	return spend.ActionType(max(strings.IndexByte(chain.TypeLetters, letter), 0))
}

func effectOf(letter byte) spend.Effect {
	return spend.Effect(max(strings.IndexByte(chain.EffectLetters, letter), 0))
}

func confidenceOf(letter byte) spend.Confidence {
	return spend.Confidence(max(strings.IndexByte(chain.ConfidenceLetters, letter), 0))
}
