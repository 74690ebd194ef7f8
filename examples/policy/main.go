// Policy checks the policy file of an organization, and explains what it means
// for a destination.
//
//	go run ./examples/policy check FILE…
//	go run ./examples/policy explain FILE DESTINATION
//
// The exit status is 0 if the files are fine, 1 if there are problems, which are
// printed as FILE:LINE: path: problem, and 2 for bad usage.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/reintento/reintento/retry"
)

const (
	exitFine     = 0
	exitProblems = 1
	exitBadUsage = 2
)

const usage = `Usage:
  policy check FILE…                 say what is wrong with policy files
  policy explain FILE DESTINATION    say what a file means for a destination:
                                     a host, host:port, URL or plain name;
                                     of a URL scheme, host and port count
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch {
	case command == "help" || command == "-h" || command == "--help":
		fmt.Fprint(stdout, usage)
		return exitFine
	case command == "check" && len(args) > 1:
		return check(args[1:], stdout)
	case command == "explain" && len(args) == 3 && args[2] != "":
		return explain(args[1], args[2], stdout)
	case command == "check":
		fmt.Fprintln(stderr, "policy: check wants one file at least")
	case command == "explain":
		fmt.Fprintf(stderr, "policy: explain wants a file and a destination, got %d arguments\n", len(args)-1)
	case command == "":
		fmt.Fprintln(stderr, "policy: a command is missing")
	default:
		fmt.Fprintf(stderr, "policy: %q is no command: allowed are check and explain\n", command)
	}
	fmt.Fprint(stderr, usage)
	return exitBadUsage
}

// check looks at every file, whatever is wrong with those before it.
func check(files []string, stdout io.Writer) int {
	status := exitFine
	for _, name := range files {
		f, err := load(name)
		if err != nil {
			printProblems(stdout, name, err)
			status = exitProblems
			continue
		}
		fmt.Fprintf(stdout, "%s: fine, a default and %s\n", name, counted(len(f.organization.Destinations), "destination"))
	}
	return status
}

// printProblems prints a line for each problem that err holds.
func printProblems(w io.Writer, name string, err error) {
	switch e := err.(type) {
	case *retry.FileError:
		if e.Path == "" {
			fmt.Fprintf(w, "%s:%d: %s\n", name, e.Line, e.Problem)
		} else {
			fmt.Fprintf(w, "%s:%d: %s: %s\n", name, e.Line, e.Path, e.Problem)
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			printProblems(w, name, one)
		}
	case interface{ Unwrap() error }:
		printProblems(w, name, e.Unwrap())
	default:
		fmt.Fprintf(w, "%s: %v\n", name, err)
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
