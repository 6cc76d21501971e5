/* cli/paper.h - formulas of the papers: the cost of a plain evaluation, without the symmetric basis and
 * tiles. */
#ifndef LNT_CLI_PAPER_H
#define LNT_CLI_PAPER_H

/* TaylorShift, one head of width d: the first length at which its efficient form does fewer
 * operations (N0), and holds fewer numbers (N1), than its direct form; and those numbers. */
double paper_crossover_speed(double d);
double paper_crossover_memory(double d);
double paper_entries_direct(double n, double d);
double paper_entries_efficient(double n, double d);

/* Taylor attention of P terms with all d^p tuples of indices instead of the sorted ones: numbers in
 * the state of a head, and operations a token. */
double paper_state_unpacked(double d, double m, int terms);
double paper_flops_unpacked(double d, double m, int terms);

#endif
