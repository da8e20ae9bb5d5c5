"""The same concept has the same option in every command."""

import pytest
import typer.main

from fern.cli.app import app

ALIASES = {"--out": "--output", "--datasets": "--scenarios", "--context-length": "--context"}
"""The option of a concept, and the spelling that is accepted beside it."""


def commands(command=None, name="fern"):
    """Every command by its full name."""
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {name: command}
    return {
        full: one for sub, entry in command.commands.items() for full, one in commands(entry, f"{name} {sub}").items()
    }


COMMANDS = commands()


def options(command):
    return [parameter for parameter in command.params if parameter.param_type_name == "option"]


def primary(option):
    """The spelling that the help shows first."""
    return next(spelling for spelling in option.opts if spelling.startswith("--"))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_alias_is_never_the_primary_option(name):
    assert not {primary(option) for option in options(COMMANDS[name])} & set(ALIASES.values())


@pytest.mark.parametrize(("spelling", "alias"), ALIASES.items())
def test_the_alias_is_accepted_wherever_the_option_is(spelling, alias):
    found = [option for command in COMMANDS.values() for option in options(command) if primary(option) == spelling]
    assert found
    assert all(alias in option.opts for option in found)


def test_a_spelling_short_or_long_belongs_to_one_primary_option():
    meanings = {}
    for command in COMMANDS.values():
        for option in options(command):
            for spelling in option.opts:
                meanings.setdefault(spelling, set()).add(primary(option))
    assert {spelling: found for spelling, found in meanings.items() if len(found) > 1} == {}


def test_a_parameter_of_the_same_name_has_the_same_option_in_every_command():
    spellings = {}
    for command in COMMANDS.values():
        for option in options(command):
            spellings.setdefault(option.name, set()).add(primary(option))
    assert {name: found for name, found in spellings.items() if len(found) > 1} == {}


def test_what_a_command_writes_first_is_given_by_out_and_o():
    writers = {
        name for name, command in COMMANDS.items() if any(primary(option) == "--out" for option in options(command))
    }
    assert writers == {
        *("fern forecast", "fern backtest", "fern simulate", "fern clean", "fern demo"),
        *("fern bench run", "fern bench table"),
        *("fern report folder", "fern report forecast", "fern report audit"),
    }
    assert all(
        "-o" in option.opts for name in writers for option in options(COMMANDS[name]) if primary(option) == "--out"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_a_help_text_that_is_a_sentence(name):
    command = COMMANDS[name]
    texts = [command.help, *(parameter.help for parameter in command.params if parameter.name != "help")]
    assert all(text for text in texts), name
    assert all(text.strip().endswith(".") for text in texts), [text for text in texts if not text.strip().endswith(".")]
