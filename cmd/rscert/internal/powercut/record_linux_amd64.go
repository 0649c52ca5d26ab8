package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// ErrNoTrace means that the system does not let a process trace another process.
var ErrNoTrace = errors.New("processes cannot be traced here")

// Program describes a program for the function Record, which runs the program and records its operations on files.
type Program struct {
	Path   string
	Args   []string // without its name
	Env    []string
	Output *os.File // for stdout and stderr
	// Before is called before each write to a file below root. It is also called before each sync of root, or of a file
	// or folder below root. The program waits during each call. Before may be nil.
	Before func(Event)
}

// Record runs the program, follows its system calls with ptrace(2), and records its operations on the files below root.
// Record returns an error if the program fails.
func Record(root string, p Program) (Recording, error) {
	before, err := ReadFiles(root)
	if err != nil {
		return Recording{}, err
	}
	t := &tracer{root: root, program: p, open: map[int]*handle{}, entered: map[int]syscall.PtraceRegs{}, begun: map[int]int{}, sizes: map[int]int64{}}
	t.recording = Recording{before: before, ids: map[string]int{}}
	t.names = map[string]int{}
	for name, data := range before {
		id := folder
		if data != nil {
			t.files++
			id = t.files
			t.sizes[id] = int64(len(data))
		}
		t.recording.ids[name], t.names[name] = id, id
	}
	done := make(chan error)
	go func() { // all requests about a traced process must come from one thread
		runtime.LockOSThread()
		done <- t.trace()
	}()
	err = <-done
	return t.recording, err
}

// tracer follows the threads of one process.
type tracer struct {
	root      string
	program   Program
	recording Recording
	names     map[string]int  // current identity of each file below root
	sizes     map[int]int64   // size of each file, by the file's identity
	open      map[int]*handle // handles by file descriptor; nil: the file or folder is not below root
	files     int             // number of identities given to files so far
	entered   map[int]syscall.PtraceRegs
	begun     map[int]int // number of events when the thread's system call began
}

// handle is an open file or folder below root.
type handle struct {
	name   string
	file   int
	at     int64
	append bool
}

const (
	traceExitKill = 0x100000
	sysGood       = 0x80 // marks a stop at a system call
)

// trace starts the program and follows it to its end.
func (t *tracer) trace() error {
	pid, err := t.start()
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		thread, err := syscall.Wait4(-pid, &status, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case status.Exited() && thread == pid:
			if status.ExitStatus() != 0 {
				return fmt.Errorf("the program ended with exit code %d", status.ExitStatus())
			}
			return nil
		case status.Signaled() && thread == pid:
			return fmt.Errorf("the program was ended by %v", status.Signal())
		case !status.Stopped():
			continue
		}
		signal := 0
		switch s := status.StopSignal(); s {
		case syscall.SIGTRAP | sysGood:
			if err := t.stop(thread); err != nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return err
			}
		case syscall.SIGTRAP, syscall.SIGSTOP: // a new thread
		default:
			signal = int(s)
		}
		if err := syscall.PtraceSyscall(thread, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// start starts the program as a traced process and lets it run to its first system call.
func (t *tracer) start() (pid int, err error) {
	argv := append([]string{t.program.Path}, t.program.Args...)
	out := t.program.Output.Fd()
	pid, err = syscall.ForkExec(t.program.Path, argv, &syscall.ProcAttr{
		Env: t.program.Env, Files: []uintptr{0, out, out}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		return 0, fmt.Errorf("%w: %w", ErrNoTrace, err)
	}
	if err != nil {
		return 0, err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return 0, err
	}
	const options = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE | traceExitKill
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return 0, fmt.Errorf("%w: %w", ErrNoTrace, err)
	}
	return pid, syscall.PtraceSyscall(pid, 0)
}

// stop handles a thread that enters or leaves a system call.
func (t *tracer) stop(thread int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil // the thread has just ended
		}
		return err
	}
	call, inside := t.entered[thread]
	if !inside {
		if int64(regs.Rax) != -int64(syscall.ENOSYS) {
			return nil // the first stop of a new thread is the end of the call that created the thread
		}
		t.entered[thread], t.begun[thread] = regs, len(t.recording.Events)
		return t.enter(thread, regs)
	}
	delete(t.entered, thread)
	if result := int64(regs.Rax); result >= 0 {
		return t.leave(thread, call, result)
	}
	return nil
}

// enter calls Before when a thread is about to write to a file below root. It also calls Before when a thread is about
// to sync root, or a file or folder below root.
func (t *tracer) enter(thread int, call syscall.PtraceRegs) error {
	if t.program.Before == nil {
		return nil
	}
	h := t.open[int(int32(call.Rdi))]
	switch call.Orig_rax {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		if h != nil {
			t.program.Before(Event{Kind: Write, Path: h.name})
		}
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		if h != nil {
			t.program.Before(Event{Kind: Sync, Path: h.name})
		}
	}
	return nil
}

// leave records the effect of a system call.
func (t *tracer) leave(thread int, call syscall.PtraceRegs, result int64) error {
	fd := int(int32(call.Rdi))
	h := t.open[fd]
	switch call.Orig_rax {
	case syscall.SYS_OPENAT:
		return t.openat(thread, call, int(result))
	case syscall.SYS_CLOSE:
		delete(t.open, fd)
	case syscall.SYS_MKDIRAT:
		return t.change(thread, Mkdir, fd, call.Rsi, 0, 0)
	case syscall.SYS_MKDIR:
		return t.change(thread, Mkdir, atCWD, call.Rdi, 0, 0)
	case syscall.SYS_UNLINKAT:
		return t.change(thread, Remove, fd, call.Rsi, 0, 0)
	case syscall.SYS_UNLINK, syscall.SYS_RMDIR:
		return t.change(thread, Remove, atCWD, call.Rdi, 0, 0)
	case syscall.SYS_RENAMEAT, sysRenameat2:
		return t.change(thread, Rename, fd, call.Rsi, int(int32(call.Rdx)), call.R10)
	case syscall.SYS_RENAME:
		return t.change(thread, Rename, atCWD, call.Rdi, atCWD, call.Rsi)
	}
	if h == nil {
		return t.refuseNames(thread, call)
	}
	switch call.Orig_rax {
	case syscall.SYS_READ:
		h.at += result
	case syscall.SYS_LSEEK:
		h.at = result
	case syscall.SYS_WRITE:
		if h.append {
			h.at = t.sizes[h.file]
		}
		h.at += result
		return t.write(thread, h, h.at-result, call.Rsi, result)
	case syscall.SYS_PWRITE64:
		return t.write(thread, h, int64(call.R10), call.Rsi, result)
	case syscall.SYS_FTRUNCATE:
		t.note(Event{Kind: Truncate, Path: h.name, file: h.file, size: int64(call.Rsi)})
		t.sizes[h.file] = int64(call.Rsi)
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		kind := Sync
		if h.file == folder {
			kind = SyncFolder
		}
		t.note(Event{Kind: kind, Path: h.name, file: h.file, Begin: t.begun[thread]})
	case syscall.SYS_WRITEV, syscall.SYS_PWRITEV, sysPwritev2, syscall.SYS_FALLOCATE, syscall.SYS_DUP, syscall.SYS_DUP2, syscall.SYS_DUP3,
		syscall.SYS_SENDFILE, sysCopyFileRange, syscall.SYS_SPLICE:
		return fmt.Errorf("powercut: system call %d on %s is not followed", call.Orig_rax, h.name)
	}
	return nil
}

// These are the numbers of system calls that package syscall lacks.
const (
	sysRenameat2     = 316
	sysCopyFileRange = 326
	sysPwritev2      = 328
)

// refuseNames returns an error for a change below root that the tracer does not handle.
func (t *tracer) refuseNames(thread int, call syscall.PtraceRegs) error {
	var at uint64
	switch call.Orig_rax {
	case syscall.SYS_OPEN, syscall.SYS_CREAT, syscall.SYS_TRUNCATE:
		at = call.Rdi
	case syscall.SYS_LINK, syscall.SYS_SYMLINK:
		at = call.Rsi
	case syscall.SYS_LINKAT:
		at = call.R10
	case syscall.SYS_SYMLINKAT:
		at = call.Rdx
	case syscall.SYS_MMAP:
		const shared, writable = 1, 2
		if h := t.open[int(int32(call.R8))]; h != nil && call.R10&shared != 0 && call.Rdx&writable != 0 {
			return fmt.Errorf("powercut: %s is mapped into memory, which is not followed", h.name)
		}
		return nil
	default:
		return nil
	}
	name, ok, err := t.path(thread, atCWD, at)
	if err == nil && ok && call.Orig_rax != syscall.SYS_OPEN {
		err = fmt.Errorf("powercut: system call %d on %s is not followed", call.Orig_rax, name)
	}
	return err
}

func (t *tracer) note(e Event) { t.recording.Events = append(t.recording.Events, e) }

func (t *tracer) write(thread int, h *handle, offset int64, from uint64, n int64) error {
	if n == 0 {
		return nil
	}
	data := make([]byte, n)
	if _, err := syscall.PtracePeekData(thread, uintptr(from), data); err != nil {
		return err
	}
	t.note(Event{Kind: Write, Path: h.name, file: h.file, offset: offset, data: data})
	t.sizes[h.file] = max(t.sizes[h.file], offset+n)
	return nil
}

// atCWD (AT_FDCWD) stands in place of a folder's descriptor. It means that a path is not relative to an open folder.
const atCWD = -100

// openat records an opened file, and its creation or truncation.
func (t *tracer) openat(thread int, call syscall.PtraceRegs, fd int) error {
	delete(t.open, fd)
	name, ok, err := t.path(thread, int(int32(call.Rdi)), call.Rsi)
	if err != nil || !ok {
		return err
	}
	flags := int(call.Rdx)
	id, known := t.names[name]
	switch {
	case name == ".":
		id = folder
	case !known && flags&syscall.O_CREAT != 0:
		t.files++
		id = t.files
		t.names[name] = id
		t.note(Event{Kind: Create, Path: name, file: id})
	case !known:
		return fmt.Errorf("powercut: %s was made in a way that is not followed", name)
	case flags&syscall.O_TRUNC != 0 && t.sizes[id] > 0:
		t.note(Event{Kind: Truncate, Path: name, file: id})
		t.sizes[id] = 0
	}
	t.open[fd] = &handle{name: name, file: id, append: flags&syscall.O_APPEND != 0}
	return nil
}

// change records that a folder was made, or that a file or folder was removed or renamed.
func (t *tracer) change(thread int, kind Kind, dir int, path uint64, toDir int, to uint64) error {
	e := Event{Kind: kind}
	var inside bool
	var err error
	if e.Path, inside, err = t.path(thread, dir, path); err != nil {
		return err
	}
	if kind == Rename {
		var toInside bool
		if e.To, toInside, err = t.path(thread, toDir, to); err != nil {
			return err
		}
		if inside != toInside || (inside && filepath.Dir(e.Path) != filepath.Dir(e.To)) {
			return fmt.Errorf("powercut: the rename of %s to another folder is not followed", e.Path)
		}
	}
	if !inside {
		return nil
	}
	e.file = t.names[e.Path]
	delete(t.names, e.Path)
	switch kind {
	case Mkdir:
		e.file = folder
		t.names[e.Path] = folder
	case Rename:
		t.names[e.To] = e.file
		for _, h := range t.open {
			if h.file == e.file && h.name == e.Path {
				h.name = e.To
			}
		}
	}
	t.note(e)
	return nil
}

// path reads a path from the memory of the traced process and reports whether the path is below root.
func (t *tracer) path(thread, dir int, at uint64) (name string, ok bool, err error) {
	text := make([]byte, syscall.PathMax)
	n, err := syscall.PtracePeekData(thread, uintptr(at), text)
	end := bytes.IndexByte(text[:n], 0)
	if end < 0 {
		return "", false, errors.Join(errors.New("powercut: a path cannot be read"), err)
	}
	path := string(text[:end])
	if !filepath.IsAbs(path) {
		h := t.open[dir]
		switch {
		case dir == atCWD || h == nil:
			// the program uses absolute paths for everything below root, so a relative path leads elsewhere
			return "", false, nil
		default:
			path = filepath.Join(t.root, h.name, path)
		}
	}
	name, ok = below(t.root, path)
	return name, ok, nil
}
