/* attention/registry.h - the list of algorithms. */
#ifndef LNT_ATTENTION_REGISTRY_H
#define LNT_ATTENTION_REGISTRY_H

#include "attention/algorithm.h"

int lnt_registry_count(void);
int lnt_registry_find(const char *name); /* "taylor/state"; -1: there is none */
/* The table for a problem of this dtype. */
const lnt_algo *lnt_registry_get(int index, lnt_dtype dtype);
/* What a state of p runs few tokens through, and many. */
void lnt_registry_for_state(const lnt_attn_desc *p, const lnt_algo *algos[2]);

#endif
