"""What a paper claims, held against measured curves.

Which methods and which thresholds a claim is about stands in conf/figure/*.yaml; a claim is checked under each
protocol: with every method's published step size, with every method's best, and with each step size that all methods
share, each time in every seed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from plots.claims import budgets, checks, frozen, seconds
from plots.claims.checks import NOT_DECIDABLE, Finding, as_times
from plots.figure.spec import Claim
from plots.runs.seeds import geometric_mean

ROLES = ("subject", "reference", "subjects", "others", "other", "slower")
"""Options of checks that name methods."""

CHECKS: dict[str, Callable[..., Finding]] = {
    check.__name__: check
    for check in (
        checks.reaches_level,
        checks.clearly_ahead,
        checks.ends_alike,
        checks.stops_early,
        checks.one_bit_a_coordinate,
        checks.second_moment_grows,
        checks.error_vanishes,
        checks.falls_with_rounds,
        budgets.ahead_at_equal,
        budgets.alike_early,
        budgets.fewer_bits,
        budgets.fewer_bits_to,
        frozen.ends_above,
        frozen.ends_below,
        seconds.times_faster,
        seconds.as_measured,
    )
}
"""By the name a figure's configuration calls them."""


PAPERS, BEST, MEASURED = "paper's", "best", "measured"
"""The protocols that have a name, as column `step_size` of findings holds them; others go by their step size. What is
measured on a network is of none."""


COLUMNS = ["number", "statement", "task", "step_size", "verdict", "measured"]
"""Of findings."""


def judge(frame: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """Every claim on the tasks that it is about, under every protocol.

    `frame` is that of `mark_best`, with a column `published` where the figure has such step sizes. Returns columns
    number, statement, task, step_size (the protocol), verdict, measured.
    """
    findings = []
    for claim in claims:
        for task, rows in frame.groupby("task", sort=False):
            if not _is_about(claim, rows):
                continue
            for setting, chosen in protocols(rows).items():
                finding = _in_every_seed(chosen, claim)
                place = (claim.number, claim.statement, task, setting)
                findings.append((*place, finding.verdict, finding.measured))
        if not any(number == claim.number for number, *_ in findings):
            why = f"no task has what it is about: {', '.join(sorted({*methods_of(claim), *_metrics_of(claim)}))}"
            findings.append((claim.number, claim.statement, "–", BEST, NOT_DECIDABLE, why))
    return pd.DataFrame(findings, columns=COLUMNS)


def methods_of(claim: Claim, *roles: str) -> set[str]:
    """Those that a claim names, in these roles alone where some are given."""
    return _named(claim, roles or ROLES)


def _metrics_of(claim: Claim) -> set[str]:
    return _named(claim, ("metric", "metrics"))


def _named(claim: Claim, options: Iterable[str]) -> set[str]:
    named = (claim.options.get(option, ()) for option in options)
    return {name for some in named for name in ([some] if isinstance(some, str) else some)}


def _is_about(claim: Claim, rows: pd.DataFrame) -> bool:
    """Whether a task's rows hold the methods that the claim names, and what it says of them."""
    measured = all(name in rows and rows[name].notna().any() for name in _metrics_of(claim))
    return measured and methods_of(claim) <= set(rows["algorithm"])


def unjudged(claims: Sequence[Claim], task: str, step_size: str, why: str) -> pd.DataFrame:
    """What `judge` returns of claims about what is not there."""
    about = [(claim.number, claim.statement, task, step_size, NOT_DECIDABLE, why) for claim in claims]
    return pd.DataFrame(about, columns=COLUMNS)


def protocols(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of one task by protocol, each with one step size a method.

    That is the paper's where every method has a published one, best, and every step size that all methods share.
    Beside the paper's, and where only best ones were run, what holds the same rows as one before is left out.
    """
    methods = rows["algorithm"].nunique()
    named = {PAPERS: rows[rows["published"]]} if "published" in rows else {}
    named[BEST] = rows[rows["best"]]
    equal = {f"{lr:.12g}": some for lr, some in rows.groupby("lr")}
    found: dict[str, pd.DataFrame] = {}
    for setting, some in (named | equal).items():
        whole = setting == BEST or some["algorithm"].nunique() == methods
        chosen = PAPERS in found or rows["best"].all()
        said = chosen and any(some.index.equals(other.index) for other in found.values())
        if whole and not said:
            found[setting] = some
    return found


def _in_every_seed(rows: pd.DataFrame, claim: Claim) -> Finding:
    """One claim on one task, with one step size a method, in each seed that all methods that it names have."""
    findings = {}
    for seed, some in rows.groupby("seed"):
        curves = {str(name): curve.sort_values("round") for name, curve in some.groupby("algorithm")}
        if not methods_of(claim) <= set(curves):
            continue
        # `others` are several: what becomes of one that ends early is the check's to say
        if short := checks.cut_short(curves, sorted(methods_of(claim) - methods_of(claim, "others"))):
            findings[seed] = Finding(NOT_DECIDABLE, short)
        else:
            finding = CHECKS[claim.check](curves, **claim.options)
            findings[seed] = finding.negated() if claim.negated else finding
    if not findings:
        return Finding(NOT_DECIDABLE, "no seed that all its methods have")
    found, seeds = _together(findings), rows["seed"].nunique()
    lacking = f"; {len(findings)} of {seeds} seeds, which all its methods have" if len(findings) < seeds else ""
    return replace(found, measured=found.measured + lacking)


def _together(findings: Mapping[int, Finding]) -> Finding:
    """One finding from one a seed: holds or fails where it does so in every seed, and is otherwise not decidable.

    Ratios are given as their geometric mean with least and greatest, other numbers seed by seed; where the seeds
    disagree, each with its verdict.
    """
    verdicts, texts, ratios = (
        [getattr(finding, name) for finding in findings.values()] for name in ("verdict", "measured", "ratio")
    )
    if len(set(verdicts)) > 1:
        each = zip(findings, verdicts, texts, strict=True)
        return Finding(NOT_DECIDABLE, "; ".join(f"seed {seed} {verdict}: {text}" for seed, verdict, text in each))
    if len(findings) == 1:
        measured = texts[0]
    elif not pd.isna(ratios).any():
        threshold = next(iter(findings.values())).threshold
        numbers = geometric_mean(np.array(ratios)), min(ratios), max(ratios)
        mean, low, high = (as_times(float(number), threshold) for number in numbers)
        measured = f"{mean} ({low} to {high}, {len(ratios)} seeds)"
    elif len(set(texts)) == 1:
        measured = f"{texts[0]} ({len(texts)} seeds alike)"
    else:
        measured = "; ".join(f"seed {seed}: {text}" for seed, text in zip(findings, texts, strict=True))
    return Finding(verdicts[0], measured)
