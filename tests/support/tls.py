"""A private CA and certificates from it, for servers on loopback."""

import subprocess


RSA = ("rsa:2048",)
EC = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")  # Takes a hundredth of the processor time, at each connection too.


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_authority(directory, name, key=RSA):
    """Creates ca.crt and ca.key."""
    openssl("req", "-x509", "-newkey", *key, "-nodes", "-days", 30, "-subj", f"/CN={name}",
            "-keyout", directory / "ca.key", "-out", directory / "ca.crt")


def issue(directory, name, subject, server=True, names=(), key=RSA):
    """Creates <name>.crt and <name>.key. A server's certificate is for 127.0.0.1, localhost and `names` ("IP:...", "DNS:...")."""
    extra = []
    if server:
        extensions = directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(['IP:127.0.0.1', 'DNS:localhost', *names])}\n")
        extra = ["-extfile", extensions]
    openssl("req", "-newkey", *key, "-nodes", "-subj", subject,
            "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.csr")
    openssl("x509", "-req", "-days", 30, "-in", directory / f"{name}.csr", "-CA", directory / "ca.crt",
            "-CAkey", directory / "ca.key", "-CAcreateserial", "-out", directory / f"{name}.crt", *extra)
