// Package browser has no code. Its tests open the page of the admin server in
// Chromium, at a real cluster, and compare what it shows with what happens; and
// that of a conformance run, on a phone. They are a module of their own, so that
// nobody else carries what drives a browser.
package browser
