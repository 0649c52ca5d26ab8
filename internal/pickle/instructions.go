package pickle

// These are the first and the last instruction of a pickle.
const (
	stop  = '.'
	proto = 0x80
)

// instructions maps the byte of each instruction to the function that executes the instruction. A comment at a function
// is the instruction's name in Python's pickletools.
var instructions = [256]func(*machine){
	proto: func(m *machine) {
		if m.protocol = byte(m.uint(1)); m.op != 0 || m.protocol < 2 || m.protocol > 5 {
			m.other("protocol %d; protocols 2 to 5 are read", m.protocol)
		}
	},
	0x95: func(m *machine) { // FRAME: the number of bytes that follow, for readers that read ahead
		if n := m.uint(8); n > uint64(m.size-m.at) {
			m.fail("damaged: a frame of %d bytes, %d of %d", n, m.size-m.at, m.size)
		}
	},
	'(': func(m *machine) { m.marks = append(m.marks, len(m.stack)) }, // MARK

	'N':  func(m *machine) { m.push(None{}) },
	0x88: func(m *machine) { m.push(Int{1, m.op}) },                           // NEWTRUE
	0x89: func(m *machine) { m.push(Int{0, m.op}) },                           // NEWFALSE
	'K':  func(m *machine) { m.push(Int{int64(m.uint(1)), m.op}) },            // BININT1
	'M':  func(m *machine) { m.push(Int{int64(m.uint(2)), m.op}) },            // BININT2
	'J':  func(m *machine) { m.push(Int{int64(int32(m.uint(4))), m.op}) },     // BININT
	0x8a: func(m *machine) { m.push(Int{m.signed(int(m.uint(1))), m.op}) },    // LONG1
	'U':  func(m *machine) { m.pushText(1, false) },                           // SHORT_BINSTRING
	'T':  func(m *machine) { m.pushText(4, false) },                           // BINSTRING
	'C':  func(m *machine) { m.pushText(1, false) },                           // SHORT_BINBYTES
	'B':  func(m *machine) { m.pushText(4, false) },                           // BINBYTES
	0x8e: func(m *machine) { m.pushText(8, false) },                           // BINBYTES8
	0x96: func(m *machine) { m.pushText(8, false) },                           // BYTEARRAY8
	0x8c: func(m *machine) { m.pushText(1, true) },                            // SHORT_BINUNICODE
	'X':  func(m *machine) { m.pushText(4, true) },                            // BINUNICODE
	0x8d: func(m *machine) { m.pushText(8, true) },                            // BINUNICODE8
	')':  func(m *machine) { m.push(Tuple{}) },                                // EMPTY_TUPLE
	0x85: func(m *machine) { m.pushTuple(m.pop(1)) },                          // TUPLE1
	0x86: func(m *machine) { m.pushTuple(m.pop(2)) },                          // TUPLE2
	0x87: func(m *machine) { m.pushTuple(m.pop(3)) },                          // TUPLE3
	't':  func(m *machine) { m.pushTuple(m.popMark()) },                       // TUPLE
	']':  func(m *machine) { m.push(&List{}) },                                // EMPTY_LIST
	'a':  func(m *machine) { m.append(m.pop(1)) },                             // APPEND
	'e':  func(m *machine) { m.append(m.popMark()) },                          // APPENDS
	'}':  func(m *machine) { m.push(&Dict{map[string]any{}}) },                // EMPTY_DICT
	's':  func(m *machine) { m.set(m.pop(2)) },                                // SETITEM
	'u':  func(m *machine) { m.set(m.popMark()) },                             // SETITEMS
	'q':  func(m *machine) { m.memo[m.uint(1)] = m.top() },                    // BINPUT
	'r':  func(m *machine) { m.memo[m.uint(4)] = m.top() },                    // LONG_BINPUT
	0x94: func(m *machine) { m.memo[uint64(len(m.memo))] = m.top() },          // MEMOIZE
	'h':  func(m *machine) { m.recall(m.uint(1)) },                            // BINGET
	'j':  func(m *machine) { m.recall(m.uint(4)) },                            // LONG_BINGET
	'c':  func(m *machine) { module := m.line(); m.global(module, m.line()) }, // GLOBAL
	0x93: func(m *machine) { // STACK_GLOBAL
		names := m.pop(2)
		m.global(m.text(names[0]), m.text(names[1]))
	},
	'R': func(m *machine) { m.reduce(m.pop(2)) },
	'b': func(m *machine) { m.build(m.pop(1)[0]) },
}

// pushText pushes a text. In the file, the text's length comes before the text. The argument 'width' is the number of
// bytes that store this length.
func (m *machine) pushText(width int, utf8 bool) {
	n := m.uint(width)
	m.push(Text{At: m.skip(n), Len: int64(n), UTF8: utf8})
}

// pushTuple pushes one tuple of the given values, which were popped from the stack.
func (m *machine) pushTuple(values []any) { m.push(append(Tuple(nil), values...)) }

// The method 'signed' reads an integer of n ≤ 8 bytes in two's complement.
func (m *machine) signed(n int) int64 {
	if n > 8 {
		m.other("an integer of %d bytes", n)
		return 0
	}
	shift := 64 - 8*n
	return int64(m.uint(n)<<shift) >> shift
}
