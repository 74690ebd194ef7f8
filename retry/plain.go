package retry

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Plain returns the text of err as it may stand in a log: in one line, and of
// each *[url.Error] in it, such as those of an http.Client, the URL without user
// info, query and fragment. [Error] and [LogTo] print the errors of others so. Of
// nil it is "<nil>".
func Plain(err error) string {
	if err == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("%v", err) // which survives an Error that panics
	eachURL(err, func(u string) {
		text = strings.ReplaceAll(text, strconv.Quote(u), strconv.Quote(withoutSecrets(u)))
	})
	return oneLine.Replace(text) // of several joined errors each has a line
}

var oneLine = strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ")

// eachURL calls found with the URL of every url.Error in err.
func eachURL(err error, found func(string)) {
	if e, ok := err.(*url.Error); ok {
		if e == nil {
			return
		}
		found(e.URL)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			eachURL(inner, found)
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if part != nil {
				eachURL(part, found)
			}
		}
	}
}

// withoutSecrets cuts what may be secret out of a URL, which need not be one.
func withoutSecrets(u string) string {
	u, _, _ = strings.Cut(u, "#")
	u, _, _ = strings.Cut(u, "?")
	before, rest, ok := strings.Cut(u, "//")
	if !ok {
		before, rest = "", u
	} else {
		before += "//"
	}
	return before + rest[strings.LastIndexByte(strings.SplitN(rest, "/", 2)[0], '@')+1:]
}
