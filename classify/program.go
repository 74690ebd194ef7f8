package classify

import (
	"database/sql"
	"encoding/json"
	"io/fs"
	"strconv"
	"strings"
)

// program reads one error of a chain that does not come from a connection but
// from what a program does with one: a database's answer, a file, a decoder.
func program(err error) (evidence, bool) {
	switch err.(type) {
	case *json.SyntaxError, *json.UnmarshalTypeError, *json.InvalidUnmarshalError,
		*json.UnsupportedTypeError, *json.UnsupportedValueError, *json.MarshalerError,
		*strconv.NumError:
		return evidence{Verdict: Verdict{Class: Permanent, Origin: Local, Reason: reasonDecode}}, true
	}
	// pgx and lib/pq give their errors this method, so that no driver is
	// imported here.
	if s, ok := as[interface{ SQLState() string }](err); ok {
		if state := s.SQLState(); state != "" {
			return evidence{Verdict: sqlState(state)}, true
		}
	}
	switch {
	case is(err, sql.ErrNoRows):
		return evidence{Verdict: Verdict{Class: Permanent, Reason: reasonSQL}}, true
	case is(err, fs.ErrNotExist), is(err, fs.ErrPermission):
		return evidence{Verdict: Verdict{Class: Permanent, Origin: Local, Reason: reasonLocal}}, true
	}
	return evidence{}, false
}

// sqlState returns what a SQLSTATE proves. The codes are those of PostgreSQL,
// appendix A; classes 08 and 40 are the SQL standard's.
func sqlState(state string) Verdict {
	v := Verdict{Class: Permanent, Reason: reasonSQL}
	switch state {
	case "40001", // serialization failure: rolled back
		"40P01", // deadlock: rolled back
		"55P03": // lock not available
		// Other transactions were in the way; the database is well.
		v.Class, v.Reason = Retryable, reasonConflict
	case "57P03", // cannot connect now: starting up or shutting down
		"08001", // connection not established
		"08004": // connection rejected
		v.Class = Retryable
	case "53300": // too many connections
		v.Class, v.Throttled = Retryable, true
	case "08000", "08003", "08006", // the connection is gone
		"08007",          // transaction resolution unknown
		"40003",          // statement completion unknown
		"57P01", "57P02": // the server was shut down, or crashed, under it
		v.Class = Ambiguous
	default:
		if strings.HasPrefix(state, "58") || strings.HasPrefix(state, "XX") { // system error, internal error
			v.Class = Ambiguous
		}
	}
	return v
}
