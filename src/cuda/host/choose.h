/* cuda/host/choose.h - which kernels run a problem: what is offered at all, and the forms of an algorithm.
 *
 * An algorithm has forms, which are families of kernels: "taylor/state:pairs".  Each takes some problems on
 * some devices.  Where none is asked for, the first that takes the problem and pays is chosen.  Plain C++. */
#ifndef LNT_CUDA_CHOOSE_H
#define LNT_CUDA_CHOOSE_H

#include <stddef.h>

#include <string>

#include "linnet.h"

namespace lnt
{

/* In the order in which they are tried. */
enum form { FORM_PAIRS, FORM_ORBITS, FORM_TILES, FORM_BF16, FORM_PASS, FORM_PASSES, FORM_F32, FORMS };
const char *form_name(form f);

/* What is asked of a device. */
struct limits {
    int processors;
    size_t shared;   /* bytes that a block of threads may have */
    bool warpgroups; /* of compute capability 9.0, and given the code for it */
};

struct choice {
    const char *algorithm;
    bool by_state; /* taylor */
    /* Gradients may be made by another form than forward's; backward: where it is planned. */
    form forward, backward;
};

/* p: resolved; its algorithm may be NULL, and may have a form: "taylor/state:pairs".  False: *sentence says
 * why not. */
bool choose(const lnt_attn_desc *p, const limits &device, choice *out, std::string *sentence);

/* Whether the monomials of taylor are few enough to be listed, each with its place in a state. */
bool has_table(const lnt_attn_desc *p);
/* The width that is compiled, in blocks of 8. */
int width_of(const lnt_attn_desc *p);
/* Whether the gradients of states by tiles take dout / den as two bf16: twice the columns, which is little
 * where there are few monomials.  One bf16 is the largest part of the error of dk and dv. */
bool tiles_fold(int width, int terms);

} // namespace lnt
#endif
