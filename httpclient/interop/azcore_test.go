package interop_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// azure sends a request as the clients of Azure's SDK do: through azcore's
// pipeline, with our client as its transport.
func azure(t *testing.T, s *server, repeats policy.RetryOptions, method, body string) (*http.Response, error) {
	t.Helper()
	pipeline := runtime.NewPipeline("interop", "v1.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: client(t, quick()),
		Retry:     repeats,
	})
	req, err := runtime.NewRequest(t.Context(), method, s.URL)
	require.NoError(t, err, "NewRequest")
	if body != "" {
		require.NoError(t, req.SetBody(streaming.NopCloser(strings.NewReader(body)), "text/plain"), "SetBody")
	}
	resp, err := pipeline.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = runtime.NewResponseError(resp)
	}
	return resp, err
}

// alone is how azcore's own repeats are switched off. Its zero means three.
var alone = policy.RetryOptions{MaxRetries: -1}

// repeatBody answers with the body of the request.
func repeatBody(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Write(b)
}

func TestAzureCallsAreRepeatedByOneLayer(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			body := ""
			if method == http.MethodPut {
				body = strings.Repeat("a block ", 100)
			}
			s := serve(t, http.HandlerFunc(repeatBody), answer(503), lose)
			resp, err := azure(t, s, alone, method, body)
			assert.Equal(t, body, read(t, resp, err), "body that the server got")
			assert.Len(t, s.requests(), 3, "requests seen by the server")
		})
	}
}

func TestAzureGetsTheLastAnswerWhenAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(repeatBody), always(answer(503, "X-Ms-Error-Code", "ServerBusy"), 20)...)
	_, err := azure(t, s, alone, http.MethodPut, "a block")
	e, ok := errors.AsType[*azcore.ResponseError](err)
	require.True(t, ok, "error of the call is %T %v, want an *azcore.ResponseError", err, err)
	assert.Equal(t, "ServerBusy", e.ErrorCode, "code of the last answer")
	assert.Len(t, s.requests(), 3, "requests seen by the server")
}

func TestAzureWriteThatMayNotBeRepeatedIsNot(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(repeatBody), lose)
	_, err := azure(t, s, alone, http.MethodPost, "an order")
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "POST whose answer is lost")
	assert.Len(t, s.requests(), 1, "requests seen by the server")
}

// With its own repeats left on, each of azcore's four tries is three of ours:
// what the page on layers warns of.
func TestAzuresOwnRepeatsMultiply(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(repeatBody), always(answer(503), 20)...)
	_, err := azure(t, s, policy.RetryOptions{RetryDelay: time.Millisecond}, http.MethodGet, "")
	require.Error(t, err, "GET")
	assert.Len(t, s.requests(), 12, "requests seen by the server")
}

// azcore's GetBody rewinds one reader and hands it out again. An upload that is
// turned away before it is done must not go on reading from it.
func TestAzureUploadThatIsTurnedAwayEarlyArrivesWhole(t *testing.T) {
	t.Parallel()
	body := string(content(2 << 20))
	s := serve(t, http.HandlerFunc(repeatBody))
	for range 10 {
		s.meets(answer(503), answer(503))
		resp, err := azure(t, s, alone, http.MethodPut, body)
		require.True(t, body == read(t, resp, err), "the body that the server got is the one that was given")
	}
}
