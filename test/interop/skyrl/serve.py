"""SkyRL's server of the Tinker API, started from a plain virtual environment: serve.py PORT FOLDER MODEL [options of its engine]."""

import runpy
import sys
import typing

import typing_extensions

# Pydantic refuses typing.TypedDict before Python 3.12, and SkyRL uses it.
typing.TypedDict = typing_extensions.TypedDict


def engine() -> None:
    runpy.run_module("skyrl.tinker.engine", run_name="__main__", alter_sys=True)


def server(port: int, folder: str, options: list[str]) -> None:
    import argparse

    import skyrl.tinker.api as api
    import uvicorn
    from skyrl.tinker.config import EngineConfig, add_model, config_to_argv

    # It would start its engine through `uv run`, and insists on being a child of that itself.
    api._build_uv_run_cmd_engine = lambda _, config: [sys.executable, __file__, "engine", *config_to_argv(config)]
    parser = argparse.ArgumentParser()
    add_model(parser, EngineConfig)
    given = parser.parse_args(
        ["--backend", "jax", "--checkpoints-base", f"{folder}/checkpoints", "--database-url", f"sqlite:///{folder}/tinker.db", *options]
    )
    fields = {name: value for name, value in vars(given).items() if name in EngineConfig.model_fields}
    api.app.state.engine_config = EngineConfig.model_validate(fields)
    uvicorn.run(api.app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        sys.argv = [sys.argv[0], *sys.argv[2:]]
        engine()
    else:
        server(int(sys.argv[1]), sys.argv[2], ["--base-model", sys.argv[3], *sys.argv[4:]])
