"""What the user's code sees of the caller's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from screen.child.host import Host
from screen.child.launch import ENVIRONMENT, SECRET, environment
from screen.child.protocol import Request
from screen.child.sandbox import secrets

SECRETS = (
    "GITHUB_TOKEN", "HF_TOKEN", "CI_JOB_TOKEN", "MY_TOKEN_2", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "WANDB_API_KEY", "OPENAI_APIKEY", "DB_PASSWORD",
    "CLIENT_SECRET", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "ACTIONS_RUNTIME_URL", "npm_auth_key",
)  # fmt: skip
PLAIN = ("PATH", "HOME", "MAX_TOKENS", "TOKENIZER", "KEYBOARD", "CUDA_VISIBLE_DEVICES", "MONKEY", "SECRETARY", "LD_LIBRARY_PATH", "PYTHONPATH", "CI")


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_not_handed_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert name not in environment()


def test_everything_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PLAIN:
        monkeypatch.setenv(name, "x")
    assert {name: environment()[name] for name in PLAIN} == dict.fromkeys(PLAIN, "x") and ENVIRONMENT.items() <= environment().items()
    assert not [name for name in ENVIRONMENT if SECRET.search(name)]


@pytest.mark.by_the_day
@pytest.mark.parametrize("fork", [True, False])
def test_the_process_of_a_target_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork: bool) -> None:
    monkeypatch.setenv("HF_TOKEN", "hidden")
    monkeypatch.setenv("WIDTH", "plain")
    (tmp_path / "model.py").write_text("import os\nraise ValueError(os.environ.get('HF_TOKEN'), os.environ.get('WIDTH'))\n")
    with Host(fork=fork) as host:
        capture = host.capture(Request(f"{tmp_path / 'model.py'}::Net", {}, (), None, 120.0, 0))
    assert "(None, 'plain')" in str(capture.error)


def test_a_folder_that_a_variable_of_a_runner_names_is_not_hidden_with_the_tree_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env").write_text("")
    monkeypatch.setenv("GITHUB_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert str(tmp_path / "env") in secrets() and str(tmp_path) not in secrets()
