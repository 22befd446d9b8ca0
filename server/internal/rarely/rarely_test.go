package rarely

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var w Line
		for range 5 {
			w.Log(log, slog.LevelWarn, "somebody knocks")
		}
		time.Sleep(Every)
		w.Log(log, slog.LevelWarn, "somebody knocks")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || strings.Contains(lines[0], "not_logged") || !strings.HasSuffix(lines[1], "not_logged_before=4") {
			t.Errorf("logged:\n%s", out.String())
		}
	})
}
