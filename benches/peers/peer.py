"""Common code of the Python peers of um_bench: for each request, one line of JSON, there is one answer.

A request names the task ("do") and the round, so that data are fresh: every peer makes its own data, verifies the result of the
measured library, and answers {"seconds": …, "verified": …}, or {"error": …}.
"""
import json
import sys
import time
import traceback


def serve(tasks, version):
    """Answers requests with tasks[request["do"]](request) until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # output of a library is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"version": version} if request["do"] == "hello" else tasks[request["do"]](request)
        except Exception as error:  # noqa: BLE001: reported to um_bench
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def refuse(reason):
    """Answers the first request with the reason why this peer cannot run, and ends."""
    sys.stdin.readline()
    print(json.dumps({"error": reason}), flush=True)
    sys.exit(1)


def time_each(repeats, work, finish):
    """Seconds for one of `repeats` runs of `work`, including the wait for the last."""
    finish()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    finish()
    return (time.perf_counter() - start) / repeats


def time_copies(request, copy, finish):
    """Seconds for one copy: until the call has returned, or with "wait" until the data have arrived."""

    def work():
        copy()
        if request["wait"]:
            finish()

    finish()
    start = time.perf_counter()
    for _ in range(request["repeats"]):
        work()
    return (time.perf_counter() - start) / request["repeats"]


def operations(request):
    """The operations of a step, in order: (letter, slot, elements).

    a: a new temporary with undefined contents; c: a new one with the first elements of the source; k: multiply it by 2, in place;
    r: read the first element, and wait for it; f: free it. A temporary belongs to the stream of its slot: stream slot % 2.
    """
    words = request["plan"].split()
    return [(words[i], int(words[i + 1]), int(words[i + 2])) for i in range(0, len(words), 3)]


def time_steps(request, run, expected, finish):
    """Seconds for one step. Each run() reads one number, which must be the expected one."""

    def steps():
        for _ in range(request["steps"]):
            found = run()
            if found != expected:
                raise ValueError(f"WRONG RESULT: a step read {found} for {expected}")

    return time_each(1, steps, finish) / request["steps"]
