"""What a task tells the driver: who it was and the files it made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from lakewright.format.data_file import DataFile


@dataclass(frozen=True, slots=True)
class TaskMessage:
    task: int
    attempt: int
    task_attempt_id: int
    files: tuple[DataFile, ...]


Message = TypeVar("Message", bound=TaskMessage)


def winners(messages: Iterable[Message]) -> list[Message]:
    """One message per task, the same one whatever order they arrive in: lowest attempt, then task attempt id, then path."""

    def rank(message: Message) -> tuple[int, int, str]:
        return message.attempt, message.task_attempt_id, min((f.file_path for f in message.files), default="")

    best: dict[int, Message] = {}
    for message in messages:
        if message.task not in best or rank(message) < rank(best[message.task]):
            best[message.task] = message
    return [best[task] for task in sorted(best)]
