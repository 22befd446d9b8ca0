// Package deploy has no code. Beside it are files for those who run Stile: a
// dashboard for Grafana and alert rules for Prometheus. Its tests check that
// they are well-formed, and that every metric they name is one that a node has.
package deploy
