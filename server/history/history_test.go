package history

import (
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	var l Log
	if got := l.Last(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	changed := l.Changed()
	for i := range 2*Keep + 3 {
		l.Add(Event{Time: time.Unix(int64(i), 0), Kind: Role})
		select {
		case <-changed:
		default:
			t.Fatalf("nobody is told of event %d", i)
		}
		changed = l.Changed()
		select {
		case <-changed:
			t.Fatal("told of an event that has not come")
		default:
		}
	}
	got := l.Last()
	if len(got) != Keep {
		t.Fatalf("%d are kept, want %d", len(got), Keep)
	}
	for i, e := range got {
		if want := int64(2*Keep + 2 - i); e.Time.Unix() != want {
			t.Errorf("number %d is that of %d, want %d", i, e.Time.Unix(), want)
		}
	}
}
