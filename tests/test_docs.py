"""Every command in the README and the docs runs, and what they show is what the program prints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cli import QUICK, ROOT, Ran, in_process, run

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# Not run here, each for a reason
ELSEWHERE = {
    r"^python3 -m venv": "sets up an environment; continuous integration runs the test command",
    r"^(sudo|apt|pip|\.venv/bin/pip|neuron-|source|scp|ssh|export|module|sbatch|srun)\b": "of another machine",
    r"^python benchmarks/": "takes minutes and measures; run by hand",
    r"hydra/launcher=(?!submitit_local)": "needs a cluster",
    r"device=(neuron|cuda)|NEURON|neuron\.": "needs the device; tests/test_neuron.py runs it on a simulated one",
    r"harness\.bisect|--git ": "needs a repository; tests/test_bisect.py and tests/test_history.py have one",
    r"environments\.\w+\.python=": "needs another virtual environment; tests/test_environments.py makes one",
    r"op=large/": "takes minutes on a small machine",
    r"my_cluster|trainium_slurm": "needs a cluster",
}


def commands() -> dict[str, str]:
    """Every line of a shell block, and the first page that has it; continued lines are joined."""
    found: dict[str, str] = {}
    for page in PAGES:
        for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                text = line.split(" # ")[0].strip().removeprefix("$ ")
                if text and not text.startswith("#"):
                    found.setdefault(text, page.name)
    return found


def reason(command: str) -> str | None:
    return next((why for pattern, why in ELSEWHERE.items() if re.search(pattern, command)), None)


def later(page: str, command: str) -> bool:
    """Whether a command is left to the slow tests; of the README's own, those that run long or resemble another."""
    long = (
        "hydra/launcher",
        "harness.model",
        ".solution=",
        "harness.doctor",
        "harness.judge",
        "op=gelu",
        "op=softmax",
        "-m op=",
        "my_package.fast",
    )
    return page != "README.md" or any(part in command for part in long)


NEW = [command.split()[3] for command in commands() if "harness.new" in command]
COMMANDS = [
    pytest.param(page, command, id=command[:60], marks=[pytest.mark.slow] if later(page, command) else [])
    for command, page in commands().items()
    if not reason(command)
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, main_job: Ran) -> Path:
    """A user's directory: with the pages' own modules, and two runs and a sweep to look at."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "conf" / "op").mkdir(parents=True)  # harness.new makes it, in a test that another worker may run
    for page in PAGES:
        for block in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            (folder / block[0]).write_text(block[1])
    for name in ("OLD", "NEW"):
        shutil.copytree(main_job.folder, folder / name)
    return folder


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_the_command_runs(desk: Path, page: str, command: str) -> None:
    words = shlex.split(command)
    variables = {}
    while "=" in words[0] and not words[0].startswith("python"):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    assert words[:2] == ["python", "-m"], f"{page}: how is this run? {command}"
    module, arguments = words[2], words[3:]
    if "DIR" in arguments:
        arguments[arguments.index("DIR")] = "OLD"
    needed = [
        name for name in NEW if f"op={name}" in arguments and not (desk / "conf" / "op" / f"{name}.yaml").exists()
    ]
    for name in needed:  # tests may run apart from each other
        in_process(name, cwd=desk, module="harness.new")
    if module == "harness.new":
        name = arguments[0]
        for path in (f"{name}.py", f"{name}_nki.py", f"conf/op/{name}.yaml"):
            (desk / path).unlink(missing_ok=True)
    if module == "harness.judge":
        arguments += QUICK
    if module == "harness.model":
        arguments += [*QUICK, "variants=[as_is,fused_gelu]"]
    measures = module == "harness" and not {"--help", "--hydra-help", "--cfg", "--info"} & set(arguments)
    if measures:
        arguments += QUICK
        if "variants" not in command:  # its own choice is kept; else one compiled variant less to wait for
            arguments.append("variants=[naive,fused]")
    # jobs of a launcher, variables, and modules that import the user's own are processes
    alone = variables or "launcher" in command or module in ("harness.list", "harness.doctor")
    ran = (run if alone else in_process)(*arguments, cwd=desk, module=module, **variables)
    assert ran.status == 0, f"{page}: {command}\n{ran.out}\n{ran.err}"


def test_the_shown_table_is_what_the_program_prints(main_job: Ran) -> None:
    """Numbers differ from run to run; the lines and what stands in them do not."""
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.search(r"<!-- example: .*? -->\n```\n(.*?)```\n<!-- end -->", readme, re.S)
    assert shown is not None
    assert _form(shown[1])[:7] == _form(main_job.out[main_job.out.index("rmsnorm rows=4") :])[:7]


def test_links_and_pictures_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_sets_up_in_one_line_each() -> None:
    lines = [text for text, page in commands().items() if page == "README.md" and text.startswith("python3 -m venv")]
    assert len(lines) == 2
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def _form(text: str) -> list[str]:
    """Lines without numbers, units, verdicts and the width of cells."""
    lines = [
        re.sub(r"unclear \(~.*?\)|[\d.,×±%()–]+|µs|ms|baseline|faster|slower|same|unclear|unknown", "", line)
        for line in text.splitlines()
    ]
    return [re.sub(r"[\s━─]+", " ", line).strip() for line in lines if line.strip()]
