"""Turns what a run of the suite left into docs/figures/suite.json and suite.md.

usage: suite.py FOLDER COMMIT    FOLDER has phases, tests (microseconds, binary, test), postgres (milliseconds),
                                 counts and junit.xml
"""

import collections
import json
import pathlib
import platform
import os
import sys
import xml.etree.ElementTree

folder, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
figures = pathlib.Path("docs/figures")
START_ONLY = ("a_server_starts_and_answers", "an_engine_starts_and_stops")

processor = {}
for line in (folder / "tests").read_text().splitlines():
    used, binary, name = line.split(" ", 2)
    processor[binary, name] = int(used) / 1e6

tests = []
for suite in xml.etree.ElementTree.parse(folder / "junit.xml").getroot():
    for case in suite:
        binary, name = suite.get("name"), case.get("name")
        tests.append({
            "binary": binary,
            "test": name,
            "wall_s": round(float(case.get("time")), 2),
            "processor_s": round(processor.get((binary, name), 0), 2),
            "passed": case.find("failure") is None and case.find("error") is None,
        })
tests.sort(key=lambda test: -test["processor_s"])

phases = []
for line in (folder / "phases").read_text().splitlines():
    name, wall, used = line.split()
    phases.append({"phase": name, "wall_s": int(wall), "processor_s": int(used)})
counts = collections.Counter()
for line in (folder / "counts").read_text().splitlines():
    name, count = line.split()
    counts[name] += int(count)

binaries = collections.defaultdict(lambda: {"tests": 0, "wall_s": 0.0, "processor_s": 0.0})
for test in tests:
    binary = binaries[test["binary"]]
    binary["tests"] += 1
    binary["wall_s"] = round(binary["wall_s"] + test["wall_s"], 1)
    binary["processor_s"] = round(binary["processor_s"] + test["processor_s"], 1)

result = {
    "commit": commit,
    "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    "phases": phases,
    "tests_processor_s": round(sum(test["processor_s"] for test in tests)),
    "postgres_processor_s": round(int((folder / "postgres").read_text()) / 1000),
    "counts": dict(sorted(counts.items())),
    "binaries": dict(sorted(binaries.items(), key=lambda item: -item[1]["processor_s"])),
    "start_only": [test for test in tests if test["test"].endswith(START_ONLY)],
    "tests": tests,
}
(figures / "suite.json").write_text(json.dumps(result, indent=1) + "\n")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


page = f"""# What the suite costs

Written by `.ci/long suite` at commit {commit}, {result["machine"]}. Processor time of a test is that of its process and
everything it started, PostgreSQL clusters of its own included. The cluster that tests share is apart:
{result["postgres_processor_s"]} s, beside {result["tests_processor_s"]} s in {len(tests)} tests.

{table(["phase", "wall s", "processor s"], [(p["phase"], p["wall_s"], p["processor_s"]) for p in phases])}

{table(["count", ""], result["counts"].items())}

{table(["binary", "tests", "wall s", "processor s"], [(f"`{name}`", b["tests"], b["wall_s"], b["processor_s"]) for name, b in result["binaries"].items()])}

Tests that do nothing but start what they test:

{table(["test", "wall s", "processor s"], [(f"`{t['test']}`", t["wall_s"], t["processor_s"]) for t in result["start_only"]])}

The fifty dearest:

{table(["test", "wall s", "processor s"], [(f"`{t['binary']}` `{t['test']}`", t["wall_s"], t["processor_s"]) for t in tests[:50]])}
"""
(figures / "suite.md").write_text(page)
print(page)
