/* cuda/common/sums.cuh - the sums of a product of warpgroups as operands of its instruction: n blocks of 8
 * columns, of which a thread has four numbers each. */
#ifndef LNT_CUDA_SUMS_CUH
#define LNT_CUDA_SUMS_CUH

#define LNT_SUMS(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define LNT_SUMS_1(d) LNT_SUMS(d, 0)
#define LNT_SUMS_2(d) LNT_SUMS_1(d), LNT_SUMS(d, 1)
#define LNT_SUMS_3(d) LNT_SUMS_2(d), LNT_SUMS(d, 2)
#define LNT_SUMS_4(d) LNT_SUMS_3(d), LNT_SUMS(d, 3)
#define LNT_SUMS_5(d) LNT_SUMS_4(d), LNT_SUMS(d, 4)
#define LNT_SUMS_7(d) LNT_SUMS_5(d), LNT_SUMS(d, 5), LNT_SUMS(d, 6)
#define LNT_SUMS_8(d) LNT_SUMS_7(d), LNT_SUMS(d, 7)
#define LNT_SUMS_9(d) LNT_SUMS_8(d), LNT_SUMS(d, 8)
#define LNT_SUMS_16(d)                                                                             \
    LNT_SUMS_9(d), LNT_SUMS(d, 9), LNT_SUMS(d, 10), LNT_SUMS(d, 11), LNT_SUMS(d, 12),              \
        LNT_SUMS(d, 13), LNT_SUMS(d, 14), LNT_SUMS(d, 15)
#define LNT_SUMS_17(d) LNT_SUMS_16(d), LNT_SUMS(d, 16)

/* Their names there: the first of all operands. */
#define LNT_NAMES_1 "%0, %1, %2, %3"
#define LNT_NAMES_2 LNT_NAMES_1 ", %4, %5, %6, %7"
#define LNT_NAMES_3 LNT_NAMES_2 ", %8, %9, %10, %11"
#define LNT_NAMES_4 LNT_NAMES_3 ", %12, %13, %14, %15"
#define LNT_NAMES_5 LNT_NAMES_4 ", %16, %17, %18, %19"
#define LNT_NAMES_7 LNT_NAMES_5 ", %20, %21, %22, %23, %24, %25, %26, %27"
#define LNT_NAMES_8 LNT_NAMES_7 ", %28, %29, %30, %31"
#define LNT_NAMES_9 LNT_NAMES_8 ", %32, %33, %34, %35"
#define LNT_NAMES_16                                                                               \
    LNT_NAMES_9 ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "    \
                "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LNT_NAMES_17 LNT_NAMES_16 ", %64, %65, %66, %67"

#endif
