#!/usr/bin/env python3
"""A hook for libvirt: creates the ports of a machine in Weft before it starts, and deletes them after it has ended.

Install it as /etc/libvirt/hooks/qemu.d/weft. libvirt calls it with NAME OPERATION SUB-OPERATION EXTRA and the domain's
XML on standard input. docs/howto/attach-machines.md shows the XML. It needs nothing but Python.
"""

import http.client
import json
import os
import socket
import sys
import uuid
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote

# libvirt passes no environment on to hooks: edit these two lines, or keep them.
CONTROLLER = os.environ.get("WEFT_CONTROLLER", "unix:/run/weft/weft.sock")
NODE = os.environ.get("WEFT_NODE", socket.gethostname())  # the id of this host's transport_node

# The namespace of Weft's part of <metadata>.
WEFT = "{urn:weft:libvirt}"
# Marks the ports that the hook has made: it deletes no other.
MADE_HERE = {"made-by": "libvirt"}
# The longest time for a request, in seconds. libvirt holds the machine meanwhile.
PATIENCE = 10


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def request(method, port, body=None, **headers):
    """Asks the controller about a port. Returns the status, the answer and the object's tag."""
    if CONTROLLER.startswith("unix:"):
        connection = UnixConnection(CONTROLLER.removeprefix("unix:"), timeout=PATIENCE)
    else:
        connection = http.client.HTTPConnection(CONTROLLER, timeout=PATIENCE)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers |= {"content-type": "application/json", "weft-by": f"libvirt on {NODE}"}
    try:
        body = None if body is None else json.dumps(body)
        connection.request(method, f"/v1/switch_ports/{quote(port, safe='')}", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null"), answer.getheader("etag")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SystemExit(f"weft: no answer from {CONTROLLER}: {error}") from error
    finally:
        connection.close()


def refusal(port, problem):
    """What the controller says against a request, for the log of libvirt."""
    return f"weft: port {port}: {problem.get('detail', problem)}"


def port_id(element):
    """The id of a port as libvirt writes it for Open vSwitch, however it is written in metadata."""
    text = element.get("interfaceid") or ""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise SystemExit(f"weft: interfaceid='{text}' is no UUID") from None


def ports(name, domain):
    """The ports that the metadata of a domain describes, by id, as objects."""
    macs = {}
    for interface in domain.iterfind("devices/interface"):
        parameters = interface.find("virtualport[@type='openvswitch']/parameters[@interfaceid]")
        mac = interface.find("mac")
        if parameters is not None and mac is not None:
            macs[port_id(parameters)] = mac.get("address")
    found = {}
    for port in domain.iterfind(f"metadata/{WEFT}ports/{WEFT}port"):
        wanted = port_id(port)
        if wanted not in macs:
            raise SystemExit(f"weft: no interface of {name} has interfaceid='{wanted}'")
        found[wanted] = {
            "switch": port.get("switch"),
            "addresses": [{"mac": macs[wanted], "ips": (port.get("ips") or "").split()}],
            "port_security": True,
            "labels": MADE_HERE | {"machine": name},
        }
    return found


def create(port, described):
    """Creates a port, unless there is one: the machine is restarted, or migrates to here."""
    status, answer, _ = request("PUT", port, described, if_none_match="*")
    if status not in (201, 412):
        raise SystemExit(refusal(port, answer))


def delete(port):
    """Deletes a port that the hook has made, unless the machine now runs on another host."""
    status, answer, tag = request("GET", port)
    if status == 404:
        return
    if status != 200:
        raise SystemExit(refusal(port, answer))
    moved = answer["state"].get("node") not in (None, NODE)
    made_here = MADE_HERE.items() <= answer.get("labels", {}).items()
    if moved or not made_here:
        return
    status, answer, _ = request("DELETE", port, if_match=tag)
    if status not in (200, 404):
        raise SystemExit(refusal(port, answer))


def main():
    name, operation, _, extra = sys.argv[1:5]
    text = sys.stdin.buffer.read()
    # Other operations are none of our business. A failure of `reconnect` would end a machine that runs.
    if operation == "prepare":
        for port, described in ports(name, ElementTree.fromstring(text)).items():
            create(port, described)
    elif operation == "release" and extra != "migrated":
        for port in ports(name, ElementTree.fromstring(text)):
            delete(port)


main()
