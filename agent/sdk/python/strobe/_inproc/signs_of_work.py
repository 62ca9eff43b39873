"""What shows that a process works, as soon as it does: it joins a process group, tells a step or,
in a forked child, calls a module of PyTorch.

The hooks run in the program's threads. They never raise and never wait.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from .failure import is_the_programs
from .process import forget_group
from .steps import await_step, hide_from_compiler, on_first_step
from .switches import is_off


def on_sign(look: Callable[[], None]) -> None:
    """Calls look() when the process joins or leaves PyTorch's default process group, and when it
    tells the first step of a loop.
    """
    on_first_step(look)
    if not is_off("steps"):
        _on_join(look)


def await_work(begin: Callable[[str], None]) -> None:
    """Lets a forked child begin the service at its first sign of work.

    That tells it from a loader of data, and from children that do nothing with PyTorch.
    begin(framework) may be called several times.
    """
    forget_group()
    if is_off("steps"):
        return
    await_step(begin)
    _on_join(lambda: begin("torch"))
    _at_first_module(begin)


def _on_join(call: Callable[[], None]) -> None:
    module = sys.modules.get("torch.distributed.distributed_c10d")
    # The last thing that init_process_group does, and destroy_process_group.
    update = getattr(module, "_update_default_pg", None)
    if module is None or update is None:
        return
    update = getattr(update, "strobe_original", update)

    @functools.wraps(update)
    def updated(*arguments: Any, **options: Any) -> Any:
        result = update(*arguments, **options)
        try:
            call()
        except Exception as error:
            if is_the_programs(error):
                raise
        return result

    updated.strobe_original = update
    module._update_default_pg = updated


def _at_first_module(begin: Callable[[str], None]) -> None:
    """Programs that only infer join no group and have no optimizer, but call modules.

    So may loaders of data: their transforms are modules.
    """
    module = sys.modules.get("torch.nn.modules.module")
    register = getattr(module, "register_module_forward_pre_hook", None)
    if register is None:
        return

    def called(module: Any, arguments: Any) -> None:
        try:
            handle.remove()
            loader = sys.modules.get("torch.utils.data._utils.worker")
            if getattr(loader, "_worker_info", None) is None:
                begin("torch")
        except Exception as error:
            if is_the_programs(error):
                raise

    hide_from_compiler(called)
    handle = register(called)
