package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "giro/"

// file is one Go file that was read.
type file struct {
	path    string // from the root, with slashes
	dir     string // its package, as the path below the module
	test    bool   // *_test.go, or in a package that only tests import
	written bool   // by hand, not generated
	lines   int
	ast     *ast.File
	fset    *token.FileSet
	names   map[string]string // the name in this file -> import path
}

// tree is the source of the module.
type tree struct {
	files []*file
	sql   map[string]string // path -> content of *.sql files
}

// testPackage says which packages exist for tests alone.
func testPackage(dir string) bool {
	switch path.Base(dir) {
	case "dbtest", "storetest", "conformance", "archtest":
		return true
	}
	return false
}

var generatedMark = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (tr *tree) add(name, content string) error {
	if strings.HasSuffix(name, ".sql") {
		tr.sql[name] = content
		return nil
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	f := &file{
		path: name, dir: dir, ast: parsed, fset: fset,
		test:    strings.HasSuffix(name, "_test.go") || testPackage(dir),
		written: !generatedMark.MatchString(content),
		lines:   strings.Count(content, "\n"),
		names:   map[string]string{},
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		local := defaultName(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "_" || local == "." {
			local += imported // kept apart; never the name of a selector
		}
		f.names[local] = imported
	}
	tr.files = append(tr.files, f)
	return nil
}

// defaultName is right for the packages that the rules look at by name.
func defaultName(imported string) string {
	name := path.Base(imported)
	if strings.HasPrefix(name, "v") && len(name) > 1 && name[1] >= '0' && name[1] <= '9' {
		name = path.Base(path.Dir(imported))
	}
	return name
}

// readTree reads the module at root, without nested modules.
func readTree(t *testing.T, root string) *tree {
	t.Helper()
	tr := &tree{sql: map[string]string{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == root {
				return nil
			}
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || nested == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".sql" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return tr.add(filepath.ToSlash(rel), string(content))
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *tree) has(dir string) bool {
	return slices.ContainsFunc(tr.files, func(f *file) bool { return f.dir == dir && !strings.HasSuffix(f.path, "_test.go") })
}

// at is a place in a file, for a message.
func (f *file) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(pos).Line)
}

// imports calls visit for each import of f; inside is the path below the module
// for our own packages, and empty for others.
func (f *file) imports(visit func(at, imported, inside string)) {
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // add has refused it already
		}
		inside, own := strings.CutPrefix(imported, module)
		if !own {
			inside = ""
		}
		visit(f.at(spec.Pos()), imported, inside)
	}
}

// uses calls visit for each package.Name in f, such as os.Exit.
func (f *file) uses(visit func(pos token.Pos, name string)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok {
			if imported := f.names[x.Name]; imported != "" {
				visit(selector.Pos(), imported+"."+selector.Sel.Name)
			}
		}
		return true
	})
}

// under tells whether dir is one of the given folders or lies below one.
func under(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}
