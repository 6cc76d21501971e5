/* backward.h - a case with the gradients that go in and come out, and the forms of cases that the
 * tests of the backward pass walk. */
#ifndef LNT_TESTS_BACKWARD_H
#define LNT_TESTS_BACKWARD_H

#include "case.h"

enum { PARTS = 5 }; /* q, k, v, s, z */
extern const char *const part_names[PARTS];

/* A case with its data, the gradients that come in and those that go out. */
typedef struct setup {
    lnt_ctx *ctx;
    const attn_case *c;
    trial t;
    block dout, grad[3];
    lnt_state *state_out, *dstate_out, *dstate_in; /* NULL without states */
    lnt_attn_grads grads;
    int parts;
    lnt_tensor x[PARTS], dx[PARTS]; /* what the loss depends on, and its gradient */
} setup;

setup setup_new(lnt_ctx *ctx, const attn_case *c);
void setup_free(setup *s);
/* The same problem in another dtype: what `from` depends on, rounded to it as it is. */
void setup_copy(const setup *to, const setup *from);
/* S and z of a state on the host. */
void state_views(lnt_ctx *ctx, lnt_state *state, lnt_tensor view[2]);
/* Forward, then backward; false if the algorithm does not do this case. */
bool run_backward(setup *s, int algorithm);
/* ... with what forward keeps for it. */
bool run_backward_kept(setup *s, int algorithm);
/* ||got - want|| / (||want|| + 1): differences leave noise where the gradient is 0. */
double gradient_error(const lnt_tensor *got, const lnt_tensor *want);

/* Form f: mechanism and map, causal or not, decay, states, and how the sequences lie. */
enum { FORM_TAYLOR = 1 + LAST_MAP + 1, FORM_CUR = FORM_TAYLOR + 1, FORM_CURS = 7 };
enum { FORM_MAPS = FORM_CUR + FORM_CURS, FORM_SHAPES = 5 };
enum { FORM_HYBRIDS = 7 }; /* kinds, in every shape but the last; strides of 4 and 11 meet them all */
enum { FORM_HYBRID = FORM_MAPS * FORM_SHAPES * 3 };
enum { FORM_SCORES = FORM_HYBRID + FORM_HYBRIDS * (FORM_SHAPES - 1) };
enum { FORM_SCORE_KINDS = 7 }; /* options of softmax, likewise; of each kind the odd shapes are causal */
enum { FORMS = FORM_SCORES + FORM_SCORE_KINDS * (FORM_SHAPES - 1) };

/* Of n tokens of widths d and m, in f64; false: there is no such form. */
bool gradient_form(attn_case *c, int f, int64_t n, int64_t d, int64_t m);

#endif
