package httpapi

import (
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spendgate/audit/spend"
)

// parameters takes a query apart, strictly (S22): a faulty escape, a name that
// is not known or appears twice is a fault. Blank values are left out.
func parameters(query []byte, faults *spend.Faults, known ...string) map[string]string {
	if len(query) == 0 {
		return nil
	}
	values, seen := make(map[string]string, len(known)), make(map[string]bool, len(known))
	for part := range strings.SplitSeq(string(query), "&") {
		if part == "" {
			continue
		}
		name, value, ok := decodeParameter(part)
		switch {
		case len(*faults) >= maxFaults:
			return values
		case !ok:
			faults.Add("query", "must be well-formed: name=value, percent-encoded UTF-8")
			continue
		case !slices.Contains(known, name):
			faults.Add(spend.NameShown(name), "is not a known query parameter")
			continue
		case seen[name]:
			faults.Add(name, "must be given once")
			continue
		}
		seen[name] = true
		if !spend.Blank(value) {
			values[name] = value
		}
	}
	return values
}

func decodeParameter(part string) (name, value string, ok bool) {
	name, value, _ = strings.Cut(part, "=")
	name, nameOK := unescape(name, url.QueryUnescape)
	value, ok = unescape(value, url.QueryUnescape)
	return name, value, ok && nameOK
}

// unescape decodes percent-encoding, and + as a space in a query. It refuses bad escapes, invalid
// UTF-8 and U+0000.
func unescape(s string, decode func(string) (string, error)) (string, bool) {
	s, err := decode(s)
	return s, err == nil && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// queryVersion reads ?version=; 0 is the latest. An impossible version becomes math.MaxInt32, which no
// policy reaches.
func queryVersion(query []byte) (int, error) {
	var faults spend.Faults
	s, given := parameters(query, &faults, "version")["version"]
	if !given {
		return 0, faults.Err()
	}
	n, ok := wholeNumber(s)
	if !ok || n < 1 {
		faults.Add("version", "must be an integer of 1 or more")
	}
	return n, faults.Err()
}

// wholeNumber reads decimal digits; a number above math.MaxInt32 becomes math.MaxInt32.
func wholeNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil || errors.Is(err, strconv.ErrRange) //nolint:gosec // of 31 bits
}

// queryBefore reads the query of a listing without filters whose positions are IDs.
func queryBefore(query []byte, filters filterSum) (limit int, before spend.ID, err error) {
	var faults spend.Faults
	limit, before = queryPageBefore(parameters(query, &faults, "limit", "cursor"), filters, &faults)
	return limit, before, faults.Err()
}

// queryPage reads limit and cursor. The cursor of a query that is at fault
// already is not judged: it may only be of other filters for that reason.
func queryPage(values map[string]string, filters filterSum, faults *spend.Faults) (limit int, position string) {
	limit = defaultPage
	otherwise := len(*faults) > 0
	if s, given := values["limit"]; given {
		var ok bool
		if limit, ok = wholeNumber(s); !ok || limit < 1 || limit > maxPage {
			faults.Add("limit", "must be an integer of 1 to 100")
		}
	}
	if s, given := values["cursor"]; given && !otherwise {
		var ok bool
		if position, ok = parseCursor(s, filters); !ok {
			faults.Add("cursor", cursorForm)
		}
	}
	return limit, position
}

const cursorForm = "must be the next_cursor of a page with the same filters"

// queryPageBefore is queryPage for a listing whose positions are IDs.
func queryPageBefore(values map[string]string, filters filterSum, faults *spend.Faults) (limit int, before spend.ID) {
	limit, position := queryPage(values, filters, faults)
	if position != "" && len(position) != len(before) {
		faults.Add("cursor", cursorForm)
	}
	copy(before[:], position)
	return limit, before
}

// queryPageBelow is queryPage for a listing whose positions are numbers.
func queryPageBelow(values map[string]string, filters filterSum, faults *spend.Faults) (limit int, before int64) {
	limit, position := queryPage(values, filters, faults)
	if len(position) == 8 {
		before = int64(binary.BigEndian.Uint64([]byte(position)))
	} else if position != "" {
		faults.Add("cursor", cursorForm)
	}
	return limit, before
}

// numberPosition writes such a position.
func numberPosition(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// queryWhat reads the filters that checks and violations have in common.
func queryWhat(values map[string]string, faults *spend.Faults) (agentID, policyID string, actionType spend.ActionType) {
	agentID, policyID = values["agent_id"], values["policy_id"]
	spend.CheckLength(faults, "agent_id", agentID, spend.MaxIdentifier)
	if policyID != "" && !spend.ValidPolicyID(policyID) {
		faults.Add("policy_id", spend.PolicyIDForm)
	}
	if s, given := values["action_type"]; given {
		var ok bool
		if actionType, ok = spend.ParseActionType(s); !ok {
			faults.Add("action_type", actionTypeForm)
		}
	}
	return agentID, policyID, actionType
}
