#!/bin/bash
# Models as they are found in the world say what other programs say of them.  LINNET_TEST_MODELS is a directory that
# has some of those that real_models.py knows.
. "$(dirname "$0")/support.sh"

if [ -z "${LINNET_TEST_MODELS:-}" ]; then
    skip "LINNET_TEST_MODELS is not set: the directory of models that tests/cli/real_models.py knows"
    exit
fi
[ -d "$LINNET_TEST_MODELS" ] || wrong "LINNET_TEST_MODELS: '$LINNET_TEST_MODELS' is no directory"
status=0
python3 "$here/real_models.py" "$LINNET" "$LINNET_TEST_MODELS" || status=$?
[ "$status" = 0 ] || [ "$status" = 77 ] || wrong "another answer"
skipped=$status
