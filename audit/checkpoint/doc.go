// Package checkpoint writes and reads signed checkpoints: the heads of all
// chains at one time (G8). A chain alone shows changes inside it. Only a checkpoint that
// is kept elsewhere shows that the end of a chain, or a whole chain, was removed.
//
// A file of checkpoints has one JSON object a line, each signed (Ed25519) and each with the
// hash of the line before, so that no line can be removed unnoticed. Its format is in
// docs/audit/format.md.
package checkpoint
