package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const bucket = "bucket"

// serveS3 is an S3 in memory with one bucket.
func serveS3(t *testing.T, faults ...fault) *server {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket(bucket), "CreateBucket")
	return serve(t, gofakes3.New(backend).Server(), faults...)
}

// s3Client is AWS's client with ours inside. Its own repeats are off unless
// options say otherwise.
func s3Client(t *testing.T, s *server, c aws.HTTPClient, options ...func(*s3.Options)) *s3.Client {
	t.Helper()
	return s3.New(s3.Options{
		HTTPClient:   c,
		Retryer:      aws.NopRetryer{},
		BaseEndpoint: aws.String(s.URL),
		UsePathStyle: true,
		Region:       "eu-south-2",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	}, options...)
}

// content is n bytes that are not alike.
func content(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func put(t *testing.T, c *s3.Client, key string, body []byte) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(key), Body: bytes.NewReader(body)})
	return err
}

func get(t *testing.T, c *s3.Client, key string) []byte {
	t.Helper()
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	require.NoError(t, err, "GetObject(%s)", key)
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	require.NoError(t, err, "reading the object %s", key)
	return b
}

func TestS3CallsAreRepeatedByOneLayer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		faults   []fault
		requests int
	}{
		{"nothing happens", nil, 1},
		{"503", []fault{answer(503)}, 2},
		{"500, and then the connection is cut", []fault{answer(500), cut}, 3},
		{"the answer is lost", []fault{lose}, 2},
		{"the answer is lost twice", []fault{lose, lose}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serveS3(t)
			sc := s3Client(t, s, client(t, quick()))
			want := content(10_000)

			s.meets(c.faults...)
			require.NoError(t, put(t, sc, "object", want), "PutObject")
			assert.Len(t, s.requests(), c.requests, "requests for PutObject")

			s.meets(c.faults...)
			assert.True(t, bytes.Equal(want, get(t, sc, "object")), "GetObject gives back what PutObject was given")
			assert.Len(t, s.requests(), c.requests, "requests for GetObject")

			s.meets(c.faults...)
			list, err := sc.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
			require.NoError(t, err, "ListObjectsV2")
			require.Len(t, list.Contents, 1, "objects listed")
			assert.Len(t, s.requests(), c.requests, "requests for ListObjectsV2")

			s.meets(c.faults...)
			_, err = sc.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String("object")})
			require.NoError(t, err, "DeleteObject")
			assert.Len(t, s.requests(), c.requests, "requests for DeleteObject")
		})
	}
}

func TestS3HintIsWaitedForAndNeverCutShort(t *testing.T) {
	t.Parallel()
	s := serveS3(t, answer(429, "Retry-After", "1"))
	require.NoError(t, put(t, s3Client(t, s, client(t, quick())), "object", content(100)), "PutObject through a 429")
	seen := s.requests()
	require.Len(t, seen, 2, "requests seen by the server")
	assert.GreaterOrEqual(t, seen[1].at.Sub(seen[0].at), time.Second, "wait after Retry-After: 1")
}

func TestS3GetsTheLastAnswerWhenAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	slowDown := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
	}
	s := serveS3(t, always(slowDown, 20)...)
	err := put(t, s3Client(t, s, client(t, quick())), "object", content(100))
	api, ok := errors.AsType[smithy.APIError](err)
	require.True(t, ok, "error of PutObject is %T %v, want a smithy.APIError", err, err)
	assert.Equal(t, "SlowDown", api.ErrorCode(), "code out of the body of the last answer")
	assert.Len(t, s.requests(), 3, "requests seen by the server")
}

func TestS3AnswersThatRepeatThemselvesAreSentOnce(t *testing.T) {
	t.Parallel()
	s := serveS3(t)
	_, err := s3Client(t, s, client(t, quick())).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String("nothing")})
	api, ok := errors.AsType[smithy.APIError](err)
	require.True(t, ok, "error of GetObject is %T %v, want a smithy.APIError", err, err)
	assert.Equal(t, "NoSuchKey", api.ErrorCode(), "code for an object that is not there")
	assert.Len(t, s.requests(), 1, "requests seen by the server")
}

// CreateMultipartUpload is a POST: twice is two uploads, and S3 knows no keys.
func TestS3WriteThatMayNotBeRepeatedIsNot(t *testing.T) {
	t.Parallel()
	s := serveS3(t, lose)
	sc := s3Client(t, s, client(t, quick()))
	input := &s3.CreateMultipartUploadInput{Bucket: aws.String(bucket), Key: aws.String("object")}
	_, err := sc.CreateMultipartUpload(t.Context(), input)
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "CreateMultipartUpload whose answer is lost")
	assert.Len(t, s.requests(), 1, "requests seen by the server")

	// The caller that does not mind a second upload says so.
	s.meets(lose)
	_, err = sc.CreateMultipartUpload(retry.WithSafety(t.Context(), retry.Idempotent), input)
	require.NoError(t, err, "CreateMultipartUpload declared as idempotent")
	assert.Len(t, s.requests(), 2, "requests seen by the server")
}

// With its own repeats left on, each of AWS's three tries is three of ours: what
// the page on layers warns of.
func TestAWSsOwnRepeatsMultiply(t *testing.T) {
	t.Parallel()
	s := serveS3(t, always(answer(503), 20)...)
	sc := s3Client(t, s, client(t, quick()), func(o *s3.Options) {
		o.Retryer = awsretry.NewStandard(func(o *awsretry.StandardOptions) {
			o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	})
	require.Error(t, put(t, sc, "object", content(100)), "PutObject")
	assert.Len(t, s.requests(), 9, "requests seen by the server")
}

// AWS's client hands a body over that cannot be opened again. What was read of
// it is kept up to Transport.ReplayBuffer; an upload that is larger is sent once
// and its real answer returned.
func TestS3UploadLargerThanTheBufferNeedsABufferOrGetBody(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	want := content(size)

	t.Run("as it is", func(t *testing.T) {
		t.Parallel()
		s := serveS3(t, drained503)
		err := put(t, s3Client(t, s, client(t, quick())), "object", want)
		answered, ok := errors.AsType[*smithyhttp.ResponseError](err)
		require.True(t, ok, "error of PutObject is %T %v, want a *ResponseError", err, err)
		assert.Equal(t, 503, answered.HTTPStatusCode(), "status")
		assert.Len(t, s.requests(), 1, "requests seen by the server")
	})

	t.Run("with a buffer for it", func(t *testing.T) {
		t.Parallel()
		s := serveS3(t, drained503, lose)
		transport := over(t, quick(), connections(t))
		transport.ReplayBuffer = size
		sc := s3Client(t, s, &http.Client{Transport: transport})
		require.NoError(t, put(t, sc, "object", want), "PutObject")
		assert.Len(t, s.requests(), 3, "requests seen by the server")
		assert.True(t, bytes.Equal(want, get(t, sc, "object")), "GetObject gives back what PutObject was given")
	})

	t.Run("with GetBody", func(t *testing.T) {
		t.Parallel()
		s := serveS3(t, drained503, lose)
		sc := s3Client(t, s, client(t, quick()), func(o *s3.Options) {
			o.APIOptions = append(o.APIOptions, withGetBody)
		})
		require.NoError(t, put(t, sc, "object", want), "PutObject")
		assert.Len(t, s.requests(), 3, "requests seen by the server")
		assert.True(t, bytes.Equal(want, get(t, sc, "object")), "GetObject gives back what PutObject was given")
	})
}

// drained503 turns a request away after having read it.
func drained503(w http.ResponseWriter, r *http.Request, next http.Handler) {
	io.Copy(io.Discard, r.Body)
	answer(503)(w, r, next)
}

// withGetBody gives the requests of AWS's client a GetBody, where their body can
// be read at any place.
func withGetBody(stack *middleware.Stack) error {
	return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("GetBody", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		req, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("GetBody: request is a %T", in.Request)
		}
		if at, ok := req.GetStream().(io.ReaderAt); ok && req.ContentLength > 0 {
			size := req.ContentLength
			req.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(io.NewSectionReader(at, 0, size)), nil
			}
		}
		return next.HandleFinalize(ctx, in)
	}), middleware.After)
}
