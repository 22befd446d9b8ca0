package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

var screenshots = flag.String("screenshots", "", "a directory for pictures of the page")

var (
	stiled   string // the binary under test, built once
	chromium string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		fmt.Fprintln(os.Stderr, "NOT TESTED: the page of the admin server. There is no Chromium here: install Debian's package chromium, or Chrome.")
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "stile-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stiled = filepath.Join(dir, "stiled")
	build := exec.Command("go", "build", "-o", stiled, "./cmd/stiled")
	build.Dir = filepath.Join("..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building stiled: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newBrowser starts a browser that ends with the test. It reaches nothing but
// loopback, and leaves nothing.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // for root
		chromedp.WSURLReadTimeout(60*time.Second),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.*"),
		chromedp.Flag("no-proxy-server", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser did not end well: %v", err)
		}
		cancel()
	})
	ok(t, chromedp.Do(ctx))
	return ctx
}

// tab is a page that is open.
type tab struct {
	t   *testing.T
	ctx context.Context
	// close closes the tab. A browser has six connections to a server at most,
	// and each page keeps one.
	close context.CancelFunc

	mu       sync.Mutex
	problems []string
}

// open opens an address in a tab of its own. The test fails if the page throws
// or breaks its own policy.
func open(t *testing.T, browser context.Context, addr string, first ...action) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx, close: cancel}
	t.Cleanup(func() {
		if t.Failed() {
			p.picture(strings.ReplaceAll(t.Name(), "/", "-") + "-failed-" + strings.ReplaceAll(addr, ":", "-"))
		}
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Errorf("the page at %s: %s", addr, problem)
		}
	})
	ok(t, chromedp.Listen(ctx, func(event any) {
		problem := ""
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			problem = e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				problem += " " + e.ExceptionDetails.Exception.Description
			}
		case *log.EventEntryAdded:
			// A node that is gone is no problem of the page; the other kinds are.
			if e.Entry.Source != log.EntrySourceNetwork && e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
				problem = e.Entry.Text
			}
		}
		if problem != "" {
			p.mu.Lock()
			p.problems = append(p.problems, problem)
			p.mu.Unlock()
		}
	}))
	p.do(append(first, chromedp.Navigate("http://"+addr+"/"))...)
	return p
}

// patience is for a page that has to show something that has happened.
const patience = 2 * rig.Patience

type action = chromedp.Action[chromedp.Void]

func (p *tab) do(actions ...action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	ok(p.t, chromedp.Do(ctx, actions...))
}

// eval returns what a script comes to.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	ok(p.t, err)
	return v
}

func click(css string) action { return chromedp.Click(chromedp.CSS(css)) }

// enter types a text into a field, in place of what is there.
func enter(css, text string) action {
	return chromedp.Steps(chromedp.Evaluate[chromedp.Void](`document.querySelector(`+strconv.Quote(css)+`).select()`), chromedp.SendKeys(chromedp.CSS(css), text))
}

// text is what is seen of the elements, one line each.
func (p *tab) text(selector string) string {
	p.t.Helper()
	texts := eval[[]string](p, `[...document.querySelectorAll(`+strconv.Quote(selector)+`)].filter(e => e.checkVisibility()).map(e => e.innerText.replace(/\s+/g, ' ').trim())`)
	return strings.Join(texts, "\n")
}

// shows waits until the elements have all of the texts.
func (p *tab) shows(selector string, texts ...string) {
	p.t.Helper()
	p.agrees(selector, func() []string { return texts })
}

// agrees is shows, of texts that may change meanwhile.
func (p *tab) agrees(selector string, want func() []string) {
	p.t.Helper()
	var last string
	var texts []string
	_, err := rig.Until(patience, selector+" shows it", func() (bool, error) {
		last, texts = p.text(selector), want()
		for _, text := range texts {
			if !strings.Contains(last, text) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		p.t.Fatalf("%v: %q; it shows:\n%s", err, texts, last)
	}
}

// picture takes one of all of the page, if pictures are wanted.
func (p *tab) picture(name string) {
	if *screenshots == "" {
		return
	}
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Logf("no picture %s: %v", name, err)
		return
	}
	ok(p.t, os.MkdirAll(*screenshots, 0o755))
	ok(p.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}

// view sets the size of the window and what its user prefers.
func view(width, height int64, features ...string) action {
	var media emulation.SetEmulatedMediaParams
	for i := 0; i+1 < len(features); i += 2 {
		media.Features = append(media.Features, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	return chromedp.Steps(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return err
	}))
}

var dark = []string{"prefers-color-scheme", "dark"}

// startCluster starts nodes and waits until the first serves and the others
// follow it.
func startCluster(t *testing.T, nodes int, flags ...string) *rig.Cluster {
	t.Helper()
	c, err := rig.New(rig.Options{
		Binary: stiled, Nodes: nodes, Dir: t.TempDir(),
		Flags: append([]string{"--heartbeat=100ms", "--failure-timeout=500ms", "--boot-grace=500ms", "--takeback=500ms"}, flags...),
	})
	ok(t, err)
	t.Cleanup(func() {
		logs := c.Logs()
		c.Close()
		if t.Failed() {
			t.Logf("the nodes wrote:\n%s", logs)
		}
	})
	ok(t, c.StartAll())
	if _, err := c.WaitSettled(1, rig.Patience); err != nil {
		t.Fatal(err)
	}
	return c
}
