/* cli/head_table.c - the cost of Taylor attention for other numbers of heads: heads * dim is fixed, and every
 * divisor h of it is tried, with d = heads * dim / h for queries, keys and values.
 *
 * One sequence of n tokens, h heads with keys of their own.  TaylorShift 4.3 (three terms):
 *
 *     ops_direct        = h (4 n^2 d + 6 n^2)
 *     ops_efficient     = h n (4 d^3 + 10 d^2 + 9 d + 4)
 *     entries_direct    = h (d n + 2 n^2)
 *     entries_efficient = h (d^2 (d + 1) + 2 d n + (d + 1) n + d^2 n)
 *
 * and in the symmetric basis, F = binomial(d + P - 1, P - 1), any number of terms P (SATA, eq. 1
 * and 2):
 *
 *     state_elements = h (d + 1) F      flops_per_token = h (4 d + 2 (P d + 1)/(d + 1) + 2) F */
#include "cli/head_table.h"

#include <math.h>

#include "cli/paper.h"
#include "cli/show/amount.h"
#include "cli/show/table.h"

static const int64_t WIDEST = INT64_C(1) << 20; /* its divisors fit a table */

typedef struct split {
    int64_t heads, dim;
    double ops_direct, ops_efficient, entries_direct, entries_efficient; /* three terms */
    double state_elements, flops_per_token; /* NaN: no 64-bit number holds the monomials */
} split;

bool head_table_applies(const lnt_attn_desc *desc)
{
    int64_t width;
    return desc->mechanism == LNT_TAYLOR &&
           !__builtin_mul_overflow(desc->heads, desc->dim, &width) && width <= WIDEST;
}

/* Each step is a whole number, so it is exact up to 2^53. */
static double monomials(double d, int64_t terms)
{
    double count = 1;
    for (int64_t t = 1; t < terms; t++) count = count * (d + (double)t) / (double)t;
    return count < 0x1p62 ? count : NAN;
}

static split split_into(const lnt_attn_desc *desc, int64_t heads)
{
    const int64_t dim = desc->heads * desc->dim / heads;
    const double h = (double)heads, d = (double)dim, n = (double)desc->length_k;
    const double P = (double)desc->taylor.terms, F = monomials(d, desc->taylor.terms);
    return (split){
        .heads = heads,
        .dim = dim,
        .ops_direct = h * (4 * n * n * d + 6 * n * n),
        .ops_efficient = h * n * (((4 * d + 10) * d + 9) * d + 4),
        .entries_direct = h * paper_entries_direct(n, d),
        .entries_efficient = h * paper_entries_efficient(n, d),
        .state_elements = h * (d + 1) * F,
        .flops_per_token = h * ((4 * d + 2) * F + 2 * (P * d + 1) * F / (d + 1)), /* whole */
    };
}

static bool has_formulas(const lnt_attn_desc *desc) { return desc->taylor.terms == 3; }

/* The least divisor of heads * dim above h, 0 past the last. */
static int64_t next_split(const lnt_attn_desc *desc, int64_t h)
{
    const int64_t width = desc->heads * desc->dim;
    while (++h <= width)
        if (width % h == 0) return h;
    return 0;
}

void head_table_json(json *line, const lnt_attn_desc *desc)
{
    json list = json_list(line, "heads_table");
    for (int64_t h = next_split(desc, 0); h; h = next_split(desc, h)) {
        const split s = split_into(desc, h);
        json item = json_item(&list);
        json_whole(&item, "heads", s.heads);
        json_whole(&item, "dim", s.dim);
        if (has_formulas(desc)) {
            json_real(&item, "ops_direct", s.ops_direct);
            json_real(&item, "ops_efficient", s.ops_efficient);
            json_real(&item, "entries_direct", s.entries_direct);
            json_real(&item, "entries_efficient", s.entries_efficient);
        }
        json_real(&item, "state_elements", s.state_elements);
        json_real(&item, "flops_per_token", s.flops_per_token);
        json_item_end(&item);
    }
    json_list_end(&list);
}

static void count_cell(table *t, double count)
{
    char text[TABLE_CELL];
    table_cell(t, "%s", text_count(count, text, sizeof text));
}

void head_table_print(const lnt_attn_desc *desc, FILE *to)
{
    static const char *const headings[] = { "heads", "width", "state", "step", "direct",
                                            "held", "efficient", "held", NULL };
    static const char *const symmetric[] = { "heads", "width", "state", "step", NULL };
    table t;
    fprintf(to,
            "\n%lld numbers a token split into other heads: numbers in the state, operations of a "
            "step%s\n\n",
            (long long)(desc->heads * desc->dim),
            has_formulas(desc) ? ";\noperations and numbers held of TaylorShift's two forms" : "");
    table_begin(&t, 0, has_formulas(desc) ? headings : symmetric);
    for (int64_t h = next_split(desc, 0); h; h = next_split(desc, h)) {
        const split s = split_into(desc, h);
        table_row(&t);
        table_cell(&t, "%lld", (long long)s.heads);
        table_cell(&t, "%lld", (long long)s.dim);
        count_cell(&t, s.state_elements);
        count_cell(&t, s.flops_per_token);
        if (!has_formulas(desc)) continue;
        count_cell(&t, s.ops_direct);
        count_cell(&t, s.entries_direct);
        count_cell(&t, s.ops_efficient);
        count_cell(&t, s.entries_efficient);
    }
    table_print(&t, to);
}
