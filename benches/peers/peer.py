"""What the peers of um_bench share: one request, a line of JSON, one answer.

A request names what to do ("do") and the round, so that data are fresh: every peer makes its own, verifies what comes out of the
library it measures, and answers {"seconds": …, "verified": …}, or {"error": …}.
"""
import json
import sys
import time
import traceback


def serve(tasks, version):
    """Answers requests with tasks[request["do"]](request) until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"version": version} if request["do"] == "hello" else tasks[request["do"]](request)
        except Exception as error:  # noqa: BLE001: told to who asked
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def refuse(reason):
    """Answers the first request with why this peer is not there, and ends."""
    sys.stdin.readline()
    print(json.dumps({"error": reason}), flush=True)
    sys.exit(1)


def time_each(repeats, work, finish):
    """Seconds of one of `repeats` times `work`, with the wait for the last."""
    finish()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    finish()
    return (time.perf_counter() - start) / repeats


def time_copies(request, copy, finish):
    """Seconds of one copy: until the call has returned, or, if the request says "wait", until the data have arrived."""

    def work():
        copy()
        if request["wait"]:
            finish()

    finish()
    start = time.perf_counter()
    for _ in range(request["repeats"]):
        work()
    return (time.perf_counter() - start) / request["repeats"]
