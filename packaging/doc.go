// Package packaging is how Stile is shipped: a service for systemd, an image,
// manifests for Kubernetes. Its tests hold these files against the program that
// they start and the schemas of those who read them. Package snapshot looks at
// what a release is made of. Nothing here is released itself.
package packaging
