#!/usr/bin/env bash
# Runs the tests and the examples of um-candle on the GPU of this machine, and the tests under compute-sanitizer if it is there:
#   ./run.sh [RESULTS]     (default: ./results)
# RESULTS/candle.txt has the output. CUDA_LIBRARIES: the folder with libcublas, libcurand, libcudart and libcupti of CUDA 13, if it is not found.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
for folder in "${CUDA_LIBRARIES:-}" /usr/local/cuda-13*/targets/x86_64-linux/lib /usr/local/cuda/lib64; do
    if [ -e "$folder/libcublas.so.13" ]; then
        export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        break
    fi
done
commands=("tests/um-candle--candle --test-threads 1" "bin/block" "bin/weights")
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
failed=0
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    for command in "${commands[@]}"; do
        echo "=== $command"
        # shellcheck disable=SC2086
        timeout 150 "$here/"$command
        code=$?
        echo "rc $code"
        [ $code -eq 0 ] || failed=1
    done
    if [ -n "$sanitizer" ]; then
        echo "=== memcheck"
        # Tests of errors provoke them, and so many drops take too long here.
        timeout 200 "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$here/tests/um-candle--candle" --test-threads 1 --skip dropped_tensors \
            --skip place::after --skip place::faults # profilers: CUPTI and the sanitizer exclude each other
        code=$?
        echo "rc $code"
        [ $code -eq 0 ] || failed=1
    fi
} >"$out/candle.txt" 2>&1
cat "$out/candle.txt"
exit $failed
