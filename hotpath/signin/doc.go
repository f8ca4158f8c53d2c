// Package signin signs people in with an OpenID Connect provider (S78): the authorization
// code flow with PKCE and a nonce, and the provider's logout tokens. It keeps no state and
// uses no store: the state that a browser must bring back is in a signed cookie, and the result
// is a session for the caller to store.
package signin
