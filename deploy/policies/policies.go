// Package policies embeds the files of the ready policies, so that a
// single node can store them at its first start.
package policies

import "embed"

// Files are the policies, one YAML file each.
//
//go:embed *.yaml
var Files embed.FS
