/* model/chat.c - a conversation as a model was trained to read it. */
#include <string.h>

#include "model/model.h"
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

static lnt_status check(const lnt_model *model, const lnt_message *messages, size_t count, char **text,
                        size_t *bytes)
{
    lnt_ctx *ctx = model->ctx;
    if ((!messages && count) || !text || !bytes)
        return lnt_fail(ctx, LNT_ERR_ARGUMENT, "messages, text and bytes must not be NULL");
    for (size_t i = 0; i < count; i++)
        if (!messages[i].role || !messages[i].content)
            return lnt_fail(ctx, LNT_ERR_ARGUMENT, "message %zu has no role or no content", i);
    if (!model->codec)
        return lnt_fail(ctx, LNT_ERR_UNSUPPORTED, "model: it was trained on texts, not on conversations");
    return LNT_OK;
}

lnt_status lnt_model_chat(const lnt_model *model, const lnt_message *messages, size_t count, int answer,
                          char **text, size_t *bytes)
{
    if (!model) return LNT_ERR_ARGUMENT;
    lnt_ctx *ctx = model->ctx;
    lnt_template *form = NULL;
    spelling bos, eos, unknown, padding;
    lnt_status status = check(model, messages, count, text, bytes);
    if (status) return status;
    *text = NULL;
    *bytes = 0;
    lnt_chat_message *all = lnt_allocate(ctx, count * sizeof *all, "a conversation");
    if (!all) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        all[i] = (lnt_chat_message){ .role = messages[i].role,
                                     .content = messages[i].content,
                                     .content_bytes = strlen(messages[i].content) };
    const lnt_template_options options = { .bos_token = spell(model->codec, LNT_ROLE_BOS, &bos),
                                           .eos_token = spell(model->codec, LNT_ROLE_EOS, &eos),
                                           .unk_token = spell(model->codec, LNT_ROLE_UNKNOWN, &unknown),
                                           .pad_token = spell(model->codec, LNT_ROLE_PADDING, &padding),
                                           .add_generation_prompt = answer != 0 };
    status = open_template(model, &form);
    if (!status) status = lnt_template_render(form, all, count, &options, text, bytes);
    lnt_template_close(form);
    lnt_release(ctx, all, count * sizeof *all);
    return status;
}

void lnt_text_free(const lnt_model *model, char *text, size_t bytes)
{
    if (model) lnt_release(model->ctx, text, bytes + 1);
}
