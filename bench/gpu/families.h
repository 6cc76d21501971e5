/* bench/gpu/families.h - families of small problems of odd shapes. */
#ifndef BENCH_GPU_FAMILIES_H
#define BENCH_GPU_FAMILIES_H

#include <string>
#include <vector>

/* All families, or those named. */
void verify_families(const std::vector<std::string> &names);

/* Each is in the file family_*.cc of its name, or where it says. */
void verify_step();
void verify_taylor();
void verify_orbits();
void verify_pairs();
void verify_linear();
void verify_passes(); /* family_linear.cc */
void verify_softmax();
void verify_split();
void verify_cur();
void verify_streams();
void verify_backward_linear();
void verify_backward_boxes(); /* family_backward_linear.cc */
void verify_backward_taylor();
void verify_backward_pairs();
void verify_backward_softmax();
void verify_backward_mean();
void verify_backward_split();
void verify_backward_split_taylor(); /* family_backward_split.cc */
void verify_backward_parts();        /* family_backward_split.cc */

#endif
