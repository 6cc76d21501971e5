/* cli/drawing.c - see drawing.h.  All images of a sheet are drawn at once, pixel by pixel. */
#include "cli/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/png.h"
#include "cli/report.h"

enum { DEFAULT_IMAGES = 16, BETWEEN = 96, HIDDEN = 128 }; /* grey: lines, and what is not given */

typedef struct drawing {
    writing *w;
    int64_t count, size, given; /* images; pixels of one, and how many of them are given */
    int32_t *truth;             /* [count,size], where something is given */
    int32_t *tokens;            /* [count,size + 1]: the start, then what is fed at once */
    unsigned char *pixels;      /* [count,size] */
} drawing;

static int check(const options *o)
{
    static const option_id foreign[] = { OPT_PROMPT, OPT_TOKENS, OPT_FOREVER, OPT_LOAD_STATE };
    const double keep = opt_real(o, OPT_KEEP, 0.5);
    for (int i = 0; i < 4; i++)
        if (opt_given(o, foreign[i]))
            return fail_usage("%s is not for models that draw images", option_name(foreign[i]));
    if (!opt_given(o, OPT_OUTPUT)) return fail_usage("-o/--output is missing: a .png");
    if (opt_given(o, OPT_KEEP) && !opt_given(o, OPT_DATA)) return fail_usage("--keep needs --data");
    if (!(keep <= 1)) return fail_usage("--keep: '%s' is not a number from 0 to 1",
                                        opt_text(o, OPT_KEEP));
    return EXIT_OK;
}

static int open_drawing(drawing *d, writing *w)
{
    const size_t all = (size_t)(d->count * (d->size + 1));
    d->truth = malloc(all * sizeof *d->truth);
    d->tokens = malloc(all * sizeof *d->tokens);
    d->pixels = malloc(all);
    if (!d->truth || !d->tokens || !d->pixels) return fail_memory(all * sizeof *d->tokens);
    const char *data = opt_text(w->o, OPT_DATA);
    if (data && lnt_model_examples(w->model, data, 0, d->count, d->truth)) return fail_ctx(w->ctx);
    return writing_begin(w, d->count);
}

/* The start and the pixels that are given go in at once. */
static int feed_given(drawing *d)
{
    const int64_t fed = d->given + 1;
    for (int64_t i = 0; i < d->count; i++) {
        d->tokens[i * fed] = (int32_t)d->w->info.inputs - 1;
        for (int64_t p = 0; p < d->given; p++) {
            d->tokens[i * fed + 1 + p] = d->truth[i * d->size + p];
            d->pixels[i * d->size + p] = (unsigned char)d->truth[i * d->size + p];
        }
    }
    return lnt_session_feed(d->w->session, d->tokens, fed) ? fail_ctx(d->w->ctx) : EXIT_OK;
}

static int draw(drawing *d)
{
    writing *w = d->w;
    const int64_t most = d->given < d->size ? d->given : d->size - 1;
    d->given = most; /* the last pixel is drawn in any case */
    int status = feed_given(d);
    for (int64_t p = d->given; p < d->size && !status; p++) {
        progress("pixels", (int)p, (int)d->size);
        if (p + 1 < d->size) status = writing_next(w, d->tokens);
        else if (lnt_session_sample(w->session, &w->sampling, d->tokens)) status = fail_ctx(w->ctx);
        for (int64_t i = 0; i < d->count; i++)
            d->pixels[i * d->size + p] = (unsigned char)d->tokens[i];
    }
    progress_end();
    return status;
}

/* ---- the sheet ----------------------------------------------------------------------------- */

/* Pixel p of the image in place `place`: drawn images; or three for each: true, given, completed. */
static unsigned char pixel_at(const drawing *d, bool completes, size_t place, size_t p)
{
    const size_t size = (size_t)d->size;
    if (!completes) return d->pixels[place * size + p];
    const size_t image = place / 3;
    const unsigned char truth = (unsigned char)d->truth[image * size + p];
    if (place % 3 == 0) return truth;
    if (place % 3 == 1) return p < (size_t)d->given ? truth : HIDDEN;
    return d->pixels[image * size + p];
}

static int write_sheet(const drawing *d, bool completes, size_t side)
{
    const size_t places = (size_t)d->count * (completes ? 3 : 1);
    const size_t across = completes ? 3 : (size_t)ceil(sqrt((double)places));
    const size_t down = (places + across - 1) / across;
    const size_t width = across * (side + 1) + 1, height = down * (side + 1) + 1;
    unsigned char *sheet = malloc(width * height);
    if (!sheet) return fail_memory(width * height);
    memset(sheet, BETWEEN, width * height);
    for (size_t i = 0; i < places; i++)
        for (size_t p = 0; p < side * side; p++)
            sheet[(i / across * (side + 1) + 1 + p / side) * width + i % across * (side + 1) + 1 +
                  p % side] = pixel_at(d, completes, i, p);
    const int status = png_write(opt_text(d->w->o, OPT_OUTPUT), sheet, width, height);
    free(sheet);
    return status;
}

int drawing_write(writing *w)
{
    const bool completes = opt_given(w->o, OPT_DATA);
    const size_t side = (size_t)lround(sqrt((double)w->info.length));
    drawing d = { .w = w, .count = opt_whole(w->o, OPT_IMAGES, DEFAULT_IMAGES),
                  .size = w->info.length };
    int status = check(w->o);
    if (status) return status;
    if ((int64_t)(side * side) != d.size) return fail("the model's images are not square");
    if (completes) d.given = (int64_t)(opt_real(w->o, OPT_KEEP, 0.5) * (double)d.size);
    status = open_drawing(&d, w);
    if (!status) status = draw(&d);
    if (!status) status = write_sheet(&d, completes, side);
    if (!status) status = writing_end(w);
    if (!status && opt_given(w->o, OPT_JSON)) writing_json(w, NULL);
    free(d.truth);
    free(d.tokens);
    free(d.pixels);
    return status;
}
