#!/bin/bash
# Models that read images: what ViT and DeiT answer is what their formulas say, images are resized as their files say,
# and what cannot be read is refused with one sentence.
. "$(dirname "$0")/support.sh"

python3 "$here/foreign.py" vit vit
"$LINNET" eval vit --data vit/image.png >/dev/null 2>library.txt || true
if grep -q 'without libpng' library.txt; then
    fails 1 'without libpng (package libpng-dev)' "$LINNET" eval vit --data vit/image.png
    skip "this build reads no PNG files"
    exit
fi

# Every architecture, of an image that is taken as it is, resized, or resized and cut.
for name in vit vit-nobias vit-resized deit deit-teacher; do
    python3 "$here/foreign.py" "$name" "$name"
    succeeds "$LINNET" eval "$name" --data "$name/image.png" --logits got.npy
    npy same got.npy "$name/expected.npy" 2e-5 || wrong "$name answers something else"
done
for name in vit-model vit-model-unpooled; do
    python3 "$here/foreign.py" "$name" "$name"
    succeeds "$LINNET" embed "$name" --file "$name/image.png" -o got.npy
    npy same got.npy "$name/expected.npy" 2e-5 || wrong "$name gives another vector"
    fails 1 "names no classes; see 'linnet embed'" "$LINNET" eval "$name" --data "$name/image.png"
done
for threads in 1 2; do
    succeeds "$LINNET" eval deit --data deit/image.png --logits "$threads.npy" --threads "$threads"
done
cmp 1.npy 2.npy || wrong "the number of threads changes bits"

# Images of a directory, of a text, sorted into classes; a batch says what each image does.
mkdir -p photos sorted/3 'sorted/other 5' sorted/.hidden
for i in 1 2 3 4 5; do python3 "$here/picture.py" png "photos/$i.png" 12 12 "$i"; done
touch photos/notes.txt
succeeds "$LINNET" eval vit --data photos --json --logits all.npy
npy expect stdout.txt '[l["image"] for l in lines] == ["photos/%d.png" % i for i in range(1, 6)]' || wrong "order"
npy expect stdout.txt 'len(m["labels"]) == 5 and 0.99 > sum(m["probabilities"]) - 0.1 > 0.3' || wrong "shares"
npy expect stdout.txt 'all(l["labels"][0] == "class %d, other %d" % (2 * (l["classes"][0],)) for l in lines)' ||
    wrong "labels"
npy shape all.npy '<f4' 5x7 || wrong "logits of 5 images have another shape"
for i in 5 4 3; do echo "photos/$i.png"; done >list.txt
succeeds "$LINNET" eval vit --data list.txt --logits some.npy --batch 2
succeeds "$LINNET" eval vit --data photos/4.png --logits one.npy
python3 - "$here" <<'END' || wrong "a batch answers something else than its images"
import sys
sys.path.insert(0, sys.argv[1])
import npy
all_, some, one = (npy.read(f)[2] for f in ("all.npy", "some.npy", "one.npy"))
near = lambda a, b: len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 2e-6
assert near(some, all_[28:] + all_[21:28] + all_[14:21]) and near(one, all_[21:28])
END
cp photos/[123].png sorted/3; cp photos/[45].png 'sorted/other 5'
succeeds "$LINNET" eval vit --data sorted --json
python3 - "$here" stdout.txt <<'END' || wrong "accuracy or loss"
import json, math, sys
sys.path.insert(0, sys.argv[1])
import npy
m, logits = json.load(open(sys.argv[2])), npy.read("all.npy")[2]
rows = [(logits[7 * i:7 * i + 7], 3 if i < 3 else 5) for i in range(5)]
loss = sum(math.log(sum(map(math.exp, row))) - row[c] for row, c in rows) / 5
assert abs(m["loss"] - loss) < 1e-5 and m["images"] == 5 and m["architecture"] == "ViTForImageClassification"
assert abs(m["accuracy"] - sum(max(row) == row[c] for row, c in rows) / 5) < 1e-9
assert abs(m["accuracy_top5"] - sum(sorted(row)[-5] <= row[c] for row, c in rows) / 5) < 1e-9
END
succeeds "$LINNET" embed vit --file photos -o vectors.npy
npy shape vectors.npy '<f4' 5x24 || wrong "a classifier's vectors"
mkdir sorted/elephant && cp photos/1.png sorted/elephant
fails 1 "'sorted/elephant': is neither the label of a class of the model nor a number from 0 to 6" \
    "$LINNET" eval vit --data sorted

# Another mechanism: of all tokens CUR is softmax, of fewer it is not; the class token may be pinned.
cur() { succeeds "$LINNET" eval deit --data deit/image.png --logits cur.npy --mechanism cur "$@"; }
cur --landmarks 16 && npy same cur.npy deit/expected.npy 2e-5 || wrong "all landmarks are not softmax"
cur --landmarks 4 --pin 0,1
npy same cur.npy deit/expected.npy 1e-3 2>/dev/null && wrong "--mechanism has no effect"
mv cur.npy pinned.npy
cur --landmarks 4
npy same cur.npy pinned.npy 1e-4 2>/dev/null && wrong "--pin has no effect"

# One file of Linnet has the labels, and what an image becomes.
succeeds "$LINNET" eval deit --data deit/image.png --logits before.npy
mv stdout.txt before.txt
succeeds "$LINNET" import deit -o deit.safetensors
succeeds "$LINNET" eval deit.safetensors --data deit/image.png --logits after.npy
cmp before.npy after.npy && cmp before.txt stdout.txt || wrong "an imported model answers something else"

# JPEG, by an encoder of its own.
python3 "$here/picture.py" jpeg photos/4.jpeg 12 12 4
"$LINNET" eval vit --data photos/4.jpeg --logits jpeg.npy >/dev/null 2>stderr.txt ||
    grep -q 'without libjpeg-turbo' stderr.txt || wrong "a JPEG file: $(cat stderr.txt)"
if [ -e jpeg.npy ]; then
    npy same jpeg.npy one.npy 0.2 || wrong "a JPEG file shows something else"
else
    skip "this build reads no JPEG files"
fi
rm photos/4.jpeg

# What is no image, or of another size; what is asked of the wrong model.
head -c 90 photos/1.png >cut.png
fails 1 "'cut.png': cannot be read as PNG: the file is cut" "$LINNET" eval vit --data cut.png
python3 - "$here" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import picture
rows = picture.picture(4, 4, 1)
picture.write_png("huge.png", rows, (2**31 - 1, 2**31 - 1))
picture.write_png("lying.png", rows, (12000, 12000))
picture.write_png("none.png", rows, (0, 12))
END
fails 1 "has 2147483647 x 2147483647 pixels, may have 268435456 in all" "$LINNET" eval vit --data huge.png
fails 1 "says 12000 x 12000 pixels, which its" "$LINNET" eval vit --data lying.png
fails 1 "'none.png': cannot be read as PNG" "$LINNET" eval vit --data none.png
echo text.png >text.png && echo >>text.png
fails 1 "neither a PNG nor a JPEG file" "$LINNET" eval vit --data text.png
fails 1 "'photos/9.png'" "$LINNET" eval vit --data <(echo photos/9.png)
python3 "$here/picture.py" png wide.png 13 12 1
fails 1 "'wide.png': has 13 x 12 pixels, the model reads 12 x 12, and resizes nothing" "$LINNET" eval vit --data wide.png
mkdir empty
fails 1 "'empty': has no images" "$LINNET" eval vit --data empty
fails 2 "--data must name an image, or a directory of images" "$LINNET" eval vit
fails 2 "--length is for texts, and the model reads images" "$LINNET" eval vit --data photos --length 3
fails 2 "the model reads images; --file must name some" "$LINNET" embed vit --text hello -o none.npy
fails 1 "has no tokenizer" "$LINNET" generate vit --prompt x
absent none.npy

# Files of the model that do not go together.
damage() { # COMMAND of Python on the config c, the preprocessor p and the tensors w: vit with that change, in broken/
    rm -rf broken && mkdir broken
    python3 - "$here" "$1" <<'END'
import json, sys
sys.path.insert(0, sys.argv[1])
import foreign
w = foreign.Weights("x")
c, p, _, _ = foreign.vit(w, [], "")
exec(sys.argv[2])
foreign.write_safetensors("broken/model.safetensors", w)
json.dump(c, open("broken/config.json", "w"))
if p is not None:
    json.dump(p, open("broken/preprocessor_config.json", "w"))
END
}
run() { "$LINNET" eval broken --data photos/1.png; }
damage 'p = None'
fails 1 "without preprocessor_config.json" run
damage 'p["image_processor_type"] = "CLIPImageProcessor"'
fails 1 "the processor 'CLIPImageProcessor' is not known" run
damage 'p.update(do_resize=True, size=14)'
fails 1 "images are made 14 x 14, and read 12 x 12" run
damage 'p.update(do_resize=True, size={"shortest_edge": 12})'
fails 1 "size must be a side from 1 to 16384" run
damage 'p.update(do_resize=True, size=12, resample=1)'
fails 1 "resample must be 2, bilinear, or 3, bicubic" run
damage 'p["image_std"] = [1, 0, 1]'
fails 1 "image_std must be a number, or one for each of 3 colours" run
damage 'p["image_mean"] = [1, 0, 1, 1]'
fails 1 "image_mean must be of 3 colours" run
damage 'p.update(do_center_crop=True, crop_size=12, do_resize=True, size=8)'
fails 1 "of images of 8 x 8 none of 12 x 12 can be cut" run
damage 'p["do_rescale"] = 1'
fails 1 "do_rescale must be true or false" run
damage 'p["rescale_factor"] = "x"'
fails 1 "rescale_factor must be a number above 0" run
damage 'c["patch_size"] = 5'
fails 1 "must be [24,3,5,5]" run
damage 'c["image_size"] = 16'
fails 1 "position_embeddings' has another shape" run
damage 'c["hidden_act"] = "relu"'
fails 1 "hidden_act is 'relu', known is 'gelu'" run
damage 'del w["vit.embeddings.cls_token"]'
fails 1 "position_embeddings' has another shape" run
damage 'w.make("vit.pooler.dense.weight", 24, 24)'
fails 1 "tensor 'vit.pooler.dense.weight' is not known" run
damage 'c["id2label"] = {"0": 5, "x": "a", "1": "only", "99": "b"}'
succeeds run
grep -q ' only$' stdout.txt && grep -q ' [02-6]$' stdout.txt || wrong "classes without labels have no numbers"
