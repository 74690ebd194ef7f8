// Package reintento_test holds the shape of the module: which package may know which, where net/http may be
// named, and whose types users get to see.
package reintento_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/reintento/reintento"

// mayImport names, for each package of the module, the packages of the module that it may import outside its
// tests. A new package gets its place here first.
var mayImport = map[string][]string{
	"classify":   nil,
	"deadline":   nil,
	"breaker":    {"classify"},
	"retry":      {"classify", "deadline", "breaker"},
	"httpclient": {"classify", "deadline", "breaker", "retry"},
}

// filesWithHTTP is how many files outside tests import net/http or a package below it. A package that is not here
// has as many as it likes.
var filesWithHTTP = map[string]int{"classify": 1, "deadline": 0, "breaker": 0, "retry": 0}

// mayShow are the types of dependencies that an exported signature may name, by the package that names them.
var mayShow = map[string][]string{
	"retry": {"github.com/cenkalti/backoff/v4.BackOff"},
}

// direct are the requirements of go.mod that are not marked as indirect.
var direct = []string{
	"github.com/cenkalti/backoff/v4",
	"github.com/google/uuid",
	"github.com/sony/gobreaker/v2",
	"github.com/stretchr/testify",
}

// onlyForTests is the requirement that no file outside the tests may import.
const onlyForTests = "github.com/stretchr/testify"

func TestPackagesImportOnlyWhatIsBelowThem(t *testing.T) {
	packages := sources(t)
	require.NotEmpty(t, packages, "packages of %s that were found", module)
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		for _, problem := range arrows(pkg, packages[pkg]) {
			t.Error(problem)
		}
	}
}

func TestExportedSignaturesNameNoDependency(t *testing.T) {
	exports := map[string]string{} // by import path, the file with the compiled declarations
	for line := range strings.Lines(goCommand(t, "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		exports[path] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for pkg := range sources(t) {
		p, err := imp.Import(module + "/" + pkg)
		require.NoError(t, err, "import of %s", pkg)
		for _, problem := range shown(p) {
			t.Error(problem)
		}
	}
}

func TestGoModRequiresTheFourDirectly(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal([]byte(goCommand(t, "mod", "edit", "-json")), &mod))
	var got []string
	for _, r := range mod.Require {
		if !r.Indirect {
			got = append(got, r.Path)
		}
	}
	slices.Sort(got)
	require.Equal(t, direct, got, "direct requirements of go.mod; anything else belongs in a nested module")
}

// A check of the shape that passes on every shape would be worth nothing: these are the mistakes it is for.
func TestArrowsReportsWrongImports(t *testing.T) {
	tests := []struct {
		name  string
		pkg   string
		files map[string]string
		want  []string
	}{
		{"a leaf that knows nobody is fine", "deadline", map[string]string{"a.go": `import "time"`}, nil},
		{"retry over all floors below it is fine", "retry", map[string]string{
			"a.go": `import ("` + module + `/classify"; "` + module + `/deadline"; "` + module + `/breaker"; "github.com/google/uuid")`}, nil},
		{"one file of classify with net/http is fine", "classify", map[string]string{"a.go": `import "net/http"`, "b.go": `import "net"`}, nil},

		{"a leaf that knows the other leaf", "deadline", map[string]string{"a.go": `import "net/http/httptrace"; import "` + module + `/classify"`, "b.go": ``},
			[]string{"deadline/a.go imports classify, which is not below it", "deadline names net/http in 1 files (a.go), want 0"}},
		{"an arrow upward", "breaker", map[string]string{"a.go": `import r "` + module + `/retry"`},
			[]string{"breaker/a.go imports retry, which is not below it"}},
		{"a package of a nested module", "httpclient", map[string]string{"a.go": `import _ "` + module + `/examples/payments"`},
			[]string{"httpclient/a.go imports examples/payments, which is not below it"}},
		{"a package without a place", "util", map[string]string{"a.go": ``},
			[]string{"util has no place in mayImport: say there what it may import"}},
		{"net/http in two files of classify", "classify", map[string]string{"a.go": `import "net/http"`, "b.go": `import "net/http"`},
			[]string{"classify names net/http in 2 files (a.go, b.go), want 1"}},
		{"net/http in no file of classify", "classify", map[string]string{"a.go": ``},
			[]string{"classify names net/http in 0 files (), want 1"}},
		{"testify outside tests", "retry", map[string]string{"a.go": `import "github.com/stretchr/testify/assert"`},
			[]string{"retry/a.go imports github.com/stretchr/testify/assert, which is for tests"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]*ast.File{}
			for name, src := range tt.files {
				f, err := parser.ParseFile(token.NewFileSet(), name, "package p\n"+src, parser.ImportsOnly)
				require.NoError(t, err)
				files[name] = f
			}
			require.Equal(t, tt.want, arrows(tt.pkg, files), "arrows(%q)", tt.pkg)
		})
	}
}

func TestShownReportsDependencyTypes(t *testing.T) {
	dep := checkedPackage(t, "github.com/cenkalti/backoff/v4", `
		type BackOff interface{ Next() int }
		type Timer struct{}
		type Alias = int`, nil)
	tests := []struct {
		name string
		pkg  string
		src  string
		want []string
	}{
		{"the schedule that users plug into retry is fine", "retry", `type Policy struct { Backoff func() dep.BackOff }`, nil},
		{"what is not exported is nobody's concern", "classify", `
			type T struct { t dep.Timer }
			func (T) run(dep.Timer) {}
			func run(dep.Timer) {}
			type hidden struct{ T dep.Timer }`, nil},
		{"a type of the module that holds itself is fine", "classify", `type Node struct { Next *Node }`, nil},

		{"the schedule outside retry", "breaker", `var B dep.BackOff`, []string{"breaker.B shows github.com/cenkalti/backoff/v4.BackOff"}},
		{"another type in retry", "retry", `func F(map[string][]chan *dep.Timer) {}`, []string{"retry.F shows github.com/cenkalti/backoff/v4.Timer"}},
		{"a type that nobody wrote down", "classify", `var V = f(); func f() (t dep.Timer) { return }`, []string{"classify.V shows github.com/cenkalti/backoff/v4.Timer"}},
		{"an alias", "classify", `type A = dep.Alias`, []string{"classify.A shows github.com/cenkalti/backoff/v4.Alias"}},
		{"a method", "classify", `type T int; func (*T) M() (_ [2]dep.Timer, _ error) { panic(0) }`, []string{"classify.T shows github.com/cenkalti/backoff/v4.Timer"}},
		{"an embedded type", "classify", `type T struct { *dep.Timer }`, []string{"classify.T shows github.com/cenkalti/backoff/v4.Timer"}},
		{"a method of an interface", "classify", `type I interface { M(...dep.Timer) }`, []string{"classify.I shows github.com/cenkalti/backoff/v4.Timer"}},
		{"a constraint", "classify", `func F[T ~string | dep.Alias, U interface{ dep.BackOff }](T, U) {}`,
			[]string{"classify.F shows github.com/cenkalti/backoff/v4.Alias", "classify.F shows github.com/cenkalti/backoff/v4.BackOff"}},
		{"a type argument", "classify", `type G[T any] struct{}; var V G[dep.Timer]`, []string{"classify.V shows github.com/cenkalti/backoff/v4.Timer"}},
		{"behind a type that is not exported", "classify", `
			type hidden struct{ below }
			type below struct{}
			func (below) M() *dep.Timer { return nil }
			func F() hidden { return hidden{} }`, []string{"classify.F shows github.com/cenkalti/backoff/v4.Timer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Go wants each import used, so an unnamed type uses this one where a row does not.
			p := checkedPackage(t, module+"/"+tt.pkg, `import dep "github.com/cenkalti/backoff/v4"; type _ dep.Timer;`+tt.src, dep)
			require.Equal(t, tt.want, shown(p), "shown(%s)", tt.src)
		})
	}
}

// arrows returns what is wrong with the imports of a package of the module, whose files outside tests are given
// by name.
func arrows(pkg string, files map[string]*ast.File) []string {
	below, placed := mayImport[pkg]
	if !placed {
		return []string{pkg + " has no place in mayImport: say there what it may import"}
	}
	var problems, http []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		namesHTTP := false
		for _, spec := range files[name].Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return []string{fmt.Sprintf("%s/%s: %v", pkg, name, err)}
			}
			own, isOwn := strings.CutPrefix(path, module+"/")
			switch {
			case isOwn && !slices.Contains(below, own):
				problems = append(problems, fmt.Sprintf("%s/%s imports %s, which is not below it", pkg, name, own))
			case within(path, onlyForTests):
				problems = append(problems, fmt.Sprintf("%s/%s imports %s, which is for tests", pkg, name, path))
			case within(path, "net/http"):
				namesHTTP = true
			}
		}
		if namesHTTP {
			http = append(http, name)
		}
	}
	if n, limited := filesWithHTTP[pkg]; limited && len(http) != n {
		problems = append(problems, fmt.Sprintf("%s names net/http in %d files (%s), want %d", pkg, len(http), strings.Join(http, ", "), n))
	}
	return problems
}

// within reports whether an import path is root or below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// shown returns the types of dependencies that the exported names of a package show to its users, save those of
// mayShow.
func shown(p *types.Package) []string {
	var problems []string
	pkg := strings.TrimPrefix(p.Path(), module+"/")
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		w := walk{home: p, seen: map[types.Type]bool{}, found: map[string]bool{}}
		w.visit(o.Type())
		for _, typ := range slices.Sorted(maps.Keys(w.found)) {
			if !slices.Contains(mayShow[pkg], typ) {
				problems = append(problems, fmt.Sprintf("%s.%s shows %s", pkg, name, typ))
			}
		}
	}
	return problems
}

// walk visits a type as a user of package home sees it: exported fields and methods, and what is embedded.
type walk struct {
	home  *types.Package
	seen  map[types.Type]bool
	found map[string]bool
}

func (w walk) visit(t types.Type) {
	if t == nil || w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		if w.declaredHere(t.Obj()) {
			w.visit(t.Rhs())
		}
		w.visitAll(t.TypeArgs())
	case *types.Named:
		if w.declaredHere(t.Obj()) {
			w.visit(t.Underlying())
			for m := range t.Methods() {
				if m.Exported() {
					w.visit(m.Type())
				}
			}
			for p := range t.TypeParams().TypeParams() {
				w.visit(p)
			}
		}
		w.visitAll(t.TypeArgs())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				w.visit(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				w.visit(m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			w.visit(e)
		}
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			w.visit(p)
		}
		w.visit(t.Params())
		w.visit(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(v.Type())
		}
	case *types.TypeParam:
		w.visit(t.Constraint())
	case *types.Union:
		for term := range t.Terms() {
			w.visit(term.Type())
		}
	case *types.Map:
		w.visit(t.Key())
		w.visit(t.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		w.visit(t.Elem())
	}
}

func (w walk) visitAll(args *types.TypeList) {
	for t := range args.Types() {
		w.visit(t)
	}
}

// declaredHere reports whether a named type belongs to the package that is looked at. One of a dependency is
// noted; one of the standard library or of another package of the module is that package's own business.
func (w walk) declaredHere(o *types.TypeName) bool {
	if o.Pkg() == nil {
		return false // error, any and the like
	}
	path := o.Pkg().Path()
	first, _, _ := strings.Cut(path, "/")
	if strings.Contains(first, ".") && !within(path, module) {
		w.found[path+"."+o.Name()] = true
	}
	return o.Pkg() == w.home
}

// sources returns the files outside tests of every package below the root, by package and name, with their imports
// only. The build tags of a file do not matter. Nested modules are left out.
func sources(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	packages := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if packages[pkg] == nil {
			packages[pkg] = map[string]*ast.File{}
		}
		packages[pkg][d.Name()] = f
		return nil
	})
	require.NoError(t, err)
	return packages
}

// goCommand returns what the go command that built this test prints on its standard output.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), &stderr)
	return string(out)
}

// checkedPackage returns the package that a source declares. The source may import dep.
func checkedPackage(t *testing.T, path, src string, dep *types.Package) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", "package p;"+src, 0)
	require.NoError(t, err)
	conf := types.Config{Importer: onlyImporter{dep}}
	p, err := conf.Check(path, fset, []*ast.File{f}, nil)
	require.NoError(t, err)
	return p
}

// onlyImporter knows one package.
type onlyImporter struct{ p *types.Package }

func (i onlyImporter) Import(path string) (*types.Package, error) {
	if i.p == nil || path != i.p.Path() {
		return nil, fmt.Errorf("import of %q: %w", path, os.ErrNotExist)
	}
	return i.p, nil
}
