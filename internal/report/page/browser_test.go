package page

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
)

// screenshots is the name of the environment variable that holds the path of a folder for pictures of the page.
const screenshots = "RSCERT_SCREENSHOTS"

// browser opens an empty tab of a real browser.
func browser(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium; 'make browser' installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(5*time.Minute)) // long enough for a busy machine
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return tab
}

// axe returns the script of the accessibility checker (npm package axe-core).
func axe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(cache, "rscert", "browser", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skipf("there is no axe-core (%v); 'make browser' installs it", err)
	}
	return string(script)
}

// hostile is text that acts as markup or as a script unless the page escapes it.
const hostile = `</script><script>alert(1)</script>"><img src=x onerror=alert(1)>'<!-- {{.}} ` + "\u202e\u2028"

// manyExamples returns a page of two runs with some pictures and hostile names. Each run has the given number of
// examples.
func manyExamples(t *testing.T, examples int) Page {
	t.Helper()
	runs := []Run{}
	for k, name := range []string{hostile, "σ = 0.5"} {
		s := summary.Source{Path: "run", Kind: summary.CertificatesKind}
		for i := range examples {
			c := certify.Certificate{Index: 3 * i, Label: i % 10, Prediction: (i + i%13/12) % 10, Radius: float64(i*7919%1000) / 500 / float64(1+k), Method: "margin",
				MarginKind: certify.SecondMargin, Alpha: 0.001, Sigma: 0.5, N: 1000, Sound: true, Arithmetic: certify.Exact}
			if i%17 == 16 {
				c.Prediction, c.Radius = certify.Abstained, 0
			}
			c.Correct = c.Prediction == c.Label
			s.Certificates = append(s.Certificates, c)
		}
		options := summary.Default()
		options.Name, options.Radii = name, []float64{0, 0.5, 1}
		sum, err := summary.New(s, options)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, Run{Summary: sum})
	}
	runs[0].Draw, runs[0].Pictures = squares, 300
	return Page{Runs: runs, ClassNames: []string{"zero", hostile, "two"},
		Requirements: []gate.Outcome{{Requirement: "acr>=1", Run: hostile, Says: "0.5, 0.5 too little"}, {Requirement: "acr>=0", Met: true}},
		Comparisons: []gate.Comparison{{Run: hostile, Baseline: hostile, RadiusTitle: "L2 radius", Examples: examples, Level: 0.95,
			Accuracy: []gate.AccuracyChange{{Radius: 0.5, Baseline: 0.75, This: 0.7, Lost: 3, Gained: 1, Change: -0.05, Low: -0.1, High: 0.02, P: 0.62501}}}}}
}

// squares returns one grey picture twice: as the input and as the noisy input. The shade of grey is the index modulo
// 256.
func squares(index int) (input, noisy image.Image, err error) {
	picture := image.NewGray(image.Rect(0, 0, 28, 28))
	for i := range picture.Pix {
		picture.Pix[i] = color.Gray{uint8(index)}.Y
	}
	return picture, picture, nil
}

// tab is a page in a browser, with the errors that occurred in it.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// open writes a page and opens it.
func open(t *testing.T, p Page) *tab {
	b := &tab{T: t, ctx: browser(t)}
	var text bytes.Buffer
	if err := p.Write(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", text.Len())
	err := chromedp.Listen(b.ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.problems = append(b.problems, fmt.Sprintf("console.%s", e.Type))
		case *log.EventEntryAdded:
			b.problems = append(b.problems, e.Entry.Text)
		case *cdppage.EventJavascriptDialogOpening:
			b.problems = append(b.problems, "dialog "+e.Message)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file://"+path) && !strings.HasPrefix(e.Request.URL, "blob:") {
				b.problems = append(b.problems, "asks for "+e.Request.URL)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(b.ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.screen(1280, "light")
	b.do(chromedp.Navigate("file://" + path))
	return b
}

// do carries out actions in the tab.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// get carries out an action and returns its result.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// eval evaluates a JavaScript expression. If its value is a promise, eval waits for the result.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// want checks that a JavaScript expression has the wanted value.
func want[T comparable](b *tab, expression string, want T) {
	b.Helper()
	if got := eval[T](b, expression); got != want {
		b.Errorf("%s is %v, want %v", expression, got, want)
	}
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.Helper()
	b.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(5*time.Minute)))
}

// screen sets the size of the tab and its colour scheme.
func (b *tab) screen(width int64, scheme string) {
	b.Helper()
	// Reduced motion turns smooth scrolling off. A click goes to the last known position of its target, so the page
	// must not scroll during the click.
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.Fatal(err)
	}
	if width < 600 {
		b.do(chromedp.EmulateViewport(width, 844, chromedp.EmulateMobile))
	} else {
		b.do(chromedp.EmulateViewport(width, 900))
	}
}

func (b *tab) keep(folder, name string, data []byte) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
		b.Fatal(err)
	}
}

// first returns a JavaScript expression for the text of a cell in the first row of examples.
func first(column int) string {
	return fmt.Sprintf(`document.querySelector("#rows tbody tr:not(.gap)").children[%d].textContent`, column)
}

// TestBrowser opens a page of 10,000 examples in a browser, at the sizes of a desktop and of a phone.
func TestBrowser(t *testing.T) {
	const examples = 10000
	p := manyExamples(t, examples)
	b := open(t, p)
	set := func(id, value string) {
		eval[bool](b, fmt.Sprintf(`(e => { e.value = %q; return e.dispatchEvent(new Event("input")); })(document.getElementById(%q))`, value, id))
	}
	const count = `document.getElementById("count").textContent`
	const made = `document.querySelectorAll("#rows tbody tr:not(.gap)").length`

	// The page renders, and hostile names appear as text.
	want(b, `document.title`, "Certified robustness of 2 runs")
	want(b, `document.querySelector(".measures th.value").textContent`, quote.Line(hostile))
	want(b, `document.querySelectorAll("img, iframe, object").length`, 0)
	want(b, `document.querySelectorAll("script").length`, 2)
	want(b, `document.querySelectorAll(".plot canvas").length`, len(p.charts()))
	want(b, `[...document.querySelectorAll(".plot canvas")].every(c =>
		c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v !== 0))`, true)
	want(b, count, "10,000 examples")
	want(b, `document.querySelector("#rows table").getAttribute("aria-rowcount")`, "10001")

	// The page contains only the visible rows, with their pictures.
	if n := eval[int](b, made); n < 5 || n > 60 {
		t.Errorf("%d rows are in the document", n)
	}
	want(b, `getComputedStyle(document.querySelectorAll("#rows .picture")[1]).backgroundImage.startsWith('url("blob:')`, true)
	eval[float64](b, `(r => r.scrollTop = r.scrollHeight)(document.getElementById("rows"))`)
	b.until(`[...document.querySelectorAll("#rows tbody tr:not(.gap)")].pop().firstChild.textContent === "29997"`)
	if n := eval[int](b, made); n > 60 {
		t.Errorf("%d rows are in the document at its end", n)
	}

	// The table can be sorted by radius in both directions.
	b.do(chromedp.Click(chromedp.Search(`//th/button[text()="L2 radius"]`)))
	want(b, first(5), "–")
	want(b, `document.querySelectorAll("#rows th")[5].getAttribute("aria-sort")`, "ascending")
	b.do(chromedp.Click(chromedp.Search(`//th/button[text()="L2 radius"]`)))
	want(b, first(5), "1.998")
	want(b, `document.querySelectorAll("#rows th")[5].getAttribute("aria-sort")`, "descending")

	// The rows of the table can be filtered.
	expected := 0
	for _, r := range p.Runs[0].Rows {
		if !r.Correct && r.Prediction >= 0 && r.Radius >= 1.5 {
			expected++
		}
	}
	set("result", "wrong")
	set("least", "1.5")
	want(b, count, fmt.Sprintf("%d of 10,000 examples", expected))
	want(b, first(4), "wrong")
	set("search", "alert(1)")
	if n := eval[int](b, made); n == 0 || n > expected {
		t.Errorf("%d rows have the hostile name", n)
	}
	set("search", "no such class")
	want(b, count, "0 of 10,000 examples")
	b.do(chromedp.Click(chromedp.Search(`//button[text()="Show all"]`)))
	b.until(count + ` === "10,000 examples"`)
	set("search", "2997")
	want(b, count, "1 of 10,000 examples")
	set("search", "")
	set("run", "1")
	set("least", "1.5") // the radii of the second run are at most 1
	want(b, count, "0 of 10,000 examples")
	set("least", "")
	want(b, count, "10,000 examples")
	want(b, `document.querySelectorAll("#rows .picture").length`, 0)
	set("run", "0")

	// The user can read the curves by keyboard.
	b.do(chromedp.Focus(chromedp.CSS(`.chart input[type=range]`)))
	before := eval[string](b, `document.activeElement.getAttribute("aria-valuetext")`)
	b.do(chromedp.KeyEvent(kb.End))
	after := eval[string](b, `document.activeElement.getAttribute("aria-valuetext")`)
	if before == after || !strings.Contains(after, "radius (L2) 2") || !strings.Contains(after, "0.0\u00a0%") {
		t.Errorf("the slider says %q, then %q", before, after)
	}

	// The user can also point at the curves.
	at := eval[[]float64](b, `(r => [r.left + r.width / 4, r.top + 20])(document.querySelector(".u-over").getBoundingClientRect())`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	if said := eval[string](b, `document.querySelector(".chart .at").textContent`); said != "radius (L2) 0.5" {
		t.Errorf("a quarter of the way from 0 to 2 the chart says %q", said)
	}
	b.do(chromedp.Click(chromedp.CSS(`.chart details summary`)))
	b.until(`document.querySelectorAll(".chart details tbody tr").length > 20`)

	// The accessibility checker finds no fault, on any screen.
	script := axe(t)
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.screen(width, scheme)
			if folder := os.Getenv(screenshots); folder != "" {
				eval[bool](b, `new Promise(r => setTimeout(r, 300, true))`)
				b.keep(folder, fmt.Sprintf("%d-%s.png", width, scheme), get(b, chromedp.FullScreenshot(100)))
			}
			if w := eval[int64](b, `document.documentElement.scrollWidth`); w > width {
				t.Errorf("%d pixels wide on a screen of %d", w, width)
			}
			type violation struct {
				ID, Help string
				Nodes    []struct{ HTML, FailureSummary string }
			}
			b.do(chromedp.Evaluate[chromedp.Void](script))
			violations := eval[[]violation](b, `axe.run().then(r => r.violations)`)
			for _, v := range violations {
				t.Errorf("%d pixels, %s: %s: %s: %.300s: %s", width, scheme, v.ID, v.Help, v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
			}
		}
	}

	// The page can be printed.
	pdf := get(b, chromedp.PrintToPDF())
	if !bytes.HasPrefix(pdf, []byte("%PDF-")) || len(pdf) < 50000 {
		t.Errorf("the PDF has %d bytes", len(pdf))
	}
	if folder := os.Getenv(screenshots); folder != "" {
		b.keep(folder, "page.pdf", pdf)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		t.Error(problem)
	}
}
