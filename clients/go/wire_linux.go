package tenon

import (
	"os"
	"syscall"
)

// takeWire moves stdin and stdout out of the reach of whatever the process and its subprocesses read or print: stdin is
// empty from here on, and stdout goes to stderr.
func takeWire() (in, out *os.File, err error) {
	if in, err = duplicate(0, "stdin"); err != nil {
		return nil, nil, err
	}
	if out, err = duplicate(1, "stdout"); err != nil {
		return nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if err := syscall.Dup3(int(null.Fd()), 0, 0); err != nil {
		return nil, nil, err
	}
	return in, out, syscall.Dup3(2, 1, 0)
}

// duplicate makes a descriptor that no subprocess inherits.
func duplicate(fd int, name string) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	copied, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(copied)
	return os.NewFile(uintptr(copied), name), nil
}
