#!/usr/bin/env bash
# Runs everything in this bundle on the GPU of this machine.
#   ./run.sh [RESULTS] [tests] [examples] [conformance] [scale] [sanitize] [stress] [model] [bench] [larger] [extras]
#   (default: ./results, tests and examples)
# RESULTS/machine.txt, tests.txt, examples.txt: summaries; RESULTS/*.log.txt: the output of each part.
# conformance: CUDA's rules as cases, on this GPU and on the simulator, and the comparison: RESULTS/conformance.md
# (docs/conformance.md). CONFORMANCE_GPU: the simulated GPU for the comparison (h200).
# scale: what several GPUs do together (docs/graphs.md#several-gpus): um_bench's measurement devices; conformance; the tests of several devices; a
# search over ranks, if there is an mpiexec; an all-reduce by cudarc, which fails without two GPUs and libnccl.so on the loader's path:
# RESULTS/scale.txt. On one GPU it says what it skips.
# sanitize: the library's tests under compute-sanitizer's memcheck with leak check; tests that launch kernels also run under
# initcheck and synccheck, and those of um-kernels and um-search (gpu-bundle --extras) under racecheck. compute-sanitizer is part of the CUDA toolkit. SANITIZE_JOBS
# run at a time (4), each for at most SANITIZE_SECONDS (300).
# stress: threads x streams x pools below 1 GiB for STRESS_SECONDS (default 240).
# model: random sequences of operations compared with vectors; MODEL_SEQUENCES sets their number (default 10000).
# bench: the measurements of cuda-um, raw CUDA and other libraries (docs/measuring.md); PYTHON names an interpreter that has the
# peers. BENCH_ARGS: options for them, such as "--quick" or "--only launch".
# larger: working sets larger than a budget, beside the bound and beside plans (docs/larger-than-memory.md): RESULTS/larger.txt. It takes 2 GiB of
# device memory and 2 GiB of pinned memory.
# extras (a bundle made with --extras): the times of exact searches, RESULTS/recall.md; tests and programs of extras/candle and extras/cuda-core.
# CUDA_UM_CUDART names the libcudart to use if it is not on the loader's path.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
shift || true
parts=${*:-tests examples}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here" || exit 1

# Settings for every binary of the bundle: use the GPU, and find the programs in the bundle.
export CUDA_UM_TEST_RUNTIME=cuda CUDA_UM_BIN_DIR="$here/bin" CUDA_UM_DATA_DIR="$here/data" CUDA_UM_PEERS_DIR="$here/peers"
failed=0

{
    date -u +%Y-%m-%dT%H:%M:%SZ
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    nvidia-smi | grep -o 'CUDA Version: [0-9.]*'
    echo "$(uname -s) $(uname -r | cut -d- -f1)"
    nproc
} >"$out/machine.txt" 2>&1

run() { # run SUMMARY LOG LABEL COMMAND…: one line in the summary, everything in the log
    local summary=$1 log=$2 label=$3
    shift 3
    echo "=== $label" >>"$log"
    timeout 180 "$@" >"$out/.last" 2>&1
    local rc=$?
    cat "$out/.last" >>"$log"
    if [ $rc -ne 0 ]; then failed=$((failed + 1)); fi
    printf '%-52s rc %-3s %s\n' "$label" "$rc" "$(grep -E '^test result' "$out/.last" | tail -1)" | tee -a "$summary"
}

conformance() {
    local log=$out/conformance.log.txt version devices
    echo "== on this GPU" >"$log"
    timeout 600 bin/um_conformance run --runtime cuda --json "$out/conformance-gpu.jsonl" 2>>"$log" | tee "$out/.last"
    # A failed case is a fault of the comparison, which counts it. A missing record is a failure.
    version=$(sed -n 's/^CUDA \([0-9.]*\), .*/\1/p' "$out/.last")
    devices=$(sed -n 's/^CUDA [0-9.]*, \([0-9]*\) .*/\1/p' "$out/.last")
    if [ -z "$version" ]; then
        echo "conformance: the run on the GPU has not ended ($log)"
        tail -3 "$log"
        failed=$((failed + 1))
        return
    fi
    echo "== on the simulator" >>"$log"
    timeout 300 bin/um_conformance run --runtime sim --gpu "${CONFORMANCE_GPU:-h200}" --cuda "$version" --devices "$devices" \
        --json "$out/conformance-sim.jsonl" 2>>"$log" || failed=$((failed + 1))
    bin/um_conformance compare "$out/conformance-gpu.jsonl" "$out/conformance-sim.jsonl" \
        --out "$out/conformance.md" || failed=$((failed + 1))
}

scale() {
    local gpus test
    timeout 600 bin/um_bench --only devices --out "$out/devices" 2>"$out/scale.log.txt" | tee "$out/scale.txt"
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=$((failed + 1))
    conformance
    for test in 'cuda-um--all devices::' 'um-backend--all framework::sharded::' 'um-search--all sharded::'; do
        [ -e "tests/${test%% *}" ] || continue
        # shellcheck disable=SC2086
        run "$out/scale.txt" "$out/scale.log.txt" "$test" tests/$test --test-threads 4
    done
    run "$out/scale.txt" "$out/scale.log.txt" all_reduce bin/all_reduce
    gpus=$(nvidia-smi --list-gpus | wc -l)
    if [ "$gpus" -lt 2 ]; then
        echo "skipped: links, peer access, and ranks with a GPU each: $gpus GPU" | tee -a "$out/scale.txt"
    elif ! [ -e bin/search_over_ranks ] || ! command -v mpiexec >/dev/null; then
        echo "skipped: search_over_ranks: no mpiexec (pip install mpich), or a bundle without --extras" | tee -a "$out/scale.txt"
    else
        run "$out/scale.txt" "$out/scale.log.txt" "search_over_ranks, $gpus ranks" mpiexec -n "$gpus" bin/search_over_ranks
    fi
}

check() { # check TOOL BINARY [TEST]: one line in sanitizer.txt, everything in the folder sanitize
    local log rc try what options= skip=
    log=$out/sanitize/$1-$(basename "$2")${3:+-$3}.log.txt
    # Tests of errors provoke them; only errors of kernels and leaks are of interest.
    [ "$1" = memcheck ] && options="--leak-check full --report-api-errors no"
    # Several threads of stress reuse memory of a pool at the same time, and in one of four runs initcheck reported uninitialised reads, although
    # the test found the contents right.
    [ "$1" = initcheck ] && skip="--skip stress::"
    # open_by_default: um-backend's shared runtime keeps its staging memory until the process ends.
    # The tool itself can hang if a thread frees while another waits: then the test runs once more.
    for try in 1 2; do
        # shellcheck disable=SC2086
        CUDA_UM_MODEL_SEQUENCES=100 CUDA_UM_STRESS_SECONDS=10 timeout "${SANITIZE_SECONDS:-300}" \
            compute-sanitizer --tool "$1" $options --error-exitcode 9 "$2" ${3:+"$3"} --test-threads 1 --skip open_by_default $skip >"$log" 2>&1
        rc=$?
        [ $rc -eq 124 ] || break
    done
    what=$(grep -E 'SUMMARY' "$log" | sed 's/=* *//' | paste -sd ';')
    case $rc in
    0) rc=ok ;;
    124) rc="stopped at its time limit, twice" ;;
    *) # It calls no CUDA: every test of it makes a simulator.
        if [ -z "$what" ] && grep -q 'before first instrumented API call' "$log" && ! grep -q FAILED "$log"; then
            rc=ok what="no CUDA call"
        else
            rc="FAILED ($rc)"
        fi
        ;;
    esac
    echo "$1 $(basename "$2")${3:+ $3}: $rc, $(grep -cE '^test .*ok$' "$log") tests; $what" | tee -a "$out/sanitizer.txt"
}

for part in $parts; do
    case $part in
    tests)
        : >"$out/tests.txt" && : >"$out/tests.log.txt"
        for test in tests/*; do
            run "$out/tests.txt" "$out/tests.log.txt" "$(basename "$test")" "$test" --test-threads 4
        done
        ;;
    examples)
        : >"$out/examples.txt" && : >"$out/examples.log.txt"
        for runtime in cuda sim; do
            run "$out/examples.txt" "$out/examples.log.txt" "batch_recall --runtime $runtime" bin/batch_recall --runtime $runtime
        done
        for example in bin/*; do
            case $example in bin/batch_recall | bin/um_bench | bin/um_conformance | bin/um_trace | bin/um_weights | bin/all_reduce | bin/recall | bin/search_over_ranks) continue ;; esac
            run "$out/examples.txt" "$out/examples.log.txt" "$(basename "$example")" env CUDA_UM_RUNTIME=cuda "$example"
        done
        bin/batch_recall --runtime cuda --json >"$out/batch_recall.json" 2>"$out/.last" || failed=$((failed + 1))
        ;;
    larger)
        timeout 180 tests/um-residency--all order:: --nocapture --test-threads 1 2>&1 | tee "$out/larger.txt"
        [ "${PIPESTATUS[0]}" -eq 0 ] || failed=$((failed + 1))
        ;;
    conformance)
        conformance
        ;;
    scale)
        scale
        ;;
    sanitize)
        : >"$out/sanitizer.txt" && mkdir -p "$out/sanitize"
        for test in tests/cuda-um--* tests/um-{backend,dlpack,kernels,residency,search}--*; do
            [ -e "$test" ] || continue
            # The program with all modules has a run for each of them, because a run has a time limit.
            modules=
            case $test in *--all) modules=$("$test" --list 2>/dev/null | sed -n 's|^\([a-z_]*::\).*: test$|\1|p' | sort -u) ;; esac
            for module in ${modules:-""}; do
                case $test/$module in
                *--exit/ | *--fork/ | *--process/ | */security:: | *--bad_input/ | */bad_input::) continue ;; # they look at processes that they start
                *--profile/) continue ;;                                                        # CUPTI serves one tool at a time, and this is one
                *--fault_injection/) continue ;;                                                # no CUDA is called
                esac
                echo memcheck "$test" ${module:+"$module"}
                case $test/$module in tests/um-kernels--* | tests/um-search--* | */launch:: | *--model/) echo synccheck "$test" ${module:+"$module"} ;; esac
                case $test/$module in tests/um-kernels--* | tests/um-search--* | */launch:: | *--model/) echo initcheck "$test" ${module:+"$module"} ;; esac
                # This tool checks shared memory, which no other kernels use. In a process with all tests of the exact search it failed to
                # track a launch, which it counted as a hazard; alone, each of these tests passes.
                case $test/$module in
                tests/um-search--*/exact*) "$test" --list 2>/dev/null | sed -n "s|^\($module.*\): test\$|racecheck $test \1|p" ;;
                tests/um-kernels--* | tests/um-search--*) echo racecheck "$test" ${module:+"$module"} ;;
                esac
            done
        done >"$out/.checks"
        export out
        xargs -P "${SANITIZE_JOBS:-4}" -L 1 bash -c "$(declare -f check); check "'"$@"' check <"$out/.checks"
        sort -o "$out/sanitizer.txt" "$out/sanitizer.txt"
        wrong=$(grep -vc ': ok' "$out/sanitizer.txt")
        failed=$((failed + wrong))
        ;;
    stress)
        seconds=${STRESS_SECONDS:-240}
        CUDA_UM_STRESS_SECONDS=$seconds timeout $((seconds + 120)) tests/cuda-um--model --nocapture stress:: >"$out/stress.txt" 2>&1 || failed=$((failed + 1))
        grep -E '^(stress|test result):' "$out/stress.txt" | tail -2
        ;;
    model)
        CUDA_UM_MODEL_SEQUENCES=${MODEL_SEQUENCES:-10000} CUDA_UM_MODEL_SECONDS=900 timeout 960 \
            tests/cuda-um--model --nocapture random_sequences >"$out/model.txt" 2>&1 || failed=$((failed + 1))
        tail -4 "$out/model.txt"
        ;;
    bench)
        # shellcheck disable=SC2086
        bin/um_bench --out "$out" ${BENCH_ARGS:-} >"$out/.last" 2>"$out/bench.log.txt" || failed=$((failed + 1))
        tail -3 "$out/bench.log.txt"
        ;;
    extras)
        timeout 580 bin/recall 2>&1 | tee "$out/recall.md"
        [ "${PIPESTATUS[0]}" -eq 0 ] || failed=$((failed + 1))
        for script in extras/*/run.sh; do
            "$script" "$out" || failed=$((failed + 1))
        done
        ;;
    *) echo "unknown part: $part (tests, examples, conformance, scale, sanitize, stress, model, bench, larger, extras)" && exit 2 ;;
    esac
done
rm -f "$out/.last" "$out/.checks"
echo "$failed failed" | tee -a "$out/machine.txt"
[ $failed -eq 0 ]
