/* bench/gpu/families.cc - the list of families, in the order they are verified. */
#include "gpu/families.h"

#include <algorithm>

static const struct {
    const char *name;
    void (*verify)();
} families[] = {
    { "step", verify_step },
    { "taylor", verify_taylor },
    { "orbits", verify_orbits },
    { "pairs", verify_pairs },
    { "linear", verify_linear },
    { "passes", verify_passes },
    { "softmax", verify_softmax },
    { "split", verify_split },
    { "cur", verify_cur },
    { "streams", verify_streams },
    { "backward_split", verify_backward_split },
    { "backward_split_taylor", verify_backward_split_taylor },
    { "backward_parts", verify_backward_parts },
    { "backward_linear", verify_backward_linear },
    { "backward_boxes", verify_backward_boxes },
    { "backward_taylor", verify_backward_taylor },
    { "backward_pairs", verify_backward_pairs },
    { "backward_softmax", verify_backward_softmax },
    { "backward_mean", verify_backward_mean },
};

void verify_families(const std::vector<std::string> &names)
{
    for (const auto &family : families)
        if (names.empty() || std::find(names.begin(), names.end(), family.name) != names.end())
            family.verify();
}
