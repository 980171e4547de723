//! Virtual machines: a namespace with an `eth0` whose other end plugs into a host's `br-int`.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use crate::command::{in_parallel, ip_batch, line, output, run, tool, tool_in, wait_for};
use crate::host::split;
use crate::registry::{Kind, check_name, namespace};
use crate::state::{State, Vm};
use crate::{Error, Host, Lab, Output};

/// What every tunnel type here adds at most to an inner IP packet, rounded up (geneve and vxlan 50, options extra).
const TUNNEL_ROOM: u16 = 100;

/// A virtual machine to make.
#[derive(Debug, Clone)]
pub struct VmSpec {
    /// Its name: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// The host to plug it in at.
    pub host: String,
    /// `external_ids:iface-id`, by which a controller knows the port.
    pub iface_id: String,
    /// MAC of eth0.
    pub mac: String,
    /// Addresses with prefix length, `10.0.0.1/24` or `fd00::1/64`; parsed when the machine is made.
    pub addresses: Vec<String>,
    /// Default routes, at most one of a family.
    pub gateways: Vec<IpAddr>,
    /// Bytes; `None` is the underlay's less 100. A larger packet vanishes in a tunnel without a word.
    pub mtu: Option<u16>,
}

impl VmSpec {
    /// A machine without addresses.
    pub fn new(
        name: impl Into<String>,
        host: impl Into<String>,
        iface_id: impl Into<String>,
        mac: impl Into<String>,
    ) -> Self {
        VmSpec {
            name: name.into(),
            host: host.into(),
            iface_id: iface_id.into(),
            mac: mac.into(),
            addresses: Vec::new(),
            gateways: Vec::new(),
            mtu: None,
        }
    }

    /// Adds an address with prefix length.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Adds a default route.
    pub fn gateway(mut self, gateway: impl Into<IpAddr>) -> Self {
        self.gateways.push(gateway.into());
        self
    }
}

/// Which end of a migration is plugged first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Off the old host, then onto the new: for a while no host has the port.
    #[default]
    UnplugFirst,
    /// Onto the new host, then off the old: for a while both databases claim the port, as when a hypervisor
    /// tidies up after the machine has moved.
    PlugFirst,
}

/// How a migration is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migration {
    /// Which end is first.
    pub order: Order,
    /// Time between the two ends' changes.
    pub gap: Duration,
}

/// An entry of a machine's ARP or neighbour discovery cache.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Neighbour {
    /// Whose.
    #[serde(rename = "dst")]
    pub ip: IpAddr,
    /// The MAC learned; none while unresolved.
    #[serde(rename = "lladdr", default)]
    pub mac: Option<String>,
    /// The kernel's states: REACHABLE, STALE, FAILED and so on.
    #[serde(default)]
    pub state: Vec<String>,
}

impl Lab {
    /// Makes a machine and plugs it in. `br-int` must be there: by a controller, or
    /// [`crate::Options::with_integration_bridge`].
    pub fn add_vm(&self, spec: &VmSpec) -> Result<Vm, Error> {
        let vm = self.create_vm(spec)?;
        match self.attach(&vm.name) {
            Ok(()) => self.vm(&vm.name),
            Err(error) => {
                self.remove_vm(&vm.name)?;
                Err(error)
            }
        }
    }

    /// Makes many machines at a time; the first failure is returned, the machines that came up stay.
    pub fn add_vms(&self, specs: &[VmSpec]) -> Result<Vec<Vm>, Error> {
        in_parallel(specs, 4, |spec| self.add_vm(spec)).into_iter().collect()
    }

    /// Makes a machine whose other end is at its host but not yet a port of `br-int`.
    pub fn create_vm(&self, spec: &VmSpec) -> Result<Vm, Error> {
        let (vm, host) = State::update(self.name(), |state| {
            let vm = plan(state, spec)?;
            state.vms.insert(vm.name.clone(), vm.clone());
            Ok((vm, state.host(&spec.host)?.clone()))
        })?;
        match build(&vm, &host) {
            Ok(()) => Ok(vm),
            Err(error) => {
                // What was half made must not stay; the first error is the one that tells.
                let _ = self.remove_vm(&vm.name);
                Err(error)
            }
        }
    }

    /// Unplugs a machine and removes it.
    pub fn remove_vm(&self, name: &str) -> Result<(), Error> {
        let (vm, host) = self.vm_and_host(name)?;
        if vm.attached {
            unplug(&host, &vm)?;
        }
        if crate::registry::namespace_file(&vm.namespace).exists() {
            let mut delete = tool("ip");
            delete.args(["netns", "del", &vm.namespace]);
            run(name, delete)?;
            // The kernel takes the pair down later, in the background; the name at the host must be free now.
            let gone = || Ok((!device_exists(&host, &vm.port)?).then_some(()));
            wait_for(name, "the end of its port", Duration::from_secs(10), gone)?;
        }
        State::update(self.name(), |state| {
            state.vms.remove(name);
            Ok(())
        })
    }

    /// Plugs a machine's other end into `br-int`, as an Interface with iface-id and attached-mac.
    pub fn attach(&self, name: &str) -> Result<(), Error> {
        let (vm, host) = self.vm_and_host(name)?;
        plug(&host, &vm, Wait::ForPort)?;
        self.update_vm(name, |vm| vm.attached = true)
    }

    /// Takes a machine's port off `br-int`; its namespace and eth0 stay as they are.
    pub fn detach(&self, name: &str) -> Result<(), Error> {
        let (vm, host) = self.vm_and_host(name)?;
        unplug(&host, &vm)?;
        self.update_vm(name, |vm| vm.attached = false)
    }

    /// Moves a machine, plugged in or not, to another host. As with a live migration the machine notices
    /// little: namespace, eth0, MAC, addresses, ARP cache and open connections live on. Moving the device
    /// takes the carrier away for some milliseconds.
    pub fn migrate_vm(&self, name: &str, to: &str, how: Migration) -> Result<(), Error> {
        let (vm, from) = self.vm_and_host(name)?;
        let to = self.host(to)?;
        if from.name == to.name {
            return Err(Error::invalid("host", to.name, format!("virtual machine {name} is there already")));
        }
        match (vm.attached, how.order) {
            (false, _) => move_device(&from, &to, &vm)?,
            (true, Order::UnplugFirst) => {
                unplug(&from, &vm)?;
                move_device(&from, &to, &vm)?;
                self.update_vm(name, |vm| vm.host.clone_from(&to.name))?;
                std::thread::sleep(how.gap);
                plug(&to, &vm, Wait::ForPort)?;
            }
            (true, Order::PlugFirst) => {
                plug(&to, &vm, Wait::No)?;
                move_device(&from, &to, &vm)?;
                self.update_vm(name, |vm| vm.host.clone_from(&to.name))?;
                wait_for_port(&to, &vm.port)?;
                std::thread::sleep(how.gap);
                unplug(&from, &vm)?;
            }
        }
        self.update_vm(name, |vm| vm.host.clone_from(&to.name))
    }

    /// A command that runs in a machine's namespace; not yet started.
    pub fn command(&self, vm: &str, program: &str) -> Result<Command, Error> {
        Ok(tool_in(&self.vm(vm)?.namespace, program))
    }

    /// Runs a command in a machine to its end; a failing exit status is not an error.
    pub fn exec(&self, vm: &str, argv: &[&str]) -> Result<Output, Error> {
        let (program, arguments) = split(vm, argv)?;
        let mut command = self.command(vm, program)?;
        command.args(arguments);
        output(vm, command, None)
    }

    /// A machine's ARP and neighbour discovery cache.
    pub fn arp_cache(&self, vm: &str) -> Result<Vec<Neighbour>, Error> {
        let mut command = tool("ip");
        command.args(["-n", &self.vm(vm)?.namespace, "-json", "neigh", "show", "dev", "eth0"]);
        let line = line(&command);
        let text = run(vm, command)?;
        let text = if text.trim().is_empty() { "[]" } else { &text };
        serde_json::from_str(text).map_err(|error| Error::Unexpected {
            place: vm.to_owned(),
            command: line,
            detail: error.to_string(),
        })
    }

    /// Forgets a machine's ARP and neighbour discovery cache, so that the next packet asks anew.
    pub fn flush_arp_cache(&self, vm: &str) -> Result<(), Error> {
        let mut command = tool("ip");
        command.args(["-n", &self.vm(vm)?.namespace, "neigh", "flush", "dev", "eth0", "nud", "all"]);
        run(vm, command).map(drop)
    }

    fn vm_and_host(&self, name: &str) -> Result<(Vm, Host), Error> {
        let state = self.state()?;
        let vm = state.vm(name)?.clone();
        let host = state.host(&vm.host)?.clone();
        Ok((vm, host))
    }

    fn update_vm(&self, name: &str, change: impl FnOnce(&mut Vm)) -> Result<(), Error> {
        State::update(self.name(), |state| {
            if let Some(vm) = state.vms.get_mut(name) {
                change(vm);
            }
            Ok(())
        })
    }
}

fn plan(state: &mut State, spec: &VmSpec) -> Result<Vm, Error> {
    check_name("virtual machine name", &spec.name)?;
    state.host(&spec.host)?;
    if state.vms.contains_key(&spec.name) {
        let (lab, name) = (state.name.clone(), spec.name.clone());
        return Err(Error::Exists { lab, kind: "virtual machine", name });
    }
    let mut addresses = Vec::new();
    for text in &spec.addresses {
        let parsed = text.parse::<IpNet>();
        let reason = "write it as 10.0.0.1/24 or fd00::1/64";
        addresses.push(parsed.map_err(|_| Error::invalid("address", text, reason))?);
    }
    let mtu = spec.mtu.unwrap_or(state.underlay_mtu.saturating_sub(TUNNEL_ROOM));
    if mtu < 576 || (mtu < 1280 && addresses.iter().any(|net| net.addr().is_ipv6())) {
        return Err(Error::invalid("mtu", mtu.to_string(), "IPv4 needs 576 bytes, IPv6 1280"));
    }
    Ok(Vm {
        name: spec.name.clone(),
        namespace: namespace(&state.name, Kind::Vm, &spec.name),
        host: spec.host.clone(),
        attached: false,
        port: port_name(state, &spec.name),
        iface_id: spec.iface_id.clone(),
        mac: mac(&spec.mac)?,
        addresses,
        gateways: spec.gateways.clone(),
        mtu,
    })
}

/// `vif-NAME`, or a number if that exceeds the 15 bytes an interface name may have.
fn port_name(state: &mut State, vm: &str) -> String {
    let natural = format!("vif-{vm}");
    if natural.len() <= 15 {
        return natural;
    }
    state.next_number += 1;
    format!("vif{}", state.next_number)
}

/// Checks a unicast MAC and gives it in lower case.
fn mac(text: &str) -> Result<String, Error> {
    let bytes: Vec<u8> = text
        .split(':')
        .filter(|part| part.len() == 2)
        .filter_map(|part| u8::from_str_radix(part, 16).ok())
        .collect();
    match bytes.as_slice() {
        [first, _, _, _, _, _] if text.len() == 17 && first & 1 == 0 => Ok(text.to_ascii_lowercase()),
        _ => Err(Error::invalid("mac address", text, "write a unicast address as 02:00:00:00:00:01")),
    }
}

fn build(vm: &Vm, host: &Host) -> Result<(), Error> {
    let mut add = tool("ip");
    add.args(["netns", "add", &vm.namespace]);
    run(&vm.name, add)?;
    settings(vm)?;
    let (port, mtu, mac, namespace) = (&vm.port, vm.mtu, &vm.mac, &vm.namespace);
    ip_batch(
        &host.name,
        &host.namespace,
        &[
            format!(
                "link add name {port} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {namespace}"
            ),
            format!("link set {port} up"),
        ],
    )?;
    // The userspace datapath forwards an unfinished checksum as it is: pings pass, TCP hangs.
    let mut offload = tool_in(namespace, "ethtool");
    offload.args(["-K", "eth0", "tx", "off"]);
    run(&vm.name, offload)?;
    let mut lines = vec!["link set lo up".to_owned(), "link set eth0 up".to_owned()];
    for address in &vm.addresses {
        // Duplicate address detection would keep the address unusable for a second.
        let nodad = if address.addr().is_ipv6() { " nodad" } else { "" };
        lines.push(format!("addr add {address} dev eth0{nodad}"));
    }
    for gateway in &vm.gateways {
        lines.push(format!("route add default via {gateway} dev eth0"));
    }
    ip_batch(&vm.name, namespace, &lines)
}

fn settings(vm: &Vm) -> Result<(), Error> {
    let mut command = tool_in(&vm.namespace, "sysctl");
    // -e: kernels before 5.16 lack the last two. They keep the ARP cache while a migration moves the other
    // end, as a guest's cache is kept.
    command.args(["-e", "-qw", "net.ipv6.conf.default.accept_ra=0", "net.ipv6.conf.all.accept_ra=0"]);
    command.args(["net.ipv4.conf.all.arp_evict_nocarrier=0", "net.ipv4.conf.default.arp_evict_nocarrier=0"]);
    command
        .args(["net.ipv6.conf.all.ndisc_evict_nocarrier=0", "net.ipv6.conf.default.ndisc_evict_nocarrier=0"]);
    if !vm.addresses.iter().any(|net| net.addr().is_ipv6()) {
        // Quiet: no router solicitations and multicast reports in traces and counters.
        command.args(["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]);
    }
    run(&vm.name, command).map(drop)
}

#[derive(PartialEq)]
enum Wait {
    ForPort,
    No,
}

fn plug(host: &Host, vm: &Vm, wait: Wait) -> Result<(), Error> {
    let iface_id = format!("external_ids:iface-id=\"{}\"", vm.iface_id);
    let mac = format!("external_ids:attached-mac=\"{}\"", vm.mac);
    let runs = host.vswitchd_pid().is_some();
    let mut arguments = if wait == Wait::No || !runs { vec!["--no-wait"] } else { Vec::new() };
    arguments.extend(["--may-exist", "add-port", "br-int", &vm.port]);
    arguments.extend(["--", "set", "Interface", &vm.port, &iface_id, &mac]);
    host.vsctl(&arguments)?;
    if wait == Wait::ForPort && runs {
        host.ofport(&vm.port)?;
    }
    Ok(())
}

fn unplug(host: &Host, vm: &Vm) -> Result<(), Error> {
    // Without the daemon there is nobody to wait for; it finds the port gone when it starts.
    let mut arguments = if host.vswitchd_pid().is_none() { vec!["--no-wait"] } else { Vec::new() };
    arguments.extend(["--if-exists", "del-port", "br-int", &vm.port]);
    host.vsctl(&arguments).map(drop)
}

/// The daemon takes up a device that appears after its row within a second; a change to the row makes it look at once.
fn wait_for_port(host: &Host, port: &str) -> Result<(), Error> {
    if host.vswitchd_pid().is_none() {
        return Ok(());
    }
    let mut error = None;
    let found = wait_for(&host.name, "an openflow port", Duration::from_secs(10), || {
        match host.ofport(port) {
            Ok(_) => return Ok(Some(())),
            Err(other) => error = Some(other),
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        host.vsctl(&["set", "Interface", port, &format!("external_ids:lab-nudge={}", now.as_nanos())])?;
        Ok(None)
    });
    host.vsctl(&["--no-wait", "remove", "Interface", port, "external_ids", "lab-nudge"])?;
    found.map_err(|timeout| error.unwrap_or(timeout))
}

fn move_device(from: &Host, to: &Host, vm: &Vm) -> Result<(), Error> {
    ip_batch(&from.name, &from.namespace, &[format!("link set {} netns {}", vm.port, to.namespace)])?;
    ip_batch(&to.name, &to.namespace, &[format!("link set {} up", vm.port)])
}

fn device_exists(host: &Host, device: &str) -> Result<bool, Error> {
    let mut command = tool("ip");
    command.args(["-n", &host.namespace, "link", "show", "dev", device]);
    Ok(output(&host.name, command, None)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_macs_are_taken() {
        assert_eq!(mac("02:AB:00:00:00:01").unwrap(), "02:ab:00:00:00:01");
        for bad in [
            "",
            "02:00:00:00:00",
            "01:00:00:00:00:01",
            "02:00:00:00:00:0g",
            "02-00-00-00-00-01",
            "2:0:0:0:0:1",
        ] {
            assert!(mac(bad).is_err(), "{bad:?}");
        }
    }
}
