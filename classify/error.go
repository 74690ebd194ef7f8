package classify

// Error returns what err proves by itself, without knowing what was sent. It
// looks through Unwrap, also where that returns several errors.
//
// What somebody said about the error comes first: [As], [After], a method
// Verdict() Verdict, backoff.Permanent of cenkalti/backoff. The outermost word
// counts. Then what is recognised:
//
//   - Retryable: the connection was refused or not made, the name was not
//     resolved for the moment; of the SQLSTATEs (method SQLState() string)
//     40001, 40P01, 55P03, 57P03, 53300, 08001 and 08004.
//   - Permanent: a name that does not exist, a certificate that is not
//     accepted, a request that cannot be sent, sql.ErrNoRows, fs.ErrNotExist,
//     fs.ErrPermission, the errors of encoding/json and strconv; every
//     SQLSTATE that is not named here.
//   - Ambiguous: a timeout, a cancelled context (origin Caller), a connection
//     that broke; the SQLSTATEs 08000, 08003, 08006, 08007, 40003, 57P01,
//     57P02 and the classes 58 and XX; and everything else, with the reason
//     "unknown".
//
// Of several joined errors, those that somebody spoke for outweigh those that
// are merely recognised, and those outweigh the unknown. Among equals the worst
// counts: Ambiguous, then Permanent, then Retryable; then the first. The wait
// is the longest of them, and Repeatable holds only if it does for each.
//
// An error of an [net/http.Client] speaks of its last connection only. net/http may
// have sent the request before that one, in a hop of a redirect or in a re-send
// of its own. [Transport], which knows, is used by package httpclient.
//
// A nil error is a mistake of the program; it is Ambiguous and "unknown".
func Error(err error) Verdict {
	if v, ok := spokenFor(err); ok {
		return v
	}
	e, ok := find(err, recognize, timesOut)
	if !ok {
		return Verdict{Reason: reasonUnknown}
	}
	if e.scope == lastSend && e.Class == Retryable {
		// It proves that the last send had no effect, and an earlier one may
		// be hidden below it.
		e.Class = Ambiguous
	}
	return e.Verdict
}

// recognize reads one error of a chain.
func recognize(err error) (evidence, bool) {
	if e, ok := program(err); ok {
		return e, true
	}
	return network(err)
}
