package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// auditCommand groups what is done with the trail itself, past the nodes: its
// commands talk to the database.
func auditCommand() command {
	return command{
		name:    "audit",
		summary: "prove that the audit trail is as it was written",
		details: "Talks to the database of SPENDGATE_DATABASE_URL itself; no node is needed.",
		sub: []command{
			{
				name: "keygen", summary: "make a key pair for signed checkpoints", setup: noFlags(auditKeygen),
				details: "Prints the secret key for SPENDGATE_CHECKPOINT_KEY, and the public key for those who verify.",
			},
		},
	}
}

// auditKeygen prints a new Ed25519 key pair, in base64.
func auditKeygen(_ context.Context, p process) error {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key pair: %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "secret %s\npublic %s\n",
		base64.StdEncoding.EncodeToString(secret.Seed()), base64.StdEncoding.EncodeToString(public))
	return err
}
