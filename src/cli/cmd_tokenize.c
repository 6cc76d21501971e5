/* cli/cmd_tokenize.c - `linnet tokenize`: a text as the tokens of a model. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/model.h"
#include "cli/request.h"
#include "cli/show/json.h"
#include "cli/show/report.h"
#include "cli/text_input.h"

static void print_json(const int32_t *tokens, size_t count)
{
    json line = json_begin(stdout);
    json_wholes(&line, "tokens", tokens, count);
    json_end(&line);
}

/* A token a line, with the text that it adds. */
static int print_text(const lnt_ctx *ctx, const lnt_model *model, const int32_t *tokens, size_t count)
{
    lnt_stream *stream;
    const char *text;
    size_t bytes;
    if (lnt_stream_create(model, &stream)) return fail_ctx(ctx);
    int status = EXIT_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (lnt_stream_put(stream, tokens[i], &text, &bytes)) status = fail_ctx(ctx);
        if (!status) printf("%d\t", tokens[i]);
        for (size_t at = 0; !status && at < bytes; at++) {
            if (text[at] == '\n')
                fputs("\\n", stdout);
            else
                putchar(text[at]);
        }
        if (!status) putchar('\n');
    }
    lnt_stream_destroy(stream);
    return status;
}

static int tokenize(const options *o, lnt_ctx *ctx, const lnt_model *model)
{
    text_buffer text = { 0 };
    int32_t *tokens = NULL;
    size_t count = 0;
    int status = text_input_read(o, &text);
    if (!status)
        status = text_input_tokens(ctx, model, text.text ? text.text : "", text.used, LNT_TEXT_FRAMED,
                                   &tokens, &count);
    if (!status && opt_given(o, OPT_JSON))
        print_json(tokens, count);
    else if (!status)
        status = print_text(ctx, model, tokens, count);
    free(tokens);
    free(text.text);
    return status;
}

static int run(const options *o)
{
    lnt_ctx *ctx;
    lnt_model *model = NULL;
    int status = request_context(o, 0, &ctx);
    if (status) return status;
    status = model_load_as(o, ctx, o->operand[0], &model);
    if (!status) status = tokenize(o, ctx, model);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
    return status;
}

const command cmd_tokenize = {
    .name = "tokenize",
    .bit = CMD_TOKENIZE,
    .usage = "MODEL (--text TEXT | --file FILE) [options]",
    .summary = "Print a text as the tokens of a model",
    .details = "\n"
               "MODEL is a .safetensors file of Linnet, the directory of a run, a GGUF file, a directory\n"
               "as Hugging Face lays it out, or a file of llama2.c.  The tokens that begin and end a\n"
               "text for this model are among them, as it was trained.  A line has a token and the text\n"
               "that it adds.\n",
    .operands = 1,
    .run = run,
};
