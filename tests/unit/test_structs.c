/* test_structs.c - a struct of an older caller is taken, what it lacks at its default; one of a newer caller
 * is refused.  Every struct of the public headers that begins with its size is walked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/case.h"
#include "linnet/model.h"

/* What the calls are made on. */
typedef struct fixture {
    lnt_ctx *ctx;
    lnt_attn_desc desc;
    lnt_plan *plan;
    lnt_model *model;
    lnt_trainer *trainer;
    double q[2], k[2], v[2], out[2], dq[2], dk[2], dv[2], num[2], den[1];
    float logits[256];
} fixture;

static lnt_tensor vector(double *x) { return lnt_tensor_bhnd(x, LNT_F64, 1, 1, 1, 2); }

static lnt_attn_io io_of(fixture *f)
{
    return (lnt_attn_io){ .size = sizeof(lnt_attn_io), .q = vector(f->q), .k = vector(f->k),
                          .v = vector(f->v), .out = vector(f->out) };
}

static lnt_partial partial_of(fixture *f)
{
    return (lnt_partial){ .size = sizeof(lnt_partial), .num = vector(f->num),
                          .den = lnt_tensor_bhnd(f->den, LNT_F64, 1, 1, 1, 1) };
}

static const char small[] = "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":9}}";
static const char batch[] = "{\"model\":{\"dim\":8,\"layers\":1,\"heads\":1,\"length\":9},"
                            "\"train\":{\"batch\":2}}";

static void open_fixture(fixture *f)
{
    *f = (fixture){ .ctx = context_new(1, NULL), .q = { 1, 2 }, .k = { 2, 1 }, .v = { 3, 4 } };
    assert_ok(f->ctx, lnt_attn_desc_init(&f->desc, sizeof f->desc));
    f->desc.mechanism = LNT_LINEAR;
    f->desc.dtype = LNT_F64;
    f->desc.length_q = 1;
    f->desc.dim = 2;
    f->desc.backward = 1;
    assert_ok(f->ctx, lnt_plan_create(f->ctx, &f->desc, &f->plan));
    const lnt_model_request request = { .size = sizeof request, .task = "copy", .text = small };
    assert_ok(f->ctx, lnt_model_create(f->ctx, &request, &f->model));
    FILE *file = fopen("structs.json", "w");
    assert_non_null(file);
    fputs(batch, file);
    fclose(file);
    const lnt_train_request train = { .size = sizeof train, .task = "copy", .config = "structs.json" };
    assert_ok(f->ctx, lnt_trainer_create(f->ctx, &train, &f->trainer));
}

static void close_fixture(fixture *f)
{
    remove("structs.json");
    lnt_trainer_destroy(f->trainer);
    lnt_model_destroy(f->model);
    lnt_plan_destroy(f->plan);
    lnt_ctx_destroy(f->ctx);
}

/* ---- one call for each struct; s has room for as many bytes as it says, and no more -------------- */

static lnt_status ctx_options(fixture *f, void *s)
{
    lnt_ctx *made;
    const lnt_status status = lnt_ctx_create(s, &made);
    char text[200];
    lnt_ctx_create_error(s, status, text, sizeof text);
    if (status) /* there is no context to ask: the sentence is put where the walk looks */
        assert_true(strstr(text, "size of lnt_ctx_options is") != NULL);
    lnt_ctx_destroy(made);
    (void)f;
    return status;
}

static lnt_status device_info(fixture *f, void *s) { return lnt_device_describe(f->ctx, s); }

static lnt_status attn_desc(fixture *f, void *s)
{
    lnt_plan *plan;
    const lnt_status status = lnt_plan_create(f->ctx, s, &plan);
    lnt_plan_destroy(plan);
    return status;
}

static lnt_status attn_io(fixture *f, void *s)
{
    double row[2];
    const lnt_status status = lnt_reference_row(f->ctx, &f->desc, s, 0, 0, 0, row);
    assert_int_equal(lnt_plan_forward(f->plan, s), status);
    return status;
}

static lnt_status attn_grads(fixture *f, void *s)
{
    const lnt_attn_io io = io_of(f);
    return lnt_plan_backward(f->plan, &io, s);
}

static lnt_status partial(fixture *f, void *s)
{
    const lnt_attn_io io = io_of(f);
    const lnt_partial into = partial_of(f);
    const lnt_tensor out = vector(f->out);
    const lnt_status status = lnt_plan_partial(f->plan, &io, s);
    assert_int_equal(lnt_partial_merge(f->ctx, &into, s), status);
    assert_int_equal(lnt_partial_finish(f->ctx, s, 0, &out), status);
    return status;
}

static lnt_status plan_info(fixture *f, void *s) { return lnt_plan_describe(f->plan, s); }
static lnt_status model_info(fixture *f, void *s) { return lnt_model_describe(f->model, s); }
static lnt_status trainer_info(fixture *f, void *s) { return lnt_trainer_describe(f->trainer, s); }
static lnt_status step_report(fixture *f, void *s) { return lnt_trainer_step(f->trainer, s); }
static lnt_status score_report(fixture *f, void *s) { return lnt_trainer_evaluate(f->trainer, 1, s); }

static lnt_status model_request(fixture *f, void *s)
{
    lnt_model *model;
    const lnt_status status = lnt_model_create(f->ctx, s, &model);
    lnt_model_destroy(model);
    return status;
}

static lnt_status sampling(fixture *f, void *s)
{
    int32_t token;
    return lnt_model_sample(f->model, f->logits, 1, 1, s, &token);
}

static lnt_status session_options(fixture *f, void *s)
{
    lnt_session *session;
    const lnt_status status = lnt_session_create_with(f->model, 1, s, &session);
    lnt_session_destroy(session);
    return status;
}

static lnt_status train_request(fixture *f, void *s)
{
    lnt_trainer *trainer;
    const lnt_status status = lnt_trainer_create(f->ctx, s, &trainer);
    lnt_trainer_destroy(trainer);
    if (!status) assert_ok(f->ctx, lnt_trainer_expect(f->trainer, s));
    return status;
}

static lnt_status eval_request(fixture *f, void *s)
{
    lnt_score_report report = { .size = sizeof report };
    return lnt_model_evaluate(f->model, s, &report);
}

/* ---- the walk ------------------------------------------------------------------------------------ */

typedef struct walked {
    const char *type;
    size_t least, all;
    lnt_status (*call)(fixture *f, void *s);
    const void *valid; /* what an input holds; NULL: it is a report */
    size_t hole;       /* a report's int before something wider: after it lie 4 bytes of nothing; 0: none */
} walked;

#define ROOM(type, last) #type, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type)

#define HOLE(type, field) offsetof(type, field) + sizeof(int)

static void expect_size(fixture *f, const walked *w, size_t size, const void *full)
{
    const size_t word = sizeof(size_t), room = size > word ? size : word;
    const bool fits = size >= (w->least + word - 1) / word * word && size <= w->all && size % word == 0;
    unsigned char *s = malloc(room); /* a checker sees a read or a write beyond it */
    char says[100];
    assert_non_null(s);
    memset(s, 0xa5, room);
    if (w->valid) memcpy(s, w->valid, room < w->all ? room : w->all);
    memcpy(s, &size, sizeof size);
    const lnt_status status = w->call(f, s);
    if (status != (fits ? LNT_OK : LNT_ERR_ARGUMENT))
        fail_msg("%s of %zu bytes: %s (%s)", w->type, size, lnt_status_name(status), lnt_ctx_error(f->ctx));
    snprintf(says, sizeof says, "size of %s is %zu, must be", w->type, size);
    if (!fits && w->call != ctx_options && !strstr(lnt_ctx_error(f->ctx), says))
        fail_msg("'%s' does not say '%s'", lnt_ctx_error(f->ctx), says);
    assert_memory_equal(s, &size, sizeof size); /* it stays the caller's */
    if (w->hole && size > w->hole) memcpy(s + w->hole, (const char *)full + w->hole, 4);
    if (fits && full) assert_memory_equal(s + word, (const unsigned char *)full + word, size - word);
    free(s);
}

static void walk(fixture *f, const walked *w)
{
    const size_t sizes[] = { 0, 4, w->least - 8, w->least, w->all / 2 / 8 * 8, w->all / 2 / 8 * 8 + 4,
                             w->all - 8, w->all, w->all + 8 };
    void *full = NULL;
    if (!w->valid && w->call != step_report) { /* each step says something else */
        full = calloc(1, w->all);
        assert_non_null(full);
        memcpy(full, &w->all, sizeof w->all);
        assert_ok(f->ctx, w->call(f, full));
    }
    for (int i = 0; i < COUNT_OF(sizes); i++) expect_size(f, w, sizes[i], full);
    free(full);
}

static void structs_of_any_size_are_taken_or_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    const lnt_ctx_options options = { .size = sizeof options, .threads = 1 };
    const lnt_attn_io io = io_of(&f);
    const lnt_attn_grads grads = { .size = sizeof grads, .dout = vector(f.out), .dq = vector(f.dq),
                                   .dk = vector(f.dk), .dv = vector(f.dv) };
    const lnt_partial answer = partial_of(&f);
    const lnt_model_request request = { .size = sizeof request, .task = "copy", .text = small };
    const lnt_sampling draw = { .size = sizeof draw, .temperature = 1, .top_p = 1 };
    const lnt_session_options kept = { .size = sizeof kept };
    const lnt_train_request train = { .size = sizeof train, .task = "copy", .config = "structs.json" };
    const lnt_eval_request eval = { .size = sizeof eval, .batches = 1, .batch = 1 };
    const walked all[] = {
        { ROOM(lnt_ctx_options, allocator), ctx_options, &options, 0 },
        { ROOM(lnt_device_info, name), device_info, NULL, HOLE(lnt_device_info, multiprocessors) },
        { ROOM(lnt_attn_desc, dim_value), attn_desc, &f.desc, 0 },
        { ROOM(lnt_attn_io, out), attn_io, &io, 0 },
        { ROOM(lnt_attn_grads, dv), attn_grads, &grads, 0 },
        { ROOM(lnt_partial, den), partial, &answer, 0 },
        { ROOM(lnt_plan_info, algorithm), plan_info, NULL, 0 },
        { ROOM(lnt_model_info, task), model_info, NULL, HOLE(lnt_model_info, generates) },
        { ROOM(lnt_model_request, task), model_request, &request, 0 },
        { ROOM(lnt_sampling, temperature), sampling, &draw, 0 },
        { ROOM(lnt_session_options, cache), session_options, &kept, 0 },
        { ROOM(lnt_train_request, task), train_request, &train, 0 },
        { ROOM(lnt_trainer_info, steps), trainer_info, NULL, HOLE(lnt_trainer_info, tests) },
        { ROOM(lnt_score_report, loss), score_report, NULL, 0 },
        { ROOM(lnt_step_report, step), step_report, NULL, 0 },
        { ROOM(lnt_eval_request, data), eval_request, &eval, 0 },
    };
    for (int i = 0; i < COUNT_OF(all); i++) walk(&f, &all[i]);
    close_fixture(&f);
}

/* A plan of the fields up to `dim_value` is that of a descriptor whose other fields nobody touched. */
static void what_an_older_descriptor_lacks_is_at_its_default(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    lnt_attn_desc whole, part;
    const size_t size = offsetof(lnt_attn_desc, dim_value) + sizeof part.dim_value;
    memset(&part, 0x5a, sizeof part);
    assert_ok(f.ctx, lnt_attn_desc_init(&part, size));
    assert_int_equal(part.size, size);
    for (size_t i = size; i < sizeof part; i++) assert_int_equal(((unsigned char *)&part)[i], 0x5a);
    assert_ok(f.ctx, lnt_attn_desc_init(&whole, sizeof whole));
    lnt_attn_desc *const descs[] = { &whole, &part };
    double row[2][2];
    const lnt_attn_io io = io_of(&f);
    for (int i = 0; i < 2; i++) {
        descs[i]->mechanism = LNT_TAYLOR; /* where the scale counts, which is not 0 */
        descs[i]->dtype = LNT_F64;
        descs[i]->length_q = 1;
        descs[i]->dim = 2;
        assert_ok(f.ctx, lnt_reference_row(f.ctx, descs[i], &io, 0, 0, 0, row[i]));
    }
    assert_memory_equal(row[0], row[1], sizeof row[0]);
    assert_int_equal(lnt_attn_desc_init(&part, sizeof part + 8), LNT_ERR_ARGUMENT);
    assert_int_equal(lnt_attn_desc_init(&part, 8), LNT_ERR_ARGUMENT);
    close_fixture(&f);
}

static void reserved_words_must_be_zero(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int64_t *const rooms[] = { f.desc.linear.reserved, f.desc.taylor.reserved, f.desc.cur.reserved,
                               f.desc.hybrid.reserved };
    static const char *const names[] = { "linear", "taylor", "cur", "hybrid" };
    for (int i = 0; i < 16; i++) {
        lnt_plan *plan;
        char says[60];
        rooms[i / 4][i % 4] = 7;
        snprintf(says, sizeof says, "%s.reserved[%d] is 7, must be 0", names[i / 4], i % 4);
        assert_refused(f.ctx, lnt_plan_create(f.ctx, &f.desc, &plan), LNT_ERR_ARGUMENT, says);
        rooms[i / 4][i % 4] = 0;
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_of_any_size_are_taken_or_refused),
        cmocka_unit_test(what_an_older_descriptor_lacks_is_at_its_default),
        cmocka_unit_test(reserved_words_must_be_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
