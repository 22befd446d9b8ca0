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
		for every, w := range map[time.Duration]*Line{Every: {}, time.Minute: {Every: time.Minute}} {
			out.Reset()
			for range 5 {
				w.Log(log, slog.LevelWarn, "somebody knocks")
			}
			time.Sleep(every - time.Nanosecond)
			w.Log(log, slog.LevelWarn, "somebody knocks")
			time.Sleep(time.Nanosecond)
			w.Log(log, slog.LevelWarn, "somebody knocks")
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 2 || strings.Contains(lines[0], "not_logged") || !strings.HasSuffix(lines[1], "not_logged_before=5") {
				t.Errorf("every %v: logged:\n%s", every, out.String())
			}
		}
	})
}
