// Package check holds deploy's files for containers to those who read them:
// the chart to Helm's engine and the types of Kubernetes, compose.yaml to
// Compose's loader, the Dockerfile to BuildKit's parser. It has nothing but
// tests, in a module of its own, since those libraries are large and none of
// the service's. `make check-deploy` runs it.
package check
