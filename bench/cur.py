#!/usr/bin/env python3
"""How far CUR attention is from softmax on real layers, with the standard library and the tool.

    bench/cur.py DIRECTORY [-o NAME] [--shuffle SEED]
        arrays q, k, v of real layers against exact softmax: landmarks 16, 32, 64 x iterations 1, 2,
        4, 6, 8 x every selection, and the regularised inverse beside them; a table, and NAME.svg,
        one heat map.  --shuffle puts the tokens into random order, so that neighbours differ

DIRECTORY holds one .npy file a layer, f32, of shape [3 or more, N, d]: q, k, v and what follows is
left alone.  The tool is build/linnet or $LINNET.  Pictures are drawn by gnuplot, where it is there.
"""
import argparse
import ast
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

TOOL = os.environ.get("LINNET", os.path.join(os.path.dirname(__file__), "..", "build", "linnet"))
LANDMARKS = (16, 32, 64)
ITERATIONS = (1, 2, 4, 6, 8)
SELECTIONS = ("sum", "abs", "embed", "random", "step", "mean", "step-mean", "kmeans")
SEEDS = 5  # of random landmarks, averaged


def tool(*arguments):
    run = subprocess.run([TOOL, *map(str, arguments), "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr.strip())
    return json.loads(run.stdout)


def draw(name, script):
    """Gives gnuplot a script that sets everything but where the picture goes."""
    if not name:
        return
    if not shutil.which("gnuplot"):
        print("gnuplot is not installed: no picture", file=sys.stderr)
        return
    head = "set terminal svg size 640,480 font ',12' background '#ffffff'\nset output '%s.svg'\n"
    subprocess.run(["gnuplot"], input=head % name + script, text=True, check=True)
    print("wrote %s.svg" % name)


def split(path, folder, seed):
    """The first three matrices of an array as files of their own; rows shuffled, if by a seed."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x93NUMPY":
        sys.exit("%s: not an .npy file" % path)
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    if header["descr"] != "<f4" or header["fortran_order"] or len(header["shape"]) != 3:
        sys.exit("%s: not a row-major f32 array of q, k and v" % path)
    _, rows, width = header["shape"]
    order, names = list(range(rows)), []
    if seed is not None:
        random.Random(seed).shuffle(order)
    for i, letter in enumerate("qkv"):
        text = repr({"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
        text += " " * (-(10 + len(text) + 1) % 64) + "\n"
        names.append(os.path.join(folder, os.path.basename(path) + "." + letter + ".npy"))
        with open(names[-1], "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
            for row in order:
                at = start + (i * rows + row) * width * 4
                file.write(data[at:at + width * 4])
    return names


def error(layers, landmarks, select, *options):
    """The mean over the layers of |y - s| / |s| and of the paper's mean |y - s|."""
    seeds = range(SEEDS) if select == "random" else (0,)
    found = [tool("attend", *files, "--mechanism", "cur", "--compare", "softmax", "--landmarks",
                  landmarks, "--select", select, "--seed", seed, *options)
             for files in layers for seed in seeds]
    return [sum(f[field] for f in found) / len(found) for field in ("error_relative", "error_mean")]


def columns():
    for landmarks in LANDMARKS:
        for iterations in ITERATIONS:
            yield landmarks, str(iterations), ("--pinv-iterations", iterations)
        yield landmarks, "ridge", ("--pinv", "ridge")


def print_table(title, table):
    print("\n" + title)
    print("%-10s" % "" + "".join("%9s" % ("M = %d" % m if kind == str(ITERATIONS[0]) else "")
                                 for m, kind, _ in columns()))
    print("%-10s" % "" + "".join("%9s" % kind for _, kind, _ in columns()))
    for select in SELECTIONS:
        print("%-10s" % select + "".join("%9.4f" % table[select, m, kind]
                                         for m, kind, _ in columns()))


def heat_map(table, landmarks):
    kinds = [kind for m, kind, _ in columns() if m == landmarks]
    script = "set title 'Relative error of CUR attention against softmax, %d landmarks'\n" \
             "set logscale cb\nset cbrange [0.001:1]\nunset key\nset xlabel 'iterations'\n" \
             "set palette defined (0 '#ffffd9', 0.5 '#41b6c4', 1 '#081d58')\n" % landmarks
    script += "set xtics (%s)\n" % ", ".join("'%s' %d" % (k, i) for i, k in enumerate(kinds))
    script += "set ytics (%s)\n" % ", ".join("'%s' %d" % (s, i) for i, s in enumerate(SELECTIONS))
    cells = ["%d %d %g" % (x, y, table[select, landmarks, kind])
             for y, select in enumerate(SELECTIONS) for x, kind in enumerate(kinds)]
    return script + "$cells << END\n%s\nEND\n" % "\n".join(cells) + \
        "plot [-0.5:%g][-0.5:%g] $cells using 1:2:3 with image pixels, $cells using 1:2" \
        ":(sprintf('%%.3f', $3)):($3 > 0.06 ? 0xffffff : 0x000000) with labels " \
        "font ',9' textcolor rgb variable\n" % (len(kinds) - 0.5, len(SELECTIONS) - 0.5)


def errors(options):
    paths = sorted(glob.glob(os.path.join(options.directory, "*.npy")))
    if not paths:
        sys.exit("%s holds no .npy file" % options.directory)
    relative, mean = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        layers = [split(path, folder, options.shuffle) for path in paths]
        for select in SELECTIONS:
            for m, kind, how in columns():
                relative[select, m, kind], mean[select, m, kind] = error(layers, m, select, *how)
                if sys.stderr.isatty():
                    print("\r%-10s %3d %-6s\r" % (select, m, kind), end="", file=sys.stderr)
    print_table("||y - s|| / ||s||, mean over %d layers, by landmarks and iterations" % len(paths),
                relative)
    print_table("MEAN |y - s|, the metric of the paper", mean)
    usual, best = relative["step", 32, "6"], relative["step-mean", 32, "ridge"]
    ridge = relative["step", 32, "ridge"]
    print("\n32 landmarks: step with 6 iterations %.4f; with ridge %.4f (%.2f of it); step-mean "
          "with ridge %.4f (%.2f of it)" % (usual, ridge, ridge / usual, best, best / usual))
    draw(options.output, heat_map(relative, 32))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--shuffle", type=int, help="seed")
    parser.add_argument("-o", "--output", help="the picture, without .svg")
    errors(parser.parse_args())


if __name__ == "__main__":
    main()
