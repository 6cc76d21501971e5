/* generate.c - liblinnet-model: loads a model and lets it write, at the same cost for every token.
 *
 *     generate models/default.safetensors "The king" */
#include <linnet/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 60, MOST = 4096 };

static void check(lnt_ctx *ctx, lnt_status status)
{
    if (status == LNT_OK) return;
    fprintf(stderr, "%s: %s\n", lnt_status_name(status), lnt_ctx_error(ctx));
    exit(1);
}

int main(int argc, char **argv)
{
    lnt_ctx *ctx;
    lnt_model *model;
    lnt_session *session;
    int32_t tokens[MOST];
    size_t count;
    if (argc != 3 || strlen(argv[2]) > MOST || lnt_ctx_create(NULL, &ctx))
        return fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;

    check(ctx, lnt_model_load(ctx, argv[1], &model));
    check(ctx, lnt_session_create(model, 1, &session));
    check(ctx, lnt_model_encode(model, argv[2], strlen(argv[2]), tokens, &count));
    check(ctx, lnt_session_forward(session, tokens, (int64_t)count));

    printf("%s", argv[2]);
    const lnt_sampling likeliest = { .size = sizeof likeliest, .top_p = 1 };
    for (int i = 0; i < TOKENS; i++) {
        const char *text;
        size_t bytes;
        check(ctx, lnt_session_sample(session, &likeliest, tokens));
        check(ctx, lnt_model_decode(model, tokens[0], &text, &bytes));
        fwrite(text, 1, bytes, stdout);
        check(ctx, lnt_session_forward(session, tokens, 1));
    }
    printf("\n%zu bytes are remembered of %lld tokens\n", lnt_session_bytes(session),
           (long long)lnt_session_tokens(session));

    lnt_session_destroy(session);
    lnt_model_destroy(model);
    lnt_ctx_destroy(ctx);
    return 0;
}
