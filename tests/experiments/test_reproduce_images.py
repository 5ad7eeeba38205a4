"""A figure of the image study, tiny and with two seeds, from its command to its files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments import reproduce

TINY = ("rounds=12", "eval_every=4", "task.model.width=2", "task.rows=160", "task.batch_size=10")
SEEDS = "seeds=[0,1]"


def test_a_figure_of_images_with_two_seeds(tmp_path: Path) -> None:
    reproduce.main(["figure=digits", *TINY, SEEDS, f"results_dir={tmp_path}"])
    figure = tmp_path / "figures" / "-".join(["digits", *TINY, SEEDS])
    table, claims = (pd.read_csv(figure / f"{name}.csv") for name in ("digits", "claims"))
    assert set(table["seed"]) == {0, 1}
    for _, rows in table.groupby(["algorithm", "lr", "seed"]):
        assert rows["round"].tolist() == [0, 1, 2, 4, 8, 12]
        assert rows["epoch"].tolist() == [0, 0.5, 1, 2, 4, 6]
        assert rows["test_accuracy"].between(0, 1).all()
    assert table.groupby(["algorithm", "lr", "seed"]).ngroups == 3 * 3 * 2
    last = table[table["round"] == 12].groupby("algorithm").first()
    d = int(last["d"].iloc[0])
    assert last.loc["cd_adam", "bits"] == 12 * 2 * (d + 32)
    assert last.loc["onebit_adam", "bits"] == 2 * (1 * 32 * d + 11 * (d + 32))  # ⌊0.13·12⌋ = 1 dense round
    assert last.loc["ef21", "bits"] == 12 * 2 * 64 * int(0.016 * d)
    # In float32 the scale is 4 bytes, and d bits are padded to whole bytes.
    assert last.loc["cd_adam", "payload_bytes"] == 12 * 2 * (-(-d // 8) + 4)
    assert claims["number"].astype(str).tolist() == ["6a", "6b", "7", "8", "9"]
    assert "seeds 0, 1" in (figure / "report.md").read_text()
