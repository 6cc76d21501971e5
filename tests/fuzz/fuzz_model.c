/* fuzz_model.c - the input is the file of one of our models; one that loads is fed a token. */
#include "fuzz.h"
#include "linnet/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lnt_ctx *ctx = fuzz_context();
    lnt_model *model;
    lnt_status status = lnt_model_load(ctx, fuzz_file(data, size), &model);
    fuzz_check(status);
    if (status) return 0;
    lnt_session *session;
    status = lnt_session_create(model, 1, &session);
    fuzz_check(status);
    if (status == LNT_OK) {
        fuzz_check(lnt_session_forward(session, (const int32_t[]){ 1 }, 1));
        lnt_session_destroy(session);
    }
    lnt_model_destroy(model);
    return 0;
}
