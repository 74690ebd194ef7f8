package retry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// B109: wall-clock jumps break elapsed time: budget or open-period measured with civil time: a clock step ends retries at
// once or stretches 1 s to minutes. Stored times must keep the monotonic reading (no Round(0), UnixMilli, JSON or UTC
// round trip before Sub). A test cannot step the clock of its machine, so the source is searched for what would lose
// the reading.
func TestNoTimeLosesItsMonotonicReading(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err, "Glob")
	looked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		looked++
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err, "ParseFile(%s)", file)
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := s.X.(*ast.Ident); ok && of.Name == "classify" { // its Local is no time
				return true
			}
			switch s.Sel.Name {
			case "Truncate", "UTC", "Local", "In", "AddDate", "Unix", "UnixMilli", "UnixMicro", "UnixNano":
				t.Errorf("%s: %s loses the monotonic reading of a time", fset.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
	require.NotZero(t, looked, "files looked at")
}
