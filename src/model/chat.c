/* model/chat.c - a conversation as a model was trained to read it. */
#include <string.h>

#include "model/model.h"
#include "model/quoted.h"
#include "model/template/template.h"

/* Spelling of the token of a role, in memory that ends in NUL; NULL: there is none. */
typedef struct spelling {
    char text[64];
} spelling;

static const char *spell(const lnt_codec *codec, lnt_codec_role role, spelling *to)
{
    const int32_t token = lnt_codec_role_token(codec, role);
    const lnt_text text = token == LNT_NO_TOKEN ? (lnt_text){ NULL, 0 } : lnt_codec_spelling(codec, token);
    if (!text.bytes || text.bytes >= sizeof to->text) return NULL;
    memcpy(to->text, text.text, text.bytes);
    to->text[text.bytes] = '\0';
    return to->text;
}

static bool has_token(void *codec, const char *token)
{
    return lnt_codec_find(codec, token, strlen(token)) != LNT_NO_TOKEN;
}

/* Its own template, or the form whose special tokens its vocabulary has. */
static lnt_status open_template(const lnt_model *model, lnt_template **out)
{
    if (model->chat_template)
        return lnt_template_open(model->ctx, "chat template", model->chat_template,
                                 model->chat_template_bytes, out);
    const char *text = lnt_template_fallback(lnt_template_guess(has_token, model->codec));
    return lnt_template_open(model->ctx, "chat template", text, strlen(text), out);
}

static lnt_status check(const lnt_model *model, const lnt_message *messages, size_t count)
{
    lnt_ctx *ctx = model->ctx;
    if (!messages && count) return lnt_fail(ctx, LNT_ERR_ARGUMENT, "messages is NULL");
    for (size_t i = 0; i < count; i++)
        if (!messages[i].role || !messages[i].content)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "message %zu has no role or no content", i);
    if (!model->codec)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: it was trained on texts, not on conversations");
    return LNT_OK;
}

static lnt_status render(const lnt_model *model, const lnt_chat_message *all, size_t count, int answer,
                         char **text, size_t *bytes)
{
    lnt_template *form;
    spelling bos, eos, unknown, padding;
    const lnt_template_options options = { .bos_token = spell(model->codec, LNT_ROLE_BOS, &bos),
                                           .eos_token = spell(model->codec, LNT_ROLE_EOS, &eos),
                                           .unk_token = spell(model->codec, LNT_ROLE_UNKNOWN, &unknown),
                                           .pad_token = spell(model->codec, LNT_ROLE_PADDING, &padding),
                                           .add_generation_prompt = answer != 0 };
    lnt_status status = open_template(model, &form);
    if (status) return status;
    status = lnt_template_render(form, all, count, &options, text, bytes);
    lnt_template_close(form);
    return status;
}

/* The text of a conversation, and where in it special tokens begin that a message spells. */
typedef struct written {
    char *text; /* [bytes + 1] */
    size_t bytes;
    size_t *bar; /* [bars] */
    size_t bars;
} written;

static void release(lnt_ctx *ctx, const written *w)
{
    lnt_release(ctx, w->text, w->bytes + 1);
    lnt_release(ctx, w->bar, w->bars * sizeof *w->bar);
}

static lnt_status write(const lnt_model *model, const lnt_message *messages, size_t count, int answer,
                        written *w)
{
    lnt_ctx *ctx = model->ctx;
    lnt_quoted quoted;
    *w = (written){ 0 };
    lnt_chat_message *all = lnt_allocate(ctx, count * sizeof *all, "a conversation");
    if (!all) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        all[i] = (lnt_chat_message){ .role = messages[i].role,
                                     .content = messages[i].content,
                                     .content_bytes = strlen(messages[i].content) };
    lnt_status status = lnt_quoted_open(ctx, model->codec, all, count, &quoted);
    if (!status) {
        status = render(model, all, count, answer, &w->text, &w->bytes);
        if (!status) status = lnt_quoted_take(&quoted, &w->text, &w->bytes, &w->bar, &w->bars);
        lnt_quoted_close(&quoted);
    }
    lnt_release(ctx, all, count * sizeof *all);
    if (status && w->text) release(ctx, w);
    return status;
}

lnt_status lnt_model_chat(const lnt_model *model, const lnt_message *messages, size_t count, int answer,
                          char **text, size_t *bytes)
{
    written w;
    if (!model) return LNT_ERR_ARGUMENT;
    if (!text || !bytes) return lnt_fail(model->ctx, LNT_ERR_ARGUMENT, "text and bytes must not be NULL");
    lnt_status status = check(model, messages, count);
    if (status) return status;
    *text = NULL;
    *bytes = 0;
    status = write(model, messages, count, answer, &w);
    if (status) return status;
    lnt_release(model->ctx, w.bar, w.bars * sizeof *w.bar);
    *text = w.text;
    *bytes = w.bytes;
    return LNT_OK;
}

/* The tokens of w from byte `from` on. */
static lnt_status tokenize(const lnt_model *model, const written *w, size_t from, lnt_tokens *all)
{
    size_t before = 0; /* bars */
    if (from > w->bytes)
        return lnt_fail(model->ctx, LNT_ERR_ARGUMENT,
                        "from is %zu, must be 0 to %zu, the conversation's bytes", from, w->bytes);
    for (; before < w->bars && w->bar[before] < from; before++) {}
    for (size_t i = before; i < w->bars; i++) w->bar[i] -= from;
    return lnt_codec_encode_barred(model->ctx, model->codec, w->text + from, w->bytes - from,
                                   LNT_ENCODE_PLAIN, w->bar + before, w->bars - before, all);
}

lnt_status lnt_model_chat_tokenize(const lnt_model *model, const lnt_message *messages, size_t count,
                                   int answer, size_t from, int32_t *tokens, size_t room, size_t *token_count)
{
    written w;
    lnt_tokens all = { 0 };
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    if ((!tokens && room) || !token_count)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "tokens and token_count must not be NULL");
    lnt_status status = check(model, messages, count);
    if (!status) status = write(model, messages, count, answer, &w);
    if (status) return status;
    status = tokenize(model, &w, from, &all);
    if (!status) {
        *token_count = all.count;
        if (room) memcpy(tokens, all.token, (all.count < room ? all.count : room) * sizeof *tokens);
    }
    lnt_tokens_free(ctx, &all);
    release(ctx, &w);
    return status;
}

void lnt_text_free(const lnt_model *model, char *text, size_t bytes)
{
    if (model) lnt_release(model->ctx, text, bytes + 1);
}
