package classify_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestZeroValuesSayThatNothingIsKnown(t *testing.T) {
	var v classify.Verdict
	assert.Equal(t, classify.Ambiguous, v.Class)
	assert.Equal(t, classify.Remote, v.Origin)
}

func TestString(t *testing.T) {
	assert.Equal(t, "ambiguous", classify.Ambiguous.String())
	assert.Equal(t, "retryable", classify.Retryable.String())
	assert.Equal(t, "permanent", classify.Permanent.String())
	assert.Equal(t, "Class(9)", classify.Class(9).String())
	assert.Equal(t, "remote", classify.Remote.String())
	assert.Equal(t, "local", classify.Local.String())
	assert.Equal(t, "caller", classify.Caller.String())
	assert.Equal(t, "Origin(9)", classify.Origin(9).String())
}

// reasons is the list in the comment of Verdict.Reason.
var reasons = []string{
	"dial", "dns", "proxy", "tls", "certificate", "timeout", "canceled", "reset", "closed", "refused_stream", "goaway",
	"malformed", "request", "body", "sql", "conflict", "decode", "local", "retryable", "permanent", "unknown",
}

var statusReason = regexp.MustCompile(`^http_[1-9][0-9]{2}$`)

// checkReason reports a verdict whose reason is not from the list.
func checkReason(t *testing.T, v classify.Verdict) {
	t.Helper()
	if !slices.Contains(reasons, v.Reason) && !statusReason.MatchString(v.Reason) {
		t.Errorf("reason %q of %+v is not in the list", v.Reason, v)
	}
}

// The list of reasons is closed: it stands in one place, its comment names the
// same words, and no verdict is written with another.
func TestReasonsAreFromTheList(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
		}
	}
	constants := map[string]string{}
	var documented []string
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if name := n.Names[0].Name; strings.HasPrefix(name, "reason") && len(n.Values) == 1 {
					s, err := strconv.Unquote(n.Values[0].(*ast.BasicLit).Value)
					require.NoError(t, err)
					constants[name] = s
				}
			case *ast.Field:
				if len(n.Names) == 1 && n.Names[0].Name == "Reason" {
					for _, m := range regexp.MustCompile(`(?m)^\t(\w+)`).FindAllStringSubmatch(n.Doc.Text(), -1) {
						documented = append(documented, m[1])
					}
				}
			}
			return true
		})
	}
	for name, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Reason" {
					id, ok := kv.Value.(*ast.Ident)
					assert.True(t, ok && (constants[id.Name] != "" || id.Name == "reason"), "%s writes a reason that is not from the list", name)
				}
			}
			return true
		})
	}
	got := slices.Sorted(maps.Values(constants))
	assert.ElementsMatch(t, append(slices.Clone(reasons), "http_"), got, "constants")
	assert.ElementsMatch(t, append(slices.Clone(reasons), "http_100"), documented, "words in the comment of Verdict.Reason")
}
