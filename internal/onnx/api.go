package onnx

// This file calls ONNX Runtime's C API directly for five purposes that the Go binding does not cover:
//
//   - to distinguish a file that is not ONNX Runtime from a version that is too old,
//   - to read the library's version,
//   - to list the library's execution providers,
//   - to pass weights in rscert's own memory to a session,
//   - to run sessions with bound values, and to stop such a run.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ApiBase is the first part of ONNX Runtime's OrtApiBase.
typedef struct {
	const void *(*GetApi)(uint32_t version);
	const char *(*GetVersionString)(void);
} ApiBase;

// OrtApi is a struct of function pointers. New versions only append entries, so the index of an entry is part of the
// ABI. The indices are the positions in onnxruntime_c_api.h. Version 'apiVersion' of the API is the first version that
// has all entries in the first two lines of this enum.
enum {
	apiVersion = 7, getErrorMessage = 2, createTensorWithData = 49, createCpuMemoryInfo = 69, releaseStatus = 93,
	releaseMemoryInfo = 94, releaseValue = 96, getAvailableProviders = 125, releaseAvailableProviders = 126,
	initializersVersion = 12, addExternalInitializers = 210,
	bindingVersion = 8, runWithBinding = 133, bindInput = 136
};

static ApiBase *api_base(void *handle) {
	ApiBase *(*get)(void) = (ApiBase *(*)(void))dlsym(handle, "OrtGetApiBase");
	return get ? get() : NULL;
}

static const char *api_version(ApiBase *base) { return base->GetVersionString(); }

static int api_has(ApiBase *base, uint32_t version) { return base->GetApi(version) != NULL; }

// api_providers returns the number of providers, or −1 if there is an error.
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

// api_text returns the error message, or NULL for no error. The caller frees the message.
static char *api_text(void *const *api, void *status) {
	if (!status) return NULL;
	char *problem = strdup(((const char *(*)(void *))api[getErrorMessage])(status));
	((void (*)(void *))api[releaseStatus])(status);
	return problem;
}

typedef struct {
	char *name;
	void *data;
	size_t size;
	const int64_t *dims;
	size_t rank;
	int32_t type; // ONNX's number for the type; ONNX Runtime uses the same number
} Weight;

// api_add_weight adds the weight w to the session options. A session that is opened with these options takes w's data
// for the initializer with w's name. ONNX Runtime keeps the pointer to the data and copies the other fields of w. The
// function returns NULL or an error message that the caller frees.
static char *api_add_weight(ApiBase *base, void *options, Weight w) {
	void *const *api = base->GetApi(initializersVersion);
	if (!api) return strdup("ONNX Runtime has no API of version 12");
	void *info = NULL, *value = NULL;
	// The tensor is in the processor's memory. The two zeros stand for the device allocator and for the default memory
	// type.
	void *status = ((void *(*)(int, int, void **))api[createCpuMemoryInfo])(0, 0, &info);
	if (!status)
		status = ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[createTensorWithData])(
			info, w.data, w.size, w.dims, w.rank, w.type, &value);
	if (!status) {
		const char *names[1] = {w.name};
		void *const values[1] = {value};
		status = ((void *(*)(void *, const char *const *, void *const *, size_t))api[addExternalInitializers])(options, names, values, 1);
	}
	char *problem = api_text(api, status);
	if (value) ((void (*)(void *))api[releaseValue])(value);
	if (info) ((void (*)(void *))api[releaseMemoryInfo])(info);
	return problem;
}

static char *api_bind_input(ApiBase *base, void *binding, const char *name, const void *value) {
	void *const *api = base->GetApi(bindingVersion);
	return api_text(api, ((void *(*)(void *, const char *, const void *))api[bindInput])(binding, name, value));
}

static char *api_run_bound(ApiBase *base, void *session, const void *options, const void *binding) {
	void *const *api = base->GetApi(bindingVersion);
	return api_text(api, ((void *(*)(void *, const void *, const void *))api[runWithBinding])(session, options, binding));
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

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/quote"
)

// requiredAPI is the version of ONNX Runtime's C API for which the Go binding was built. requiredVersion is the first
// release with that API.
const (
	requiredAPI     = 24
	requiredVersion = "1.24"
)

// apiBase is the OrtApiBase of the library that the function 'ask' opened last.
var apiBase *C.ApiBase

// ask opens the library at path. It returns the library's version and its built-in execution providers. The library
// stays loaded until the process ends, because ONNX Runtime keeps thread-local state that does not survive unloading.
func ask(path string) (version string, providers []string, err error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		reason := strings.TrimPrefix(C.GoString(C.dlerror()), path+": ")
		return "", nil, fmt.Errorf("cannot be loaded: %s", quote.Name(reason))
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
	n := C.api_providers(base, &names) //nolint:gocritic // dupSubExpr: cgo's translation holds 0 == 0
	if n < 0 {
		return version, nil, errors.New("ONNX Runtime does not list its execution providers")
	}
	for _, name := range unsafe.Slice(names, int(n)) {
		providers = append(providers, C.GoString(name))
	}
	C.api_release_providers(base, names, n)
	apiBase = base
	return version, providers, nil
}

// addWeight adds the weight w to the session options. A session that is opened with these options takes w's data for
// the initializer with w's name. In the graph, this initializer is an external tensor. The session uses the data in
// place. So the data must be outside Go's heap and stay unchanged until the session is closed.
func addWeight(o *ort.SessionOptions, w graph.Initializer) error {
	options, err := pointerIn(o, "o") // OrtSessionOptions*
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	weight := C.Weight{
		name: C.CString(w.Name), data: unsafe.Pointer(unsafe.SliceData(w.Data)), size: C.size_t(len(w.Data)),
		rank: C.size_t(len(w.Dims)), _type: C.int32_t(w.Type),
	}
	defer C.free(unsafe.Pointer(weight.name))
	if len(w.Dims) > 0 {
		pin.Pin(&w.Dims[0])
		weight.dims = (*C.int64_t)(&w.Dims[0])
	}
	problem := C.api_add_weight(apiBase, options, weight)
	return apiError(problem)
}

// apiError makes an error from a C message and frees the message.
func apiError(problem *C.char) error {
	if problem == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(problem))
	return errors.New(C.GoString(problem))
}

// pointerIn returns the ONNX Runtime pointer that a value of the Go binding keeps in unexported fields. The argument
// 'names' is the path of field names that leads to the pointer.
func pointerIn(thing any, names ...string) (unsafe.Pointer, error) {
	v := reflect.ValueOf(thing)
	for _, name := range names {
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return nil, errBinding
		}
		if v = v.Elem().FieldByName(name); !v.IsValid() {
			return nil, errBinding
		}
	}
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, errBinding
	}
	return v.UnsafePointer(), nil
}

var errBinding = errors.New("the Go binding of ONNX Runtime keeps its values otherwise")

// A boundValue is a tensor that is bound to an input, together with the input's name.
type boundValue struct {
	tensor ort.Value
	value  unsafe.Pointer // OrtValue*
	name   *C.char
}

// newBoundValue makes a tensor from the argument 'data' and combines it with the name of the input. The data must be
// pinned.
func newBoundValue[T ort.TensorData](name string, shape ort.Shape, data []T) (boundValue, error) {
	tensor, err := ort.NewTensor(shape, data)
	if err != nil {
		return boundValue{}, err
	}
	value, err := pointerIn(tensor, "ortValue")
	if err != nil {
		return boundValue{}, errors.Join(err, tensor.Destroy())
	}
	return boundValue{tensor, value, C.CString(name)}, nil
}

func (v boundValue) destroy() error {
	C.free(unsafe.Pointer(v.name))
	return v.tensor.Destroy()
}

// A binding is a session with values bound to its inputs and outputs. Values on a device stay there from run to run.
type binding struct {
	*ort.IoBinding
	binding, session unsafe.Pointer
}

func newBinding(s *ort.DynamicAdvancedSession) (b binding, err error) {
	if b.session, err = pointerIn(s, "s", "ortSession"); err != nil {
		return b, err
	}
	if b.IoBinding, err = s.CreateIoBinding(); err != nil {
		return b, err
	}
	if b.binding, err = pointerIn(b.IoBinding, "o"); err != nil {
		err = errors.Join(err, b.Destroy())
	}
	return b, err
}

// bind gives an input its value. A device with its own memory copies the value's current contents.
func (b binding) bind(v boundValue) error {
	return apiError(C.api_bind_input(apiBase, b.binding, v.name, v.value))
}

// run runs the session on the bound values.
func (b binding) run(options *ort.RunOptions) error {
	o, err := pointerIn(options, "o")
	if err != nil {
		return err
	}
	return apiError(C.api_run_bound(apiBase, b.session, o, b.binding))
}
