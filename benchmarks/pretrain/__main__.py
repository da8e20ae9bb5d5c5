"""``python -m benchmarks.pretrain FOLDER [--minutes 60] [--SETTING VALUE …]``: train, or go on where FOLDER stands.

``python -m benchmarks.pretrain FOLDER --export FILE`` writes the weights of a run as the package holds them.
"""

import argparse
from dataclasses import fields
from pathlib import Path

import torch

from benchmarks.pretrain.training import PretrainConfig, export, read_config, train
from fern.models.pretrained.network import NetworkConfig


def main() -> None:
    """Train with the settings of the command line, or those that the folder holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pretrain", description=__doc__)
    parser.add_argument("folder", type=Path)
    plain = [part for part in fields(PretrainConfig) if part.name != "network"]
    for part in (*plain, *fields(NetworkConfig)):
        parser.add_argument(f"--{part.name.replace('_', '-')}", type=type(part.default), default=part.default)
    parser.add_argument("--judge-every", type=float, default=600.0, help="seconds between validations")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write the weights of FOLDER's run and end")
    options = vars(parser.parse_args())
    folder, judge_every, file = (options.pop(name) for name in ("folder", "judge_every", "export"))
    if file is not None:
        export(folder, file)
        return
    torch.set_num_threads(1)
    if (folder / "config.json").exists():
        config = read_config(folder / "config.json")
    else:
        sizes = {part.name: options.pop(part.name) for part in fields(NetworkConfig)}
        config = PretrainConfig(**options, network=NetworkConfig(**sizes))
    torch.set_flush_denormal(True)  # of this process, which only trains
    train(config, folder, judge_every=judge_every)


if __name__ == "__main__":
    main()
