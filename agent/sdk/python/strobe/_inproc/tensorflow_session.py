"""Records TensorFlow by its own profiler session, from the service's thread."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from .cupti_detach import STAYS_ATTACHED, keep_cupti_attached, keeps_cupti
from .frameworks import profiler_of
from .recorder import Recorder, intercept, original_of, records
from .request import Refused

if TYPE_CHECKING:
    from .announce import Directory
    from .request import Request

# The end of the names of TensorFlow's folders, and of the announcements of a second framework.
_FOLDER = "-tensorflow"


class _Level:
    """A number that TensorFlow reads as one: from 2.20 on its sessions ignore options that are
    Python's own ints, with a warning for each.
    """

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def _levels(host: int, device: int, python: int) -> dict[str, _Level]:
    return {
        "host_tracer_level": _Level(host),
        "device_tracer_level": _Level(device),
        "python_tracer_level": _Level(python),
    }


@records("tensorflow")
class TensorFlowRecorder(Recorder):
    format, suffix = "xspace", "xplane.pb"
    place = 2

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory)
        self.profiler = profiler_of("tensorflow")
        self.make_session = original_of(self.profiler.ProfilerSession)
        self.folder = None
        self._remove_abandoned()
        intercept(self.profiler, "ProfilerSession", self._program_begins)

    def _program_begins(self) -> None:
        if not self.turn.is_ours():
            self.turn.program_begins()
            self.turn.program_ends()  # From here on busy() sees the session.

    def _remove_abandoned(self) -> None:
        """Removes the folders of killed processes, whose announcements the sidecar has removed.

        It may not remove what another user made.
        """
        names = os.listdir(self.directory.path)
        living = {
            name.removesuffix(".process").removesuffix(_FOLDER)
            for name in names
            if name.endswith(".process")
        }
        for name in names:
            if (
                name.startswith(".")
                and name.endswith(_FOLDER)
                and name[1:].removesuffix(_FOLDER) not in living
            ):
                shutil.rmtree(os.path.join(self.directory.path, name), ignore_errors=True)

    def busy(self) -> str | None:
        module = sys.modules.get("tensorflow.python.profiler.profiler_v2")
        return (
            "the program profiles itself (tf.profiler.experimental)"
            if getattr(module, "_profiler", None) is not None
            else None
        )

    def is_free(self) -> bool:
        try:
            self.make_session().start("", _levels(0, 0, 0))
        except Exception as error:
            return "nother profil" not in str(error)
        return True  # The session ends here, with its last reference, and writes nothing.

    def uses_devices(self) -> bool:
        try:
            context = sys.modules["tensorflow.python.eager.context"]._context
            return any(device.device_type != "CPU" for device in context._logical_devices or ())
        except (AttributeError, KeyError):
            return False

    def make_safe(self) -> None:
        if self.uses_devices():
            keep_cupti_attached()
            self.stays = STAYS_ATTACHED if keeps_cupti() else None

    def prepare(self, request: Request, start_ns: int) -> None:
        # A session gives its trace only as a file below a folder, which must be named when the
        # session starts.
        name = f".{self.directory.stem}{_FOLDER}"
        self.folder = os.path.join(self.directory.path, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o755)
        self.session = self.make_session()
        self.options = _levels(request.host, request.device, request.python)

    def start(self, start_ns: int) -> None:
        try:
            self.session.start(self.folder, self.options)
        except Exception as error:
            if "nother profil" in str(error):
                raise Refused("Busy", "another profiler session is active in the process")
            raise
        self.started_ns = time.time_ns()
        self.recording = True
        if not keeps_cupti():
            self.make_safe()  # Again, for a copy of CUPTI that the session has found elsewhere.

    def _stop(self) -> None:
        self.recording = False
        self.session.export_to_tb()

    def save(self, directory: Directory, hidden: str) -> None:
        found = [
            os.path.join(root, name)
            for root, _, names in os.walk(self.folder)
            for name in names
            if name.endswith(".xplane.pb")
        ]
        if len(found) != 1:
            raise Refused("ProfilerStartFailed", "TensorFlow wrote no trace")
        os.rename(found[0], os.path.join(directory.path, hidden))

    def discard(self) -> None:
        try:
            if self.recording:
                self._stop()
        finally:
            self.session = None
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        super().leave()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
