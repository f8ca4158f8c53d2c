// Package signin signs people in with an OpenID Connect provider (S78): the authorization
// code flow with PKCE and a nonce, and the provider's logout tokens. It keeps nothing and
// knows no store: what a browser must bring back is in a signed cookie, and what comes out
// is a session to be stored.
package signin
