package client

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"spendgate/bench/must"
)

// TestEveryOperation: the client has a call for each operation of the document, named after the
// operation or after what it gets or lists, except operations that are left to the packages in
// deploy/clients.
func TestEveryOperation(t *testing.T) {
	named := map[string]string{"createCheck": "Check", "redeemCheck": "Redeem", "putDraft": "PutDraftJSON", "getOwnKey": "Self"}
	left := []string{
		"createWebhook", "getWebhook", "updateWebhook", "deleteWebhook", "rotateWebhook", "retryWebhook", "listDeliveries", "replayDelivery",
		"getOpenAPI", "getOpenAPIJSON",
	}
	document := must.Get(os.ReadFile("../httpapi/openapi.yaml"))(t)
	operations := regexp.MustCompile(`operationId: (\w+)`).FindAllSubmatch(document, -1)
	if len(operations) < 40 {
		t.Fatalf("found %d operations", len(operations))
	}
	client := reflect.TypeFor[*Client]()
	for _, found := range operations {
		operation := string(found[1])
		if slices.Contains(left, operation) {
			continue
		}
		what := operation[strings.IndexFunc(operation+"A", unicode.IsUpper):]
		calls := []string{named[operation], strings.ToUpper(operation[:1]) + operation[1:]}
		switch strings.TrimSuffix(operation, what) {
		case "get":
			calls = append(calls, what)
		case "list":
			calls = append(calls, what, "All"+what)
		}
		if !slices.ContainsFunc(calls, func(name string) bool { _, has := client.MethodByName(name); return has }) {
			t.Errorf("the client has no call for %s", operation)
		}
	}
}
