package onnx

// This file reaches past the Go binding for the four things it does not wrap:
// telling a wrong file from a library that is too old, naming that library's
// version, asking it for its execution providers, and handing weights to a
// session from memory of our own.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The head of ONNX Runtime's OrtApiBase.
typedef struct {
	const void *(*GetApi)(uint32_t version);
	const char *(*GetVersionString)(void);
} ApiBase;

// OrtApi is a struct of function pointers that only ever grows at its end, so
// an entry's index is part of the ABI. These are counted in
// onnxruntime_c_api.h; apiVersion 7 is the first that has them all.
enum {
	apiVersion = 7, getErrorMessage = 2, createTensorWithData = 49, createCpuMemoryInfo = 69, releaseStatus = 93,
	releaseMemoryInfo = 94, releaseValue = 96, getAvailableProviders = 125, releaseAvailableProviders = 126,
	initializersVersion = 12, addExternalInitializers = 210
};

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

typedef struct {
	char *name;
	void *data;
	size_t size;
	const int64_t *dims;
	size_t rank;
	int32_t type; // ONNX's number of it, which is ONNX Runtime's
} Weight;

// api_add_weight makes w the initializer of its name in the sessions opened
// with the options. ONNX Runtime keeps the pointer to the data and copies all
// else. It returns NULL, or what went wrong, to be freed.
static char *api_add_weight(ApiBase *base, void *options, Weight w) {
	void *const *api = base->GetApi(initializersVersion);
	if (!api) return strdup("ONNX Runtime has no API of version 12");
	void *info = NULL, *value = NULL;
	// A tensor in the processor's memory: device allocator (0), default memory (0).
	void *status = ((void *(*)(int, int, void **))api[createCpuMemoryInfo])(0, 0, &info);
	if (!status)
		status = ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[createTensorWithData])(
			info, w.data, w.size, w.dims, w.rank, w.type, &value);
	if (!status) {
		const char *names[1] = {w.name};
		void *const values[1] = {value};
		status = ((void *(*)(void *, const char *const *, void *const *, size_t))api[addExternalInitializers])(options, names, values, 1);
	}
	char *problem = NULL;
	if (status) {
		problem = strdup(((const char *(*)(void *))api[getErrorMessage])(status));
		((void (*)(void *))api[releaseStatus])(status);
	}
	if (value) ((void (*)(void *))api[releaseValue])(value);
	if (info) ((void (*)(void *))api[releaseMemoryInfo])(info);
	return problem;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// requiredAPI is the version of ONNX Runtime's C API that the Go binding was
// built for; requiredVersion is the first release that has it.
const (
	requiredAPI     = 24
	requiredVersion = "1.24"
)

// apiBase is the library's that ask opened last.
var apiBase *C.ApiBase

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
	apiBase, libraryPath = base, path
	return version, providers, nil
}

// addWeight makes data, of the given type and shape, the initializer of that name in the sessions opened with the
// options, in place of an external tensor. The session uses data where it lies: it must not be on Go's heap, and must
// stay as it is until the session is closed.
func addWeight(o *ort.SessionOptions, name string, t ElemType, dims []int64, data []byte) error {
	field := reflect.ValueOf(o).Elem().FieldByName("o") // OrtSessionOptions*, which the binding does not give out
	if field.Kind() != reflect.Pointer {
		return errors.New("the Go binding of ONNX Runtime keeps its options otherwise")
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	w := C.Weight{
		name: C.CString(name), data: unsafe.Pointer(unsafe.SliceData(data)), size: C.size_t(len(data)),
		rank: C.size_t(len(dims)), _type: C.int32_t(t),
	}
	defer C.free(unsafe.Pointer(w.name))
	if len(dims) > 0 {
		pin.Pin(&dims[0])
		w.dims = (*C.int64_t)(&dims[0])
	}
	problem := C.api_add_weight(apiBase, field.UnsafePointer(), w)
	if problem == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(problem))
	return errors.New(C.GoString(problem))
}
