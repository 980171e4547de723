//! Physical networks with VLANs.
//!
//! One Open vSwitch in a separate namespace represents the switches in the racks, with a learning bridge for each network.
//! Each host has a bridge `br-NETWORK` with a cable to it. A controller that maps the network to that bridge connects
//! `br-int` to it by patch ports. Machines on the network are at access ports of a VLAN.

use crate::command::{ip_batch, run, tool, tool_in};
use crate::registry::{Kind, check_name, fitting, namespace};
use crate::state::State;
use crate::vm::add_pair;
use crate::{Error, Host, Lab, Vswitch};

/// The maximum length of a network's name, which follows `br-`.
const LONGEST_NAME: usize = 12;
/// Names that no network can have: hosts have bridges `br-phy` and `br-int`.
const TAKEN: [&str; 2] = ["phy", "int"];

/// The switch of all physical networks of a lab.
pub(crate) fn vswitch(state: &State) -> Result<Vswitch, Error> {
    let namespace = namespace(&state.name, Kind::Physical, "");
    // No host's folder has a dot in its name.
    Vswitch::plan("physical", namespace, &state.run_dir, "physical.switch")
}

/// Checks the names of the networks of a lab to be made.
pub(crate) fn check(state: &State) -> Result<(), Error> {
    for (at, network) in state.physical.iter().enumerate() {
        check_name("physical network", network)?;
        if network.len() > LONGEST_NAME || TAKEN.contains(&network.as_str()) {
            let reason =
                format!("at most {LONGEST_NAME} characters, and neither phy nor int, which hosts use");
            return Err(Error::invalid("physical network", network, reason));
        }
        if state.physical[..at].contains(network) {
            return Err(Error::invalid("physical network", network, "it is given twice; remove one"));
        }
    }
    if state.physical.is_empty() { Ok(()) } else { vswitch(state).map(drop) }
}

/// A name for a physical network of a lab: as much like `wanted` as names can be, and not taken.
pub fn fitting_network(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    fitting(wanted, LONGEST_NAME, |name| TAKEN.contains(&name) || is_taken(name))
}

/// Checks that a machine can be placed in this VLAN. It belongs to no host.
pub(crate) fn place(state: &State, network: &str, tag: u16) -> Result<String, Error> {
    if !state.physical.iter().any(|known| known == network) {
        let known = if state.physical.is_empty() { "none".to_owned() } else { state.physical.join(", ") };
        let (lab, name) = (state.name.clone(), network.to_owned());
        return Err(Error::Unknown { lab, kind: "physical network", name, known });
    }
    if tag > 4094 {
        return Err(Error::invalid(
            "VLAN tag",
            tag.to_string(),
            "choose 1 to 4094, or 0 for untagged frames",
        ));
    }
    Ok(String::new())
}

/// Builds the switch, before any host.
pub(crate) fn build(state: &State) -> Result<(), Error> {
    let switch = vswitch(state)?;
    let mut add = tool("ip");
    add.args(["netns", "add", &switch.namespace]);
    run(&switch.name, add)?;
    let mut settings = tool_in(&switch.namespace, "sysctl");
    settings.args(["-e", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]);
    run(&switch.name, settings)?;
    switch.start()?;
    state.physical.iter().try_for_each(|network| switch.add_bridge(&bridge(network), &[]))
}

/// Connects a host to each network. `number` names the cables' ends at the switch.
pub(crate) fn join(state: &State, host: &Host, number: usize) -> Result<(), Error> {
    let switch = vswitch(state)?;
    for (at, network) in state.physical.iter().enumerate() {
        let (bridge, cable) = (bridge(network), format!("host{number}-{at}"));
        let peer = format!("{cable} mtu {} netns {}", host.mtu, switch.namespace);
        add_pair(host, network, &peer, host.mtu)?;
        ip_batch(&switch.name, &switch.namespace, &[format!("link set {cable} up")])?;
        host.checksum_offload_off(network)?;
        host.add_bridge(&bridge, &[])?;
        host.vsctl(&["add-port", &bridge, network])?;
        host.ofport(network)?;
        switch.vsctl(&["add-port", &bridge, &cable])?;
        switch.ofport(&cable)?;
    }
    Ok(())
}

/// Makes a device of the switch an access port of a network.
pub(crate) fn connect(switch: &Vswitch, network: &str, port: &str, tag: u16) -> Result<(), Error> {
    let bridge = bridge(network);
    switch.vsctl(&["add-port", &bridge, port, &format!("tag={tag}")])?;
    switch.ofport(port).map(drop)
}

/// The bridge of a network, on every host and at the switch.
pub(crate) fn bridge(network: &str) -> String {
    format!("br-{network}")
}

impl Lab {
    /// The physical networks, with the name of the hosts' bridge on each.
    pub fn bridge_mappings(&self) -> Result<Vec<(String, String)>, Error> {
        Ok(self.state()?.physical.into_iter().map(|network| (network.clone(), bridge(&network))).collect())
    }
}
