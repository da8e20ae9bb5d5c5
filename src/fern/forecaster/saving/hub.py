"""Forecasters on the Hugging Face Hub, through ``huggingface_hub`` (the extra ``hub``)."""

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from fern.errors import FernError
from fern.forecaster.saving.folder import MANIFEST, Place

OWN_FILES = ["model-*.safetensors", "state-*.safetensors"]


def pushed(save: Callable[[Path], None], repo_id: str, *, private: bool, token: str | None, message: str) -> str:
    """Save to a temporary folder, and that to the repository, in one commit that drops the former files."""
    hub = _hub()
    api = hub.HfApi(token=token)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "forecaster"
        save(folder)
        api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            allow_patterns=[MANIFEST, *OWN_FILES],
            delete_patterns=OWN_FILES,
            commit_message=message,
        )
    return str(commit)


def fetched(repo_id: str, *, revision: str | None, token: str | None) -> Place:
    """Where the files of a repository lie, fetched into the Hub's cache one by one as they are asked for.

    The cache holds links to its own blobs: they are resolved here, because a saved forecaster has none.
    """
    hub = _hub(f"{repo_id}: is no folder here, and to look for it on the Hub ")

    def place(name: str) -> Path:
        try:
            return Path(hub.hf_hub_download(repo_id=repo_id, filename=name, revision=revision, token=token)).resolve()
        except (OSError, ValueError) as error:  # the Hub's errors are of these two families
            raise FernError(f"{name} cannot be fetched from the Hub ({error})", argument=repo_id) from None

    return place


def _hub(prefix: str = "") -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise FernError(f"{prefix}huggingface_hub is needed: pip install 'fern-forecast[hub]'") from None
