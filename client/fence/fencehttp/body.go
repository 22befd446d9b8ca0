package fencehttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// readBody reads the request to its end, and lets the handler read the same.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) *problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var long *http.MaxBytesError
	switch {
	case err == nil:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil
	case errors.As(err, &long):
		return badBody(http.StatusRequestEntityTooLarge, fmt.Sprintf("it may have %d bytes at most", limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badBody(http.StatusRequestTimeout, "it did not arrive in time")
	default:
		return badBody(http.StatusBadRequest, "it ended early: "+err.Error())
	}
}
