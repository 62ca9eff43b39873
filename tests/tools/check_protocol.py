"""Checks that operator and sidecars of neighbouring minor releases understand each other, and that strobe.json keeps its form.

    check_protocol.py            compares proto/strobe/v1 with the recorded release; part of ctest as lint.protocol
    check_protocol.py --record   records the present files, at each minor release

Pods keep the sidecar that they were created with, so that after an upgrade the operator meets sidecars of the release before.
tests/golden/protocol has the .proto files of that release. A newer file may add fields, values, messages and methods. It may not
change or reuse what the older one has; a field may only go if its number becomes reserved.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).resolve().parents[2]
PRESENT, RECORDED = ROOT / "proto", ROOT / "tests/golden/protocol"
RELEASE = RECORDED / "release"


def described(folder):
    """The descriptors of strobe/v1 below a folder, as a FileDescriptorSet."""
    names = sorted(str(path.relative_to(folder)) for path in (folder / "strobe/v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as out:
        file = Path(out) / "set"
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={file}", *names], check=True, cwd=folder)
        return FileDescriptorSet.FromString(file.read_bytes())


def kinds(files):
    """Messages, enums and services by their full names; nested ones too."""
    messages, enums, services = {}, {}, {}

    def add(scope, found_messages, found_enums):
        enums.update({f"{scope}.{enum.name}": enum for enum in found_enums})
        for message in found_messages:
            messages[f"{scope}.{message.name}"] = message
            add(f"{scope}.{message.name}", message.nested_type, message.enum_type)

    for file in files.file:
        add(file.package, file.message_type, file.enum_type)
        services.update({f"{file.package}.{service.name}": service for service in file.service})
    return messages, enums, services


def form(field):
    """What a field is on the wire and in JSON."""
    kind = field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"{'repeated ' if field.label == FieldDescriptorProto.LABEL_REPEATED else ''}{kind} {field.name}"


def reserves(message, number):
    return any(span.start <= number < span.end for span in message.reserved_range)


def message_problems(name, old, new):
    fields = {field.number: field for field in new.field}
    for field in old.field:
        now = fields.get(field.number)
        if now is None and not reserves(new, field.number):
            yield f"{name}: field {field.number} ({form(field)}) is gone and its number is not reserved"
        elif now is not None and form(now) != form(field):
            yield f"{name}: field {field.number} was {form(field)} and is {form(now)}"
    for field in new.field:
        if reserves(old, field.number):
            yield f"{name}: field {field.number} ({form(field)}) has a number that was reserved"


def enum_problems(name, old, new):
    values = {value.number: value.name for value in new.value}
    for value in old.value:
        if values.get(value.number) != value.name:
            yield f"{name}: value {value.number} was {value.name} and is {values.get(value.number, 'gone')}"


def service_problems(name, old, new):
    methods = {method.name: method for method in new.method}
    for method in old.method:
        now = methods.get(method.name)
        if now is None:
            yield f"{name}: method {method.name} is gone"
        elif (now.input_type, now.output_type, now.client_streaming, now.server_streaming) != (
                method.input_type, method.output_type, method.client_streaming, method.server_streaming):
            yield f"{name}: method {method.name} has other messages"


def problems(old, new):
    """Why the two FileDescriptorSets do not understand each other, as sentences."""
    for compare, before, after in zip((message_problems, enum_problems, service_problems), kinds(old), kinds(new), strict=True):
        for name in sorted(before):
            if name in after:
                yield from compare(name, before[name], after[name])
            else:
                yield f"{name} is gone"


def minor(version):
    major, minor = map(int, version.split(".")[:2])
    return major, minor


def release_problems(recorded, present):
    """The recorded release is the present minor one or the one before."""
    old, new = minor(recorded), minor(present)
    if old > new or (old[0] == new[0] and new[1] - old[1] > 1):
        yield (f"tests/golden/protocol is of {recorded} and this is {present}: "
               "record the release before this one, at its tag, with check_protocol.py --record")


def present_version():
    return re.search(r'kVersion\[\] = "([^"]+)"', (ROOT / "common/base/version.h").read_text())[1]


def record():
    folder = RECORDED / "strobe/v1"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (PRESENT / "strobe/v1").glob("*.proto"):
        shutil.copy(path, folder)
    RELEASE.write_text(present_version() + "\n")


def main():
    if sys.argv[1:] == ["--record"]:
        record()
    found = [*release_problems(RELEASE.read_text().strip(), present_version()), *problems(described(RECORDED), described(PRESENT))]
    print("\n".join(found) or "the protocol is compatible with the recorded release")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
