//! Shared by the lab's tests: names, hand-written flows, and a search for leftovers on the machine.

use std::sync::atomic::{AtomicU32, Ordering};

use std::time::Duration;

use lab::{Host, Lab, Options, VmSpec};

/// How long anything here may take. An idle machine needs a second; the rest is for one that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// A name that no other test, in this process or another, uses.
pub(crate) fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Two hosts with `br-int` and machines `web` (10.0.0.1 at hv1) and `db` (10.0.0.2 at hv2).
pub(crate) fn two_hosts() -> Lab {
    let lab = Lab::create(Options::new(unique_name()).hosts(2).with_integration_bridge()).unwrap();
    lab.add_vm(&web()).unwrap();
    lab.add_vm(&db()).unwrap();
    lab
}

pub(crate) fn web() -> VmSpec {
    VmSpec::new("web", "hv1", "port-web", "02:00:00:00:00:01").address("10.0.0.1/24").address("fd00::1/64")
}

pub(crate) fn db() -> VmSpec {
    VmSpec::new("db", "hv2", "port-db", "02:00:00:00:00:02").address("10.0.0.2/24").address("fd00::2/64")
}

/// A tunnel port of `kind` for any remote.
pub(crate) fn add_tunnel(host: &Host, kind: &str) {
    host.vsctl(&[
        "add-port",
        "br-int",
        "tun",
        "--",
        "set",
        "Interface",
        "tun",
        &format!("type={kind}"),
        "options:remote_ip=flow",
        "options:key=flow",
        "ofport_request=200",
    ])
    .unwrap();
    assert_eq!(host.ofport("tun").unwrap(), 200);
}

/// Connects `port` with `peer`: everything from `port` is sent with key `to`, and everything with key
/// `from` goes to `port`.
pub(crate) fn cross_connect(host: &Host, port: &str, peer: &Host, to: u32, from: u32) {
    let port = host.ofport(port).unwrap();
    let flows = format!(
        "delete\n\
         add in_port={port} actions=set_field:{to}->tun_id,set_field:{}->tun_dst,output:200\n\
         add in_port=200,tun_id={from} actions=output:{port}\n",
        peer.ip
    );
    host.add_flows("br-int", &flows).unwrap();
}

/// Everything left of lab `name` on this machine: namespaces, processes, devices, folders.
pub(crate) fn leftovers(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let entries = |folder: &str| -> Vec<String> {
        let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
        read.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let namespaces = entries("/run/netns");
    found.extend(namespaces.into_iter().filter(|ns| ns.starts_with(&format!("weft.{name}."))));
    found.extend(entries("/run/weft-lab").into_iter().filter(|folder| folder == name));
    for pid in entries("/proc").iter().filter_map(|entry| entry.parse::<u32>().ok()) {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(&format!("/run/weft-lab/{name}/")) || command.contains(&format!("weft.{name}.")) {
            found.push(format!("process {pid}: {command}"));
        }
    }
    // Nothing of a lab is ever in the machine's own namespace.
    let links = std::process::Command::new("ip").args(["-o", "link"]).output().unwrap();
    let links = String::from_utf8_lossy(&links.stdout).into_owned();
    found.extend(links.lines().filter(|l| l.contains("vif-") || l.contains("uplink")).map(str::to_owned));
    found
}
