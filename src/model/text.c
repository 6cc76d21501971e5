/* model/text.c - a model's text: tokens, text in pieces, and conversations by its chat template. */
#include <string.h>

#include "core/overlap.h"
#include "model/model.h"
#include "model/template/template.h"

static lnt_status refuse_text(const lnt_model *model)
{
    if (model->architecture[0])
        return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                        "model: it has no tokenizer: none is in its file, or beside it as tokenizer.json, or "
                        "for llama2.c as tokenizer.bin or one tok*.bin");
    return lnt_fail(model->ctx, LNT_ERR_UNSUPPORTED,
                    "model: it has no tokenizer, by its task, which is %s, or since none was learned",
                    model->task);
}

static bool has_text(const lnt_model *model)
{
    return model->codec || model->tokenizer.kind != LNT_TOKENS_NONE;
}

/* ---- text to tokens ------------------------------------------------------------------------ */

/* Those that end a text take the place of what there is no room for. */
static void cut(const lnt_model *model, lnt_tokens *all, unsigned flags, size_t room)
{
    size_t before, after = 0;
    if (!(flags & LNT_TEXT_CUT) || all->count <= room) return;
    if (flags & LNT_TEXT_FRAMED) lnt_codec_frame(model->codec, &before, &after);
    if (after > room) after = room;
    memmove(all->token + room - after, all->token + all->count - after, after * sizeof *all->token);
    all->count = room;
}

static lnt_status encode_by_codec(const lnt_model *model, const char *text, size_t bytes, unsigned flags,
                                  int32_t *tokens, size_t room, size_t *count)
{
    lnt_tokens all = { 0 };
    const unsigned how = flags & (LNT_TEXT_FRAMED | LNT_TEXT_VERBATIM);
    const lnt_status status = lnt_codec_encode(model->ctx, model->codec, text, bytes, how, &all);
    if (!status) {
        cut(model, &all, flags, room);
        *count = all.count;
        if (room) memcpy(tokens, all.token, (all.count < room ? all.count : room) * sizeof *tokens);
    }
    lnt_tokens_free(model->ctx, &all);
    return status;
}

/* One of Linnet's own, which frames nothing; its tokens are at most as many as bytes. */
static lnt_status encode_by_own(const lnt_model *model, const char *text, size_t bytes, int32_t *tokens,
                                size_t room, size_t *count)
{
    lnt_ctx *ctx = model->ctx;
    if (room >= bytes) {
        *count = lnt_tokenizer_encode(&model->tokenizer, text, bytes, tokens);
        return LNT_OK;
    }
    int32_t *all = lnt_allocate(ctx, bytes * sizeof *all, "the tokens of a text");
    if (!all) return LNT_ERR_MEMORY;
    *count = lnt_tokenizer_encode(&model->tokenizer, text, bytes, all);
    if (room) memcpy(tokens, all, (*count < room ? *count : room) * sizeof *tokens);
    lnt_release(ctx, all, bytes * sizeof *all);
    return LNT_OK;
}

lnt_status lnt_model_tokenize(const lnt_model *model, const char *text, size_t bytes, unsigned flags,
                              int32_t *tokens, size_t room, size_t *count)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if ((!text && bytes) || (!tokens && room) || !count)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "text, tokens and count must not be NULL");
    if (flags & ~(unsigned)(LNT_TEXT_FRAMED | LNT_TEXT_VERBATIM | LNT_TEXT_CUT))
        return lnt_fail(ctx, LNT_ERR_ARGUMENT,
                        "flags is %u, must be a sum of 1 (framed), 2 (verbatim) and 4 (cut)", flags);
    if (!has_text(model)) return refuse_text(model);
    const lnt_status status =
        lnt_expect_apart(ctx, "tokens", tokens, room * sizeof *tokens, "text", text, bytes);
    if (status) return status;
    if (model->codec) return encode_by_codec(model, text, bytes, flags, tokens, room, count);
    const lnt_status own = encode_by_own(model, text, bytes, tokens, room, count);
    if (!own && (flags & LNT_TEXT_CUT) && *count > room) *count = room;
    return own;
}

int lnt_model_ends(const lnt_model *model, int32_t token)
{
    for (size_t i = 0; model && i < model->end_count; i++)
        if (model->end[i] == token) return 1;
    return 0;
}

/* ---- tokens to text ------------------------------------------------------------------------ */

struct lnt_stream {
    lnt_ctx *ctx;
    lnt_codec *own; /* of one of Linnet's tokenizers; NULL: the model's */
    lnt_detokenizer *pieces;
    int64_t tokens; /* the model's */
};

void lnt_stream_destroy(lnt_stream *stream)
{
    if (!stream) return;
    lnt_detokenizer_close(stream->pieces);
    lnt_codec_close(stream->own);
    lnt_release(stream->ctx, stream, sizeof *stream);
}

lnt_status lnt_stream_create(const lnt_model *model, lnt_stream **out)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if (!out) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!has_text(model)) return refuse_text(model);
    lnt_stream *stream = lnt_allocate(ctx, sizeof *stream, "a stream of text");
    if (!stream) return LNT_ERR_MEMORY;
    *stream = (lnt_stream){ .ctx = ctx, .tokens = model->config.inputs };
    lnt_status status = model->codec ? LNT_OK : lnt_codec_open_own(ctx, &model->tokenizer, &stream->own);
    if (!status)
        status = lnt_detokenizer_open(ctx, model->codec ? model->codec : stream->own, true, &stream->pieces);
    if (status)
        lnt_stream_destroy(stream);
    else
        *out = stream;
    return status;
}

lnt_status lnt_stream_put(lnt_stream *stream, int32_t token, const char **text, size_t *bytes)
{
    if (!stream) return LNT_ERR_ARGUMENT;
    if (!text || !bytes) return lnt_fail(stream->ctx, LNT_ERR_ARGUMENT, "text and bytes must not be NULL");
    if (token < 0 || token >= stream->tokens)
        return lnt_fail(stream->ctx, LNT_ERR_ARGUMENT, "token is %d, must be 0 to %lld", token,
                        (long long)stream->tokens - 1);
    lnt_text piece;
    const lnt_status status = lnt_detokenizer_put(stream->pieces, token, &piece);
    if (!status) *text = piece.text, *bytes = piece.bytes;
    return status;
}

lnt_status lnt_stream_end(lnt_stream *stream, const char **text, size_t *bytes)
{
    if (!stream) return LNT_ERR_ARGUMENT;
    if (!text || !bytes) return lnt_fail(stream->ctx, LNT_ERR_ARGUMENT, "text and bytes must not be NULL");
    lnt_text piece;
    const lnt_status status = lnt_detokenizer_end(stream->pieces, &piece);
    if (!status) *text = piece.text, *bytes = piece.bytes;
    return status;
}
