"""State windows from a Python program that is being measured.

    import joulemark
    m = joulemark.Marks(open("/dev/ttyUSB0", "wb", buffering=0))
    m.hello(target="pi1", impl="liboqs-python")
    with m.window("ML-DSA-44", "sign", 1000):
        for _ in range(1000):
            sign()

The module's own functions of these names (joulemark.window, ...) write to
standard output. One file, standard library only, Python 3.7 or later; copy it
beside your program. docs/recipes/instrument.md says how to choose n.

>>> class Clock:  # a world in which nothing takes time but sleeping and working
...     ns = 0
...     def now(self): return self.ns
...     def sleep(self, seconds): self.ns += round(seconds * 1e9)
>>> import io
>>> clock, wire = Clock(), io.BytesIO()
>>> m = Marks(wire, clock=clock.now, sleep=clock.sleep, phase=lambda: 0.05)
>>> with m.window("ML-DSA-44", "sign", 100):
...     clock.sleep(2)
>>> print(wire.getvalue().decode(), end="")
@jm sync seq=0 t=2770000000 *D76C
@jm win w=0 alg=ML-DSA-44 op=sign n=100 t0=420000000 t1=2420000000 idle=os pre_us=400000 post_us=350000 *4A2B
"""

import contextlib
import gc
import platform
import random
import struct
import sys
import time

QUIET = 0.35  # s on either side of a window
PHASE = 0.08  # s: the zone before a window is longer by a random time below this
DRAIN = 0.02  # s that a line may need to leave the serial port
MAX_LINE = 1024


def crc(data):
    """CRC-16/CCITT-FALSE of bytes.

    >>> "%04X" % crc(b"123456789")
    '29B1'
    """
    c = 0xFFFF
    for b in data:
        x = (c >> 8 ^ b) & 0xFF
        x ^= x >> 4
        c = (c << 8 ^ x << 12 ^ x << 5 ^ x) & 0xFFFF
    return c


def escape(value):
    """A value, text, number or bytes, as it stands on the wire.

    >>> escape("gcc 12.2 -O2=*")
    'gcc%2012.2%20-O2%3D%2A'
    """
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 33 <= b <= 126 and b not in b"%=*@" else "%%%02X" % b for b in data)


def statement(kind, **fields):
    """One line of the protocol, as bytes; a field that is None is left out.

    >>> statement("note", text="a b")
    b'@jm note text=a%20b *1E74\\n'
    """
    body = "@jm " + kind
    for key, value in fields.items():
        if value is not None:
            body += " %s=%s" % (key, escape(value))
    line = ("%s *%04X" % (body, crc(body.encode("ascii")))).encode("ascii")
    if len(line) > MAX_LINE:
        raise ValueError("a statement of %d bytes is longer than %d" % (len(line), MAX_LINE))
    return line + b"\n"


class Marks:
    """States windows on one wire, an object with write() of bytes.

    Nothing else should print to the wire within windows and their quiet zones.
    """

    def __init__(self, to=None, quiet=QUIET, idle="os", clock=time.monotonic_ns,
                 sleep=time.sleep, phase=lambda: random.uniform(0, PHASE)):
        self.to = to
        self.quiet, self.idle_mode = quiet, idle
        self._clock, self._sleep, self._phase = clock, sleep, phase
        self._w = self._seq = 0
        self._open = None

    def write(self, kind, **fields):
        """Write any statement, such as a note."""
        to = self.to if self.to is not None else sys.stdout.buffer
        to.write(statement(kind, **fields))
        to.flush()

    def hello(self, target=None, **fields):
        """Say what the target is: cpu, clock_hz, fw, impl, impl_version, cflags, ..."""
        known = dict(proto=1, target=target, isa=platform.machine() or None, bits=8 * struct.calcsize("P"),
                     tick_hz=1000000000, tick_bits=64, cc="python " + platform.python_version())
        known.update(fields)
        self.write("hello", **known)
        self.sync()

    def sync(self):
        """Write a clock beacon. Windows bring their own."""
        seq = self._seq
        self._seq += 1
        self.write("sync", seq=seq, t=self._clock())

    @contextlib.contextmanager
    def window(self, alg, op, n, key=None):
        """Keep quiet, run the body, which does n operations and nothing else,
        keep quiet again, and state it all. If the body raises, nothing is
        stated. The garbage collector rests meanwhile."""
        n = int(n)
        if n < 1:
            raise ValueError("a window of %d operations" % n)
        statement("win", alg=alg, op=op)
        w = self._w
        self._w += 1
        pre = round((self.quiet + self._phase()) * 1e6) / 1e6
        gc.collect()
        collects = gc.isenabled()
        gc.disable()
        try:
            self._sleep(DRAIN + pre)
            t0 = self._clock()
            yield
            t1 = self._clock()
            self._sleep(self.quiet)
        finally:
            if collects:
                gc.enable()
        self.sync()
        self.write("win", w=w, alg=alg, op=op, n=n, t0=t0, t1=t1, idle=self.idle_mode,
                   pre_us=round(pre * 1e6), post_us=round(self.quiet * 1e6), key=key)

    def idle(self, seconds):
        """Do nothing for that long and state it."""
        w = self._w
        self._w += 1
        self._sleep(DRAIN)
        t0 = self._clock()
        self._sleep(seconds)
        t1 = self._clock()
        self.write("idle", w=w, t0=t0, t1=t1, mode=self.idle_mode)

    def begin(self, alg, op, n):
        """Begin a window in the simple form; it holds the cost of its own line."""
        self._open = (alg, op, int(n))
        self.write("begin", op=op, alg=alg, n=int(n), t=self._clock())

    def end(self):
        """End the window of the last begin."""
        t = self._clock()
        if self._open is None:
            raise ValueError("no window was begun")
        alg, op, n = self._open
        self._open = None
        self.write("end", op=op, alg=alg, n=n, t=t)


_default = Marks()
hello, sync, window, idle = _default.hello, _default.sync, _default.window, _default.idle
begin, end, write = _default.begin, _default.end, _default.write
