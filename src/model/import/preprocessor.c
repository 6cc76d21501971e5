/* model/import/preprocessor.c - see preprocessor.h.  What a key leaves open is as in transformers, by the
 * type of the processor: ViT's resizes to 224 x 224, bilinear; DeiT's to 256 x 256, bicubic, and cuts the
 * middle out. */
#include "model/import/preprocessor.h"

#include <stdio.h>
#include <string.h>

#define FILE_NAME "preprocessor_config.json"

enum { SIDE = 1 << 14, VIT_SIDE = 224, DEIT_SIDE = 256, BILINEAR = 2, BICUBIC = 3 };

/* The file, and the source whose status says what is wrong in it. */
typedef struct reading {
    lnt_source *s;
    const lnt_json_node *root;
} reading;

static const lnt_json_node *member(const reading *r, const char *key)
{
    const lnt_json_node *node = lnt_json_member(r->root, key);
    return node && node->type != LNT_JSON_NULL ? node : NULL;
}

static void refuse(const reading *r, const char *key, const char *wanted)
{
    lnt_source_refuse(r->s, FILE_NAME ": %s must be %s", key, wanted);
}

static bool flag(const reading *r, const char *key, bool otherwise)
{
    const lnt_json_node *node = member(r, key);
    if (!node) return otherwise;
    if (node->type != LNT_JSON_TRUE && node->type != LNT_JSON_FALSE) refuse(r, key, "true or false");
    return node->type == LNT_JSON_TRUE;
}

static int64_t side_of(const reading *r, const char *key, const lnt_json_node *node)
{
    if (node && node->type == LNT_JSON_INTEGER && node->integer >= 1 && node->integer <= SIDE)
        return node->integer;
    refuse(r, key, "a side from 1 to 16384, or {\"height\":, \"width\":} of two");
    return 1;
}

/* 224, or {"height": 224, "width": 224}. */
static void read_size(const reading *r, const char *key, int64_t otherwise, int64_t *width, int64_t *height)
{
    const lnt_json_node *node = member(r, key);
    *width = *height = otherwise;
    if (node && node->type == LNT_JSON_OBJECT) {
        *width = side_of(r, key, lnt_json_member(node, "width"));
        *height = side_of(r, key, lnt_json_member(node, "height"));
    } else if (node) {
        *width = *height = side_of(r, key, node);
    }
}

/* A number for each colour, or one for all; `least` is below all that are allowed. */
static void read_colours(const reading *r, const char *key, double least, double out[LNT_IMAGE_COLOURS])
{
    const lnt_json_node *node = member(r, key), *at = node;
    if (!node) return;
    if (node->type == LNT_JSON_ARRAY) at = node->child;
    for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) {
        const bool number = at && (at->type == LNT_JSON_INTEGER || at->type == LNT_JSON_REAL);
        if (!number || !(at->real > least && at->real < 1e6))
            refuse(r, key, "a number, or one for each of 3 colours");
        out[c] = number ? at->real : 1;
        if (at != node) at = at ? at->next : NULL;
    }
    if (node->type == LNT_JSON_ARRAY && node->count != LNT_IMAGE_COLOURS) refuse(r, key, "of 3 colours");
}

static void read_filter(const reading *r, int64_t otherwise, lnt_image_form *out)
{
    const lnt_json_node *node = member(r, "resample");
    const int64_t filter = !node ? otherwise : node->type == LNT_JSON_INTEGER ? node->integer : -1;
    if (filter != BILINEAR && filter != BICUBIC) refuse(r, "resample", "2, bilinear, or 3, bicubic");
    out->filter = filter == BICUBIC ? LNT_FILTER_BICUBIC : LNT_FILTER_BILINEAR;
}

/* The name of the processor: "ViTImageProcessor", "DeiTFeatureExtractor", "ViTImageProcessorFast". */
static bool is_of_deit(const reading *r)
{
    const lnt_json_node *node = member(r, "image_processor_type");
    if (!node) node = member(r, "feature_extractor_type");
    if (!node) return lnt_source_text_is(lnt_source_text_of(r->s, NULL, "model_type"), "deit");
    const char *const name = node->type == LNT_JSON_STRING ? node->text : "";
    if (strncmp(name, "ViT", 3) != 0 && strncmp(name, "DeiT", 4) != 0)
        lnt_source_refuse(r->s, FILE_NAME ": the processor '%.60s' is not known; known are ViT's and DeiT's",
                          name);
    return strncmp(name, "DeiT", 4) == 0;
}

static void read_norm(const reading *r, lnt_image_form *out)
{
    if (!flag(r, "do_normalize", true)) return;
    out->means = out->deviations = LNT_IMAGE_COLOURS;
    for (size_t c = 0; c < LNT_IMAGE_COLOURS; c++) out->mean[c] = out->deviation[c] = 0.5;
    read_colours(r, "image_mean", -1e6, out->mean);
    read_colours(r, "image_std", 0, out->deviation);
}

static void read_all(const reading *r, lnt_image_form *out)
{
    const bool deit = is_of_deit(r);
    const lnt_json_node *factor = member(r, "rescale_factor");
    const bool number = factor && (factor->type == LNT_JSON_INTEGER || factor->type == LNT_JSON_REAL);
    if (factor && !(number && factor->real > 0 && factor->real < 1e6))
        refuse(r, "rescale_factor", "a number above 0");
    *out = (lnt_image_form){ .factor = 1 };
    if (flag(r, "do_resize", true)) {
        read_size(r, "size", deit ? DEIT_SIDE : VIT_SIDE, &out->width, &out->height);
        read_filter(r, deit ? BICUBIC : BILINEAR, out);
    }
    if (flag(r, "do_center_crop", deit))
        read_size(r, "crop_size", VIT_SIDE, &out->crop_width, &out->crop_height);
    if (flag(r, "do_rescale", true)) out->factor = number ? factor->real : 1.0 / 255;
    read_norm(r, out);
}

void lnt_preprocessor_read(lnt_source *s, lnt_image_form *out)
{
    lnt_json json;
    if (s->status) return;
    s->status = lnt_source_json(s->ctx, s->path, FILE_NAME, &json);
    if (s->status || !json.root) return;
    const reading r = { s, json.root };
    read_all(&r, out);
    lnt_json_free(s->ctx, &json);
}
