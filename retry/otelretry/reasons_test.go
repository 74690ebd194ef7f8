package otelretry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// The list of reasons stands in the comment of a field. One that is added there must be added here, or it would be
// counted as "_OTHER".
func TestReasonsAreThoseOfTheVerdict(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../../classify/verdict.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var doc string
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && len(field.Names) == 1 && field.Names[0].Name == "Reason" {
			doc = field.Doc.Text()
		}
		return true
	})
	listed := 0
	for line := range strings.Lines(doc) {
		word, meaning, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " ")
		if !strings.HasPrefix(line, "\t") || !ok || strings.TrimSpace(meaning) == "" {
			continue
		}
		listed++
		want := word
		if strings.HasPrefix(word, "http_") {
			word, want = "http_503", "503"
		}
		got := errorType(retry.Event{Verdict: classify.Verdict{Reason: word}})
		if got != attribute.String("error.type", want) {
			t.Errorf("errorType of the reason %q is %v, want %q", word, got.Value.AsString(), want)
		}
	}
	if listed != len(reasons)+1 {
		t.Errorf("the comment lists %d reasons, want the %d known here and the statuses", listed, len(reasons))
	}
}

func TestErrorTypeOfUnknownReasons(t *testing.T) {
	for _, reason := range []string{"", "http_", "http_5xx", "http_50", "http_5034", "http_099", "Timeout", "customer_4711"} {
		if got := errorType(retry.Event{Verdict: classify.Verdict{Reason: reason}}).Value.AsString(); got != other {
			t.Errorf("errorType of the reason %q is %q, want %q", reason, got, other)
		}
	}
}
