// Telemetry shows what a program that uses the SDK tells about itself: metrics
// that Prometheus scrapes, and spans, the SDK's beside those of otelhttp.
//
//	go run ./examples/telemetry [-calls 20] [-addr 127.0.0.1:0] [-stay]
//
// It calls a service of its own that turns some requests away, scrapes itself
// once over HTTP, and prints the lines that come from the SDK. With -stay the
// metrics can be scraped until Ctrl-C.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("telemetry", flag.ContinueOnError)
	flags.SetOutput(stderr)
	calls := flags.Int("calls", 20, "how many requests are made, 1 to 100000")
	addr := flags.String("addr", "127.0.0.1:0", "the `address` to scrape; port 0 chooses a free one")
	stay := flags.Bool("stay", false, "go on until Ctrl-C")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *calls < 1 || *calls > 100_000 || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "telemetry: -calls is %d, other arguments are %q: allowed is 1 to 100000, and flags only\n", *calls, flags.Args())
		return 2
	}
	if err := show(ctx, *calls, *addr, *stay, stdout); err != nil {
		fmt.Fprintln(stderr, "telemetry:", err)
		return 1
	}
	return 0
}

func show(ctx context.Context, calls int, addr string, stay bool, w io.Writer) (err error) {
	var spans spanLines
	t, err := newTelemetry(sdktrace.WithSyncer(&spans))
	if err != nil {
		return err
	}
	service, stopService, err := serve("127.0.0.1:0", turnAway(4))
	if err != nil {
		return err
	}
	defer stopService()
	metrics, stopMetrics, err := serve(addr, t.scrape)
	if err != nil {
		return err
	}
	defer stopMetrics()

	client, closeIdle, err := t.client()
	if err != nil {
		return err
	}
	defer closeIdle()
	failed := 0
	for n := range calls {
		if err := t.call(ctx, client, fmt.Sprintf("%s/%d", service, n)); err != nil {
			failed++
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	fmt.Fprintf(w, "%d calls, %d failed; the spans of the first:\n", calls, failed)
	for _, line := range spans.firstTrace() {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintf(w, "from %s/metrics:\n", metrics)
	if err := printScrape(ctx, metrics+"/metrics", w); err != nil || !stay {
		return err
	}
	<-ctx.Done()
	return nil
}

// serve returns the URL of a server and what ends it.
func serve(addr string, h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(l) // until it is closed
	}()
	return "http://" + l.Addr().String(), func() {
		server.Close()
		<-ended
	}, nil
}

// printScrape prints the lines of the SDK's counters, as Prometheus gets them.
func printScrape(ctx context.Context, url string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "reintento_") && !strings.Contains(line, "_bucket{") {
			fmt.Fprintln(w, "  "+line)
		}
	}
	return lines.Err()
}
