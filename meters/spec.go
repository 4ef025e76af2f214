package meters

import (
	"fmt"
	"regexp"
	"strings"
)

// Spec says which meter to use, and how.
type Spec struct {
	Name      string // of the stream within a run
	Driver    string
	Transport Transport // "" where the driver's preferred one is wanted
	Place     string    // path, address, chip, command; "" where it is to be found
	Settings  map[string]string
}

// ExecDriver is the name of the driver whose place is a command: commas and
// equal signs belong to it.
const ExecDriver = "exec"

var (
	wordForm    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	settingForm = regexp.MustCompile(`^(.*),([a-z][a-z_]*)=([^,]*)$`)
)

// ParseSpec reads a meter spec,
//
//	[NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]...
//
// such as fnb58, usb=fnb58:/dev/hidraw3, fnb58+usb, ppk2:/dev/ttyACM0,ampere=3.3V
// or exec:./prog. The name is the driver's where none is given.
func ParseSpec(text string) (Spec, error) {
	s := Spec{Settings: map[string]string{}}
	rest := text
	if i := strings.IndexAny(rest, "=:,+"); i >= 0 && rest[i] == '=' {
		s.Name, rest = rest[:i], rest[i+1:]
		if !wordForm.MatchString(s.Name) {
			return s, fmt.Errorf("meter spec %q: the name %q is not a lower-case word", text, s.Name)
		}
	}
	head, place, _ := strings.Cut(rest, ":")
	if head == ExecDriver {
		s.Driver, s.Place = head, place
	} else {
		rest, err := s.takeSettings(rest)
		if err != nil {
			return s, fmt.Errorf("meter spec %q: %w", text, err)
		}
		head, s.Place, _ = strings.Cut(rest, ":")
		var transport string
		s.Driver, transport, _ = strings.Cut(head, "+")
		s.Transport = Transport(transport)
	}
	if !wordForm.MatchString(s.Driver) {
		return s, fmt.Errorf("meter spec %q is not [NAME=]DRIVER[+TRANSPORT][:PLACE][,KEY=VALUE]", text)
	}
	if s.Name == "" {
		s.Name = s.Driver
	}
	return s, nil
}

// takeSettings cuts the settings off the end.
func (s *Spec) takeSettings(rest string) (string, error) {
	for {
		m := settingForm.FindStringSubmatch(rest)
		if m == nil {
			return rest, nil
		}
		if _, twice := s.Settings[m[2]]; twice {
			return rest, fmt.Errorf("%s is given twice", m[2])
		}
		s.Settings[m[2]], rest = m[3], m[1]
	}
}
