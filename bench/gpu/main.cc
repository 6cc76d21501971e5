/* bench/gpu/main.cc - the GPU plug-in timed.
 *
 *     gpu PLUGIN.so [once] [steady] [NAME ...]
 *
 * The works of docs/gpu.md: rows picked out of each against lnt_reference_row, gradients of one head against
 * the CPU in double, then the median of many runs by events.  once: one run of each, for a profiler.  steady:
 * a hundred backward passes, the same bits.  NAME: only works that begin so. */
#include <cstdio>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/steady.h"
#include "gpu/verdict.h"
#include "gpu/works.h"

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: gpu PLUGIN.so [once] [steady] [NAME ...]\n"), 2;
    if (!open_device(argv[1])) return 1;
    bool once = false, repeats = false;
    std::vector<std::string> names;
    for (int i = 2; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "once")
            once = true;
        else if (word == "steady")
            repeats = true;
        else
            names.push_back(word);
    }
    if (!repeats) time_works(names, once);
    for (int64_t tokens : { 65536, 65000, 40000, 131072 })
        if (repeats) verify_steady(tokens);
    const int wrong = wrong_count();
    if (wrong)
        printf("%d WRONG\n", wrong);
    else
        printf("all right\n");
    return wrong ? 1 : 0;
}
