package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/progress"
)

// These constants limit the time and the size of a download.
const (
	connectPatience  = 10 * time.Second
	responsePatience = 30 * time.Second
	maxArchive       = 2 << 30
	maxIndex         = 64 << 20
)

// releases is the address of ONNX Runtime's own archives.
const releases = "https://github.com/microsoft/onnxruntime/releases/download"

// download fetches the release. If this fails, it tries the configured registries: first npm's, then pip's.
func (f fetcher) download(ctx context.Context) (string, error) {
	addresses := f.addresses()
	if len(addresses) == 0 {
		return "", errNotInstalled
	}
	var problems []error
	for _, address := range addresses {
		var err error
		if strings.HasSuffix(address, "/") {
			address, err = f.findWheel(ctx, address)
		}
		if err == nil {
			var path string
			if path, err = f.copy(ctx, address); err == nil {
				return path, nil
			}
		}
		problems = append(problems, err)
	}
	return "", errors.Join(problems...)
}

// addresses returns the possible addresses of the build. An address that ends with "/" is the project's page in a
// package index (PEP 503).
func (f fetcher) addresses() (all []string) {
	p := f.packages()
	if name := p.release[f.Platform]; name != "" {
		all = append(all, fmt.Sprintf("%s/v%s/%s%s.tgz", f.releases(), f.Version, name, f.Version))
	}
	if registry := npmRegistry(); p.npm != "" && registry != "" {
		all = append(all, fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, p.npm, p.npm, f.Version))
	}
	if index := pipIndex(); index != "" {
		all = append(all, fmt.Sprintf("%s/%s/", index, p.wheel))
	}
	return all
}

// releases returns the address of ONNX Runtime's releases or of a mirror.
func (f fetcher) releases() string {
	if mirror := os.Getenv("RSCERT_ONNXRUNTIME_RELEASES"); mirror != "" {
		return strings.TrimSuffix(mirror, "/")
	}
	return releases
}

// findWheel searches the page of a package index for the link to the wheel, and returns the wheel's address.
func (f fetcher) findWheel(ctx context.Context, page string) (string, error) {
	body, _, err := open(ctx, page)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxIndex))
	if err != nil {
		return "", err
	}
	link := regexp.MustCompile(`href="([^"]*` + regexp.QuoteMeta(f.wheelFile()) + `(?:#[^"]*)?)"`).FindSubmatch(text)
	if link == nil {
		return "", fmt.Errorf("%s names no %s", page, f.wheelFile())
	}
	base, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	target, err := base.Parse(html.UnescapeString(string(link[1])))
	if err != nil {
		return "", err
	}
	target.Fragment = ""
	return target.String(), nil
}

// copy downloads a file from an address into f.dir, or copies a local file into this folder.
func (f fetcher) copy(ctx context.Context, from string) (path string, err error) {
	f.console.notef("fetching %s", from)
	body, size, err := open(ctx, from)
	if err != nil {
		return "", err
	}
	defer body.Close()
	file, err := os.CreateTemp(f.dir, "fetched-")
	if err != nil {
		return "", err
	}
	bar := progress.Start(f.console.Progress, "fetch, MB", size/1e6, 0)
	defer bar.Finish()
	n, err := io.Copy(file, &metered{io.LimitReader(body, maxArchive), bar, 0})
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if n == maxArchive || size >= 0 && n != size {
		return "", fmt.Errorf("%s: got %d of %d bytes", from, n, size)
	}
	return file.Name(), nil
}

// metered shows the megabytes read so far.
type metered struct {
	io.Reader
	bar  *progress.Bar
	rest int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.rest += int64(n)
	m.bar.Add(m.rest/1e6, "")
	m.rest %= 1e6
	return n, err
}

// open opens an address (http, https, file) or a path. The size is −1 if it is unknown.
func open(ctx context.Context, from string) (body io.ReadCloser, size int64, err error) {
	path, isFile := strings.CutPrefix(from, "file://")
	if isFile || !strings.Contains(from, "://") {
		file, err := os.Open(path)
		if err != nil {
			return nil, 0, err
		}
		return file, -1, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, 0, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // the clone uses the proxies from the environment
	transport.DialContext = (&net.Dialer{Timeout: connectPatience}).DialContext
	transport.ResponseHeaderTimeout = responsePatience
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, 0, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, 0, fmt.Errorf("%s: %s", from, response.Status)
	}
	return response.Body, response.ContentLength, nil
}

// npmRegistry reads the address of npm's registry from the variable npm_config_registry or from ~/.npmrc.
func npmRegistry() string {
	registry := os.Getenv("npm_config_registry")
	if home, err := os.UserHomeDir(); registry == "" && err == nil {
		registry = setting(filepath.Join(home, ".npmrc"), "registry")
	}
	return strings.TrimSuffix(registry, "/")
}

// pipIndex reads the address of pip's package index from the variable PIP_INDEX_URL or from pip's configuration.
func pipIndex() string {
	index := os.Getenv("PIP_INDEX_URL")
	files := []string{os.Getenv("PIP_CONFIG_FILE"), "", "", "/etc/pip.conf"}
	if home, err := os.UserHomeDir(); err == nil {
		files[1], files[2] = filepath.Join(home, ".config/pip/pip.conf"), filepath.Join(home, ".pip/pip.conf")
	}
	for _, file := range files {
		if index == "" && file != "" {
			index = setting(file, "index-url")
		}
	}
	return strings.TrimSuffix(index, "/")
}

// setting reads a file of lines "key = value". It returns the last value of the key, or "" if the file does not set the
// key.
func setting(file, key string) (value string) {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, v, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(name) == key {
			value = strings.TrimSpace(v)
		}
	}
	return value
}
