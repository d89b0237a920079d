"""Finds mutants, small changes of one function, that no test notices: `make mutants`.

mutmut creates the mutants. This program runs the tests on them, because mutmut collects all tests
again for each of the ten thousand mutants. Here each mutant is a fork of one pytest session in
which everything is imported. Only tests that call the changed function run: first the tests that
killed another mutant of that function, then the quickest ones. tests/MUTANTS.md explains the
survivors.

    python -m tools.mutants OUT.json MODULE…            # in a copy of the project, with mutmut installed
    python -m tools.mutants OUT.json --judge MODULE…    # in mutants/ of the copy, to continue a run

OUT.json maps each mutant to `killed`, `survived`, `timeout`, `no test` or `imported`. `imported`
means that the mutant survived, but its function runs during an import, before the fork.
`--imported` judges each of these in a new process.
"""

import ast
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

UNIT_TESTS = tuple(f"tests/unit/{package}" for package in ("plan", "policies", "apply", "report", "manifest", "model"))
TESTS = (*UNIT_TESTS, "tests/golden", "tests/properties")
EXCLUDED = ("tests/properties/test_stateful.py", "tests/properties/test_manifests_fuzz.py")
DESELECTED = "tests/unit/plan/test_planner.py::test_neither_hash_seed_nor_time_zone_changes_a_plan"
ARGUMENTS = ["-q", "-s", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--deselect={DESELECTED}"]
COPY = Path("mutants")
SLOW_S, SLOW_BUDGET_S = 0.25, 8.0
"""Limits of the slow tests of one mutant.

Tests of SLOW_S seconds or more take at most SLOW_BUDGET_S together, and at least one test runs. A
survivor costs the time of all its tests.
"""


def generate() -> None:
    """Write the mutated package and the tests into mutants/."""
    from mutmut import __main__ as mutmut

    os.environ["MUTANT_UNDER_TEST"] = "mutant_generation"
    COPY.mkdir(exist_ok=True)
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.create_mutants(1)


def mutant_names(modules: Sequence[str]) -> list[str]:
    """Names of all mutants of these modules or packages, those that only change a text last.

    The working folder must be mutants/.
    """
    mutants: list[str] = []
    wording: set[str] = set()
    for module in modules:
        path = Path(module.replace(".", "/"))
        for file in sorted([*path.rglob("*.meta"), *path.parent.glob(f"{path.name}.py.meta")]):
            mutants += json.loads(file.read_text())["exit_code_by_key"]
            wording |= _wording_mutants(file.with_suffix(""))
    return sorted(dict.fromkeys(mutants), key=wording.__contains__)


def _wording_mutants(file: Path) -> set[str]:
    """Mutants of a file that change only the case of a text, or put XX around it."""
    functions = {node.name: node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
    module = ".".join(file.with_suffix("").parts)

    def normalized(name: str) -> str:
        return re.sub(r"'XX(.*?)XX'", r"'\1'", ast.dump(functions[name])).lower().replace(name.lower(), "")

    originals = {name.removesuffix("_orig"): normalized(name) for name in functions if name.endswith("__mutmut_orig")}
    mutants = set()
    for name in functions:
        original = originals.get(name.rstrip("0123456789"))
        if original is not None and original == normalized(name):
            mutants.add(f"{module}.{name}")
    return mutants


class Judge:
    """A pytest plugin that runs tests on each mutant in a fork.

    First it runs all tests once and records the functions that each of them calls.
    """

    def __init__(self, mutants: Sequence[str], out: Path) -> None:
        self.mutants, self.out = mutants, out
        self.verdicts: dict[str, str] = json.loads(out.read_text()) if out.is_file() else {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from mutmut.state import state

        imported = set(state()._stats)
        for item in session.items:
            _disable_shrinking(item)
        calls = self._calls(session.items)
        gc.collect()
        gc.freeze()  # else the first collection of each fork copies all memory pages
        killers: dict[str, list[pytest.Item]] = {}
        for number, mutant in enumerate(self.mutants):
            if mutant in self.verdicts:
                continue
            function = mutant.rpartition("__mutmut_")[0]
            calling = [(item, seconds) for item, functions, seconds in calls if function in functions]
            affordable_tests = list(_within_budget(calling))
            seconds = sum(seconds for _item, seconds in calling)
            first_tests = killers.setdefault(function, [])
            tests = [*first_tests, *(item for item in affordable_tests if item not in first_tests)]
            self.verdicts[mutant], killer = self._verdict(mutant, tests, seconds) if tests else ("no test", None)
            if killer is not None:
                first_tests[:] = [killer, *(item for item in first_tests if item is not killer)]
            if function in imported and self.verdicts[mutant] in ("survived", "no test"):
                self.verdicts[mutant] = "imported"
            if number % 25 == 0:
                self.save(f"{number}/{len(self.mutants)}")
        self.save("done")
        return True

    def save(self, progress: str) -> None:
        draft = self.out.with_suffix(".new")
        draft.write_text(json.dumps(self.verdicts, indent=0))
        draft.replace(self.out)
        print(
            f"{time.strftime('%H:%M:%S')} {progress} {dict(Counter(self.verdicts.values()))}",
            file=sys.stderr,
            flush=True,
        )

    def _calls(self, items: Sequence[pytest.Item]) -> list[tuple[pytest.Item, frozenset[str], float]]:
        """Return each test with the functions that it calls and its seconds, the quickest first.

        The tests run once, in a fork, so that they leave no trace in this process.
        """
        cache = self.out.with_suffix(".calls")
        if not cache.is_file() and os.fork() == 0:
            cache.write_text(json.dumps(self._record_calls(items)))
            os._exit(0)
        if not cache.is_file():
            os.wait()
        rows = json.loads(cache.read_text())
        failed = [item.nodeid for item, row in zip(items, rows, strict=True) if row["failed"]]
        if failed:
            raise RuntimeError(f"these tests fail without a mutant: {failed}")
        calls = [(item, frozenset(row["calls"]), row["s"]) for item, row in zip(items, rows, strict=True)]
        return sorted(calls, key=lambda call: call[2])

    def _record_calls(self, items: Sequence[pytest.Item]) -> list[dict[str, Any]]:
        from mutmut.state import state

        os.environ["MUTANT_UNDER_TEST"] = "stats"
        rows = []
        for item, next_item in zip(items, [*items[1:], None], strict=True):
            state()._stats.clear()
            start = time.process_time()  # wall time depends on the load of the machine
            reports = runtestprotocol(item, nextitem=next_item, log=False)
            seconds = time.process_time() - start
            failed = any(report.failed for report in reports)
            rows.append({"calls": sorted(state()._stats), "s": seconds, "failed": failed})
        return rows

    def _verdict(self, mutant: str, tests: Sequence[pytest.Item], seconds: float) -> tuple[str, pytest.Item | None]:
        """Return the verdict on a mutant, and the test that killed it."""
        read_fd, write_fd = os.pipe()
        child = os.fork()
        if child == 0:
            _prepare_child(mutant, limit_s=int(10 * seconds) + 20)
            for number, item in enumerate(tests):
                if not _passes(item, tests[number + 1] if number + 1 < len(tests) else None):
                    os.write(write_fd, str(number).encode())
                    os._exit(1)
            os._exit(0)
        os.close(write_fd)
        _child, status = os.waitpid(child, 0)
        index = os.read(read_fd, 20)
        os.close(read_fd)
        if os.WIFSIGNALED(status):
            timed_out = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM)
            return "timeout" if timed_out else "killed", None
        if not os.WEXITSTATUS(status):
            return "survived", None
        return "killed", tests[int(index)] if index else None


def _within_budget(calling: Iterable[tuple[pytest.Item, float]]) -> Iterator[pytest.Item]:
    """Select the tests whose slow ones stay within the budget; `calling` has the quickest first."""
    slow_s = 0.0
    for number, (item, seconds) in enumerate(calling):
        slow_s += seconds if seconds >= SLOW_S else 0.0
        if slow_s <= SLOW_BUDGET_S or number == 0:
            yield item


def _passes(item: Any, next_item: pytest.Item | None) -> bool:
    """Run a test without pytest's report: a traceback with source costs more than the test."""
    try:
        if not item._request:
            item._initrequest()
        item.session._setupstate.setup(item)
        item.runtest()
        item.session._setupstate.teardown_exact(next_item)
    except BaseException:  # noqa: BLE001  some failures of pytest and Hypothesis are not an Exception
        return False
    return True


def _disable_shrinking(item: Any) -> None:
    """Stop a property test at its first failure: this program shows no example."""
    from hypothesis import Phase, settings  # not at the top: pytest must import its plugins itself

    test_settings = getattr(item.obj, "_hypothesis_internal_use_settings", None)
    if test_settings is not None:
        item.obj._hypothesis_internal_use_settings = settings(test_settings, phases=(Phase.explicit, Phase.generate))


def _prepare_child(mutant: str, *, limit_s: int) -> None:
    """Activate a mutant in this fork, discard its output and limit its time and memory."""
    gc.disable()
    os.environ["MUTANT_UNDER_TEST"] = mutant
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(devnull, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.alarm(20 * limit_s)


def judge(mutants: Sequence[str], out: Path) -> None:
    """Judge these mutants.

    The working folder must be mutants/, whose package is the mutated one.
    """
    os.environ["MUTANT_UNDER_TEST"] = "stats"
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    pytest.main(
        [*ARGUMENTS, *(f"--ignore={path}" for path in EXCLUDED), *_existing(TESTS)], plugins=[Judge(mutants, out)]
    )


def judge_imported(out: Path) -> None:
    """Judge each mutant whose function runs during an import, in a new process."""
    verdicts = json.loads(out.read_text())
    for mutant in [name for name, verdict in verdicts.items() if verdict == "imported"]:
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", *ARGUMENTS, *_existing(UNIT_TESTS)],
            cwd=COPY,
            env=os.environ | {"MUTANT_UNDER_TEST": mutant, "HYPOTHESIS_PROFILE": "mutants"},
            capture_output=True,
            timeout=600,
            check=False,
        )
        verdicts[mutant] = "survived" if result.returncode == 0 else "killed"
        out.write_text(json.dumps(verdicts, indent=0))
        print(f"{mutant}: {verdicts[mutant]}", file=sys.stderr, flush=True)


def _existing(folders: Iterable[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).is_dir()]


def main(arguments: Iterable[str]) -> None:
    path, *modules = arguments
    out = Path(path).resolve()
    if modules == ["--imported"]:
        judge_imported(out)
    elif modules[0] == "--judge":
        judge(mutant_names(modules[1:]), out)
    else:
        generate()
        subprocess.run([sys.executable, "-m", "tools.mutants", str(out), "--judge", *modules], cwd=COPY, check=True)
        judge_imported(out)
        verdicts = json.loads(out.read_text())
        print("\n".join(f"{verdict}: {mutant}" for mutant, verdict in verdicts.items() if verdict != "killed"))
        print(f"{dict(Counter(verdicts.values()))}; `mutmut show MUTANT` shows the change")


if __name__ == "__main__":
    main(sys.argv[1:])
