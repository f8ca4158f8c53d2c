package spend

import "strings"

// Fault is one fault of a well-formed request: the field, by path (rules[2].parameters.limit), and
// what is accepted instead (S1).
type Fault struct {
	Path    string
	Problem string // completes "<path> ...": "is required", "must be ..."
}

// Faults is every fault of one request, in the order found. A nil Faults is
// no error; use Err to turn it into one.
type Faults []Fault

// maxFaultsShown bounds the message of a request with many faults.
const maxFaultsShown = 20

// maxNameShown is how many code points of an unknown name a fault repeats.
const maxNameShown = 64

// NameShown returns an unknown name as a fault repeats it.
func NameShown(name string) string {
	shown := 0
	for i := range name {
		if shown == maxNameShown {
			return name[:i] + "..."
		}
		shown++
	}
	return name
}

// Add records a fault.
func (f *Faults) Add(path, problem string) { *f = append(*f, Fault{path, problem}) }

// Err returns nil without faults, else the Faults as an error.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Error names each fault: "amount is required; currency must be ...".
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i == maxFaultsShown {
			b.WriteString("; and more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(fault.Path + " " + fault.Problem)
	}
	return b.String()
}
