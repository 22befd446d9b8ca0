package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// readDuration is a kong.MapperFunc that says what a duration looks like.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("duration", &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("expected duration but got %q: %s", s, durationLike(s))
	}
	target.SetInt(int64(d))
	return nil
}

// durationLike says how to write what somebody meant.
func durationLike(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return "it has no unit: " + s + "s are seconds; others are ms, m and h, as in 1h30m"
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 1e6 {
			return fmt.Sprintf("days are written as hours: %dh", 24*n)
		}
	}
	return "want a number and a unit, as in 500ms, 30s, 5m or 1h30m"
}
