"""The typer application: which command is where."""

from leap.cli import compare, datasets, encode, extract, ingest, predict, report, store, sweep, train
from leap.cli.options import App
from leap.cli.settings import root

ALIASES = {"dry-run": "plan"}
"""Other names of options, understood and not shown."""

app = App(
    name="leap",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: ALIASES.get(name, name),
    },
)
app.callback()(root)

app.command("compare", rich_help_panel="The question")(compare.compare)
STAGES = "Stages"
app.command("ingest", rich_help_panel=STAGES)(ingest.ingest)
app.command("extract", rich_help_panel=STAGES)(extract.extract)
app.command("encode", rich_help_panel=STAGES)(encode.encode)
app.command("train", rich_help_panel=STAGES)(train.train)
app.command("predict", rich_help_panel=STAGES)(predict.predict)
app.command("sweep", rich_help_panel=STAGES)(sweep.sweep)
app.command("report", rich_help_panel=STAGES)(report.report)
app.command("datasets", rich_help_panel="Looking around")(datasets.datasets)
app.add_typer(store.app, name="store", rich_help_panel="Looking around")
