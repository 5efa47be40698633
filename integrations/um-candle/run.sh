#!/usr/bin/env bash
# Runs the tests and the example of um-candle on the GPU of this machine: ./run.sh [RESULTS]     (default: ./results)
# RESULTS/candle.txt has the output. CUDA_LIBRARIES: the folder with libcublas, libcurand and libcudart of CUDA 13, if it is not found.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
for folder in "${CUDA_LIBRARIES:-}" /usr/local/cuda-13*/targets/x86_64-linux/lib /usr/local/cuda/lib64; do
    if [ -e "$folder/libcublas.so.13" ]; then
        export LD_LIBRARY_PATH=$folder:$(dirname "$folder" | xargs dirname)/../extras/CUPTI/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        break
    fi
done
failed=0
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    for command in "candle --test-threads 1" block "block --per-thread"; do
        echo "=== $command"
        # shellcheck disable=SC2086
        timeout 180 "$here/"$command
        code=$?
        echo "rc $code"
        [ $code -eq 0 ] || failed=1
    done
} >"$out/candle.txt" 2>&1
cat "$out/candle.txt"
exit $failed
