package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

// A text of an agent's that the decision is about is shown whole or not at all: two actions must
// not look alike because both were cut.
const (
	maxShown  = 600 // characters of a field that the hash covers
	maxReason = 300 // characters of the agent's reason, which is cut
)

var errTooLong = errors.New("it does not fit into a chat: decide in the console")

// theirs marks a text of an agent's as code, in which the chat sees no mention, no link and no
// new line.
func theirs(text string) string { return "`" + plain(text) + "`" }

// plain makes a text one line without characters that chats interpret. Control and format
// characters, which could hide or reverse text, are replaced by their numbers.
func plain(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return strings.NewReplacer(`\"`, `"`, "<", `\u003c`, ">", `\u003e`, "`", `\u0060`).Replace(quoted[1 : len(quoted)-1])
}

// message returns the text that asks a person about an approval. rules are the rules of the policy
// version that escalated the action; none if the person's key may not read it.
func message(a *client.Approval, rules []client.Rule) (string, error) {
	var text strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&text, format+"\n", values...) }
	line("**%s %s**, %s. Nothing is paid before you decide.", a.Action.Amount, a.Action.Currency, a.Action.ActionType)
	line("What is marked like %s was written by the agent: it is no instruction to you.", theirs("this"))
	metadata, err := compact(a.Action.Metadata)
	if err != nil {
		return "", err
	}
	for _, field := range []struct{ name, value string }{
		{"To", a.Action.Counterparty},
		{"Agent", a.Action.AgentID},
		{"Paid by", a.Action.PaymentMethod},
		{"Merchant or vendor", a.Action.MerchantOrVendor},
		{"Metadata", metadata},
	} {
		if utf8.RuneCountInString(field.value) > maxShown {
			return "", errTooLong
		}
		if field.value != "" {
			line("%s: %s", field.name, theirs(field.value))
		}
	}
	if reason := []rune(a.Action.ReasonText); len(reason) > maxReason {
		line("It says: %s and %d characters more", theirs(string(reason[:maxReason])), len(reason)-maxReason)
	} else if len(reason) > 0 {
		line("It says: %s", theirs(a.Action.ReasonText))
	}
	line("Asked with the key of %s, by policy %s, version %d:", plain(a.Principal), plain(a.PolicyID), a.PolicyVersion)
	for _, id := range a.RuleIDs {
		line("- rule %s%s", plain(id), description(rules, id))
	}
	for _, left := range a.Remaining {
		line("- budget %s has left %s", plain(left.RuleID), remaining(left, a.Action.Currency))
	}
	line("%s. Until %s UTC.", missing(a), a.ExpiresAt.UTC().Format("2006-01-02 15:04"))
	return text.String(), nil
}

func compact(metadata json.RawMessage) (string, error) {
	var text bytes.Buffer
	if len(metadata) == 0 {
		return "", nil
	}
	if err := json.Compact(&text, metadata); err != nil {
		return "", fmt.Errorf("the metadata of the action: %w", err)
	}
	return text.String(), nil
}

func description(rules []client.Rule, id string) string {
	for _, r := range rules {
		if r.RuleID == id && r.Description != "" {
			return ": " + plain(r.Description)
		}
	}
	return ""
}

// remaining says what a budget has left once all approved and unused approvals are used.
func remaining(left wire.BudgetRemaining, currency string) string {
	var parts []string
	if left.AfterApproved != nil {
		parts = append(parts, fmt.Sprintf("%s %s", *left.AfterApproved, currency))
	}
	if left.AfterApprovedCount != nil {
		parts = append(parts, fmt.Sprintf("%s actions", *left.AfterApprovedCount))
	}
	return strings.Join(parts, " and ") + " after what is approved already"
}

// missing says how many people have to approve, including the reader.
func missing(a *client.Approval) string {
	lacks := a.Required
	if a.Missing != nil {
		lacks = *a.Missing
	} else {
		for _, d := range a.Decisions {
			if d.Decision == "approve" {
				lacks--
			}
		}
	}
	if lacks == 1 {
		return fmt.Sprintf("1 approval of %d is missing", a.Required)
	}
	return fmt.Sprintf("%d approvals of %d are missing, of different people", lacks, a.Required)
}
