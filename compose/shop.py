"""What compose/python.Dockerfile runs: a task `greet`, whose payload is a name."""
import tenon


@tenon.task
def greet(name: str) -> str:
    return f"Hello {name}, from Python"
