// Package usb boots a Debian kernel under qemu and runs joulemark there on USB
// meters that the kernel's own gadgets make: real USB, real hidraw, real
// libusb, no hardware and no root.
//
//	go test ./bench/usb -count=1 -v -timeout 20m -args -usb
//
// It needs qemu-system-x86_64 and cpio, for meters over libusb a C compiler and
// libusb too, and once the kernel's package from apt. What is built and
// downloaded is kept below the user's cache folder, or JOULEMARK_CACHE.
package usb
