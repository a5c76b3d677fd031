"""`leap report` as a shell sees it."""

import json

QUICK = ("--epochs", "1", "--folds", "2", "--workers", "0", "--batch-size", "256")


def test_a_report_of_real_runs(leap, filled, tmp_path):
    for encoding in ("rwpe", "leap-l"):
        done = leap("train", "letters-low", "-b", "gcn", "-e", encoding, "--dim", "6", *QUICK)
        assert done.code == 0, done.err
    shown = leap("report", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["stage"] == "report"
    assert shown.json["index"] == "report/index.html"
    assert (tmp_path / "report" / "index.html").is_file()
    assert {"main", "comparisons", "ranks", "cost"} <= set(shown.json["tables"])
    assert any(name.startswith("neighborhood-letters-low") for name in shown.json["figures"])
    assert shown.json["numbers"]["runs"] == 2
    assert "letters-low (stand-in for Letter-low)" in " ".join(shown.json["summary"])
    plain = leap("report", "--out", "elsewhere", "--graph", "3", "--quiet")
    assert plain.code == 0, plain.err
    assert "elsewhere/index.html" in plain.out
    assert plain.err == ""
    assert (tmp_path / "elsewhere" / "tables" / "main.tex").is_file()


def test_wrong_usage_is_one_paragraph_and_exit_code_two(leap, tmp_path):
    shown = leap("report", "--runs", "nowhere")
    assert shown.code == 2
    assert "no finished runs in 'nowhere'" in shown.err
    assert "Traceback" not in shown.err
    half = tmp_path / "runs" / "half"
    half.mkdir(parents=True)
    (half / "config.yaml").write_text(json.dumps({"dataset": "letters-low"}))
    assert leap("report").code == 2
    assert not (tmp_path / "report").exists()
