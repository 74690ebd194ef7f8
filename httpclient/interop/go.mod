module github.com/reintento/reintento/httpclient/interop

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/reintento/reintento v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/oauth2 v0.38.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

replace github.com/reintento/reintento => ../../
