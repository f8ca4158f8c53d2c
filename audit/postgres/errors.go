package postgres

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// SQLSTATEs that are told apart. The SG ones are raised by this schema.
const (
	codeStaleEpoch    = "SG001"
	codeFencedNode    = "SG002"
	codeKeysTaken     = "SG003"
	codePoliciesFull  = "SG006"
	codeNoRoom        = "SG007"
	codeReported      = "SG008"
	codeUnapproved    = "SG009"
	codeCounters      = "SG010"
	codeWebhooksFull  = "SG012"
	codeNotEnded      = "SG013"
	codeBudgetsInUse  = "SG014"
	codeNoDraft       = "SG015"
	codeOtherVersion  = "SG016"
	codeAsksPeople    = "SG017"
	codeStaleReview   = "SG018"
	codeNotCalendar   = "SG019"
	codePaymentsMoved = "SG020"
	codeStaleStops    = "SG021"
	codeStaleFreeze   = "SG022"
	codeNotAllowed    = "42501"
	codeUnique        = "23505"
	codeAdminShutdown = "57P01"
	codeCrashShutdown = "57P02"
)

// rowClasses are the classes of SQLSTATE that blame a row's own data: data exception, integrity
// constraint, cardinality (one key twice in a batch), program limit (a value too long for its
// index).
const rowClasses = "22 23 21 54"

// byServer reports whether an error comes from PostgreSQL itself, whose errors name a place in its
// source, or from this schema. A pooler's error says only that the pooler lost the server, which
// may have committed (F46).
func byServer(err *pgconn.PgError) bool {
	return err.Routine != "" || strings.HasPrefix(err.Code, "SG")
}

// refusal translates the server's error, after which the transaction is certainly undone, into an
// error of the contract.
func refusal(err *pgconn.PgError) error {
	switch {
	case err.Code == codeStaleEpoch:
		return audit.ErrStaleEpoch
	case err.Code == codeFencedNode:
		return audit.ErrFencedNode
	case err.Code == codeStaleStops:
		return audit.ErrStaleStops
	case err.Code == codeStaleFreeze:
		return audit.ErrStaleFreeze
	case err.Code == codeUnique && err.ConstraintName == "batches_pkey":
		return fmt.Errorf("%w: %w", audit.ErrForked, err)
	case err.Code == codePoliciesFull:
		return audit.ErrPoliciesFull
	case err.Code == codeWebhooksFull:
		return audit.ErrWebhooksFull
	case err.Code == codeNotEnded || err.Code == codeBudgetsInUse:
		return budgetsRefused(err)
	case err.Code == codeNoDraft:
		return audit.ErrNotFound
	case err.Code == codeOtherVersion:
		version, _ := strconv.Atoi(err.Detail)
		return &audit.VersionError{Version: version}
	case err.Code == codeAsksPeople:
		version, _ := strconv.Atoi(err.Detail)
		return &audit.ChangeNeedsApprovalError{Version: version}
	case err.Code == codeStaleReview:
		return audit.ErrDraftChanged
	case err.Code == codeNoRoom:
		return &noRoomError{err.Detail}
	case err.Code == codeCounters:
		return errCounters
	case err.Code == codeNotCalendar:
		return errNotCalendar
	case err.Code == codeUnapproved:
		return unapproved(err.Detail)
	case err.Code == codeReported:
		return reported(err.Detail, err.Hint)
	case err.Code == codeKeysTaken:
		taken, err := hashesOf(err.Detail)
		return cmp.Or[error](err, &audit.KeysTakenError{Hashes: taken})
	case err.Code == codePaymentsMoved:
		moved, err := hashesOf(err.Detail)
		return cmp.Or[error](err, &audit.PaymentsMovedError{Hashes: moved})
	case len(err.Code) == 5 && strings.Contains(rowClasses, err.Code[:2]):
		return &audit.RowError{Err: err}
	}
	return fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
}

// budgetsRefused reads a JSON array of rule_ids.
func budgetsRefused(refusal *pgconn.PgError) error {
	var ids []string
	if err := json.Unmarshal([]byte(refusal.Detail), &ids); err != nil {
		return fmt.Errorf("cannot read the budgets that are refused %q: %w", refusal.Detail, audit.ErrUnavailable)
	}
	if refusal.Code == codeNotEnded {
		return &audit.NotEndedError{RuleIDs: ids}
	}
	return &audit.BudgetsInUseError{RuleIDs: ids}
}

// errCounters says that a commit must be repeated with all rows of its counters: a counter lacks
// the row that the node remembers, or has room again.
var errCounters = fmt.Errorf("%w: counters of budgets changed", audit.ErrUnavailable)

// errNotCalendar says that a commit must be repeated with callRest.
var errNotCalendar = fmt.Errorf("%w: counters of budgets lack a row or room", audit.ErrUnavailable)

// noRoomError is a refusal by budgets in the server's words: the places of the changes, each with
// the sum and the count taken before ("1:940:12,3:0:0").
type noRoomError struct{ detail string }

func (e *noRoomError) Error() string { return "budgets have no room: " + e.detail }

// exceeded returns the contract's error for the refused changes of the commit.
func (e *noRoomError) exceeded(changes []audit.CounterChange) error {
	exceeded := new(audit.ExceededError)
	for text := range strings.SplitSeq(e.detail, ",") {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			return fmt.Errorf("cannot read the budgets that have no room %q: %w", e.detail, audit.ErrUnavailable)
		}
		place, err := strconv.Atoi(parts[0])
		used, usedErr := spend.ParseTotal(parts[1])
		count, countErr := strconv.ParseInt(parts[2], 10, 64)
		if err = errors.Join(err, usedErr, countErr); err != nil || place < 1 || place > len(changes) {
			return fmt.Errorf("cannot read the budgets that have no room %q: %w", e.detail, audit.ErrUnavailable)
		}
		exceeded.Usages = append(exceeded.Usages,
			audit.CounterUsage{Counter: changes[place-1].Counter, Usage: spend.Usage{Used: used, Count: count}})
	}
	return exceeded
}

// unapproved reads "check:state" or "check:used:check", separated by commas.
func unapproved(detail string) error {
	refused := &audit.ApprovalsError{Refused: make(map[spend.ID]*audit.ApprovalError)}
	for text := range strings.SplitSeq(detail, ",") {
		parts := append(strings.Split(text, ":"), "", "")
		check, err := parseUUID(parts[0])
		if err != nil || parts[1] == "" {
			return fmt.Errorf("cannot read the approvals that cannot be used %q: %w", detail, audit.ErrUnavailable)
		}
		usedBy, _ := parseUUID(parts[2])
		refused.Refused[check] = &audit.ApprovalError{Status: audit.ApprovalStatus(parts[1]), UsedBy: usedBy}
	}
	return refused
}

func parseUUID(text string) (spend.ID, error) {
	return spend.ParseID(strings.ReplaceAll(text, "-", ""), "")
}

// hashesOf reads hashes, in hexadecimal and separated by commas, of what a commit may not take or change.
func hashesOf(detail string) (hashes []spend.Hash, err error) {
	for text := range strings.SplitSeq(detail, ",") {
		hash, err := hex.DecodeString(text)
		if err != nil || len(hash) != len(spend.Hash{}) {
			return nil, fmt.Errorf("cannot read which keys or payments are refused %q: %w", detail, audit.ErrUnavailable)
		}
		hashes = append(hashes, spend.Hash(hash))
	}
	return hashes, nil
}

// reported parses which checks are refused, and which of these as too late.
func reported(detail, hint string) error {
	refused, err := parseUUIDs(detail)
	late, lateErr := parseUUIDs(hint)
	if err = errors.Join(err, lateErr); err != nil || refused == nil {
		return fmt.Errorf("cannot read the reported checks %q, %q: %w", detail, hint, audit.ErrUnavailable)
	}
	return &audit.ReportedError{CheckIDs: refused, Late: late}
}

func parseUUIDs(list string) (ids []spend.ID, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		id, err := parseUUID(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Refused reports whether the server refused an attempt to use it for a reason that waiting does
// not mend, such as a wrong password, or whether a pooler is between that the URL does not mention.
func Refused(err error) bool {
	if errors.Is(err, ErrShared) {
		return true
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	// Classes that waiting may mend: connections, conflicts, resources, a server that starts or
	// stops, and one that takes no writes.
	const mended = "08 25 40 53 55 57"
	return ok && len(answer.Code) == 5 && !strings.Contains(mended, answer.Code[:2])
}

// lostConnection reports whether err means that a working connection was lost, rather than that a
// query or an attempt to connect failed.
func lostConnection(err error) bool {
	if errors.Is(err, errSilent) {
		return true
	}
	if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, new(*pgconn.ConnectError)) {
		return false
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code == codeAdminShutdown || answer.Code == codeCrashShutdown
	}
	return true
}
