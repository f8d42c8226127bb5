#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the chain of an exported record without brig.

    brig ledger export --jsonl | tools/verify_ledger.py [--start SEQ HASH]

Every line's hash is computed anew from the line and the hash before it, as docs/internals/ledger.md
says. A record that does not begin at row 1 begins after what was pruned: the hash before it is then
taken from the row that tells of the pruning, or from --start. Exit status: 0 sound, 1 not, 2 usage.
"""
import hashlib
import json
import struct
import sys


def field(data):
    return struct.pack(">Q", len(data)) + data


def row_hash(before, row, detail):
    words = b"".join(field(row[k].encode()) for k in ("job", "session", "kind", "name", "actor"))
    bodies = b"".join(bytes.fromhex(digest) for digest in row["bodies"])
    return hashlib.sha256(field(b"brig-ledger-row-1") + before
                          + struct.pack(">QQ", row["seq"], row["time_us"]) + words + field(detail)
                          + field(bodies)).digest()


def read(lines):
    """Yield (row, bytes of its detail): they are what follows the first ,"detail": of the line."""
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line), line.rstrip(b"\n").split(b',"detail":', 1)[1][:-1]
        except (ValueError, IndexError):
            raise SystemExit("line %d is not a row" % number)


def start_of(rows):
    """Where the chain begins: (seq, hash) of the row before the first."""
    first = rows[0][0]["seq"]
    for row, _ in rows:
        if row["kind"] == "prune" and row["detail"].get("last_seq") == first - 1:
            return first - 1, bytes.fromhex(row["detail"]["last_hash"])
    return 0, bytes(32)


def verify(lines, start=None):
    """(sound, what to say); start is the (seq, hash) that the first line must follow."""
    rows = list(read(lines))
    if not rows:
        return True, "no rows"
    seq, before = start or start_of(rows)
    for row, detail in rows:
        if row["seq"] != seq + 1:
            return False, "row %d follows row %d: rows between are missing" % (row["seq"], seq)
        seq, before = row["seq"], row_hash(before, row, detail)
        if before.hex() != row["hash"]:
            return False, "row %d does not match its hash: it, or one before, was changed" % seq
    return True, "sound: %d rows, the last is %d with hash %s" % (len(rows), seq, before.hex())


def main(arguments):
    start = None
    if arguments:
        if arguments[0] != "--start" or len(arguments) != 3:
            print(__doc__, file=sys.stderr)
            return 2
        start = int(arguments[1]), bytes.fromhex(arguments[2])
    sound, text = verify(sys.stdin.buffer, start)
    print(text)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
