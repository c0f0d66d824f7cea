"""Run a benchmark: `python -m benchmarks NAME ...`; without a name, those that take minutes."""

# Processes that benchmarks start import this file, so it imports nothing else.
MODULES = "learning gpus streams levels sequential peer_tests estimators peers"


def main(arguments=None):
    from importlib import import_module

    import typer

    app, short = typer.Typer(add_completion=False, pretty_exceptions_enable=False), []
    for name in MODULES.split():
        try:
            module = import_module(f"benchmarks.{name}")
        except ModuleNotFoundError as reason:
            print(f"(benchmarks/{name}.py is left out: {reason})")
            continue
        short += getattr(module, "MINUTES", [])
        for benchmark in getattr(module, "MINUTES", []) + getattr(module, "HOURS", []):
            app.command(benchmark.__name__)(benchmark)

    @app.callback(invoke_without_command=True)
    def every(context: typer.Context):
        """Run a benchmark; without a name, those that take minutes."""
        for benchmark in short if context.invoked_subcommand is None else ():
            benchmark()

    app(arguments)


if __name__ == "__main__":
    main()
