package fencing

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal is a log to look at.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) count(s string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.buf.String(), s)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func fixed(at time.Time) func() time.Time { return func() time.Time { return at } }

func TestTakeEpoch(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var log journal
	k, err := TakeEpoch(t.Context(), s, 3, fixed(second(60_500_000, 2)), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	// On the disk before the first token.
	if pair, err := s.read(); pair.N != 60_500_000 || err != nil {
		t.Errorf("the file holds %v, %v", pair, err)
	}
	if got, want := mustNext(t, k.Allocator), Token(60_500_000, 3, 2<<18+1); got != want {
		t.Errorf("first token %d, want %d", got, want)
	}
	s.Close()

	// Again within the second, and with a clock that went back.
	s = openStore(t, dir)
	if k, err = TakeEpoch(t.Context(), s, 3, fixed(second(60_500_000, 9)), log.logger()); err != nil || k.Epoch() != 60_500_001 {
		t.Errorf("epoch %d, %v", k.Epoch(), err)
	}
	s.Close()
	s = openStore(t, dir)
	if k, err = TakeEpoch(t.Context(), s, 3, fixed(second(5, 0)), log.logger()); err != nil || k.Epoch() != 60_500_002 {
		t.Errorf("epoch %d, %v", k.Epoch(), err)
	}
	if log.count("clock and epochs disagree") != 1 {
		t.Errorf("log: %s", log.buf.String())
	}
}

// An epoch whose storing failed may be on the disk all the same, so it is not
// tried again: the next attempt has the next number.
func TestTakeEpochOnADiskThatFailsOnce(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	block(t, dir)
	var log journal
	attempts := 0
	k, err := TakeEpoch(t.Context(), s, 0, func() time.Time {
		if attempts++; attempts == 3 {
			unblock(t, dir)
		}
		return second(60_500_000, 0)
	}, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if attempts != 3 || k.Epoch() != 60_500_002 {
		t.Errorf("epoch %d after %d attempts", k.Epoch(), attempts)
	}
	if pair, err := s.read(); pair.N != k.Epoch() || err != nil {
		t.Errorf("the file holds %v, %v", pair, err)
	}
}

func TestTakeEpochGivesUp(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	block(t, dir)
	attempts := 0
	var log journal
	_, err := TakeEpoch(t.Context(), s, 0, func() time.Time { attempts++; return second(60_500_000, 0) }, log.logger())
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v: want the directory's name", err)
	}
	if attempts != bootAttempts {
		t.Errorf("%d attempts", attempts)
	}
	unblock(t, dir)
	mustPut(t, s, maxEpoch)
	s.Close()
	s = openStore(t, dir)
	if _, err := TakeEpoch(t.Context(), s, 0, time.Now, log.logger()); err == nil || !strings.Contains(err.Error(), ErrEpochsUsedUp.Error()) {
		t.Errorf("error %v", err)
	}
}

func TestRunTakesAnEpochAheadOfNeed(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var log journal
	clock := second(60_500_000, 999) // so late in the second that 7/8 have passed
	k, err := TakeEpoch(t.Context(), s, 1, fixed(clock), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { k.Run(ctx); close(ended) }()
	for deadline := time.Now().Add(10 * time.Second); k.ahead.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("no epoch was taken ahead; log: %s", log.buf.String())
		}
		time.Sleep(time.Millisecond)
	}
	if pair, err := s.read(); pair.N != 60_500_001 || err != nil {
		t.Errorf("the file holds %v, %v", pair, err)
	}
	last := mustNext(t, k.Allocator)
	k.last.Store(Token(60_500_000, 1, maxSeq-1000)) // the others are not needed here
	for k.Epoch() == 60_500_000 {
		token := mustNext(t, k.Allocator)
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
	}
	if want := Token(60_500_001, 1, 1); last != want {
		t.Errorf("the first token of the next epoch is %d, want %d", last, want)
	}
	cancel()
	<-ended
}

// A disk that fails is noticed within a minute, long before the next epoch is
// wanted, and that it works again within a second.
func TestRunTriesTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var log journal
	synctest.Test(t, func(t *testing.T) {
		k, err := TakeEpoch(t.Context(), s, 0, fixed(second(60_500_000, 0)), log.logger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Run(ctx)
		time.Sleep(tryEvery + retryAhead/2) // between the trials, from here on
		if err := k.Failing(); err != nil {
			t.Errorf("it fails for %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tryEvery)
		if err := k.Failing(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("it fails for %v", err)
		}
		time.Sleep(tryEvery)
		if got := log.count("epochs can't be stored"); got != 1 {
			t.Errorf("said %d times; log: %s", got, log.buf.String())
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryAhead)
		if err := k.Failing(); err != nil || log.count("epochs can be stored again") != 1 {
			t.Errorf("it fails for %v; log: %s", err, log.buf.String())
		}
		if k.ahead.Load() != 0 {
			t.Error("an epoch was taken that nobody wanted")
		}
		cancel()
		synctest.Wait()
	})
	if pair, err := s.read(); pair.N != 60_500_000 || err != nil {
		t.Errorf("the file holds %v, %v", pair, err)
	}
}

// While the disk fails the node grants on, tries again every second, and says
// so. A number that failed once is not used.
func TestRunOnADiskThatFails(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var log journal
	synctest.Test(t, func(t *testing.T) {
		k, err := TakeEpoch(t.Context(), s, 0, fixed(second(60_500_000, 999)), log.logger())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Run(ctx)
		time.Sleep(3*retryAhead + retryAhead/2)
		if got := log.count("can't take an epoch ahead of need"); got != 4 {
			t.Errorf("%d attempts in 3.5 s, want 4; log: %s", got, log.buf.String())
		}
		if err := k.Failing(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("it fails for %v", err)
		}
		mustNext(t, k.Allocator)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryAhead)
		if got, want := Epoch(k.ahead.Load()), uint32(60_500_005); got != want {
			t.Errorf("reserved epoch %d, want %d", got, want)
		}
		if got := log.count("took an epoch ahead of need"); got != 1 {
			t.Errorf("log: %s", log.buf.String())
		}
		if err := k.Failing(); err != nil {
			t.Errorf("it fails still: %v", err)
		}
		cancel()
		synctest.Wait()
	})
	if pair, err := s.read(); pair.N != 60_500_005 || err != nil {
		t.Errorf("the file holds %v, %v", pair, err)
	}
}
