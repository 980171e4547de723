//! Virtual machines: a namespace with an `eth0` whose other end plugs into a host's `br-int`.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use crate::command::{in_parallel, ip_batch, line, output, run, tool, tool_in, wait_for};
use crate::registry::{Kind, check_name, namespace};
use crate::state::{Link, State, Vm};
use crate::vswitch::split;
use crate::{Error, Host, Lab, Output, Vswitch, guest, physical};

/// The maximum overhead of the tunnel types here on an inner IP packet, rounded up (geneve and vxlan 50, options extra).
const TUNNEL_ROOM: u16 = 100;

/// A virtual machine to make.
#[derive(Debug, Clone)]
pub struct VmSpec {
    /// Its name: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// The host to plug it in at.
    pub host: String,
    /// `external_ids:iface-id`, by which a controller identifies the port.
    pub iface_id: String,
    /// MAC of eth0.
    pub mac: String,
    /// Addresses with prefix length, `10.0.0.1/24` or `fd00::1/64`; parsed when the machine is made.
    pub addresses: Vec<String>,
    /// Default routes, at most one per address family.
    pub gateways: Vec<IpAddr>,
    /// The OpenFlow port number to ask for; Open vSwitch gives another one if it is taken.
    pub ofport: Option<u16>,
    /// The MTU in bytes; `None` is the underlay's MTU less 100. A larger packet is dropped silently in a tunnel.
    pub mtu: Option<u16>,
    /// The other end of its eth0.
    pub link: Link,
    /// Whether other machines can be behind it, each with a VLAN tag.
    pub trunk: bool,
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
            ofport: None,
            mtu: None,
            link: Link::Host,
            trunk: false,
        }
    }

    /// A machine, such as a container, behind machine `parent`; its frames leave the parent with VLAN tag `tag`.
    pub fn behind(
        parent: impl Into<String>,
        tag: u16,
        name: impl Into<String>,
        mac: impl Into<String>,
    ) -> Self {
        let link = Link::Tag { parent: parent.into(), tag };
        VmSpec { link, ..VmSpec::new(name, "", "", mac) }
    }

    /// A machine on physical network `network`, in VLAN `tag`, or untagged if `tag` is 0.
    pub fn physical(
        network: impl Into<String>,
        tag: u16,
        name: impl Into<String>,
        mac: impl Into<String>,
    ) -> Self {
        let link = Link::Physical { network: network.into(), tag };
        VmSpec { link, ..VmSpec::new(name, "", "", mac) }
    }

    /// Allows other machines behind this one ([`VmSpec::behind`]).
    pub fn trunk(mut self) -> Self {
        self.trunk = true;
        self
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

/// The order of plugging and unplugging in a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Off the old host, then onto the new: for a while no host has the port.
    #[default]
    UnplugFirst,
    /// Onto the new host, then off the old: for a while both databases claim the port, as when a hypervisor
    /// tidies up after the machine has moved.
    PlugFirst,
}

/// The options of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migration {
    /// The order of plugging and unplugging.
    pub order: Order,
    /// Time between the two ends' changes.
    pub gap: Duration,
}

/// An entry of a machine's ARP or neighbour discovery cache.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Neighbour {
    /// The neighbour's IP address.
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
    /// Makes a machine and plugs it in. `br-int` must exist: made by a controller, or by
    /// [`crate::Options::with_integration_bridge`].
    pub fn add_vm(&self, spec: &VmSpec) -> Result<Vm, Error> {
        let vm = self.create_vm(spec)?;
        if vm.attached {
            return Ok(vm);
        }
        match self.attach(&vm.name) {
            Ok(()) => self.vm(&vm.name),
            Err(error) => {
                self.remove_vm(&vm.name)?;
                Err(error)
            }
        }
    }

    /// Makes many machines in parallel, those behind others last. Returns the first failure; machines that were made
    /// stay.
    pub fn add_vms(&self, specs: &[VmSpec]) -> Result<Vec<Vm>, Error> {
        let (behind, others): (Vec<_>, Vec<_>) =
            specs.iter().partition(|spec| matches!(spec.link, Link::Tag { .. }));
        let mut made = in_parallel(&others, 4, |spec| self.add_vm(spec));
        made.extend(in_parallel(&behind, 4, |spec| self.add_vm(spec)));
        made.into_iter().collect()
    }

    /// Makes a machine whose other end is at its host but not yet a port of `br-int`. A machine behind a tag or on a
    /// physical network is complete.
    pub fn create_vm(&self, spec: &VmSpec) -> Result<Vm, Error> {
        let (vm, state) = State::update(self.name(), |state| {
            let vm = plan(state, spec)?;
            state.vms.insert(vm.name.clone(), vm.clone());
            Ok((vm, state.clone()))
        })?;
        match build(&vm, &state) {
            Ok(()) => Ok(vm),
            Err(error) => {
                // A partly made machine must not stay; the first error is the relevant one.
                let _ = self.remove_vm(&vm.name);
                Err(error)
            }
        }
    }

    /// Unplugs a machine and removes it.
    pub fn remove_vm(&self, name: &str) -> Result<(), Error> {
        let state = self.state()?;
        let vm = state.vm(name)?;
        if let Some(behind) = state.vms.values().find(|other| other.parent() == Some(name)) {
            let reason = format!("{} is behind it; remove that one first", behind.name);
            return Err(Error::invalid("virtual machine", name, reason));
        }
        let place = place(vm, &state)?;
        if vm.attached {
            unplug(&place, vm)?;
        }
        // The pair would end with its namespace, but later, in the background, and not while a tap holds the namespace.
        if device_exists(&place, &vm.port)? {
            ip_batch(name, &place.namespace, &[format!("link del {}", vm.port)])?;
        }
        if vm.trunk {
            guest::remove(vm, &state)?;
        }
        delete_namespace(name, &vm.namespace)?;
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

    /// Removes a machine's port from `br-int`; its namespace and eth0 stay unchanged.
    pub fn detach(&self, name: &str) -> Result<(), Error> {
        let (vm, host) = self.vm_and_host(name)?;
        unplug(&host, &vm)?;
        self.update_vm(name, |vm| vm.attached = false)
    }

    /// Moves a machine, plugged in or not, to another host. As in a live migration, the machine notices little:
    /// namespace, eth0, MAC, addresses, ARP cache and open connections persist. Moving the device interrupts the carrier
    /// for some milliseconds.
    pub fn migrate_vm(&self, name: &str, to: &str, how: Migration) -> Result<(), Error> {
        let (vm, from) = self.vm_and_host(name)?;
        let to = self.host(to)?;
        let moved = |state: &mut State| {
            let here = |vm: &&mut Vm| vm.name == name || vm.parent() == Some(name);
            state.vms.values_mut().filter(here).for_each(|vm| vm.host.clone_from(&to.name));
            Ok(())
        };
        if from.name == to.name {
            return Err(Error::invalid(
                "host",
                to.name.clone(),
                format!("virtual machine {name} is there already"),
            ));
        }
        match (vm.attached, how.order) {
            (false, _) => move_device(&from, &to, &vm)?,
            (true, Order::UnplugFirst) => {
                unplug(&from, &vm)?;
                move_device(&from, &to, &vm)?;
                State::update(self.name(), moved)?;
                std::thread::sleep(how.gap);
                plug(&to, &vm, Wait::ForPort)?;
            }
            (true, Order::PlugFirst) => {
                plug(&to, &vm, Wait::No)?;
                move_device(&from, &to, &vm)?;
                State::update(self.name(), moved)?;
                wait_for_port(&to, &vm.port)?;
                std::thread::sleep(how.gap);
                unplug(&from, &vm)?;
            }
        }
        State::update(self.name(), moved)
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

    /// Flushes a machine's ARP and neighbour discovery cache, so that the next packet resolves its neighbour again.
    pub fn flush_arp_cache(&self, vm: &str) -> Result<(), Error> {
        let mut command = tool("ip");
        command.args(["-n", &self.vm(vm)?.namespace, "neigh", "flush", "dev", "eth0", "nud", "all"]);
        run(vm, command).map(drop)
    }

    /// A machine that is plugged in at a host, and the host.
    fn vm_and_host(&self, name: &str) -> Result<(Vm, Host), Error> {
        let state = self.state()?;
        let vm = state.vm(name)?.clone();
        if vm.link != Link::Host {
            let reason = "it is behind a tag or on a physical network, not plugged in at a host";
            return Err(Error::invalid("virtual machine", name, reason));
        }
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
    let host = match &spec.link {
        Link::Host => state.host(&spec.host)?.name.clone(),
        Link::Tag { parent, tag } => guest::place(state, parent, *tag)?,
        Link::Physical { network, tag } => physical::place(state, network, *tag)?,
    };
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
        host,
        attached: spec.link != Link::Host,
        port: port_name(state, &spec.name),
        iface_id: spec.iface_id.clone(),
        mac: mac(&spec.mac)?,
        addresses,
        gateways: spec.gateways.clone(),
        ofport: spec.ofport,
        mtu,
        link: spec.link.clone(),
        trunk: spec.trunk,
    })
}

/// The Open vSwitch that a machine's other end is a port of.
fn place(vm: &Vm, state: &State) -> Result<Vswitch, Error> {
    match &vm.link {
        Link::Host => Ok(state.host(&vm.host)?.vswitch.clone()),
        Link::Tag { parent, .. } => guest::vswitch(state.vm(parent)?, state),
        Link::Physical { .. } => physical::vswitch(state),
    }
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

/// Checks a unicast MAC and returns it in lower case.
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

fn build(vm: &Vm, state: &State) -> Result<(), Error> {
    let place = place(vm, state)?;
    let mut add = tool("ip");
    add.args(["netns", "add", &vm.namespace]);
    run(&vm.name, add)?;
    settings(vm)?;
    if vm.trunk {
        guest::build(vm, &place, state)?;
    } else {
        let (port, mtu, mac, namespace) = (&vm.port, vm.mtu, &vm.mac, &vm.namespace);
        add_pair(&place, port, &format!("eth0 mtu {mtu} address {mac} netns {namespace}"), mtu)?;
    }
    // The userspace datapath forwards an incomplete checksum unchanged: pings pass, TCP hangs.
    let mut offload = tool_in(&vm.namespace, "ethtool");
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
    ip_batch(&vm.name, &vm.namespace, &lines)?;
    match &vm.link {
        Link::Host => Ok(()),
        Link::Tag { tag, .. } => guest::connect(&place, &vm.port, *tag),
        Link::Physical { network, tag } => physical::connect(&place, network, &vm.port, *tag),
    }
}

/// A pair of devices: `port` at an Open vSwitch, and `peer`, given with its properties.
pub(crate) fn add_pair(place: &Vswitch, port: &str, peer: &str, mtu: u16) -> Result<(), Error> {
    let add = format!("link add name {port} mtu {mtu} type veth peer name {peer}");
    ip_batch(&place.name, &place.namespace, &[add, format!("link set {port} up")])
}

/// Deletes a namespace, if it exists.
pub(crate) fn delete_namespace(place: &str, namespace: &str) -> Result<(), Error> {
    if !crate::registry::namespace_file(namespace).exists() {
        return Ok(());
    }
    let mut delete = tool("ip");
    delete.args(["netns", "del", namespace]);
    run(place, delete).map(drop)
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
        // No router solicitations and multicast reports in traces and counters.
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
    let ofport = vm.ofport.map(|number| format!("ofport_request={number}"));
    arguments.extend(ofport.as_deref());
    host.vsctl(&arguments)?;
    if wait == Wait::ForPort && runs {
        host.ofport(&vm.port)?;
    }
    Ok(())
}

fn unplug(host: &Vswitch, vm: &Vm) -> Result<(), Error> {
    // Without the daemon there is nothing to wait for; it notices the removal when it starts.
    let mut arguments = if host.vswitchd_pid().is_none() { vec!["--no-wait"] } else { Vec::new() };
    arguments.extend(["--if-exists", "del-port", &vm.port]);
    host.vsctl(&arguments).map(drop)
}

/// Waits until the daemon has opened the port. It notices a device that appears after its row within a second; a change
/// to the row makes it look at once.
fn wait_for_port(host: &Host, port: &str) -> Result<(), Error> {
    if host.vswitchd_pid().is_none() {
        return Ok(());
    }
    let mut error = None;
    let found = wait_for(&host.name, "an OpenFlow port number", Duration::from_mins(1), || {
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

fn device_exists(host: &Vswitch, device: &str) -> Result<bool, Error> {
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
