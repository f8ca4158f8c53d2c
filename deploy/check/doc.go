// Package check tests deploy's files for containers with the libraries of their
// tools: the chart with Helm's engine and the types of Kubernetes, compose.yaml
// with Compose's loader, the Dockerfile with BuildKit's parser. It has only
// tests, in a module of its own, because those libraries are large and the
// service does not use them. `make check-deploy` runs it.
package check
