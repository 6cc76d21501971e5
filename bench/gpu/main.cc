/* bench/gpu/main.cc - the GPU plug-in: verifies, then times.
 *
 *     gpu PLUGIN.so [verify] [time] [once] [steady] [like=TEXT ...] [NAME ...]
 *
 * verify: small problems of odd shapes, every row against double precision on the host.  time: the
 * works of docs/gpu.md, rows picked out of each against double precision, then the median of many
 * runs by events.  once: one run of each, for a profiler.  steady: a hundred backward passes, the
 * same bits.  like=TEXT: verifies only problems whose names have one of them.  NAME: only works that
 * begin so; of verify, the families of families.cc. */
#include <cstdio>

#include "gpu/device.h"
#include "gpu/families.h"
#include "gpu/selection.h"
#include "gpu/steady.h"
#include "gpu/verdict.h"
#include "gpu/works.h"

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: gpu PLUGIN.so [verify] [time] [once] [steady] [NAME ...]\n"), 2;
    if (!open_device(argv[1])) return 1;
    bool verifies = false, times = false, once = false, repeats = false;
    std::vector<std::string> names;
    for (int i = 2; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "verify")
            verifies = true;
        else if (word == "time")
            times = true;
        else if (word == "once")
            once = true;
        else if (word == "steady")
            repeats = true;
        else if (word.rfind("like=", 0) == 0)
            select_like(word.substr(5));
        else
            names.push_back(word);
    }
    if (verifies) verify_families(names);
    if (times || once) time_works(names, once);
    for (int64_t tokens : { 65536, 65000, 40000, 131072 })
        if (repeats) verify_steady(tokens);
    const int wrong = wrong_count();
    if (wrong)
        printf("%d WRONG\n", wrong);
    else
        printf("all right\n");
    return wrong ? 1 : 0;
}
