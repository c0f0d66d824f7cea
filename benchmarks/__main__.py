"""Run a benchmark: `python -m benchmarks NAME ...`; without a name, those that take minutes."""

# Processes that benchmarks start import this file, so it imports nothing.


def main(arguments=None):
    import typer

    from benchmarks import (
        coverage,
        gpus,
        intervals,
        landmarks,
        learning,
        levels,
        networks,
        peer_tests,
        peers,
        quality,
        rejections,
        sequential,
        streams,
    )

    short = (learning, gpus, streams, quality, networks, sequential, rejections, peer_tests)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.callback(invoke_without_command=True)
    def every(context: typer.Context):
        """Run a benchmark; without a name, those that take minutes."""
        for module in short if context.invoked_subcommand is None else ():
            for benchmark in module.ALL:
                benchmark()

    for module in (*short, coverage, intervals, landmarks, levels, peers):
        for benchmark in module.ALL:
            app.command(benchmark.__name__)(benchmark)
    app(arguments)


if __name__ == "__main__":
    main()
