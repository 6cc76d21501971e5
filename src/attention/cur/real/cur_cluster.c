/* attention/cur/real/cur_cluster.c - landmark keys by one pass of k-means.
 *
 *     a key belongs to the start s_l nearest to it, of equals the first: largest k.s_l - |s_l|^2/2
 *     landmark l is the mean of its keys, or s_l itself if it has none
 *
 * The starts are the keys floor(l n / M).  In double, so that near ties fall as the definition has
 * them.  O(n M d); which key belongs where is not kept but found again.  See docs/math/cur.md */
#include <string.h>

#include "attention/cur/cur_pass.h"

enum { TK = LNT_CUR_TILE_KEYS };

/* s->klt and s->half from the starts, which are left in s->wide [M, dp]. */
static void load_starts(const lnt_run *run, cur_scratch *s, const cur_head *head)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const lnt_tensor *k = &run->io->k;
    for (size_t l = 0; l < s->M; l++) {
        double *row = s->wide + l * s->dp;
        ker->load_rows(row, s->dp,
                       lnt_tensor_row(k, head->seq.b, head->kvh, head->seq.k0 + head->j[l]),
                       (int)k->dtype, k->stride[2], k->stride[3], 1, s->d, 1);
        s->half[l] = ker->dot(row, row, s->d) / 2;
    }
    ker->load_columns(s->klt, s->ld, s->wide, LNT_F64, (int64_t)s->dp, 1, s->M, s->d, 1);
}

/* Keys k0 .. into s->keys [nk, dp], and in cluster[nk] where they belong. */
static void find_clusters(const lnt_run *run, cur_scratch *s, const cur_head *head, int64_t k0,
                          size_t nk, size_t cluster[TK])
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    const lnt_tensor *k = &run->io->k;
    ker->load_rows(s->keys, s->dp,
                   lnt_tensor_row(k, head->seq.b, head->kvh, head->seq.k0 + k0), (int)k->dtype,
                   k->stride[2], k->stride[3], nk, s->d, 1);
    ker->gemm_nn(s->near, s->ld, s->keys, s->dp, s->klt, s->ld, nk,
                 lnt_round_up(s->M, ker->lanes), s->d, 0);
    for (size_t r = 0; r < nk; r++) {
        const double *row = s->near + r * s->ld;
        cluster[r] = 0;
        for (size_t l = 1; l < s->M; l++)
            if (row[l] - s->half[l] > row[cluster[r]] - s->half[cluster[r]]) cluster[r] = l;
    }
}

void lnt_cur_cluster_load(const lnt_run *run, cur_scratch *s, const cur_head *head, double *to)
{
    const lnt_kernels_f64 *ker = s->pinv.ker;
    size_t cluster[TK];
    load_starts(run, s, head);
    memset(to, 0, s->M * s->dp * sizeof *to);
    memset(s->members, 0, s->M * sizeof *s->members);
    for (int64_t k0 = 0; k0 < head->seq.nk; k0 += TK) {
        const size_t nk = smaller(head->seq.nk - k0, TK);
        find_clusters(run, s, head, k0, nk, cluster);
        for (size_t r = 0; r < nk; r++) {
            ker->axpy(to + cluster[r] * s->dp, 1, s->keys + r * s->dp, s->d);
            s->members[cluster[r]]++;
        }
    }
    for (size_t l = 0; l < s->M; l++) {
        if (s->members[l] > 0) ker->scale(to + l * s->dp, 1 / s->members[l], s->d);
        else memcpy(to + l * s->dp, s->wide + l * s->dp, s->d * sizeof *to);
    }
}

/* A start that lost its place to an equal one before it is a landmark still. */
static void spread_empty(const lnt_run *run, cur_scratch *s, const cur_head *head, const real *land)
{
    for (size_t l = 0; l < s->M; l++)
        if (!(s->members[l] > 0))
            lnt_cur_add_row(run, s, &run->grads->dk, head->seq.b, head->kvh,
                            head->seq.k0 + head->j[l], 1, land + l * s->dp);
}

void lnt_cur_cluster_spread(const lnt_run *run, cur_scratch *s, const cur_head *head,
                            const real *land)
{
    size_t cluster[TK];
    lnt_cur_cluster_load(run, s, head, s->kl);
    for (int64_t k0 = 0; k0 < head->seq.nk; k0 += TK) {
        const size_t nk = smaller(head->seq.nk - k0, TK);
        find_clusters(run, s, head, k0, nk, cluster);
        for (size_t r = 0; r < nk; r++)
            lnt_cur_add_row(run, s, &run->grads->dk, head->seq.b, head->kvh,
                            head->seq.k0 + k0 + (int64_t)r, (real)(1 / s->members[cluster[r]]),
                            land + cluster[r] * s->dp);
    }
    spread_empty(run, s, head, land);
}
