#!/usr/bin/env python3
"""libfarpage.so exports exactly what dsm.h declares, and the MPI calls that it answers. exports.py LIBRARY HEADER"""
import re
import subprocess
import sys

ANSWERED = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def declared(header):
    with open(header, encoding="utf-8") as file:
        return set(re.findall(r"^DSM_API[^;(]*?\b(dsm_\w+)\s*\(", file.read(), re.MULTILINE))


def main():
    have, want = exported(sys.argv[1]), declared(sys.argv[2]) | ANSWERED
    for name in sorted(want - have):
        print(f"{name}: declared, not exported")
    for name in sorted(have - want):
        print(f"{name}: exported, not declared")
    print(f"exports: {len(have)} symbols")
    return 0 if have == want and len(want) > len(ANSWERED) else 1


if __name__ == "__main__":
    sys.exit(main())
