// Package checkpoint writes and reads signed checkpoints: what the heads of all
// chains were at a time (G8). A chain shows what was changed inside it; that its
// end was cut off, or all of it taken away, shows against a checkpoint that was
// kept elsewhere.
//
// A file of checkpoints is JSON lines, each signed (Ed25519) and each with the
// hash of the line before, so that none can be taken out. Its format is in
// deploy/AUDIT-FORMAT.md.
package checkpoint
