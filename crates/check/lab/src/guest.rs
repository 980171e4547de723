//! A virtual machine whose port is a trunk, with other machines behind it, each with a VLAN tag: a VM with containers, or
//! with a VLAN interface for each of several networks.
//!
//! A small switch in a separate namespace connects such a machine's eth0 to its host and gives each machine behind it an
//! access port. The switch is an Open vSwitch, because kernels of small virtual machines often lack VLAN devices and VLAN
//! filtering in bridges. Its flows define every path explicitly, so it neither floods nor learns, and a copy counted
//! behind it is a copy that the host sent.
//!
//! The switch migrates with the machine; only the device at the host is moved.

use crate::command::{ip_batch, run, tool, tool_in};
use crate::registry::{Kind, namespace};
use crate::state::{Link, State, Vm};
use crate::vm::{add_pair, delete_namespace};
use crate::{Error, Stop, Vswitch};

/// Its bridge.
const BRIDGE: &str = "br-guest";

/// The switch of a machine.
pub(crate) fn vswitch(vm: &Vm, state: &State) -> Result<Vswitch, Error> {
    // No host's folder has a dot in its name.
    let folder = format!("{}.vm", vm.name);
    Vswitch::plan(&vm.name, namespace(&state.name, Kind::Guest, &vm.name), &state.run_dir, &folder)
}

/// Checks that a machine can be placed behind `parent` with this tag, and returns the host.
pub(crate) fn place(state: &State, parent: &str, tag: u16) -> Result<String, Error> {
    let vm = state.vm(parent)?;
    if !vm.trunk {
        let reason = "it was made without room for others behind it";
        return Err(Error::invalid("virtual machine", parent, reason));
    }
    if !(1..=4094).contains(&tag) {
        return Err(Error::invalid("VLAN tag", tag.to_string(), "choose 1 to 4094"));
    }
    let link = Link::Tag { parent: parent.to_owned(), tag };
    match state.vms.values().find(|other| other.link == link) {
        Some(other) => {
            Err(Error::invalid("VLAN tag", tag.to_string(), format!("{} of {parent} has it", other.name)))
        }
        None => Ok(vm.host.clone()),
    }
}

/// Builds the switch and the two devices that it connects: eth0 of the machine, and the device at the host.
pub(crate) fn build(vm: &Vm, host: &Vswitch, state: &State) -> Result<(), Error> {
    let guest = vswitch(vm, state)?;
    let mut add = tool("ip");
    add.args(["netns", "add", &guest.namespace]);
    run(&vm.name, add)?;
    // No frame may come from this namespace's own stack.
    let mut settings = tool_in(&guest.namespace, "sysctl");
    settings.args(["-e", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]);
    run(&vm.name, settings)?;
    let (mtu, mac, machine) = (vm.mtu, &vm.mac, &vm.namespace);
    add_pair(host, &vm.port, &format!("uplink mtu {mtu} netns {}", guest.namespace), mtu)?;
    add_pair(&guest, "eth0", &format!("eth0 mtu {mtu} address {mac} netns {machine}"), mtu)?;
    ip_batch(&vm.name, &guest.namespace, &["link set uplink up".to_owned()])?;
    guest.checksum_offload_off("uplink")?;
    guest.start()?;
    guest.add_bridge(BRIDGE, &["fail_mode=secure", "protocols=OpenFlow15"])?;
    guest.vsctl(&["add-port", BRIDGE, "uplink", "--", "add-port", BRIDGE, "eth0"])?;
    let (uplink, eth0) = (guest.ofport("uplink")?, guest.ofport("eth0")?);
    // Frames of the machine leave unchanged, tagged or not; untagged frames go to it.
    guest.add_flows(
        BRIDGE,
        &format!(
            "in_port={eth0} actions=output:{uplink}\nin_port={uplink},vlan_tci=0/0x1000 actions=output:{eth0}\n"
        ),
    )
}

/// Makes a device of the switch the access port of a tag.
pub(crate) fn connect(guest: &Vswitch, port: &str, tag: u16) -> Result<(), Error> {
    guest.vsctl(&["add-port", BRIDGE, port])?;
    let (uplink, port) = (guest.ofport("uplink")?, guest.ofport(port)?);
    let present = tag | 0x1000;
    guest.add_flows(
        BRIDGE,
        &format!(
            "in_port={port} actions=push_vlan:0x8100,set_field:{present}->vlan_vid,output:{uplink}\n\
             in_port={uplink},dl_vlan={tag} actions=pop_vlan,output:{port}\n"
        ),
    )
}

/// Ends the switch of a machine.
pub(crate) fn remove(vm: &Vm, state: &State) -> Result<(), Error> {
    let guest = vswitch(vm, state)?;
    guest.stop_vswitchd(Stop::Kill)?;
    guest.stop_ovsdb()?;
    delete_namespace(&vm.name, &guest.namespace)?;
    crate::cleanup::remove_folder(&guest.run_dir)
}
