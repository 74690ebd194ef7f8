package retry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

// written holds, for each field of a policy, how a file says it and what that is
// in Go.
var written = []struct {
	field  string
	file   string
	policy retry.Policy
}{
	{"MaxAttempts", `"max_attempts": 5`, retry.Policy{MaxAttempts: 5}},
	{"BaseDelay", `"base_delay": "20ms"`, retry.Policy{BaseDelay: 20 * time.Millisecond}},
	{"MaxDelay", `"max_delay": "1m30s"`, retry.Policy{MaxDelay: 90 * time.Second}},
	{"ThrottleDelay", `"throttle_delay": "1.5s"`, retry.Policy{ThrottleDelay: 1500 * time.Millisecond}},
	{"Jitter", `"jitter": "equal"`, retry.Policy{Jitter: retry.EqualJitter}},
	{"Jitter", `"jitter": "none"`, retry.Policy{Jitter: retry.NoJitter}},
	{"MaxRetryAfter", `"max_retry_after": "2m"`, retry.Policy{MaxRetryAfter: 2 * time.Minute}},
	{"Deadline", `"deadline": "1h"`, retry.Policy{Deadline: time.Hour}},
	{"Deadline", `"deadline": "none"`, retry.Policy{Deadline: retry.NoLimit}},
	{"AttemptTimeout", `"attempt_timeout": "250ms"`, retry.Policy{AttemptTimeout: 250 * time.Millisecond}},
	{"AttemptTimeout", `"attempt_timeout": "none"`, retry.Policy{AttemptTimeout: retry.NoLimit}},
	{"Budget.Burst", `"budget": {"burst": 3}`, retry.Policy{Budget: retry.Budget{Burst: 3}}},
	{"Budget.Ratio", `"budget": {"ratio": 1}`, retry.Policy{Budget: retry.Budget{Ratio: 1}}},
	{"Budget.PerSecond", `"budget": {"per_second": 2.5e-1}`, retry.Policy{Budget: retry.Budget{PerSecond: 0.25}}},
	{"Budget.Disabled", `"budget": {"disabled": true}`, retry.Policy{Budget: retry.Budget{Disabled: true}}},
	{"Breaker.Window", `"breaker": {"window": "15s"}`, retry.Policy{Breaker: breaker.Settings{Window: 15 * time.Second}}},
	{"Breaker.MinResults", `"breaker": {"min_results": 1000000}`, retry.Policy{Breaker: breaker.Settings{MinResults: 1_000_000}}},
	{"Breaker.FailureRatio", `"breaker": {"failure_ratio": 0.75}`, retry.Policy{Breaker: breaker.Settings{FailureRatio: 0.75}}},
	{"Breaker.OpenFor", `"breaker": {"open_for": "1ms"}`, retry.Policy{Breaker: breaker.Settings{OpenFor: time.Millisecond}}},
	{"Breaker.MaxOpenFor", `"breaker": {"max_open_for": "24h"}`, retry.Policy{Breaker: breaker.Settings{MaxOpenFor: 24 * time.Hour}}},
	{"Breaker.Probes", `"breaker": {"probes": 1}`, retry.Policy{Breaker: breaker.Settings{Probes: 1}}},
	{"Breaker.Disabled", `"breaker": {"disabled": true}`, retry.Policy{Breaker: breaker.Settings{Disabled: true}}},
	{"Key.Header", `"key": {"header": "PayPal-Request-Id"}`, retry.Policy{Key: retry.KeyPolicy{Header: "PayPal-Request-Id"}}},
	{"Key.Format", `"key": {"format": "structured_string"}`, retry.Policy{Key: retry.KeyPolicy{Format: retry.StructuredString}}},
	{"Key.Honored", `"key": {"honored": true}`, retry.Policy{Key: retry.KeyPolicy{Honored: true}}},
	{"Key.Methods", `"key": {"methods": ["PUT", "POST"]}`, retry.Policy{Key: retry.KeyPolicy{Methods: []string{"PUT", "POST"}}}},
	{"Key.Methods", `"key": {"methods": []}`, retry.Policy{Key: retry.KeyPolicy{Methods: []string{}}}},
	{"Key.ValidFor", `"key": {"valid_for": "48h"}`, retry.Policy{Key: retry.KeyPolicy{ValidFor: 48 * time.Hour}}},
	{"Statuses", `"statuses": {"503": "ambiguous", "409": "retryable", "999": "permanent"}`,
		retry.Policy{Statuses: map[int]classify.Class{503: classify.Ambiguous, 409: classify.Retryable, 999: classify.Permanent}}},
	{"PrivatePushback", `"private_pushback": true`, retry.Policy{PrivatePushback: true}},
	{"Announce", `"announce": true`, retry.Policy{Announce: true}},
}

func TestAPolicyWrittenFieldByFieldIsTheGoLiteral(t *testing.T) {
	done := map[string]bool{}
	for _, tt := range written {
		t.Run(tt.file, func(t *testing.T) {
			done[tt.field] = true
			o := read(t, `{"default": {`+tt.file+`}}`)
			if !reflect.DeepEqual(o.Default, tt.policy) {
				t.Errorf("ReadOrganization(default with %s).Default is\n%#v, want\n%#v", tt.file, o.Default, tt.policy)
			}
			o = read(t, `{"destinations": {"a": {`+tt.file+`}}}`)
			if got := o.Destinations["a"]; !reflect.DeepEqual(got, tt.policy) {
				t.Errorf("ReadOrganization(destination with %s).Destinations[a] is\n%#v, want\n%#v", tt.file, got, tt.policy)
			}
			// The row is about the field that it names, and about no other.
			v := reflect.ValueOf(tt.policy)
			for part := range strings.SplitSeq(tt.field, ".") {
				v = v.FieldByName(part)
			}
			if v.IsZero() {
				t.Errorf("the row of %s leaves the field zero", tt.field)
			}
		})
	}
	// A field that is new in Policy must get its name in files, and a row here.
	for _, field := range leaves(reflect.TypeFor[retry.Policy](), "") {
		if !done[field] {
			t.Errorf("no row of the table says how a file writes Policy.%s", field)
		}
	}
}

// leaves returns the paths of all fields that a file can say.
func leaves(typ reflect.Type, prefix string) (paths []string) {
	for f := range typ.Fields() {
		switch {
		case f.Tag.Get("json") == "-":
		case f.Type.Kind() == reflect.Struct:
			paths = append(paths, leaves(f.Type, prefix+f.Name+".")...)
		default:
			paths = append(paths, prefix+f.Name)
		}
	}
	return paths
}

func TestADestinationInheritsWhatItDoesNotSay(t *testing.T) {
	// The default may stand below the destinations.
	o := read(t, `{
		"destinations": {
			"says.nothing": {},
			"says.parts": {
				"deadline": "20s",
				"budget": {"burst": 3},
				"breaker": {"disabled": false},
				"key": {"methods": ["PUT"]},
				"statuses": {"409": "retryable", "503": "permanent"},
				"announce": false
			}
		},
		"default": {
			"max_attempts": 4, "deadline": "none", "announce": true,
			"budget": {"burst": 5, "ratio": 0.1},
			"breaker": {"probes": 2, "disabled": true},
			"key": {"header": "X-Key", "methods": ["POST"]},
			"statuses": {"503": "ambiguous", "500": "permanent"}
		}
	}`)
	want := retry.Policy{
		MaxAttempts: 4, Deadline: retry.NoLimit, Announce: true,
		Budget:   retry.Budget{Burst: 5, Ratio: 0.1},
		Breaker:  breaker.Settings{Probes: 2, Disabled: true},
		Key:      retry.KeyPolicy{Header: "X-Key", Methods: []string{"POST"}},
		Statuses: map[int]classify.Class{503: classify.Ambiguous, 500: classify.Permanent},
	}
	require.Equal(t, want, o.Default)
	require.Equal(t, want, o.Destinations["says.nothing"], "a destination that says nothing")

	parts := want
	parts.Deadline, parts.Announce = 20*time.Second, false
	parts.Budget.Burst, parts.Breaker.Disabled = 3, false
	parts.Key.Methods = []string{"PUT"} // a list replaces
	parts.Statuses = map[int]classify.Class{503: classify.Permanent, 409: classify.Retryable, 500: classify.Permanent}
	require.Equal(t, parts, o.Destinations["says.parts"], "a destination that says parts")
}

func TestPoliciesOfAFileShareNothing(t *testing.T) {
	o := read(t, `{
		"default": {"key": {"methods": ["POST"]}, "statuses": {"503": "ambiguous"}},
		"destinations": {"a": {}, "b": {"statuses": {"409": "retryable"}}}
	}`)
	o.Default.Statuses[503], o.Default.Key.Methods[0] = classify.Permanent, "PUT"
	for _, name := range []string{"a", "b"} {
		if p := o.Destinations[name]; p.Statuses[503] != classify.Ambiguous || p.Key.Methods[0] != "POST" {
			t.Errorf("after a change of the default, destination %s has statuses %v and methods %v", name, p.Statuses, p.Key.Methods)
		}
	}
	if _, there := o.Default.Statuses[409]; there {
		t.Error("the status of a destination got into the default")
	}
}

func TestAFileMayLeaveEverythingOut(t *testing.T) {
	for _, input := range []string{`{}`, " {\r\n}\n\n", `{"default": {}}`, `{"destinations": {}}`, `{"default": {"budget": {}, "breaker": {}, "key": {}, "statuses": {}}}`} {
		o := read(t, input)
		if !reflect.DeepEqual(o.Default, retry.Policy{}) || len(o.Destinations) != 0 {
			t.Errorf("ReadOrganization(%q) = %+v, want the zero Organization", input, o)
		}
	}
}

// Each row is one file and all of its problems.
func TestAFileWithProblemsNamesThemAll(t *testing.T) {
	const (
		policyNames = "max_attempts, base_delay, max_delay, throttle_delay, jitter, max_retry_after, deadline, attempt_timeout, " +
			"budget, breaker, key, statuses, private_pushback or announce"
		span   = `allowed is a duration above 0 as "1.5s"; left out it is `
		spanOr = `allowed is a duration above 0 as "1.5s", or "none"; left out it is `
	)
	tests := []struct {
		name string
		file string
		want []string
	}{
		{"unknown names", `{
  "defaults": {},
  "default": {
    "max_atempts": 4,
    "MaxDelay": "1s",
    "Announce": true,
    "retries": 3,
    "breaker": {"probe": 1}
  }
}`, []string{
			`line 2: defaults: "defaults": no such name, did you mean "default"? allowed is default or destinations`,
			`line 4: default.max_atempts: "max_atempts": no such name, did you mean "max_attempts"? allowed is ` + policyNames,
			`line 5: default."MaxDelay": "MaxDelay": no such name, did you mean "max_delay"? allowed is ` + policyNames,
			`line 6: default."Announce": "Announce": no such name, did you mean "announce"? allowed is ` + policyNames,
			`line 7: default.retries: "retries": no such name: allowed is ` + policyNames,
			`line 8: default.breaker.probe: "probe": no such name, did you mean "probes"? allowed is window, min_results, failure_ratio, open_for, max_open_for, probes or disabled`,
		}},
		{"names that come twice, at any depth", `{
  "default": {"announce": true, "announce": true,
    "budget": {"burst": 1,
               "burst": 2},
    "statuses": {"503": "ambiguous", "\u0035\u0030\u0033": "permanent"},
    "what": [{"x": {"y": 1, "y": 2}}]},
  "destinations": {
    "api.example.com": {},
    "API.Example.com": {"deadline": 1},
    "*.example.com": {},
    "*.EXAMPLE.com": {}
  },
  "destinations": {}
}`, []string{
			`line 2: default.announce: "announce" comes twice: allowed is once, and it stands in line 2`,
			`line 4: default.budget.burst: "burst" comes twice: allowed is once, and it stands in line 3`,
			`line 5: default.statuses."503": "503" comes twice: allowed is once, and it stands in line 5`,
			`line 6: default.what[0].x.y: "y" comes twice: allowed is once, and it stands in line 6`,
			`line 6: default.what: "what": no such name: allowed is ` + policyNames,
			`line 9: destinations."API.Example.com": "API.Example.com" comes twice: allowed is once, and it stands in line 8`,
			`line 11: destinations."*.EXAMPLE.com": "*.EXAMPLE.com" comes twice: allowed is once, and it stands in line 10`,
			`line 13: destinations: "destinations" comes twice: allowed is once, and it stands in line 7`,
		}},
		// B150: Zero retries asked for, three (or endless) done; retries and attempts mixed up by one. In a file a zero
		// is said and not left out, so none of them can mean a default.
		{"zeros that are said", `{"default": {
  "max_attempts": 0,
  "base_delay": "0s",
  "max_delay": "0",
  "throttle_delay": "-0s",
  "max_retry_after": "0.0h",
  "deadline": "0s",
  "attempt_timeout": "0.1ns",
  "budget": {
    "burst": 0,
    "ratio": 0,
    "per_second": 0.0},
  "breaker": {
    "window": "0s",
    "min_results": 0,
    "failure_ratio": -0,
    "open_for": "0s",
    "max_open_for": "0s",
    "probes": 0},
  "key": {
    "header": "",
    "valid_for": "0s"}
}}`, []string{
			`line 2: default.max_attempts: 0: allowed is a whole number from 1 to 2147483647; left out it is 3`,
			`line 3: default.base_delay: "0s": ` + span + `100ms, or max_delay if that is shorter`,
			`line 4: default.max_delay: "0": ` + span + `5s`,
			`line 5: default.throttle_delay: "-0s": ` + span + `1s, or max_delay if that is shorter`,
			`line 6: default.max_retry_after: "0.0h": ` + span + `30s`,
			`line 7: default.deadline: "0s": ` + spanOr + `30s`,
			`line 8: default.attempt_timeout: "0.1ns": ` + spanOr + `10s, or deadline or breaker.window if that is shorter`,
			`line 10: default.budget.burst: 0: allowed is a whole number from 1 to 2147483647; left out it is 10`,
			`line 11: default.budget.ratio: 0: allowed is a number above 0, at most 1; left out it is 0.2`,
			`line 12: default.budget.per_second: 0.0: allowed is a number above 0; left out it is 0.01`,
			`line 14: default.breaker.window: "0s": allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is 30s`,
			`line 15: default.breaker.min_results: 0: allowed is a whole number from 1 to 1000000; left out it is 20`,
			`line 16: default.breaker.failure_ratio: -0: allowed is a number above 0, at most 1; left out it is 0.5`,
			`line 17: default.breaker.open_for: "0s": allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is 5s`,
			`line 18: default.breaker.max_open_for: "0s": allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is 1m0s, or open_for if that is longer`,
			`line 19: default.breaker.probes: 0: allowed is a whole number from 1 to 1000000; left out it is 3`,
			`line 21: default.key.header: "": allowed is a header field name (RFC 9110, section 5.1); left out it is "Idempotency-Key"`,
			`line 22: default.key.valid_for: "0s": ` + span + `24h0m0s`,
		}},
		// B155: 0 gave an already-expired context (no attempt at all); a negative open period silently became 60 s.
		{"negative values, -1ns is not NoLimit", `{"destinations": {"a": {
  "max_attempts": -1,
  "deadline": "-1ns",
  "attempt_timeout": "-1s",
  "max_delay": "none",
  "breaker": {"open_for": "-5s"},
  "budget": {"per_second": -1e-9}
}}}`, []string{
			`line 2: destinations."a".max_attempts: -1: allowed is a whole number from 1 to 2147483647; left out it is what default says`,
			`line 3: destinations."a".deadline: "-1ns": ` + spanOr + `what default says`,
			`line 4: destinations."a".attempt_timeout: "-1s": ` + spanOr + `what default says`,
			`line 5: destinations."a".max_delay: "none": ` + span + `what default says`,
			`line 6: destinations."a".breaker.open_for: "-5s": allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is what default says`,
			`line 7: destinations."a".budget.per_second: -1e-9: allowed is a number above 0; left out it is what default says`,
		}},
		{"null is no value", `{"default": {"deadline": null, "announce": null, "jitter": null, "budget": null, "statuses": null,
  "key": {"methods": null, "header": null}}, "destinations": {"a": null}}`, []string{
			`line 1: default.deadline: null: ` + spanOr + `30s`,
			`line 1: default.announce: null: allowed is true or false; left out it is false`,
			`line 1: default.jitter: null: allowed is "full", "equal" or "none"; left out it is "full"`,
			`line 1: default.budget: null: allowed is an object with burst, ratio, per_second and disabled`,
			`line 1: default.statuses: null: allowed is an object as {"503": "ambiguous"}; left out it is {}`,
			`line 2: default.key.methods: null: allowed is a list of HTTP methods as ["POST"]; left out it is ["POST", "PATCH"]`,
			`line 2: default.key.header: null: allowed is a header field name (RFC 9110, section 5.1); left out it is "Idempotency-Key"`,
			`line 2: destinations."a": null: allowed is an object with ` + strings.Replace(policyNames, " or ", " and ", 1),
		}},
		{"wrong types", `{"default": {
  "max_attempts": "3",
  "base_delay": 100,
  "deadline": 30,
  "announce": "true",
  "jitter": 1,
  "budget": [1],
  "breaker": {"disabled": 1, "window": {}, "failure_ratio": "0.5"},
  "key": {"methods": "POST", "honored": "yes", "header": ["A"]},
  "statuses": []
}}`, []string{
			`line 2: default.max_attempts: "3": allowed is a whole number from 1 to 2147483647; left out it is 3`,
			`line 3: default.base_delay: 100: ` + span + `100ms, or max_delay if that is shorter`,
			`line 4: default.deadline: 30: ` + spanOr + `30s`,
			`line 5: default.announce: "true": allowed is true or false; left out it is false`,
			`line 6: default.jitter: 1: allowed is "full", "equal" or "none"; left out it is "full"`,
			`line 7: default.budget: […]: allowed is an object with burst, ratio, per_second and disabled`,
			`line 8: default.breaker.disabled: 1: allowed is true or false; left out it is false`,
			`line 8: default.breaker.window: {}: allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is 30s`,
			`line 8: default.breaker.failure_ratio: "0.5": allowed is a number above 0, at most 1; left out it is 0.5`,
			`line 9: default.key.methods: "POST": allowed is a list of HTTP methods as ["POST"]; left out it is ["POST", "PATCH"]`,
			`line 9: default.key.honored: "yes": allowed is true or false; left out it is false`,
			`line 9: default.key.header: […]: allowed is a header field name (RFC 9110, section 5.1); left out it is "Idempotency-Key"`,
			`line 10: default.statuses: []: allowed is an object as {"503": "ambiguous"}; left out it is {}`,
		}},
		{"sections of the wrong type", "{\n\"default\": 3,\n\"destinations\": [{}]}", []string{
			`line 2: default: 3: allowed is an object with ` + strings.Replace(policyNames, " or ", " and ", 1),
			`line 3: destinations: […]: allowed is an object of policies by destination`,
		}},
		{"numbers that are too large, and none that are whole", `{"default": {
  "max_attempts": 99999999999999999999,
  "budget": {"burst": 2147483648, "ratio": 1e400, "per_second": 1e309},
  "breaker": {"min_results": 1000001, "probes": 3.0, "failure_ratio": 1.0000001, "window": "24h0m1s"},
  "deadline": "300000h",
  "max_delay": "9999999999999999999h"
}}`, []string{
			`line 2: default.max_attempts: 99999999999999999999: allowed is a whole number from 1 to 2147483647; left out it is 3`,
			`line 3: default.budget.burst: 2147483648: allowed is a whole number from 1 to 2147483647; left out it is 10`,
			`line 3: default.budget.ratio: 1e400: allowed is a number above 0, at most 1; left out it is 0.2`,
			`line 3: default.budget.per_second: 1e309: allowed is a number above 0; left out it is 0.01`,
			`line 4: default.breaker.min_results: 1000001: allowed is a whole number from 1 to 1000000; left out it is 20`,
			`line 4: default.breaker.probes: 3.0: allowed is a whole number from 1 to 1000000; left out it is 3`,
			`line 4: default.breaker.failure_ratio: 1.0000001: allowed is a number above 0, at most 1; left out it is 0.5`,
			`line 4: default.breaker.window: "24h0m1s": allowed is a duration as "1.5s", from 1ms to 24h0m0s; left out it is 30s`,
			// 300,000 hours are 34 years, and so a duration.
			`line 6: default.max_delay: "9999999999999999999h": ` + span + `5s`,
		}},
		{"words, methods and statuses", `{"default": {
  "jitter": "Full",
  "base_delay": "1.5",
  "key": {"format": "quoted", "header": "a b", "methods": ["post",
          "GET", 3]},
  "statuses": {"503": "maybe", "50": "ambiguous", "0503": "ambiguous", "199": "retryable", "+50": "retryable", "5xx": "permanent", "500": 3}
}}`, []string{
			`line 2: default.jitter: "Full": allowed is "full", "equal" or "none"; left out it is "full"`,
			`line 3: default.base_delay: "1.5": ` + span + `100ms, or max_delay if that is shorter`,
			`line 4: default.key.format: "quoted": allowed is "raw" or "structured_string"; left out it is "raw"`,
			`line 4: default.key.header: "a b": allowed is a header field name (RFC 9110, section 5.1); left out it is "Idempotency-Key"`,
			`line 4: default.key.methods[0]: "post": allowed is an HTTP method in capitals as "POST"`,
			`line 5: default.key.methods[1]: "GET": allowed is a method that writes: a read carries no key`,
			`line 5: default.key.methods[2]: 3: allowed is an HTTP method in capitals as "POST"`,
			`line 6: default.statuses."503": "maybe": allowed is "ambiguous", "retryable" or "permanent"`,
			`line 6: default.statuses."50": "50": allowed is a final status, "200" to "999"`,
			`line 6: default.statuses."0503": "0503": allowed is a final status, "200" to "999"`,
			`line 6: default.statuses."199": "199": allowed is a final status, "200" to "999"`,
			`line 6: default.statuses."+50": "+50": allowed is a final status, "200" to "999"`,
			`line 6: default.statuses."5xx": "5xx": allowed is a final status, "200" to "999"`,
			`line 6: default.statuses."500": 3: allowed is "ambiguous", "retryable" or "permanent"`,
		}},
		{"names of destinations", `{"destinations": {"": {},
  "*": {}, "*example.com": {}, "*.": {}, "a.*.com": {}, "*.a.*": {},
  "10.0.0.1:8080": {}, "[::1]:80": {}, "billing": {}, "*.example.com": {}, "http://api.example.com:8080": {},
  "http://api.example.com:8080/": {}}}`, []string{
			`line 1: destinations."": "": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 2: destinations."*": "*": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 2: destinations."*example.com": "*example.com": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 2: destinations."*.": "*.": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 2: destinations."a.*.com": "a.*.com": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 2: destinations."*.a.*": "*.a.*": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
			`line 4: destinations."http://api.example.com:8080/": "http://api.example.com:8080/": allowed is a name, scheme://host:port without a path, host:port, host or *.suffix`,
		}},

		// B154: Nonsense combinations panic later, inside the first outage, or give a zero delay loop.
		{"contradictions in the default", `{"default": {
  "base_delay": "1s", "throttle_delay": "2s",
  "max_delay": "10ms",
  "deadline": "5s",
  "attempt_timeout": "6s",
  "breaker": {"window": "1s", "open_for": "2m",
              "max_open_for": "1m"}
}}`, []string{
			`line 2: default.base_delay: "1s": allowed is at most max_delay, which is 10ms`,
			`line 2: default.throttle_delay: "2s": allowed is at most max_delay, which is 10ms`,
			`line 5: default.attempt_timeout: "6s": allowed is at most deadline, which is 5s`,
			`line 6: default.breaker.window: "1s": allowed is at least attempt_timeout, which is 6s`,
			`line 7: default.breaker.max_open_for: "1m": allowed is at least breaker.open_for, which is 2m0s`,
		}},
		{"contradictions with what is left out", `{"default": {
  "base_delay": "6s",
  "attempt_timeout": "31s",
  "breaker": {"max_open_for": "4s"}
}}`, []string{
			`line 2: default.base_delay: "6s": allowed is at most max_delay, which is 5s (left out)`,
			`line 3: default.attempt_timeout: "31s": allowed is at most deadline, which is 30s (left out)`,
			`line 3: default.attempt_timeout: "31s": allowed is at most breaker.window, which is 30s (left out)`,
			`line 4: default.breaker.max_open_for: "4s": allowed is at least breaker.open_for, which is 5s (left out)`,
		}},
		{"contradictions with what is inherited", `{
  "default": {
    "throttle_delay": "2s",
    "attempt_timeout": "8s",
    "breaker": {"open_for": "10s"}
  },
  "destinations": {
    "api.example.com": {
      "max_delay": "1s",
      "deadline": "5s",
      "breaker": {"max_open_for": "9s", "window": "7s"}
    },
    "*.example.com": {"attempt_timeout": "none", "deadline": "5s"}
  }
}`, []string{
			`line 9: destinations."api.example.com".max_delay: "1s": allowed is at least throttle_delay, which is 2s (from default, line 3)`,
			`line 10: destinations."api.example.com".deadline: "5s": allowed is at least attempt_timeout, which is 8s (from default, line 4)`,
			`line 11: destinations."api.example.com".breaker.window: "7s": allowed is at least attempt_timeout, which is 8s (from default, line 4)`,
			`line 11: destinations."api.example.com".breaker.max_open_for: "9s": allowed is at least breaker.open_for, which is 10s (from default, line 5)`,
		}},
		{"a contradiction that only sleeps in the default names the destination", `{
  "default": {"attempt_timeout": "10s", "breaker": {"window": "5s", "disabled": true}},
  "destinations": {
    "quiet": {},
    "billing":
      {"breaker": {"disabled": false}}
  }
}`, []string{
			`line 5: destinations."billing": breaker.window is 5s (from default, line 2): allowed is at least attempt_timeout, which is 10s (from default, line 2)`,
		}},
		{"a contradiction of the default is told once", `{
  "default": {"deadline": "5s", "attempt_timeout": "6s", "breaker": {"open_for": "2m", "max_open_for": "1m"}},
  "destinations": {"a": {}, "b": {"deadline": "6s"}, "c": {"attempt_timeout": "7s"}}
}`, []string{
			`line 2: default.attempt_timeout: "6s": allowed is at most deadline, which is 5s`,
			`line 2: default.breaker.max_open_for: "1m": allowed is at least breaker.open_for, which is 2m0s`,
			`line 3: destinations."c".attempt_timeout: "7s": allowed is at most deadline, which is 5s (from default, line 2)`,
		}},
		{"a value that was refused contradicts nothing", `{
  "default": {"deadline": "5 s", "max_delay": 1, "attempt_timeout": "20s", "breaker": 1},
  "destinations": {"a": {"base_delay": "1m", "attempt_timeout": "40s"}, "b": {"max_delay": "10ms", "base_delay": "x", "throttle_delay": "1s"}}
}`, []string{
			`line 2: default.deadline: "5 s": ` + spanOr + `30s`,
			`line 2: default.max_delay: 1: ` + span + `5s`,
			`line 2: default.breaker: 1: allowed is an object with window, min_results, failure_ratio, open_for, max_open_for, probes and disabled`,
			`line 3: destinations."b".base_delay: "x": ` + span + `what default says`,
			`line 3: destinations."b".throttle_delay: "1s": allowed is at most max_delay, which is 10ms`,
		}},
		{"the value may stand on another line than its name", "{\"default\": {\"max_attempts\":\n\n0}, \"destinations\": {\"a\":\n3}}", []string{
			`line 3: default.max_attempts: 0: allowed is a whole number from 1 to 2147483647; left out it is 3`,
			`line 4: destinations."a": 3: allowed is an object with ` + strings.Replace(policyNames, " or ", " and ", 1),
		}},
		{"what nobody would read is cut off", `{"` + strings.Repeat("n", 200) + `": {}, "default": {"jitter": "` + strings.Repeat("ü", 100) + `"}}`, []string{
			`line 1: "` + strings.Repeat("n", 80) + `…": "` + strings.Repeat("n", 80) + `…": no such name: allowed is default or destinations`,
			`line 1: default.jitter: "` + strings.Repeat("ü", 39) + `…: allowed is "full", "equal" or "none"; left out it is "full"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := retry.ReadOrganization(strings.NewReader(tt.file))
			if err == nil {
				t.Fatalf("ReadOrganization(%s) = %+v, want problems", tt.file, o)
			}
			require.Equal(t, tt.want, texts(t, err))
			require.Equal(t, retry.Organization{}, o, "the organization beside an error")
			for _, line := range tt.want {
				require.ErrorContains(t, err, line)
			}
		})
	}
}

func TestWhatIsNoPolicyFileIsOneProblem(t *testing.T) {
	const allowed = "allowed is one JSON object in UTF-8"
	tests := []struct {
		name  string
		input string
		want  string
	}{
		{"empty", "", `line 1: the input is empty: ` + allowed + `, at least {}`},
		{"blank", " \n\t\r\n", `line 1: the input is empty: ` + allowed + `, at least {}`},
		{"a byte order mark", "\xef\xbb\xbf{}", `line 1: the input begins with a byte order mark (EF BB BF): ` + allowed + ` without one`},
		{"UTF-16", "\xff\xfe{\x00}\x00", `line 1: byte 0xFF is not UTF-8: ` + allowed},
		{"a byte of Latin-1", "{\n\"default\": {},\n\"destinations\": {\"caf\xe9\": {}}}", `line 3: byte 0xE9 is not UTF-8: ` + allowed},
		{"trailing data", "{}\n{}", `line 2: …: ` + allowed},
		{"trailing brackets", "{}\n\n]", `line 3: …: ` + allowed},
		{"a file that was cut off", "{\"default\": {\n\"deadline\": \"30", `line 2: …: ` + allowed},
		{"a comma too many", "{\"default\": {\n\"announce\": true,\n}}", `line 3: …: ` + allowed},
		{"a comment", "{\n// the default\n}", `line 2: …: ` + allowed},
		{"NaN", "{\"default\": {\n\"budget\": {\"ratio\": NaN}}}", `line 2: …: ` + allowed},
		{"a list", "\n[]", `line 2: []: allowed is an object with "default" and "destinations"`},
		{"a word", `"default"`, `line 1: "default": allowed is an object with "default" and "destinations"`},
		{"null", `null`, `line 1: null: allowed is an object with "default" and "destinations"`},
		{"too long", strings.Repeat(" ", 1<<19) + "\n" + strings.Repeat(" ", 1<<19) + "{}", `line 2: the input is longer than 1048576 bytes: allowed is 1 MiB`},
		{"nested too deep", "{\"x\":\n" + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}", `line 2: nested more than 16 levels deep: ` + allowed},
		{"nested deeper than JSON may be", strings.Repeat("[", 20_000), `line 1: …: ` + allowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := retry.ReadOrganization(strings.NewReader(tt.input))
			require.Error(t, err)
			got := texts(t, err)
			// The words for what is no JSON are those of encoding/json, which may change them.
			begin, end, _ := strings.Cut(tt.want, "…")
			if len(got) != 1 || !strings.HasPrefix(got[0], begin) || !strings.HasSuffix(got[0], end) || end == "" && got[0] != begin {
				t.Errorf("ReadOrganization(%.60q) has the problems %q, want %q", tt.input, got, tt.want)
			}
		})
	}
}

func TestAFileOfTheGreatestLengthIsRead(t *testing.T) {
	input := `{"default": {"max_attempts": 2}}`
	input += strings.Repeat("\n", 1<<20-len(input))
	require.Equal(t, 2, read(t, input).Default.MaxAttempts)
}

func TestAReaderThatFailsIsToldFromABadFile(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := retry.ReadOrganization(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	if _, bad := errors.AsType[*retry.FileError](err); bad {
		t.Errorf("ReadOrganization of a reader that fails = %v, want no FileError: the file may be fine", err)
	}
	_, err = retry.ReadOrganization(nil)
	require.ErrorContains(t, err, "reader is nil")
}

func TestTheFirstFileErrorSaysWhere(t *testing.T) {
	_, err := retry.ReadOrganization(strings.NewReader("{\"destinations\": {\"x\": {\n\"announce\": 1,\n\"jitter\": 2}}}"))
	first, ok := errors.AsType[*retry.FileError](err)
	if !ok {
		t.Fatalf("ReadOrganization = %v (%T), want a FileError in it", err, err)
	}
	require.Equal(t, &retry.FileError{
		Line: 2, Path: `destinations."x".announce`,
		Problem: "1: allowed is true or false; left out it is what default says",
	}, first)
}

// Where a number ends to be allowed is written twice, for files and for Go
// literals. They must agree.
func TestAFileAllowsWhatAGoLiteralAllows(t *testing.T) {
	for _, d := range []time.Duration{1, time.Millisecond - 1, time.Millisecond, time.Second, 24 * time.Hour, 24*time.Hour + 1, 1<<63 - 1} {
		long := retry.Policy{AttemptTimeout: 1, Deadline: retry.NoLimit, MaxDelay: 1<<63 - 1}
		agree := func(file string, change func(*retry.Policy)) {
			p := long
			change(&p)
			_, err := retry.ReadOrganization(strings.NewReader(fmt.Sprintf(
				`{"default": {"attempt_timeout": "1ns", "deadline": "none", %s}}`, strings.ReplaceAll(file, "$", d.String()))))
			if want := p.Validate(); (err == nil) != (want == nil) {
				t.Errorf("ReadOrganization(%s) with %v = %v, but Validate = %v", file, d, err, want)
			}
		}
		agree(`"base_delay": "$", "max_delay": "2562047h47m16.854775807s"`, func(p *retry.Policy) { p.BaseDelay = d })
		agree(`"throttle_delay": "$", "max_delay": "2562047h47m16.854775807s"`, func(p *retry.Policy) { p.ThrottleDelay = d })
		agree(`"max_delay": "$"`, func(p *retry.Policy) { p.MaxDelay = d })
		agree(`"max_retry_after": "$"`, func(p *retry.Policy) { p.MaxRetryAfter = d })
		agree(`"key": {"valid_for": "$"}`, func(p *retry.Policy) { p.Key.ValidFor = d })
		agree(`"breaker": {"window": "$"}`, func(p *retry.Policy) { p.Breaker.Window = d })
		agree(`"breaker": {"open_for": "$"}`, func(p *retry.Policy) { p.Breaker.OpenFor = d })
		agree(`"breaker": {"open_for": "1ms", "max_open_for": "$"}`, func(p *retry.Policy) {
			p.Breaker.OpenFor, p.Breaker.MaxOpenFor = time.Millisecond, d
		})
		agree(`"breaker": {"max_open_for": "$"}`, func(p *retry.Policy) { p.Breaker.MaxOpenFor = d })
	}
	for _, x := range []float64{1e-300, 0.5, 1, 1.0000000000000002, 1e308} {
		agree := func(file string, change func(*retry.Policy)) {
			var p retry.Policy
			change(&p)
			_, err := retry.ReadOrganization(strings.NewReader(`{"default": {` + strings.ReplaceAll(file, "$", fmt.Sprint(x)) + `}}`))
			if want := p.Validate(); (err == nil) != (want == nil) {
				t.Errorf("ReadOrganization(%s) with %v = %v, but Validate = %v", file, x, err, want)
			}
		}
		agree(`"budget": {"ratio": $}`, func(p *retry.Policy) { p.Budget.Ratio = x })
		agree(`"budget": {"per_second": $}`, func(p *retry.Policy) { p.Budget.PerSecond = x })
		agree(`"breaker": {"failure_ratio": $}`, func(p *retry.Policy) { p.Breaker.FailureRatio = x })
	}
	for _, n := range []int{1, 1_000_000, 1_000_001} {
		for name, p := range map[string]retry.Policy{
			"min_results": {Breaker: breaker.Settings{MinResults: n}}, "probes": {Breaker: breaker.Settings{Probes: n}},
		} {
			_, err := retry.ReadOrganization(strings.NewReader(fmt.Sprintf(`{"default": {"breaker": {%q: %d}}}`, name, n)))
			if want := p.Validate(); (err == nil) != (want == nil) {
				t.Errorf("ReadOrganization(breaker.%s: %d) = %v, but Validate = %v", name, n, err, want)
			}
		}
	}
}

func TestALayerTellsUnderWhichPolicyACallWouldBegin(t *testing.T) {
	o := read(t, `{
		"default": {"max_attempts": 2, "statuses": {"503": "ambiguous"}},
		"destinations": {
			"api.Example.com": {"max_attempts": 4, "breaker": {"probes": 1, "open_for": "2m"}},
			"api.example.com:8443": {"max_attempts": 5},
			"*.example.com": {"max_attempts": 6},
			"*.eu.example.com": {"max_attempts": 7},
			"Billing": {"max_attempts": 8}
		}
	}`)
	l, err := retry.NewLayer(o, nil)
	require.NoError(t, err)
	tests := []struct {
		destination string
		under       string
		attempts    int
	}{
		{"api.example.com", "api.example.com", 4},
		{"API.example.com", "api.example.com", 4},
		{"https://api.example.com:443", "api.example.com", 4},
		{"https://api.example.com:8443", "api.example.com:8443", 5},
		{"www.example.com", "*.example.com", 6},
		{"www.eu.example.com", "*.eu.example.com", 7},
		{"billing", "billing", 8},

		{"example.com", "", 2},
		{"example.org", "", 2},
	}
	for _, tt := range tests {
		p, under := l.Policy(tt.destination)
		if p.MaxAttempts != tt.attempts || under != tt.under {
			t.Errorf("Policy(%q) = %d attempts under %q, want %d under %q", tt.destination, p.MaxAttempts, under, tt.attempts, tt.under)
		}
		require.NoError(t, p.Validate())
	}
	if n := len(l.Snapshot()); n != 0 {
		t.Errorf("after Policy the layer keeps %d destinations, want 0", n)
	}

	p, _ := l.Policy("api.example.com")
	require.Equal(t, breaker.Settings{Window: 30 * time.Second, MinResults: 20, FailureRatio: 0.5, OpenFor: 2 * time.Minute, MaxOpenFor: 2 * time.Minute, Probes: 1}, p.Breaker)
	require.Equal(t, 10*time.Second, p.AttemptTimeout)
	require.Equal(t, []string{"POST", "PATCH"}, p.Key.Methods)
	p.Statuses[503], p.Key.Methods[0] = classify.Permanent, "X"
	p, _ = l.Policy("api.example.com")
	if p.Statuses[503] != classify.Ambiguous || p.Key.Methods[0] != "POST" {
		t.Errorf("a change of what Policy returned got into the layer: %v, %v", p.Statuses, p.Key.Methods)
	}
}

func TestALayerRefusesASuffixThatStandsTwice(t *testing.T) {
	_, err := retry.NewLayer(retry.Organization{Destinations: map[string]retry.Policy{"*.example.com": {}, "*.Example.com": {}}}, nil)
	require.ErrorContains(t, err, "stands twice")
}

func FuzzReadOrganization(f *testing.F) {
	for _, tt := range written {
		f.Add([]byte(`{"default": {` + tt.file + `}, "destinations": {"a": {` + tt.file + `}, "*.b": {}}}`))
	}
	for _, seed := range []string{
		"", "{", "[]", "null", "\xef\xbb\xbf{}", "{}{}", "{\"a\xff\": 1}", `{"": {"": 0}}`, `{"destinations": {"\ud800": {}, "*": {}, "A": {}, "a": {}}}`,
		`{"default": {"attempt_timeout": "10s", "breaker": {"window": "5s", "disabled": true}}, "destinations": {"a": {"breaker": {"disabled": false}}}}`,
		`{"default": {"max_delay": "1ns", "breaker": {"max_open_for": "2ms", "open_for": "1ms"}}}`,
		`{"default": {"max_attempts": 2147483647, "max_delay": "2562047h", "base_delay": "2562047h", "deadline": "none", "max_retry_after": "2562047h47m16.854775807s"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := retry.ReadOrganization(bytes.NewReader(data))
		if err != nil {
			last, lines := 0, 1+bytes.Count(data, []byte{'\n'})
			for _, p := range fileErrors(t, err) {
				if p.Line < max(1, last) || p.Line > lines || p.Problem == "" || strings.Contains(p.Error(), "\n") {
					t.Errorf("ReadOrganization(%q) has the problem %#v after one of line %d: want a line within 1 to %d, in order, and one line of text", data, p, last, lines)
				}
				last = p.Line
			}
			return
		}
		l, err := retry.NewLayer(o, nil)
		if err != nil {
			t.Fatalf("ReadOrganization(%q) accepts what NewLayer refuses: %v", data, err)
		}
		for _, name := range append(slices.Collect(maps.Keys(o.Destinations)), "elsewhere") {
			p, _ := l.Policy(name)
			if err := p.Validate(); err != nil {
				t.Errorf("after ReadOrganization(%q), Policy(%q) is refused by Validate: %v", data, name, err)
			}
			if s := p.String(); !strings.HasPrefix(s, "attempts: at most ") {
				t.Errorf("after ReadOrganization(%q), Policy(%q).String() = %q", data, name, s)
			}
		}
	})
}

// read returns the organization of a file without problems.
func read(t *testing.T, file string) retry.Organization {
	t.Helper()
	o, err := retry.ReadOrganization(strings.NewReader(file))
	if err != nil {
		t.Fatalf("ReadOrganization(%s) = %v", file, err)
	}
	return o
}

// texts returns the problems that an error of ReadOrganization joins.
func texts(t *testing.T, err error) (all []string) {
	t.Helper()
	for _, p := range fileErrors(t, err) {
		all = append(all, p.Error())
	}
	return all
}

func fileErrors(t *testing.T, err error) (all []*retry.FileError) {
	t.Helper()
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		t.Fatalf("ReadOrganization = %v (%T), want joined FileErrors in it", err, err)
	}
	for _, e := range joined.Unwrap() {
		p, ok := e.(*retry.FileError)
		if !ok {
			t.Fatalf("ReadOrganization joins %v (%T), want a FileError", e, e)
		}
		all = append(all, p)
	}
	return all
}
