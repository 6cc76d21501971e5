/* attention/registry.c - from algorithms.def to tables. */
#include "attention/registry.h"

#include <assert.h>
#include <string.h>

#define ALGORITHM(name) extern const lnt_algo lnt_algo_##name##_f32, lnt_algo_##name##_f64;
#include "attention/algorithms.def"
#undef ALGORITHM

static const struct {
    const lnt_algo *f32, *f64;
} algorithms[] = {
#define ALGORITHM(name) { &lnt_algo_##name##_f32, &lnt_algo_##name##_f64 },
#include "attention/algorithms.def"
#undef ALGORITHM
};
enum { COUNT = sizeof algorithms / sizeof algorithms[0] };
_Static_assert((int)COUNT <= (int)LNT_MAX_ALGORITHMS, "make room in the context");

int lnt_registry_count(void) { return COUNT; }

const lnt_algo *lnt_registry_get(int index, lnt_dtype dtype)
{
    assert(index >= 0 && index < COUNT);
    return dtype == LNT_F64 ? algorithms[index].f64 : algorithms[index].f32;
}

int lnt_registry_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(algorithms[i].f32->name, name)) return i;
    return -1;
}

void lnt_registry_for_state(const lnt_attn_desc *p, const lnt_algo *algos[2])
{
    for (int i = 0; i < COUNT; i++) {
        const lnt_algo *algo = lnt_registry_get(i, p->dtype);
        if (algo->mechanism == p->mechanism && algo->state_runs)
            algos[algo->state_runs == LNT_STATE_RUNS_MANY] = algo;
    }
}

const char *lnt_algorithm_name(int index)
{
    return index >= 0 && index < COUNT ? algorithms[index].f32->name : NULL;
}

lnt_mechanism lnt_algorithm_mechanism(int index)
{
    return index >= 0 && index < COUNT ? algorithms[index].f32->mechanism : LNT_SOFTMAX;
}
