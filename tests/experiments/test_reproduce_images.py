"""A figure of the image study, tiny and with two seeds, from its command to its files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments import reproduce

TINY = ("rounds=12", "eval_every=4", "task.model.width=2", "task.rows=160", "task.batch_size=10")
SEEDS = "seeds=[0,1]"


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the figure `digits`, reproduced with TINY and SEEDS."""
    place = tmp_path_factory.mktemp("results")
    reproduce.main(["figure=digits", *TINY, SEEDS, f"results_dir={place}"])
    return place / "figures" / "-".join(["digits", *TINY, SEEDS])


def test_every_method_and_seed_has_the_same_rounds(figure: Path) -> None:
    table = pd.read_csv(figure / "digits.csv")
    assert set(table["seed"]) == {0, 1}
    for _, rows in table.groupby(["algorithm", "lr", "seed"]):
        assert rows["round"].tolist() == [0, 1, 2, 4, 8, 12]
        assert rows["epoch"].tolist() == [0, 0.5, 1, 2, 4, 6]
        assert rows["test_accuracy"].between(0, 1).all()
    assert table.groupby(["algorithm", "lr", "seed"]).ngroups == 3 * 3 * 2


def test_bits_are_those_of_each_method(figure: Path) -> None:
    table = pd.read_csv(figure / "digits.csv")
    last = table[table["round"] == 12].groupby("algorithm").first()
    d = int(last["d"].iloc[0])
    assert last.loc["cd_adam", "bits"] == 12 * 2 * (d + 32)
    assert last.loc["onebit_adam", "bits"] == 2 * (1 * 32 * d + 11 * (d + 32))  # ⌊0.13·12⌋ = 1 dense round
    assert last.loc["ef21", "bits"] == 12 * 2 * 64 * int(0.016 * d)
    # In float32 the scale is 4 bytes, and d bits are padded to whole bytes.
    assert last.loc["cd_adam", "payload_bytes"] == 12 * 2 * (-(-d // 8) + 4)


def test_the_report_judges_each_claim_in_both_seeds(figure: Path) -> None:
    claims = pd.read_csv(figure / "claims.csv")
    assert claims["number"].astype(str).tolist() == ["6a", "6b", "7", "8", "9"]
    assert set(claims["step_size"]) == {"best"}
    assert "seeds 0, 1" in (figure / "report.md").read_text()
