"""The words of the field in prose: README, pages, docstrings, errors, help of the command line."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MADE = ("_build", "api", "gallery")
"""Folders of docs/ that a build fills."""
CODE = ("src", "studies", "examples", "benchmarks", "docs/_ext", ".ci")
"""Folders whose docstrings, errors and printed text people read."""
WORDS = {
    r"holes?|rows? with gaps|gaps in (?:rows|tables)|empty cells?": "missing value, incomplete row",
    r"cards?|hosts?": "GPU, CPU",
    r"machines?": "model, estimator; computer",
    r"rates?": "gamma, bandwidth; fraction",
    r"numbers of (?:a|the) circuit|learned numbers": "parameters, weights",
    r"expectation and maximi[sz]ation": "EM",
    r"how much the (?:size|norm) of": "regularization strength",
    r"how much errors count": "inverse regularization strength, sample weights",
    r"when to stop": "stopping tolerance",
    r"intervals that cover|where the (?:weight|target) will be": "prediction intervals, coverage",
    r"(?:hole|gap) is a message": "informative missingness (MNAR)",
    r"gone on from|goes? on from|are kept and gone": "checkpointed, resumed",
    r"several starts|start that was kept": "random restarts, warm start",
    r"stands? for (?:a |the |its )?(?:target|model|distribution)s?": "represents",
    r"strangers?|friends": "untrusted input",
    r"(?:is|are|was|were|be) told|says? so|refus(?:e|es|ed|ing)": "raises, warns, reports",
    r"asked (?:of|about|at|itself|before|one by one)": "evaluated, queried",
    r"(?:is|are|was|first) asked": "evaluated, queried",
    r"questions?": "queries",
    r"(?:an?|the|its|their|all|of|expected|several|same|some|that) answers?": "results",
    r"sum(?:s|med|ming)? out": "marginalise",
    r"more rows than memory": "out-of-core",
    r"bit for bit": "bitwise reproducible",
    r"whoever|nobody|somebody": "name what acts",
    r"beside (?:an)?others?": "compared with",
    r"(?:\d+|of|the|all|from|among|independent|other|first|real-valued) draws": "samples",
    r"draws (?:of|from)": "samples",
    r"states of (?:a |the |every |all )?(?:column|table)s?": "categories, levels",
    r"house|rooms? for|(?:at|through) the door|walks?": "package, memory, entry point, trace",
    r"(?:that|which|what) (?:is|are) (?-i:none)|of now|(?:is|are|be) had": "a plain sentence",
}
"""Words and turns of phrase that hide what is meant, and what to write instead."""
FIELD = (
    r"support vector\s+machines?|machine learning|random walks?|posterior draws|chains, draws"
    r"|(?:learning|error|alarm|discovery|acceptance) rates?|frequently asked questions"
    r"|empty cells, NA|\(draws, variables\)|estimators\.machines"
)
"""Where these words are the field's own, or name something else."""


def plain(text):
    """Prose without code, names of parameters, examples, and phrases that are the field's own."""
    text = re.sub(r"^```(?!\{).*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"``.*?``|`[^`\n]*`|\]\([^)]*\)", "`", text, flags=re.DOTALL)
    text = re.sub(r"^ *(?:>>>|\.\.\.) .*$|^ *[\w*, ]+ : ", "", text, flags=re.MULTILINE)
    return re.sub(FIELD, "", text, flags=re.IGNORECASE)


def named(*patterns):
    """The paths of files by their names, without those that a build makes."""
    paths = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path for name, path in names.items() if not set(name.split("/")) & set(MADE)}


PAGES = named("*.md", "docs/**/*.md", "studies/*/*.md", ".github/**/*.md")
MODULES = named(*(f"{folder}/**/*.py" for folder in CODE))


def sentences(path):
    """The strings of a module that are sentences: docstrings, errors, warnings, help."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    strings = (node.value for node in nodes if isinstance(node, ast.Constant))
    return "\n\n".join(text for text in strings if isinstance(text, str) and " " in text)


def found(text):
    """What should be written otherwise, with a few words before, and the words to use."""
    for pattern, better in WORDS.items():
        for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])", text, flags=re.IGNORECASE):
            near = " ".join(text[max(0, match.start() - 60) : match.end() + 30].split())
            yield f"{match.group()!r} ({better}): ... {near} ..."


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_the_words_of_the_field(page):
    assert list(found(plain(PAGES[page].read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_errors_and_help_use_the_words_of_the_field(module):
    assert list(found(plain(sentences(MODULES[module])))) == []


def test_the_table_would_notice():
    text = "The machine is asked on rows with holes: a card which is none. SVMs are field words."
    hits = [hit.split("'")[1] for hit in found(plain(text))]
    assert hits == ["holes", "card", "machine", "is asked", "which is none"]
    assert list(found(plain("A support vector machine and its learning rate; `card` : int."))) == []


def test_the_glossary_is_short():
    rows = re.findall(
        r"^\| (?!term |---)", PAGES["docs/glossary.md"].read_text(), flags=re.MULTILINE
    )
    assert 0 < len(rows) <= 25
