#!/usr/bin/env bash
# Runs the tests and the example of um-cuda-core on the GPU of this machine (driver of CUDA 13, compute capability 9.0 for cuTile's kernel), and
# the tests under compute-sanitizer if it is there:
#   ./run.sh [RESULTS]     (default: ./results)
# RESULTS/cuda-core.txt has the output.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
export CUTILE_TILEIRAS_PATH=$here/tileiras
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
failed=0
run() {
    echo "=== $*"
    timeout 150 "$@"
    code=$?
    echo "rc $code"
    [ $code -eq 0 ] || failed=1
}
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    run "$here/tests/um-cuda-core--cuda_core" --test-threads 1
    run "$here/bin/saxpy" "$here/kernels"
    # Tests of errors provoke them.
    [ -z "$sanitizer" ] || run "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$here/tests/um-cuda-core--cuda_core" --test-threads 1
} >"$out/cuda-core.txt" 2>&1
cat "$out/cuda-core.txt"
exit $failed
