package capacity

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// How many keys a load needs follows from the most that a key may have unless a
// setting says otherwise.
func TestKeysOfALoad(t *testing.T) {
	settings := must.Get(os.ReadFile("../../../docs/operate/settings.md"))(t)
	page := must.Get(os.ReadFile("../../../docs/operate/capacity.md"))(t)
	number := func(text []byte) int {
		return must.Get(strconv.Atoi(strings.ReplaceAll(string(text), ",", "")))(t)
	}
	most := regexp.MustCompile("`SPENDGATE_MAX_RATE_LIMIT_RPM` \\| `(\\d+)`").FindSubmatch(settings)
	stated := regexp.MustCompile(`A key has at most ([\d,]+) requests a minute`).FindSubmatch(page)
	if most == nil || stated == nil || number(most[1]) != number(stated[1]) {
		t.Fatalf("the settings have %s, the page %s", most, stated)
	}
	loads := regexp.MustCompile(`([\d,]+)(?: checks a second)?\s+need ([\d,]+)(?: keys)? or more`).FindAllSubmatch(page, -1)
	if len(loads) != 2 {
		t.Errorf("the page has %d loads", len(loads))
	}
	for _, load := range loads {
		limit := number(most[1])
		if want := (number(load[1])*60 + limit - 1) / limit; number(load[2]) != want {
			t.Errorf("%s checks a second need %d keys, the page says %s", load[1], want, load[2])
		}
	}
}
