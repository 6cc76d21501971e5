#!/usr/bin/env python3
"""The experiments on CUR attention, with the standard library and the tool alone.

    bench/cur.py errors DIRECTORY [-o NAME] [--shuffle SEED]
        arrays q, k, v of real layers against exact softmax: landmarks 16, 32, 64 x iterations 1, 2,
        4, 6, 8 x every selection, and the regularised inverse beside them; a table, and NAME.svg,
        one heat map.  --shuffle puts the tokens into random order, so that neighbours differ
    bench/cur.py speed [-o NAME]
        the protocol of section 5.3 of the paper: 16 heads x 64, 1024 to 4096 tokens, 32, 64, 128
        landmarks, 6 iterations, one sequence instead of 64; then 8 heads x 64 from 4096 to 65536
        tokens; a table, and NAME.svg

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
    head = "set terminal svg size 1200,520 font ',12' background '#ffffff'\nset output '%s.svg'\n"
    subprocess.run(["gnuplot"], input=head % name + script, text=True, check=True)
    print("wrote %s.svg" % name)


# ---- errors --------------------------------------------------------------------------------------

def split(path, folder, seed):
    """The first three matrices of an array as files of their own; rows shuffled by seed, or None."""
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    if data[:6] != b"\x93NUMPY" or header["descr"] != "<f4" or header["fortran_order"]:
        sys.exit("%s: not a row-major f32 array" % path)
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


def heat_map(table):
    kinds = [kind for m, kind, _ in columns() if m == LANDMARKS[0]]
    script = "set multiplot layout 1,%d title 'Relative error of CUR attention against softmax, " \
             "mean over the layers'\nset logscale cb\nset cbrange [0.001:1]\nunset key\n" \
             "set xlabel 'iterations'\n" \
             "set palette defined (0 '#ffffd9', 0.5 '#41b6c4', 1 '#081d58')\n" % len(LANDMARKS)
    script += "set xtics (%s)\n" % ", ".join("'%s' %d" % (k, i) for i, k in enumerate(kinds))
    script += "set ytics (%s)\n" % ", ".join("'%s' %d" % (s, i) for i, s in enumerate(SELECTIONS))
    for landmarks in LANDMARKS:
        cells = ["%d %d %g" % (x, y, table[select, landmarks, kind])
                 for y, select in enumerate(SELECTIONS) for x, kind in enumerate(kinds)]
        script += "set title '%d landmarks'\n" % landmarks
        script += "$cells << END\n%s\nEND\n" % "\n".join(cells)
        script += "plot [-0.5:%g][-0.5:%g] $cells using 1:2:3 with image pixels, $cells using 1:2" \
                  ":(sprintf('%%.3f', $3)):($3 > 0.06 ? 0xffffff : 0x000000) with labels " \
                  "font ',9' textcolor rgb variable\n" % (len(kinds) - 0.5, len(SELECTIONS) - 0.5)
    return script + "unset multiplot\n"


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
    draw(options.output, heat_map(relative))


# ---- speed ---------------------------------------------------------------------------------------

def timed(*problem):
    return tool("bench", "--dim", 64, *problem)


def workspace(*problem):
    return tool("plan", "--dim", 64, "--no-calibrate", *problem)["workspace_bytes"]


def protocol():
    """{what: [(length, milliseconds, bytes of scratch)]}, 16 heads x 64."""
    found = {}
    for length in (1024, 2048, 3072, 4096):
        rows = [("softmax", ("--mechanism", "softmax", "--algorithm", "tiled"))]
        for algorithm in ("flash", "stored"):
            rows += [("cur/%s, M = %d" % (algorithm, m), ("--mechanism", "cur", "--landmarks", m,
                                                          "--algorithm", algorithm))
                     for m in (32, 64, 128)]
        for name, problem in rows:
            problem += ("--heads", 16, "--length", length)
            found.setdefault(name, []).append((length, 1e3 * timed(*problem)["seconds"],
                                               workspace(*problem)))
    return found


def print_protocol(found):
    print("16 heads x 64, one sequence, 6 iterations: milliseconds, and scratch of the plan")
    print("%-20s" % "" + "".join("%18d" % length for length, _, _ in found["softmax"]))
    for name, points in found.items():
        print("%-20s" % name + "".join("%9.1f ms %6.1f MB" % (ms, size / 1e6)
                                       for _, ms, size in points))


def linearity():
    print("\n8 heads x 64, 64 landmarks: cur/flash from 4096 to 65,536 tokens")
    exact = timed("--mechanism", "softmax", "--algorithm", "tiled", "--length", 4096)
    for length in (4096, 8192, 16384, 32768, 65536):
        m = timed("--mechanism", "cur", "--algorithm", "flash", "--length", length)
        faster = ", %.1f x as fast as softmax/tiled" % (exact["seconds"] / m["seconds"])
        print("%6d tokens: %8.2f ms, %5.0f ns a token, %.2f of the FMA peak, relative error %.1e%s"
              % (length, 1e3 * m["seconds"], m["ns_per_token"], m["fraction_of_peak"],
                 m["relative_error"], faster if length == 4096 else ""))


def speed_plot(found):
    script = "set multiplot layout 1,2 title 'CUR attention, 16 heads x 64, one sequence'\n" \
             "set logscale y\nset key top left\nset xlabel 'tokens'\nset grid\n"
    for field, title in ((1, "time, ms"), (2, "scratch, bytes")):
        script += "set title '%s'\n" % title
        for i, points in enumerate(found.values()):
            rows = "\n".join("%d %g" % (p[0], p[field]) for p in points)
            script += "$s%d_%d << END\n%s\nEND\n" % (field, i, rows)
        script += "plot " + ", ".join("$s%d_%d using 1:2 with linespoints linewidth 2 title '%s'"
                                      % (field, i, name) for i, name in enumerate(found)) + "\n"
    return script + "unset multiplot\n"


def speed(options):
    found = protocol()
    print_protocol(found)
    linearity()
    draw(options.output, speed_plot(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run in (errors, speed):
        command = commands.add_parser(run.__name__)
        if run is errors:
            command.add_argument("directory")
            command.add_argument("--shuffle", type=int, help="seed")
        command.add_argument("-o", "--output", help="the picture, without .svg")
        command.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
