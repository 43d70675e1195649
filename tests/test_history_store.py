"""The store of histories: whatever happens to files, what it remembers gives what a new one gives, byte for byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from synthetic_runs import document, write
from test_history import latencies, say

from harness.history import kept, sources, table
from harness.history.kept import Kept
from harness.history.record import read
from harness.history.store import PAGE, Store


def text(day: int, fused: float = 1.0) -> str:
    return json.dumps(document(day, latencies(day, fused=fused)))


def add(folder: Path) -> None:
    write(folder / "new" / "deeper", [document(20, latencies(20))])


def add_within_a_known_folder(folder: Path) -> None:
    (folder / "run-0001" / "again").mkdir()
    (folder / "run-0001" / "again" / "copy.json").write_text(text(21))
    (folder / "run-0001" / "beside.json").write_text(text(22))


def add_pages(folder: Path) -> None:
    (folder / "run-0002" / "report.html").write_text("<p>A run's own page.</p>")


def edit_in_place(folder: Path) -> None:
    """Neither its size nor the time that anyone may set says so."""
    path = folder / "run-0002" / "results.json"
    before, content = path.stat(), path.read_text()
    path.write_text(content.replace('"fused"', '"fusde"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def replace_a_folder(folder: Path) -> None:
    """By one of the same name, of a file that was written at the same time."""
    other = folder.parent / "other"
    shutil.copytree(folder / "run-0003", other)
    (other / "results.json").write_text(text(23, fused=2.0))
    shutil.copystat(folder / "run-0003" / "results.json", other / "results.json")
    shutil.copystat(folder / "run-0003", other)
    (folder / "run-0003").rename(folder.parent / "was")
    other.rename(folder / "run-0003")


def move(folder: Path) -> None:
    (folder / "run-0001").rename(folder / "elsewhere")


def swap(folder: Path) -> None:
    """Two folders change their names."""
    (folder / "run-0000").rename(folder.parent / "aside")
    (folder / "run-0002").rename(folder / "run-0000")
    (folder.parent / "aside").rename(folder / "run-0002")


def copy(folder: Path) -> None:
    shutil.copytree(folder / "run-0000", folder / "a copy")


def damage(folder: Path) -> None:
    path = folder / "run-0000" / "results.json"
    path.write_text(path.read_text()[:-100])


def link(folder: Path) -> None:
    """To a file that is not there yet, and from a folder to another: that is passed over."""
    (folder / "linked.json").symlink_to(folder.parent / "later.json")
    shutil.move(folder / "elsewhere", folder.parent / "away")
    (folder / "elsewhere").symlink_to(folder.parent / "away")


def lead_the_link_somewhere(folder: Path) -> None:
    (folder.parent / "later.json").write_text(text(24))


def hide(folder: Path) -> None:
    (folder / "run-0003").rename(folder / ".run-0003")


def remove(folder: Path) -> None:
    shutil.rmtree(folder / "new")
    (folder / "run-0000" / "results.json").unlink()


HAPPENINGS: tuple[Callable[[Path], None], ...] = (
    add,
    add_within_a_known_folder,
    add_pages,
    edit_in_place,
    replace_a_folder,
    move,
    swap,
    copy,
    damage,
    link,
    lead_the_link_somewhere,
    hide,
    remove,
)


@pytest.mark.parametrize("clock", ["coarse", "fine"])
def test_what_is_remembered_gives_what_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    if clock == "fine":  # what is seen counts from the moment that it was written
        monkeypatch.setattr(sources, "YOUNG_NS", 0)
        monkeypatch.setattr(table, "PORTION", 2)
    folder = write(tmp_path / "runs", [document(day, latencies(day)) for day in range(4)])
    before = ""
    for happen in (lambda folder: None, *HAPPENINGS):
        happen(folder)
        grown = say(folder, "--out", "grown", cwd=tmp_path)
        (tmp_path / "store.sqlite").rename(tmp_path / "kept.sqlite")
        made = say(folder, "--out", "made", cwd=tmp_path)
        (tmp_path / "kept.sqlite").rename(tmp_path / "store.sqlite")
        assert grown.err == made.err, happen
        for name in ("series.csv", "index.html"):
            assert (tmp_path / "grown" / name).read_bytes() == (tmp_path / "made" / name).read_bytes(), happen
        now = grown.err + (tmp_path / "grown" / "index.html").read_text()
        assert now != before, happen  # it shows at all
        before = now


def test_unchanged_folders_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "YOUNG_NS", 0)
    folder = write(tmp_path / "runs", [document(day, latencies(day)) for day in range(4)])
    assert "4 files read" in say(folder, cwd=tmp_path).out
    seen: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(str(path)) or scandir(path))
    assert "0 files read" in say(folder, cwd=tmp_path).out
    assert not [path for path in seen if "runs" in path]
    write(folder, [document(5, latencies(5))], "more")
    assert "1 file read" in say(folder, cwd=tmp_path).out
    assert [path for path in seen if "runs" in path] == [f"{folder}/", f"{folder}/more-0000"]


def test_a_branch_that_grew_is_read_where_it_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=Some One", "-c", "user.email=one@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, check=True)

    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch=benchmarks")
    for number, day in enumerate((0, 1, 2)):
        write(tmp_path / "runs" / str(number), [document(day, latencies(day))])
        git("add", ".")
        git("commit", "--quiet", "--message", "results")
        assert "; 1 file read." in say("--git", "benchmarks", cwd=tmp_path).out
    git("mv", "runs/0", "runs/zero")
    git("rm", "--quiet", "-r", "runs/1")
    git("commit", "--quiet", "--message", "moved, and removed")
    ran = say("--git", "benchmarks", "--out", "out", cwd=tmp_path)
    assert ran.out.startswith("2 runs of 1 case") and "; 0 files read." in ran.out
    assert "benchmarks:runs/zero/" in (tmp_path / "out" / "series.csv").read_text()


def test_only_new_portions_of_a_file_are_made(tmp_path: Path) -> None:
    path, before, chance = tmp_path / "file", Kept(), random.Random(0)
    texts: list[str] = []
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        return text

    for turn in range(60):
        known = set(texts)
        texts = [text for text in texts if chance.random() < 0.9]
        texts += [f"{turn} {number} é" * chance.randrange(9) for number in range(chance.randrange(4))]
        if turn % 5 == 0:
            chance.shuffle(texts)
        if turn % 20 == 19:  # another one writes to it
            path.write_text("something else")
            known = set()
        made.clear()
        before = kept.write(path, [(kept.key(text), lambda text=text: make(text)) for text in texts], before)
        assert path.read_text(encoding="utf-8") == "".join(texts)
        assert not known & {*made} - {""}
    assert kept.key("a", "b") != kept.key("ab", "") != kept.key("", "ab")


def test_a_store_that_cannot_be_used_is_made_again_or_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "runs", [document(day, latencies(day)) for day in range(12)])
    store = tmp_path / "store.sqlite"
    assert "12 files read" in say(folder, cwd=tmp_path).out
    whole = store.read_bytes()
    for damaged in (b"no database", *(whole[: count * PAGE] for count in range(1, len(whole) // PAGE))):
        store.write_bytes(damaged)
        ran = say(folder, "--out", "out", cwd=tmp_path)
        assert ran.status == 0 and ran.out.startswith("12 runs of 1 case") and not ran.err
    store.unlink()
    store.mkdir()
    ran = say(folder, "--out", "out", cwd=tmp_path)
    assert "12 files read" in ran.out and (tmp_path / "out" / "series.csv").exists()
    assert ran.err.count("cannot be written") == 1


def test_a_store_that_other_code_made_again_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store(path) as opened, closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 1")
        other.commit()
        with pytest.raises(sqlite3.OperationalError, match="another version"):
            opened.keep({bytes(20): "damaged"})
    with Store(path) as made_again:
        assert made_again.numbers() == {}


def test_two_that_read_at_once_keep_what_each_read(tmp_path: Path) -> None:
    """Texts and contents have numbers, which the second one takes from the first."""
    with Store(tmp_path / "store.sqlite") as first, Store(tmp_path / "store.sqlite") as second:
        contents = [json.dumps(document(day, {"naive": 20.0, f"of day {day}": 10.0})).encode() for day in range(3)]
        keys = [bytes([day]) * 20 for day in range(3)]
        assert not first.numbers() and not second.numbers()
        first.keep({keys[0]: read(contents[0]), keys[1]: "damaged"})
        second.keep({keys[1]: "damaged", keys[2]: read(contents[2])})
        assert first.numbers() == second.numbers() == {key: number for number, key in enumerate(keys)}
        assert first.problems() == {1: "damaged"}
        columns = first.columns()
        assert columns.runs["results"].tolist() == [2, 0, 2]
        assert [columns.texts[number] for number in columns.results["variant"]] == [
            "naive",
            "of day 0",
            "naive",
            "of day 2",
        ]
