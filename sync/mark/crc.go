package mark

// crcTable is the CRC of each byte: polynomial 1021, most significant bit
// first.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

// CRC is CRC-16/CCITT-FALSE, known as CRC-16/IBM-3740 in the catalogue of
// parametrised CRC algorithms: polynomial 1021, start value FFFF, nothing
// reflected, check value 29B1.
func CRC(p []byte) uint16 {
	c := uint16(0xFFFF)
	for _, b := range p {
		c = c<<8 ^ crcTable[byte(c>>8)^b]
	}
	return c
}
