"""Judges mutants: changes made to one function at a time that some test ought to notice. `make mutants` runs this in a copy of the project.

mutmut makes the mutants; the judging is done here, because its runner collects the tests anew for each mutant and these are ten thousand.
Here each mutant is judged by a fork of one pytest session that has everything imported, and by the tests that call its function only: those
first that killed another mutant of it, then the quickest. Survivors are explained in tests/MUTANTS.md.

    python -m tests.mutants OUT.json MODULE…            # in the copy, with mutmut beside the project's own packages
    python -m tests.mutants OUT.json --judge MODULE…    # in the copy's mutants/, to go on with a run that was ended

`mutant: killed | survived | timeout | no test | imported` per line of OUT.json. `imported`: survived, but its function runs while modules are
imported, before the fork; those are judged last, by a process each (`--imported`).
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

TESTS = (
    *("tests/unit/plan", "tests/unit/policies", "tests/unit/manifest", "tests/unit/model"),
    *("tests/golden", "tests/properties"),
)
WITHOUT = ("tests/properties/test_stateful.py", "tests/properties/test_manifests_fuzz.py")
DESELECTED = "tests/unit/plan/test_planner.py::test_neither_hash_seed_nor_time_zone_changes_a_plan"
ARGUMENTS = ["-q", "-s", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--deselect={DESELECTED}"]
COPY = Path("mutants")
SLOW_S, MOST_SLOW_S = 0.25, 8.0
"""Of tests that take longer than the first number as many judge a mutant as take no longer than the second together, and one at least: a survivor
costs all that judge it."""


def generate() -> None:
    """The mutated package under mutants/, and the tests beside it."""
    from mutmut import __main__ as mutmut

    os.environ["MUTANT_UNDER_TEST"] = "mutant_generation"
    COPY.mkdir(exist_ok=True)
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.create_mutants(1)


def names(modules: Sequence[str]) -> list[str]:
    """All mutants of these modules or packages, in their order; those that only change the letters of a text come last. For mutants/."""
    found: list[str] = []
    wording: set[str] = set()
    for module in modules:
        place = Path(module.replace(".", "/"))
        for file in sorted([*place.rglob("*.meta"), *place.parent.glob(f"{place.name}.py.meta")]):
            found += json.loads(file.read_text())["exit_code_by_key"]
            wording |= _of_wording(file.with_suffix(""))
    return sorted(dict.fromkeys(found), key=wording.__contains__)


def _of_wording(file: Path) -> set[str]:
    """Mutants in a mutated file that differ from the original in a text's case, or in an XX around it."""
    functions = {node.name: node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
    module = ".".join(file.with_suffix("").parts)

    def plain(name: str) -> str:
        return re.sub(r"'XX(.*?)XX'", r"'\1'", ast.dump(functions[name])).lower().replace(name.lower(), "")

    originals = {name.removesuffix("_orig"): plain(name) for name in functions if name.endswith("__mutmut_orig")}
    found = set()
    for name in functions:
        original = originals.get(name.rstrip("0123456789"))
        if original is not None and original == plain(name):
            found.add(f"{module}.{name}")
    return found


class Judge:
    """A pytest plugin that, instead of running the tests, learns who calls what and then runs them on each mutant in a fork."""

    def __init__(self, wanted: Sequence[str], out: Path) -> None:
        self.wanted, self.out = wanted, out
        self.verdicts: dict[str, str] = json.loads(out.read_text()) if out.is_file() else {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from mutmut.state import state

        imported = set(state()._stats)
        for item in session.items:
            _do_not_shrink(item)
        calls = self._calls(session.items)
        gc.collect()
        gc.freeze()  # or each fork copies the pages of everything that its first collection looks at
        killers: dict[str, list[pytest.Item]] = {}
        for number, mutant in enumerate(self.wanted):
            if mutant in self.verdicts:
                continue
            function = mutant.rpartition("__mutmut_")[0]
            calling = [(item, seconds) for item, functions, seconds in calls if function in functions]
            chosen = list(_affordable(calling))
            seconds = sum(seconds for _item, seconds in calling)
            known = killers.setdefault(function, [])
            chosen = [*known, *(item for item in chosen if item not in known)]
            self.verdicts[mutant], killer = self._verdict(mutant, chosen, seconds) if chosen else ("no test", None)
            if killer is not None:
                known[:] = [killer, *(item for item in known if item is not killer)]
            if function in imported and self.verdicts[mutant] in ("survived", "no test"):
                self.verdicts[mutant] = "imported"
            if number % 25 == 0:
                self.save(f"{number}/{len(self.wanted)}")
        self.save("done")
        return True

    def save(self, told: str) -> None:
        written = self.out.with_suffix(".new")
        written.write_text(json.dumps(self.verdicts, indent=0))
        written.replace(self.out)
        print(
            f"{time.strftime('%H:%M:%S')} {told} {dict(Counter(self.verdicts.values()))}", file=sys.stderr, flush=True
        )

    def _calls(self, items: Sequence[pytest.Item]) -> list[tuple[pytest.Item, frozenset[str], float]]:
        """Each test, the functions that it calls and its seconds; quickest first. Run once, in a fork, so that nothing of it stays."""
        kept = self.out.with_suffix(".calls")
        if not kept.is_file() and os.fork() == 0:
            kept.write_text(json.dumps(self._learn(items)))
            os._exit(0)
        if not kept.is_file():
            os.wait()
        learned = json.loads(kept.read_text())
        failed = [item.nodeid for item, row in zip(items, learned, strict=True) if row["failed"]]
        if failed:
            raise RuntimeError(f"without any mutant these fail: {failed}")
        calls = [(item, frozenset(row["calls"]), row["s"]) for item, row in zip(items, learned, strict=True)]
        return sorted(calls, key=lambda call: call[2])

    def _learn(self, items: Sequence[pytest.Item]) -> list[dict[str, Any]]:
        from mutmut.state import state

        os.environ["MUTANT_UNDER_TEST"] = "stats"
        learned = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            state()._stats.clear()
            started = time.process_time()  # of a busy machine the clock says nothing
            reports = runtestprotocol(item, nextitem=following, log=False)
            seconds = time.process_time() - started
            failed = any(report.failed for report in reports)
            learned.append({"calls": sorted(state()._stats), "s": seconds, "failed": failed})
        return learned

    def _verdict(self, mutant: str, chosen: Sequence[pytest.Item], seconds: float) -> tuple[str, pytest.Item | None]:
        """And the test that killed it."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            _silently(mutant, limit_s=int(10 * seconds) + 20)
            for number, item in enumerate(chosen):
                if not _passes(item, chosen[number + 1] if number + 1 < len(chosen) else None):
                    os.write(tell, str(number).encode())
                    os._exit(1)
            os._exit(0)
        os.close(tell)
        _child, status = os.waitpid(child, 0)
        number = os.read(told, 20)
        os.close(told)
        if os.WIFSIGNALED(status):
            late = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM)
            return "timeout" if late else "killed", None
        if not os.WEXITSTATUS(status):
            return "survived", None
        return "killed", chosen[int(number)] if number else None


def _affordable(calling: Iterable[tuple[pytest.Item, float]]) -> Iterator[pytest.Item]:
    """`calling` with its seconds, quickest first."""
    slow_s = 0.0
    for number, (item, seconds) in enumerate(calling):
        slow_s += seconds if seconds >= SLOW_S else 0.0
        if slow_s <= MOST_SLOW_S or number == 0:
            yield item


def _passes(item: Any, following: pytest.Item | None) -> bool:
    """Runs a test without what pytest would tell about it: a traceback with its source costs more than the test."""
    try:
        if not item._request:
            item._initrequest()
        item.session._setupstate.setup(item)
        item.runtest()
        item.session._setupstate.teardown_exact(following)
    except BaseException:  # noqa: BLE001  pytest's and Hypothesis' own failures are no Exception
        return False
    return True


def _do_not_shrink(item: Any) -> None:
    """That a property fails is enough; the smallest example is nobody's."""
    from hypothesis import Phase, settings  # not above: pytest wants to import its plugins itself

    own = getattr(item.obj, "_hypothesis_internal_use_settings", None)
    if own is not None:
        item.obj._hypothesis_internal_use_settings = settings(own, phases=(Phase.explicit, Phase.generate))


def _silently(mutant: str, *, limit_s: int) -> None:
    gc.disable()
    os.environ["MUTANT_UNDER_TEST"] = mutant
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.alarm(20 * limit_s)


def judge(wanted: Sequence[str], out: Path) -> None:
    """Runs in mutants/, where the mutated package is the one that is imported."""
    os.environ["MUTANT_UNDER_TEST"] = "stats"
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    pytest.main([*ARGUMENTS, *(f"--ignore={path}" for path in WITHOUT), *TESTS], plugins=[Judge(wanted, out)])


def judge_imported(out: Path) -> None:
    """A process for each mutant whose function runs while modules are imported: kinds and manifests show what came of it."""
    verdicts = json.loads(out.read_text())
    for mutant in [name for name, verdict in verdicts.items() if verdict == "imported"]:
        tests = ("tests/unit/policies", "tests/unit/manifest", "tests/unit/plan/document/test_document_schema.py")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", *ARGUMENTS, *tests],
            cwd=COPY,
            env=os.environ | {"MUTANT_UNDER_TEST": mutant, "HYPOTHESIS_PROFILE": "mutants"},
            capture_output=True,
            timeout=600,
            check=False,
        )
        verdicts[mutant] = "survived" if done.returncode == 0 else "killed"
        out.write_text(json.dumps(verdicts, indent=0))
        print(f"{mutant}: {verdicts[mutant]}", file=sys.stderr, flush=True)


def main(words: Iterable[str]) -> None:
    place, *modules = words
    out = Path(place).resolve()
    if modules == ["--imported"]:
        judge_imported(out)
    elif modules[0] == "--judge":
        judge(names(modules[1:]), out)
    else:
        generate()
        subprocess.run([sys.executable, "-m", "tests.mutants", str(out), "--judge", *modules], cwd=COPY, check=True)
        judge_imported(out)
        verdicts = json.loads(out.read_text())
        print("\n".join(f"{verdict}: {mutant}" for mutant, verdict in verdicts.items() if verdict != "killed"))
        print(f"{dict(Counter(verdicts.values()))}; `mutmut show MUTANT` shows the change")


if __name__ == "__main__":
    main(sys.argv[1:])
