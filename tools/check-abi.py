#!/usr/bin/env python3
"""The public headers keep what the first release of their soname promised: every struct, field, enumerator and
function that was there then is there now, in its place.  A struct that begins with its size may have grown.

    tools/check-abi.py INCLUDE FROZEN      two folders that hold linnet.h; exit 77: FROZEN is not there
"""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = ("linnet.h", "linnet/model.h")
COMPILER = os.environ.get("CC", "cc")


def fields_of(body):
    """The names in the body of a struct."""
    for line in filter(None, map(str.strip, body.split(";"))):
        called = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", line)
        if called:
            yield called.group(1)
            continue
        for one in line.split(","):
            yield re.search(r"(\w+)\s*(\[[^]]*\]\s*)*$", one.strip()).group(1)


def declared(folder):
    """structs: name -> fields; enumerators; functions: name -> declaration."""
    include = "".join(f'#include "{h}"\n' for h in HEADERS if os.path.exists(f"{folder}/{h}"))
    text = subprocess.run([COMPILER, "-E", "-P", "-I", folder, "-x", "c", "-"], input=include, text=True,
                          check=True, capture_output=True).stdout
    structs = {name: list(fields_of(body))
               for name, body in re.findall(r"typedef struct (lnt_\w+)\s*\{(.*?)\}\s*\1\s*;", text, re.S)}
    values = [value.strip().split()[0].split("=")[0]
              for body in re.findall(r"typedef enum lnt_\w+\s*\{(.*?)\}", text, re.S)
              for value in body.split(",") if value.strip()]
    functions = {}
    for line in re.findall(r'__attribute__\(\(visibility\("default"\)\)\)\s*([^;]*);', text):
        line = re.sub(r"\s+", " ", re.sub(r"__attribute__\(\(\w+\)\)", "", line)).strip()
        functions[re.search(r"(\w+)\s*\(", line).group(1)] = line
    return include, structs, values, functions


def layout_of(folder, include, structs, values):
    """As the compiler has it: name -> (place, size)."""
    lines = [include, "#include <stdio.h>\nint main(void) {"]
    for name, fields in structs.items():
        lines.append(f'printf("{name} 0 %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));'
                  for f in fields]
    lines += [f'printf("{v} %d 0\\n", (int){v});' for v in values]
    with tempfile.TemporaryDirectory() as room:
        subprocess.run([COMPILER, "-I", folder, "-x", "c", "-", "-o", f"{room}/layout"], text=True,
                       input="\n".join(lines + ["return 0; }"]), check=True)
        said = subprocess.run([f"{room}/layout"], text=True, check=True, capture_output=True).stdout
    return {line.split()[0]: tuple(map(int, line.split()[1:])) for line in said.splitlines()}


def main(now, frozen):
    bad = []
    include, structs, values, functions = declared(now)
    here = layout_of(now, include, structs, values)
    there = os.path.exists(f"{frozen}/linnet.h")
    for name, fields in structs.items() if there else ():
        place, size = here[f"{name}.{fields[-1]}"]
        if fields[0] == "size" and place + size != here[name][1]:
            bad.append(f"{name} ends in padding: a field put there would not change its size")
    if there:
        old_include, old_structs, old_values, old_functions = declared(frozen)
        before = layout_of(frozen, old_include, old_structs, old_values)
        for name, (place, size) in before.items():
            grows = name in old_structs and old_structs[name][0] == "size"
            if name not in here:
                bad.append(f"{name} is gone")
            elif here[name] != (place, size) and not (grows and here[name][1] > size):
                bad.append(f"{name} was at {place}, {size} bytes; is at {here[name][0]}, {here[name][1]} bytes")
        bad += [f"{name} was '{line}', is '{functions.get(name, 'gone')}'"
                for name, line in old_functions.items() if functions.get(name) != line]
        said = f"{len(old_structs)} structs and {len(old_functions)} functions are as they were"
    if bad:
        print("\n".join(bad))
        return 1
    if not there:
        print(f"SKIPPED: {frozen}: no header is frozen for this soname; tools/freeze-abi.sh does it")
        return 77
    print(said)
    return 0


sys.exit(main(*sys.argv[1:]))
