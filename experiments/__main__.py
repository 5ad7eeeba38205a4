"""All commands of this project under one name.

    compressed-optimization run algorithm=cd_adam task=logreg/digits lr=0.003
    python -m experiments report task=logreg/digits

{commands}

COMMAND --help says more about a command.
"""

import sys
from importlib import import_module

from common.errors import UsageError, exit_with_message
from common.names import explain_unknown

COMMANDS = {
    "run": ("experiments.run", "train one configuration, or with -m a sweep"),
    "reproduce": ("experiments.reproduce", "a figure: missing runs, drawing, claims"),
    "redraw": ("experiments.redraw", "the committed figures, drawn and judged again"),
    "status": ("experiments.status", "every run: its state and progress"),
    "report": ("experiments.report", "one interactive page with all curves"),
    "plot": ("plots.plot", "a picture of chosen curves"),
    "time": ("experiments.network_time", "modelled training time of existing runs on networks"),
    "plan": ("experiments.plan", "recommend a method for a network"),
    "leaderboard": ("experiments.leaderboard", "methods ranked by bits to a target"),
    "enter": ("experiments.enter", "tune a method and enter it in the leaderboard"),
    "check": ("experiments.check", "run the contract tests on your class"),
    "dashboard": ("experiments.dashboard", "a figure's page in wandb"),
}


def main() -> None:
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        lines = [f"    {command:<12}{about}" for command, (_, about) in COMMANDS.items()]
        print((__doc__ or "").format(commands="\n".join(lines)))
        return
    with exit_with_message():
        if name not in COMMANDS:
            raise UsageError(explain_unknown(f"{name}: no such command", name, COMMANDS))
    sys.argv = [f"{sys.argv[0]} {name}", *arguments]
    import_module(COMMANDS[name][0]).main()


if __name__ == "__main__":
    main()
