// Package interop holds no code. Its tests put package httpclient between other
// people's code, above and below: clients of vendors that get our client as
// theirs, proxies and token sources, protocols that leave HTTP. One layer
// repeats, and the server sees as many requests as that layer says.
//
// It is a module of its own, so that none of these modules becomes a
// requirement of the SDK.
package interop
