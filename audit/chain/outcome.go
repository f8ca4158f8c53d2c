package chain

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"spendgate/audit/spend"
)

// The one-letter codes of an outcome's values.
const (
	statusLetters  = "xfvrdt"
	releaseLetters = "npd"
	excessLetters  = "\x00epu" // the first has no letter
)

const outcomeDomain = "spendgate outcome 1\n"

// ErrNotOutcome means that an encoded row has values that no outcome can have.
var ErrNotOutcome = errors.New("not an outcome")

// Where the texts of an outcome are among the columns of Outcomes.
const (
	outcomeReference = 10
	outcomeNote      = 11
)

// WithTexts adds the row of an outcome's fields, with the texts in place of null ones.
func WithTexts(b []byte, fields [][]byte, reference, note *string) []byte {
	w := NewRow(b)
	for i, f := range fields {
		switch {
		case f != nil:
			w.raw(f)
		case i == outcomeReference && reference != nil:
			w.Text(*reference)
		case i == outcomeNote && note != nil:
			w.Text(*note)
		default:
			w.raw(nil)
		}
	}
	return w.End()
}

// outcomeFields is how many columns an outcome has.
const outcomeFields = 19

// The values at the index of their letters.
var (
	statuses = [...]spend.Status{spend.Executed, spend.Failed, spend.Voided, spend.Redeemed, spend.InDoubt, spend.TakenOver}
	releases = [...]spend.Release{spend.ReleaseNone, spend.ReleasePending, spend.ReleaseDone}
	excesses = [...]spend.Excess{"", spend.ExcessCounted, spend.ExcessPending, spend.Unapproved}
)

// StatusLetter returns the code of a status.
func StatusLetter(s spend.Status) byte { return letterOf(statuses[:], statusLetters, s) }

// ReleaseLetter returns the code of a release.
func ReleaseLetter(r spend.Release) byte { return letterOf(releases[:], releaseLetters, r) }

// ExcessLetter returns the code of an excess; 0 for none.
func ExcessLetter(e spend.Excess) byte { return letterOf(excesses[:], excessLetters, e) }

func letterOf[T comparable](values []T, letters string, value T) byte {
	for i, v := range values {
		if v == value {
			return letters[i]
		}
	}
	panic(fmt.Sprintf("BUG: %v has no letter", value))
}

// HashOutcome is the hash of an outcome's row.
func HashOutcome(o *spend.Outcome) spend.Hash {
	room := rowRooms.Get().(*[]byte)
	defer rowRooms.Put(room)
	*room = AppendOutcome(append((*room)[:0], outcomeDomain...), o)
	return sha256.Sum256(*room)
}

// HashOutcomeRow is HashOutcome of a row that was read.
func HashOutcomeRow(row []byte) spend.Hash {
	return sha256.Sum256(append([]byte(outcomeDomain), row...))
}

// AppendOutcome adds the encoded row to b.
func AppendOutcome(b []byte, o *spend.Outcome) []byte {
	w := NewRow(b)
	w.ID(o.ID)
	w.ID(o.CheckID)
	w.fence(o.Fence)
	w.outcome(o)
	return w.End()
}

// AppendOutcomeRecord adds an outcome_row, the composite value in which the outcome is sent to PostgreSQL: without the fence,
// and with the time until which a redemption may be recorded.
func AppendOutcomeRecord(b []byte, o *spend.Outcome) []byte {
	w := NewComposite(b)
	w.ID(o.ID)
	w.ID(o.CheckID)
	w.outcome(o)
	w.OptionalInt64(o.RedeemBy.UnixMilli(), !o.RedeemBy.IsZero())
	return w.End()
}

// outcome adds the fields behind the fence, in the order of Outcomes.
func (w *Writer) outcome(o *spend.Outcome) {
	w.Int16(int16(o.Step))
	w.Int16(int16(o.Number))
	w.Letter(StatusLetter(o.Status))
	w.Letter(ReleaseLetter(o.Release))
	w.Letter(ExcessLetter(o.Excess))
	if o.Status == spend.Executed {
		w.Amount(o.Amount)
	} else {
		w.Null(Amount)
	}
	w.Optional(o.Reference)
	w.Optional(o.Note)
	w.Text(o.KeyID)
	w.Optional(o.Principal)
	w.Text(o.RequestID)
	w.Bool(o.MayRelease)
	w.OptionalHash(o.Replay)
	w.stops(o.Fence)
	w.Written(o.Payment.Append)
}

// ParseOutcome decodes the encoding of AppendOutcome. It fails with ErrNotRow or ErrNotOutcome.
func ParseOutcome(row []byte) (*spend.Outcome, error) {
	fields, err := ParseRow(make([][]byte, 0, outcomeFields), row)
	if err != nil {
		return nil, err
	}
	return OutcomeOf(fields)
}

// OutcomeOf is ParseOutcome of a row's fields, in the order of Outcomes.
func OutcomeOf(fields [][]byte) (*spend.Outcome, error) {
	if len(fields) != outcomeFields {
		return nil, fmt.Errorf("%w: %d fields", ErrNotRow, len(fields))
	}
	r := fieldReader{fields: fields}
	o := new(spend.Outcome)
	for _, id := range []*spend.ID{&o.ID, &o.CheckID, &o.Fence.Node, &o.Fence.Epoch} {
		r.bytes(id[:])
	}
	o.Step = int(r.integer(2))
	o.Number = int(r.integer(2))
	o.Status = statuses[r.letter(statusLetters)]
	o.Release = releases[r.letter(releaseLetters)]
	o.Excess = excesses[r.optionalLetter(excessLetters)]
	if amount := r.next(); amount != nil {
		var err error
		if o.Amount, err = spend.ParseAmount(string(amount)); err != nil {
			r.wrong = fmt.Errorf("amount %w", err)
		}
	}
	for _, text := range []*string{&o.Reference, &o.Note, &o.KeyID, &o.Principal, &o.RequestID} {
		*text = r.text()
	}
	o.MayRelease = r.boolean()
	o.Replay = r.hash()
	o.Fence.Stops = r.integer(8)
	var err error
	if o.Payment, err = spend.ParseOutcomePayment(r.text()); err != nil {
		r.wrong = err
	}
	if r.wrong != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotOutcome, r.wrong)
	}
	return o, nil
}
