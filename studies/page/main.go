// Page copies a study's output into a page of docs. The study marks parts of its output like this:
//
//	<!-- made: NAME -->
//	…
//	<!-- end: NAME -->
//
// Each part replaces the text between the same marks in the page:
//
//	go run ./studies/calibration -parts real | go run ./studies/page docs/calibration-error.md
//
// The program ignores all other lines of its input. If the page lacks the marks, the program returns an error and does
// not change the page.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/rscert/rscert/internal/durable"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: page PAGE <OUTPUT")
	}
	if err := update(os.Args[1], os.Stdin); err != nil {
		log.Fatal("page: ", err)
	}
}

func update(path string, output io.Reader) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made, err := io.ReadAll(output)
	if err != nil {
		return err
	}
	text, err := replace(string(page), string(made))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return durable.WriteFile(path, []byte(text))
}

const (
	mark = "<!-- made: "
	shut = " -->"
)

// replace takes the marked parts of the text 'made', puts each of them into the page, and returns the new page.
func replace(page, made string) (string, error) {
	parts := 0
	for {
		_, rest, found := strings.Cut(made, mark)
		if !found {
			break
		}
		name, rest, found := strings.Cut(rest, shut+"\n")
		if !found {
			return "", errors.New("a mark has no end")
		}
		end := "<!-- end: " + name + shut
		body, rest, found := strings.Cut(rest, end)
		if !found {
			return "", fmt.Errorf("%s is cut off", name)
		}
		made = rest
		begin := mark + name + shut + "\n"
		before, after, found := strings.Cut(page, begin)
		_, after, closed := strings.Cut(after, end)
		if !found || !closed {
			return "", fmt.Errorf("no place for %s", name)
		}
		page = before + begin + "\n" + strings.Trim(body, "\n") + "\n\n" + end + after
		parts++
	}
	if parts == 0 {
		return "", errors.New("nothing is marked")
	}
	return page, nil
}
