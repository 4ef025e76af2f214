// Package libusb reaches meters through libusb: over the interface of a class,
// by interrupt or bulk transfers. It is built in with cgo and the build tag
// libusb; without them it only says so in Missing.
//
// On Linux it takes the interface from the kernel's driver, and gives it back
// when it is closed; hidraw needs no such thing and is to be preferred. On
// macOS the system keeps HID interfaces for itself, so that libusb reaches
// meters with an interface of their maker's own, and no FNIRSI meters. On
// Windows a meter needs the WinUSB driver (Zadig installs it).
package libusb
