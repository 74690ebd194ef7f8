// Package postgres holds no code: pgx needs no classifier. Package classify
// reads the SQLSTATE of its errors without importing a driver, and what pgx says
// of a connection as it says it of any other.
//
// The Example and the tests show what is repeated, against a server that speaks
// PostgreSQL's protocol, and why pgconn.SafeToRetry is not asked: pgx v5.12.0
// says so of a statement without arguments whose connection broke after it had
// been sent.
package postgres
