package onnx

// This file asks NVIDIA's driver library for the GPUs. CUDA uses the same library. So the driver library numbers the
// GPUs in the same way as --device cuda, and respects $CUDA_VISIBLE_DEVICES. nvidia-smi uses a different order.

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*init_function)(unsigned int);
typedef int (*count_function)(int *);
typedef int (*device_function)(int *, int);
typedef int (*name_function)(char *, int, int);

// driver_count returns the number of GPUs that the driver library finds, or 0 if it fails. The library stays open.
static int driver_count(void *driver) {
	init_function init = (init_function)dlsym(driver, "cuInit");
	count_function count = (count_function)dlsym(driver, "cuDeviceGetCount");
	int n = 0;
	if (!init || !count || init(0) || count(&n)) return 0;
	return n;
}

// driver_name writes the name of a GPU and returns 0 on success.
static int driver_name(void *driver, int index, char *name, int size) {
	device_function get = (device_function)dlsym(driver, "cuDeviceGet");
	name_function name_of = (name_function)dlsym(driver, "cuDeviceGetName");
	int device = 0;
	return !get || !name_of || get(&device, index) || name_of(name, size, device);
}
*/
import "C"
import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/quote"
)

// nvidiaGPUs returns the names of the GPUs that CUDA finds, in CUDA's order.
var nvidiaGPUs = sync.OnceValue(func() []string { return gpusOf(ortlib.DriverLibrary) })

// GPUs returns the names of this machine's NVIDIA GPUs, in the order of the indices that --device cuda:INDEX uses.
func GPUs() []string { return nvidiaGPUs() }

// gpusOf asks the driver library for the names of the GPUs.
func gpusOf(library string) (names []string) {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	driver := C.dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL)
	if driver == nil {
		return nil
	}
	const size = 256
	buffer := (*C.char)(C.calloc(size, 1))
	defer C.free(unsafe.Pointer(buffer))
	for i := range int(C.driver_count(driver)) {
		name := fmt.Sprintf("GPU %d", i)
		if C.driver_name(driver, C.int(i), buffer, size-1) == 0 {
			name = quote.Name(strings.TrimSpace(C.GoString(buffer)))
		}
		names = append(names, name)
	}
	return names
}
