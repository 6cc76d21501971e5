/* cli/drawing.c - see drawing.h.  All images of a sheet are generated together, pixel by pixel. */
#include "cli/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/picture.h"
#include "cli/show/png.h"
#include "cli/show/report.h"

enum { DEFAULT_IMAGES = 36, DEFAULT_GIVEN = 6, DEFAULT_EACH = 4 }; /* completions of a given one */
enum { PAPER = 255, HIDDEN = 128 };             /* grey: between images, and what is not given */
enum { SHOWN = 56 };                            /* points that the side of an image has at the least */

typedef struct drawing {
    generation *g;
    int64_t count, each;  /* images that are given, 1 where none is; and drawn for each */
    int64_t size, given;  /* pixels of one, and how many of them are given */
    int32_t *truth;       /* [count,size], where something is given */
    int32_t *tokens;      /* [drawn,size + 1]: the start, then what is fed at once */
    unsigned char *pixels; /* [drawn,size] */
} drawing;

static int64_t drawn(const drawing *d) { return d->count * d->each; }

static int check(const options *o)
{
    static const option_id of_text[] = { OPT_PROMPT,     OPT_PROMPT_FILE, OPT_TOKENS,  OPT_FOREVER,
                                         OPT_LOAD_STATE, OPT_SAVE_STATE,  OPT_STOP,    OPTION_COUNT };
    static const option_id of_data[] = { OPT_KEEP, OPT_EACH, OPT_FIRST, OPTION_COUNT };
    const option_id foreign = options_first_of(o, of_text), completing = options_first_of(o, of_data);
    const double keep = opt_real(o, OPT_KEEP, 0.5);
    if (foreign != OPTION_COUNT)
        return fail_usage("%s is not for models that draw images", option_name(foreign));
    if (!opt_given(o, OPT_OUTPUT)) return fail_usage("-o/--output is missing: a .png");
    if (completing != OPTION_COUNT && !opt_given(o, OPT_DATA))
        return fail_usage("%s needs --data", option_name(completing));
    if (!(keep <= 1)) return fail_usage("--keep: '%s' is not a number from 0 to 1",
                                        opt_text(o, OPT_KEEP));
    return EXIT_OK;
}

static int open_drawing(drawing *d, generation *g)
{
    const size_t all = (size_t)(drawn(d) * (d->size + 1));
    d->truth = malloc(all * sizeof *d->truth);
    d->tokens = malloc(all * sizeof *d->tokens);
    d->pixels = malloc(all);
    if (!d->truth || !d->tokens || !d->pixels) return fail_memory(all * sizeof *d->tokens);
    const char *data = opt_text(g->o, OPT_DATA);
    if (data && lnt_model_examples(g->model, data, opt_whole(g->o, OPT_FIRST, 0), d->count, d->truth))
        return fail_ctx(g->ctx);
    return generation_begin(g, drawn(d));
}

/* The start and the pixels that are given go in at once. */
static int feed_given(drawing *d)
{
    const int64_t fed = d->given + 1;
    for (int64_t i = 0; i < drawn(d); i++) {
        d->tokens[i * fed] = (int32_t)d->g->info.inputs - 1;
        for (int64_t p = 0; p < d->given; p++) {
            const int32_t truth = d->truth[i / d->each * d->size + p];
            d->tokens[i * fed + 1 + p] = truth;
            d->pixels[i * d->size + p] = (unsigned char)truth;
        }
    }
    return lnt_session_forward(d->g->session, d->tokens, fed) ? fail_ctx(d->g->ctx) : EXIT_OK;
}

static int draw(drawing *d)
{
    generation *g = d->g;
    const int64_t most = d->given < d->size ? d->given : d->size - 1;
    d->given = most; /* the last pixel is drawn in any case */
    int status = feed_given(d);
    for (int64_t p = d->given; p < d->size && !status; p++) {
        progress("pixels", (int)p, (int)d->size);
        status = generation_next(g, p + 1 < d->size, d->tokens);
        for (int64_t i = 0; i < drawn(d); i++)
            d->pixels[i * d->size + p] = (unsigned char)d->tokens[i];
    }
    if (!status) progress("pixels", (int)d->size, (int)d->size);
    progress_end();
    return status;
}

/* ---- the sheet ----------------------------------------------------------------------------- */

/* Pixel p of the image in place `spot`: drawn images; or a row for each given one: what is given of
 * it, the completions, and itself. */
static unsigned char pixel_at(const drawing *d, bool completes, size_t spot, size_t p)
{
    const size_t size = (size_t)d->size, each = (size_t)d->each, row = spot / (each + 2);
    if (!completes) return d->pixels[spot * size + p];
    const unsigned char truth = (unsigned char)d->truth[row * size + p];
    spot %= each + 2;
    if (spot == 0) return p < (size_t)d->given ? truth : HIDDEN;
    if (spot == each + 1) return truth;
    return d->pixels[(row * each + spot - 1) * size + p];
}

/* The sheet: images of side x side pixels, each of `zoom` x `zoom` points, with a gap around them; a
 * wider one sets what is given and what is true apart from what is drawn. */
typedef struct sheet {
    size_t side, zoom, gap, across, down, width, height;
    bool completes;
} sheet;

static sheet plan_sheet(const drawing *d, bool completes, size_t side)
{
    const size_t images = (size_t)drawn(d), zoom = (SHOWN + side - 1) / side;
    sheet s = { .side = side, .zoom = zoom, .gap = 2 * zoom, .completes = completes };
    s.across = completes ? (size_t)d->each + 2 : (size_t)ceil(sqrt((double)images));
    s.down = completes ? (size_t)d->count : (images + s.across - 1) / s.across;
    s.width = s.across * (side * zoom + s.gap) + s.gap + (completes ? 2 * s.gap : 0);
    s.height = s.down * (side * zoom + s.gap) + s.gap;
    return s;
}

static void put_image(const drawing *d, const sheet *s, size_t spot, unsigned char *points)
{
    const size_t column = spot % s->across, step = s->side * s->zoom + s->gap;
    const bool later = column > 0, last = column + 1 == s->across;
    const size_t apart = s->completes ? (size_t)later + (size_t)last : 0;
    const size_t x0 = s->gap + column * step + apart * s->gap;
    const size_t y0 = s->gap + spot / s->across * step;
    for (size_t y = 0; y < s->side * s->zoom; y++)
        for (size_t x = 0; x < s->side * s->zoom; x++)
            points[(y0 + y) * s->width + x0 + x] =
                pixel_at(d, s->completes, spot, y / s->zoom * s->side + x / s->zoom);
}

static int write_sheet(const drawing *d, bool completes, size_t side)
{
    const sheet s = plan_sheet(d, completes, side);
    const size_t places = completes ? s.across * s.down : (size_t)drawn(d);
    unsigned char *points = malloc(s.width * s.height);
    if (!points) return fail_memory(s.width * s.height);
    memset(points, PAPER, s.width * s.height);
    for (size_t i = 0; i < places; i++) put_image(d, &s, i, points);
    const int status = png_write(opt_text(d->g->o, OPT_OUTPUT), points, s.width, s.height);
    free(points);
    return status;
}

int drawing_write(generation *g)
{
    const bool completes = opt_given(g->o, OPT_DATA);
    const size_t side = (size_t)lround(sqrt((double)g->info.length));
    drawing d = { .g = g, .count = 1, .size = g->info.length };
    int status = check(g->o);
    if (status) return status;
    if ((int64_t)(side * side) != d.size) return fail("the model's images are not square");
    if (completes) {
        d.given = (int64_t)(opt_real(g->o, OPT_KEEP, 0.5) * (double)d.size);
        d.count = opt_whole(g->o, OPT_IMAGES, DEFAULT_GIVEN);
        d.each = opt_whole(g->o, OPT_EACH, DEFAULT_EACH);
    } else {
        d.each = opt_whole(g->o, OPT_IMAGES, DEFAULT_IMAGES);
    }
    status = picture_check(g->o, OPT_OUTPUT, ".png");
    if (!status) status = open_drawing(&d, g);
    if (!status) status = draw(&d);
    if (!status) status = write_sheet(&d, completes, side);
    if (!status) status = generation_end(g);
    if (!status && opt_given(g->o, OPT_JSON)) generation_json(g, NULL, 0);
    free(d.truth);
    free(d.tokens);
    free(d.pixels);
    return status;
}
