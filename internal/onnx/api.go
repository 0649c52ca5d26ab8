package onnx

// This file reaches past the Go binding for the three things it does not wrap:
// telling a wrong file from a library that is too old, naming that library's
// version, and asking it for its execution providers.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// The head of ONNX Runtime's OrtApiBase.
typedef struct {
	const void *(*GetApi)(uint32_t version);
	const char *(*GetVersionString)(void);
} ApiBase;

// OrtApi is a struct of function pointers that only ever grows at its end, so
// an entry's index is part of the ABI. These are counted in
// onnxruntime_c_api.h; apiVersion 7 is the first that has them all.
enum { apiVersion = 7, releaseStatus = 93, getAvailableProviders = 125, releaseAvailableProviders = 126 };

static ApiBase *api_base(void *handle) {
	ApiBase *(*get)(void) = (ApiBase *(*)(void))dlsym(handle, "OrtGetApiBase");
	return get ? get() : NULL;
}

static const char *api_version(ApiBase *base) { return base->GetVersionString(); }

static int api_has(ApiBase *base, uint32_t version) { return base->GetApi(version) != NULL; }

// api_providers returns the number of providers, or −1.
static int api_providers(ApiBase *base, char ***names) {
	void *const *api = base->GetApi(apiVersion);
	if (!api) return -1;
	int n = 0;
	void *status = ((void *(*)(char ***, int *))api[getAvailableProviders])(names, &n);
	if (status) {
		((void (*)(void *))api[releaseStatus])(status);
		return -1;
	}
	return n;
}

static void api_release_providers(ApiBase *base, char **names, int n) {
	void *const *api = base->GetApi(apiVersion);
	((void *(*)(char **, int))api[releaseAvailableProviders])(names, n);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// requiredAPI is the version of ONNX Runtime's C API that the Go binding was
// built for; requiredVersion is the first release that has it.
const (
	requiredAPI     = 24
	requiredVersion = "1.24"
)

// ask opens the library at path and returns its version and the execution
// providers built into it. The library stays loaded until the process ends:
// ONNX Runtime keeps thread-local state that does not survive unloading.
func ask(path string) (version string, providers []string, err error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		reason := strings.TrimPrefix(C.GoString(C.dlerror()), path+": ")
		return "", nil, fmt.Errorf("cannot be loaded: %s", printable(reason))
	}
	base := C.api_base(handle)
	if base == nil {
		C.dlclose(handle)
		return "", nil, errors.New("a library, but not ONNX Runtime")
	}
	version = C.GoString(C.api_version(base))
	if C.api_has(base, requiredAPI) == 0 {
		return version, nil, fmt.Errorf("ONNX Runtime %s is too old: need %s or newer", version, requiredVersion)
	}
	var names **C.char
	n := C.api_providers(base, &names)
	if n < 0 {
		return version, nil, errors.New("ONNX Runtime does not list its execution providers")
	}
	for _, name := range unsafe.Slice(names, int(n)) {
		providers = append(providers, C.GoString(name))
	}
	C.api_release_providers(base, names, n)
	return version, providers, nil
}
