"""The typer application: which command is where."""

import typer

from leap.cli import bench, datasets, encode, extract, ingest, predict, report, store, sweep, train
from leap.cli.settings import root, with_settings
from leap.cli.stage_options import with_reading

app = typer.Typer(
    name="leap",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(root)

STAGES = "Stages"
app.command("ingest", rich_help_panel=STAGES)(with_settings(with_reading(ingest.ingest)))
app.command("extract", rich_help_panel=STAGES)(with_settings(with_reading(extract.extract)))
app.command("encode", rich_help_panel=STAGES)(with_settings(with_reading(encode.encode)))
app.command("train", rich_help_panel=STAGES)(with_settings(with_reading(train.train)))
app.command("predict", rich_help_panel=STAGES)(with_settings(with_reading(predict.predict)))
app.command("sweep", rich_help_panel=STAGES)(with_settings(with_reading(sweep.sweep)))
app.command("report", rich_help_panel=STAGES)(with_settings(report.report))
app.command("datasets", rich_help_panel="Looking around")(with_settings(datasets.datasets))
app.command("bench", rich_help_panel="Looking around")(with_settings(bench.bench))
app.add_typer(store.app, name="store", rich_help_panel="Looking around")
