#!/usr/bin/env bash
# One line a kernel of the works named: time and what it keeps busy, by Nsight Compute.
#
#     bench/gpu_profile.sh BUILD_FOLDER NAME ...        after bench/gpu.sh BUILD_FOLDER
set -euo pipefail
build=$1
shift
metrics=gpu__time_duration.sum,sm__inst_executed_pipe_tensor.sum,smsp__issue_active.avg.pct_of_peak_sustained_active
metrics+=,l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_active
metrics+=,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active
for name in "$@"; do
    ncu --clock-control none --csv --metrics "$metrics" -k regex:_kernel "$build/gpu" \
        "$build/liblinnet-cuda.so" once "$name" 2> /dev/null | python3 -c '
import collections, csv, sys
rows = [line for line in sys.stdin if line.startswith("\"")]
kernels = collections.OrderedDict()
for x in csv.DictReader(rows):
    kernels.setdefault((x["ID"], x["Kernel Name"].replace("lnt::", "").replace("void ", "")[:28]), {})[x["Metric Name"]] = x["Metric Value"]
short = ("ns", "mma", "issue%", "lds%", "dram%", "warps%")
order = sys.argv[2].split(",")
for (_, kernel), v in kernels.items():
    if "normal" not in kernel:
        print(f"{sys.argv[1]:30} {kernel:28}", *(f"{s} {v.get(m, None)}" for s, m in zip(short, order)))
' "$name" "$metrics"
done
