package audit

import "strconv"

// PolicySelection selects the versions of policies for a page, in SQL that both stores have.
type PolicySelection struct {
	Query string // selects policy_id and version
	Order string
	Limit int
}

// SQL returns the query of the page: the columns of the first selected versions, and how many there
// are, at most one more than the limit. It knows the sizes of texts before it reads them, and reads
// no text for which the page has no room.
func (s PolicySelection) SQL(columns string) string {
	const size = "(octet_length(rules) + octet_length(metadata))"
	order := " ORDER BY " + s.Order
	return "SELECT " + columns + ", found FROM (SELECT policies.*, count(*) OVER () AS found, " +
		"sum(" + size + ") OVER (" + order + ") - " + size + " AS earlier FROM policies JOIN (" +
		s.Query + order + " LIMIT " + strconv.Itoa(s.Limit+1) + ") AS selected USING (policy_id, version)) AS sized" +
		" WHERE earlier < " + strconv.Itoa(MaxPageBytes) + order + " LIMIT " + strconv.Itoa(s.Limit)
}

// SelectDraftOf selects the change that put the draft from which version v was promoted; null for
// other versions.
const SelectDraftOf = `(SELECT max(d.seq) FROM changes AS d WHERE d.subject = v.subject AND d.kind = 'policy.draft_put' AND d.seq < v.seq
	AND EXISTS (SELECT 1 FROM changes AS p WHERE p.seq = v.seq - 1 AND p.subject = v.subject AND p.kind = 'policy.draft_promoted'))`
