"""Network namespaces of a test's own. Abstract names of Unix sockets and ports in them are nobody else's. All take root."""

import contextlib
import ctypes
import os
import subprocess

from tests.support.processes import wait_until

CLONE_NEWNET = 0x40000000


def run(*commands, inside=()):
    for command in commands:
        subprocess.run([*inside, *command.split()], check=True)


@contextlib.contextmanager
def own_network():
    """Moves this thread, and the processes that it starts from now on, into a new network with a loopback only."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace cannot be made")
        run("ip link set lo up")
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


class Switch:
    """Networks, one for each pod of a job, and a switch between them in this thread's network, which is one of its own. They end with the processes of
    `group`."""

    def __init__(self, group, count):
        self.holders = [group.start(f"network-{number}", ["unshare", "--net", "sleep", "infinity"]) for number in range(count)]
        own = os.readlink("/proc/thread-self/ns/net")
        wait_until(lambda: own not in [os.readlink(self.path(number)) for number in range(count)], 20, "new networks")
        run("ip link add switch type bridge", "ip addr add 198.19.0.1/15 dev switch", "ip link set switch up")  # RFC 2544: addresses of benchmarks.
        for number, holder in enumerate(self.holders):
            run(f"ip link add port{number} type veth peer name eth0 netns {holder.pid}", f"ip link set port{number} master switch up")
            self.run_in(number, "ip link set lo up", f"ip addr add {self.address(number)}/15 dev eth0", "ip link set eth0 up")

    def path(self, number):
        return f"/proc/{self.holders[number].pid}/ns/net"

    def address(self, number):
        return f"198.18.{number // 200}.{number % 200 + 1}"

    def inside(self, number):
        """What a command begins with that shall run in this network."""
        return ["nsenter", f"--net={self.path(number)}"]

    def run_in(self, number, *commands):
        run(*commands, inside=self.inside(number))

    def take_off(self, number):
        """Nothing reaches the pod, and this program neither."""
        run(f"ip link set port{number} nomaster")

    def cut_off(self, number):
        """No pod reaches this one. This program does."""
        self.run_in(number, "iptables -A INPUT -s 198.18.0.0/16 -j DROP")

    def cut_link(self, one, other):
        self.run_in(one, f"iptables -A INPUT -s {self.address(other)} -j DROP")

    def lose(self, number, share):
        """Loses this share of the packets to the pod."""
        self.run_in(number, f"iptables -A INPUT -i eth0 -m statistic --mode random --probability {share} -j DROP")

    def repair(self, number):
        run(f"ip link set port{number} master switch")
        self.run_in(number, "iptables -F INPUT")
