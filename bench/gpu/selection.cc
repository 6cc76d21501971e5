/* bench/gpu/selection.cc - the parts of names given as like=TEXT, and what has one of them. */
#include "gpu/selection.h"

#include <vector>

static std::vector<std::string> parts;

void select_like(const std::string &part) { parts.push_back(part); }

bool is_wanted(const std::string &name)
{
    for (const std::string &part : parts)
        if (name.find(part) != std::string::npos) return true;
    return parts.empty();
}
