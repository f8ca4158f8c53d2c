package wire

// Probe is the agent_id of the checks of `spendgate probe`, and begins their User-Agent.
const Probe = "spendgate-probe"

// Health is the service's health report.
type Health struct {
	Status    string    `json:"status"` // ok
	Version   string    `json:"version"`
	Timestamp Timestamp `json:"timestamp"`
}

// Readiness is the answer to /readyz.
type Readiness struct {
	Status       string       `json:"status"` // ready, draining or failing
	Mode         string       `json:"mode"`
	Durability   string       `json:"durability"`
	TimeZones    string       `json:"time_zones,omitzero"`
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency says whether a part of the service works.
type Dependency struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok or failing
	Detail string `json:"detail,omitzero"`
}

// Position is the position of a page.
type Position struct {
	NextCursor string `json:"next_cursor,omitempty" wire:"null"` // empty on the last page
	HasMore    bool   `json:"has_more"`
}

// Pagination is the position of a page in a list that has a total.
type Pagination struct {
	Position
	TotalCount int64 `json:"total_count"` // of all pages; 0 in a list without a total
}

// ConsoleSession says whether people sign in, with whom, and whether this browser has a session.
type ConsoleSession struct {
	SignIn  *string `json:"sign_in" wire:"null"`
	Origin  string  `json:"origin,omitzero"`
	Session bool    `json:"session"`
}

// TakenOver is a session for the command line.
type TakenOver struct {
	Session string `json:"session"`
}

// LinkedKeys are the keys that a link to the console gives.
type LinkedKeys struct {
	APIKey   string `json:"api_key"`
	AdminKey string `json:"admin_key"`
}
