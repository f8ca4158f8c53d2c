//go:build !race

package ring

const raced = false
