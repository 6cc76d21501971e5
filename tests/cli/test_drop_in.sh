#!/bin/bash
# Another attention in place of a model's own, without training: eval and generate say what it does.
. "$(dirname "$0")/support.sh"

cat >copy.json <<'END'
{"model": {"dim": 16, "layers": 2, "heads": 2, "length": 24}, "train": {"steps": 20, "batch": 8}}
END
loss() { sed -n 's/.*"loss": *\([^,]*\),.*/\1/p' stdout.txt; }
mechanism() { sed -n 's/.*"mechanism": *"\([^"]*\)".*/\1/p' stdout.txt; }

succeeds "$LINNET" train --task copy --config copy.json --out run
succeeds "$LINNET" eval run --batches 2 --json
own=$(loss)
succeeds "$LINNET" eval run --batches 2 --json --mechanism softmax
[ "$(loss)" = "$own" ] || wrong "its own mechanism changes the loss from $own to $(loss)"
succeeds "$LINNET" eval run --batches 2 --json --mechanism linear
[ "$(mechanism)" = linear ] && [ "$(loss)" != "$own" ] || wrong "linear is not in its place: $(cat stdout.txt)"
succeeds "$LINNET" eval run --batches 2 --json --mechanism hybrid --window 64
python3 -c "assert abs($(loss) - $own) < 1e-5 * $own" || wrong "a window over all is softmax: $(loss), not $own"
succeeds "$LINNET" eval run --batches 2 --json --mechanism hybrid --window 2 --sink 1 --far linear
[ "$(loss)" != "$own" ] || wrong "the window does not reach the model"
succeeds "$LINNET" generate run --prompt "1 2 3" --tokens 3 --mechanism taylor --terms 3
fails 2 "landmarks needs --mechanism" "$LINNET" eval run --landmarks 8
fails 2 "window does not apply to linear" "$LINNET" eval run --mechanism linear --window 3
fails 1 "cur sees whole sequences" "$LINNET" eval run --mechanism cur
fails 1 "cur sees whole sequences" "$LINNET" generate run --mechanism cur --landmarks 4 --pin 0
