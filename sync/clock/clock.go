// Package clock turns readings of two clocks into one line with its doubt.
//
// Every function works in seconds of a named clock; conversions between
// clocks exist only as a fitted Map, which returns the doubt with the value.
package clock
