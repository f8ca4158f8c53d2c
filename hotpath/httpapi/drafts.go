package httpapi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/report"
	"spendgate/hotpath/wire"
)

// putDraft answers PUT /v1/policies/{policy_id}/draft.
func (a *API) putDraft(x *exchange) error {
	p := new(audit.Policy)
	faults, err := x.decodeMore(func(r *reader) { decodePolicy(r, p, draftBody) })
	if err != nil {
		return err
	}
	id, err := x.policyID()
	if err != nil {
		return err
	}
	d := &audit.Draft{
		PolicyID: id, Name: p.Name, Description: p.Description, Rules: p.Rules, Metadata: p.Metadata, Redeem: p.Redeem, Changes: p.Changes,
		Note: p.Note,
	}
	if err := a.Authorizer.PutDraft(x.context(), x.access, a.actor(x), d, x.draftMatch(), faults); err != nil {
		return err
	}
	return respond(x, 200, draftOf(d))
}

// getDraft answers GET /v1/policies/{policy_id}/draft.
func (a *API) getDraft(x *exchange) error {
	id, err := x.policyID()
	if err != nil {
		return err
	}
	return reply(x, 200, reviewOf)(a.Authorizer.Review(x.readContext(), id))
}

// deleteDraft answers DELETE /v1/policies/{policy_id}/draft.
func (a *API) deleteDraft(x *exchange) error {
	id, err := x.policyID()
	if err != nil {
		return err
	}
	if err := a.Authorizer.DeleteDraft(x.context(), x.access, a.actor(x), id, x.draftMatch()); err != nil {
		return err
	}
	return x.answerNothing()
}

// draftMatch returns the draft that If-Match names, bare or quoted; nil without the header, or with an empty one. Anything else is
// the zero hash, which no draft has.
func (x *exchange) draftMatch() *spend.Hash {
	sent := x.ctx.Request.Header.PeekAll(headerIfMatch)
	switch {
	case !slices.ContainsFunc(sent, func(value []byte) bool { return len(bytes.TrimSpace(value)) > 0 }):
		return nil
	case len(sent) > 1:
		return new(spend.Hash)
	}
	text := strings.TrimSpace(string(sent[0]))
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	return new(hashOf(text))
}

const (
	headerIfMatch = "If-Match"
	ifMatchForm   = "must be one version, bare or quoted: 3"
)

// errIfMatchRequired answers a promotion that does not say which version it replaces.
var errIfMatchRequired = &refusal{428, codeIfMatchRequired, "the header If-Match with the version that the draft is to replace is required"}

// postPromote answers POST /v1/policies/{policy_id}/draft/promote.
func (a *API) postPromote(x *exchange) error {
	p := hotpath.Promotion{}
	err := x.decodeOptional(func(r *reader) { decodePromotion(r, &p) })
	faults, only := errors.AsType[spend.Faults](err)
	if err != nil && !only {
		return err
	}
	if p.PolicyID, err = x.policyID(); err != nil {
		return err
	}
	sent := x.ctx.Request.Header.PeekAll(headerIfMatch)
	if !slices.ContainsFunc(sent, func(value []byte) bool { return len(bytes.TrimSpace(value)) > 0 }) {
		return errIfMatchRequired
	}
	var ok bool
	if p.Version, ok = ifMatch(sent); !ok {
		faults.Add(headerIfMatch, ifMatchForm)
	}
	if err := faults.Err(); err != nil {
		return err
	}
	return reply(x, 201, policyOf)(a.Authorizer.PromoteDraft(x.context(), x.access, a.forcer(x), p))
}

// ifMatch reads the header's one version: any number, also one that no version has.
func ifMatch(sent [][]byte) (version int, ok bool) {
	text := strings.TrimSpace(string(sent[0]))
	if bare, quoted := strings.CutPrefix(text, `"`); quoted {
		text, ok = strings.CutSuffix(bare, `"`)
		if !ok {
			return 0, false
		}
	}
	if len(sent) != 1 || text == "" || strings.Trim(text, "0123456789") != "" || text[0] == '0' && text != "0" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		n = math.MaxInt32 // no policy has so many versions
	}
	return int(n), true
}

// decodePromotion reads the body of POST /v1/policies/{policy_id}/draft/promote.
func decodePromotion(r *reader, p *hotpath.Promotion) {
	for r.next() {
		switch r.name {
		case "draft_hash":
			if text := r.optionalText(); !spend.Blank(text) {
				p.Hash = new(hashOf(text))
			}
		case "drop_budgets":
			p.Drop = r.dropBudgets()
		case "note":
			p.Note = r.note()
		default:
			r.unknown()
		}
	}
}

// getDraftReport answers GET /v1/policies/{policy_id}/draft/report.
func (a *API) getDraftReport(x *exchange) error {
	if err := x.access.PermitDraftReport(); err != nil {
		return err
	}
	id, err := x.policyID()
	if err != nil {
		return err
	}
	r, err := a.Authorizer.DraftReport(x.readContext(), x.access, id)
	if err != nil {
		return err
	}
	for i := range r.Flips {
		if r.Flips[i], err = report.ShowFlip(r.Flips[i], report.Shown{TextAmounts: x.textAmounts}); err != nil {
			return err
		}
	}
	status := 200
	if r.Backtest.Report == "" {
		status = fasthttp.StatusAccepted
	}
	return respond(x, status, draftReportOf(r))
}

func draftOf(d *audit.Draft) wire.Draft {
	return wire.Draft{
		PolicyID: d.PolicyID, DraftHash: hex.EncodeToString(d.Hash[:]), BaseVersion: d.BaseVersion, Name: d.Name, Description: d.Description,
		Rules: wire.Text(d.Rules), Metadata: wire.Text(d.Metadata), Terms: termsOf(d.Redeem, d.Changes),
		CreatedAt: wire.Timestamp{Time: d.MadeAt}, Author: authorOf(d.Author), Note: d.Note,
	}
}

// draftReportOf returns the report of a draft. Its sums are numbers in any case.
func draftReportOf(r *hotpath.DraftReport) wire.DraftReport {
	b := r.Backtest
	shown := wire.DraftReport{
		PolicyID: r.Draft.PolicyID, DraftHash: hex.EncodeToString(r.Draft.Hash[:]), BaseVersion: r.Draft.BaseVersion,
		Since: wire.Timestamp{Time: r.Draft.MadeAt}, BacktestID: b.ID.Text(spend.PrefixBacktest), Status: string(b.Status),
		Progress: progressOf(b), Error: b.Error, Report: wire.Text(b.Report),
	}
	for _, text := range r.Flips {
		shown.Flips = append(shown.Flips, wire.Text(text))
	}
	return shown
}
