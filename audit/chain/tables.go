package chain

import "slices"

// Table describes the rows of a table as they are encoded: its columns, in their order.
type Table struct {
	Name   string
	Fields []Field
}

// Columns returns the names of the columns.
func (t Table) Columns() []string { return namesOf(t.Fields) }

// Index returns the place of a column.
func (t Table) Index(column string) int {
	return slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == column })
}

// Checks is the table of checks.
func Checks() Table { return Table{"checks", CheckFields()} }

// KeptChecks is the table of checks of archived days that payments show.
func KeptChecks() Table { return Table{"kept_checks", CheckFields()} }

// Violations is the table of violations.
func Violations() Table { return Table{"violations", ViolationFields()} }

// Outcomes is the table of outcomes.
func Outcomes() Table {
	return Table{"outcomes", []Field{
		{"outcome_id", UUID},
		{"check_id", UUID},
		{"node", UUID},
		{"epoch", UUID},
		{"step", Int16},
		{"number", Int16},
		{"status", Letter},
		{"release", Letter},
		{"excess", Letter},
		{"amount", Amount},
		{"reference", Text},
		{"note", Text},
		{"key_id", Text},
		{"principal", Text},
		{"request_id", Text},
		{"may_release", Bool},
		{"replay", Bytes},
		{"stops", Int64},
		{"payment", Text},
	}}
}

// Policies is the table of the versions of policies.
func Policies() Table {
	return Table{"policies", []Field{
		{"policy_id", Text},
		{"version", Int32},
		{"name", Text},
		{"description", Text},
		{"rules", Text},
		{"metadata", Text},
		{"created_at", Instant},
		{"updated_at", Instant},
		{"generation", Int64},
		{"budgets", JSON},
		{"redeem", Text},
		{"changes", Text},
	}}
}

// Drafts is the table of the drafts of policies, and of their ends.
func Drafts() Table {
	return Table{"drafts", []Field{
		{"policy_id", Text},
		{"generation", Int64},
		{"base_version", Int32},
		{"name", Text},
		{"description", Text},
		{"rules", Text},
		{"metadata", Text},
		{"made_at", Instant},
		{"redeem", Text},
		{"changes", Text},
	}}
}

// Keys is the table of API keys: all but last_used, which is no configuration.
func Keys() Table {
	return Table{"keys", []Field{
		{"id", UUID},
		{"hash", Bytes},
		{"name", Text},
		{"rpm", Int32},
		{"active", Bool},
		{"created_at", Instant},
		{"generation", Int64},
		{"grants", JSON},
		{"stopped", Int64},
		{"granter_since", Int64},
	}}
}

// Webhooks is the table of webhooks.
func Webhooks() Table {
	return Table{"webhooks", []Field{
		{"id", UUID},
		{"url", Text},
		{"event_types", Text},
		{"active", Bool},
		{"secret_sha256", Bytes},
		{"created_at", Instant},
		{"generation", Int64},
	}}
}

// Changes is the table of changes of the configuration. The last column, the head, is not part of the row that it covers.
func Changes() Table {
	return Table{"changes", []Field{
		{"seq", Int64},
		{"kind", Text},
		{"subject", Text},
		{"version", Int32},
		{"actor", Text},
		{"key_id", Text},
		{"principal", Text},
		{"credential", Text},
		{"request_id", Text},
		{"address", Text},
		{"at", Instant},
		{"details", Text},
		{"hash", Bytes},
		{"head", Bytes},
	}}
}

// IdempotencyKeys is the table of idempotency keys.
func IdempotencyKeys() Table {
	return Table{"idempotency_keys", []Field{{"key_hash", Bytes}, {"check_id", UUID}, {"expires_at", Instant}}}
}

// Payments is the table of payments: all but when they changed.
func Payments() Table {
	return Table{"payments", []Field{
		{"payment_hash", Bytes}, {"namespace", Text}, {"payment_key", Text}, {"version", Int64}, {"first_check", UUID}, {"state", Text},
	}}
}

// OpenRedemptions is the table of redeemed checks without an outcome.
func OpenRedemptions() Table {
	return Table{"redemptions_open", []Field{{"check_id", UUID}, {"redeemed_at", Instant}, {"doubted_at", Instant}}}
}

// Exhaustions is the table of exhausted counters of budgets.
func Exhaustions() Table {
	return Table{"budget_exhaustions", []Field{
		{"counter_id", UUID},
		{"start_ms", Int64},
		{"bucket_ms", Int64},
		{"id", UUID},
		{"at", Instant},
		{"since", Int32},
		{"percent", Int32},
		{"nth", Int64},
		{"max_used", Amount},
		{"max_count", Int64},
		{"used", Amount},
		{"count", Int64},
		{"policy_id", Text},
		{"rule_id", Text},
		{"subject", Text},
		{"agent_id", Text},
	}}
}
