/* cli/study/drop_in.c - another mechanism in place of softmax in a model that was trained with it, without
 * training: what is left of an encoder's embeddings (CUR, figures 5 to 7), and of a decoder's loss.
 *
 * Of an encoder drop_encoder.c, of a decoder drop_decoder.c. */
#include "cli/study/drop_in.h"

static int run(const options *o, lnt_ctx *ctx)
{
    lnt_model *model = NULL;
    lnt_model_info info = { .size = sizeof info };
    if (!opt_given(o, OPT_MODEL)) return fail_usage("--study drop-in needs --model");
    if (!opt_given(o, OPT_DATA))
        return fail_usage("--study drop-in needs --data, a text or a directory of texts");
    int status = model_load(ctx, opt_text(o, OPT_MODEL), &model);
    if (!status && lnt_model_describe(model, &info)) status = fail_ctx(ctx);
    if (!status && !info.generates && !info.embeds)
        status = fail("'%s': its output is neither text nor a vector of one", opt_text(o, OPT_MODEL));
    const int64_t length = info.length, outputs = info.outputs, layers = info.layers;
    const bool generates = info.generates;
    lnt_model_destroy(model);
    if (status) return status;
    info = (lnt_model_info){ .size = sizeof info, .length = length, .outputs = outputs, .layers = layers,
                             .generates = generates }; /* its texts are gone */
    return generates ? drop_decoder(o, ctx, &info) : drop_encoder(o, ctx, &info);
}

const study study_drop_in = {
    .name = "drop-in",
    .summary = "other mechanisms in place of a --model's softmax, untrained (CUR, figures 5 to 7)",
    .takes = { [OPT_MODEL] = true, [OPT_DATA] = true, [OPT_LENGTH] = true, [OPT_BATCH] = true,
               [OPT_LANDMARKS] = true, [OPT_SELECT] = true, [OPT_PINV] = true, [OPT_PINV_ITERATIONS] = true,
               [OPT_SEED] = true },
    .draws = true,
    .run = run,
};
