#!/usr/bin/env bash
# Runs nvcc, or another compiler, and leaves out what ptxas says in hundreds of lines of each file with matrix
# instructions: that it added warpgroup.arrive (C7519), which is as it should be.  No switch of ptxas does that.
#
#     tools/quiet-nvcc.sh nvcc ARGUMENTS ...
"$@" 2>&1 | grep -v '(C7519)'
exit "${PIPESTATUS[0]}"
