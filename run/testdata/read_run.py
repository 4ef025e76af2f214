"""Reads run.jsonl without joulemark: counts records by type and bad lines."""
import json
import re
import sys
import zlib

TAIL = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')


def records(path):
    """Yields each record as a dict, None for a line that cannot be trusted."""
    with open(path, "rb") as log:
        for line in log:
            line = line.removesuffix(b"\n")
            tail = TAIL.search(line)
            if not tail or zlib.crc32(line[: tail.start()]) != int(tail[1], 16):
                yield None
                continue
            yield json.loads(line)


def main(folder):
    counts, bad = {}, 0
    for record in records(folder + "/run.jsonl"):
        if record is None:
            bad += 1
        else:
            counts[record["type"]] = counts.get(record["type"], 0) + 1
    json.dump({"counts": counts, "bad": bad}, sys.stdout)


main(sys.argv[1])
