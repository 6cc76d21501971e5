"""terminal.py ROWS COLUMNS COMMAND...: runs the command on a terminal of that size, from its
last row on, and prints what a reader sees at the end: every line that scrolled away, then the screen, then
which rows scroll.  QUIT_AT=BYTES in the environment: after so many it is sent SIGQUIT."""
import fcntl, os, pty, re, signal, struct, sys, termios

rows, columns = int(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.environ["TERM"] = "xterm"
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    os.execvp(sys.argv[3], sys.argv[3:])
written, quit_at = b"", int(os.environ.get("QUIT_AT", 0))
try:
    while more := os.read(terminal, 65536):
        written += more
        if 0 < quit_at < len(written):
            os.kill(child, signal.SIGQUIT)
            quit_at = 0
except OSError:  # the other side is closed
    pass
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

gone, screen = [], [[" "] * columns for _ in range(rows)]
row, column, first, last, saved = rows - 1, 0, 0, rows - 1, (0, 0)


def down():
    global row
    if row == last:
        gone.append(screen.pop(first))
        screen.insert(last, [" "] * columns)
    elif row < rows - 1:
        row += 1


tokens = re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\x1b[78D]|[^\x1b]", written.decode(errors="replace"))
for token in tokens:
    if token == "\n":
        down()
    elif token == "\r":
        column = 0
    elif token == "\x1b7":
        saved = row, column
    elif token == "\x1b8":
        row, column = saved
    elif token == "\x1bD":
        down()
    elif token.startswith("\x1b["):
        numbers = [int(n) for n in token[2:-1].split(";") if n]
        if token[-1] == "A":
            row = max(row - (numbers or [1])[0], 0)
        elif token[-1] == "H":
            row, column = numbers[0] - 1, numbers[1] - 1
        elif token[-1] == "K":
            screen[row][column:] = [" "] * (columns - column)
        elif token[-1] == "r":
            first, last = (numbers[0] - 1, numbers[1] - 1) if numbers else (0, rows - 1)
            row, column = 0, 0
        else:
            sys.exit(f"an unknown sequence: {token!r}")
    else:
        if column == columns:  # a line is only full when something follows
            column = 0
            down()
        screen[row][column] = token
        column += 1
print("\n".join("".join(line).rstrip() for line in gone + screen))
print(f"rows {first + 1} to {last + 1} scroll")
sys.exit(status)
