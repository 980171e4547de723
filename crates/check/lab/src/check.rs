//! Static checks of a running lab for faults that break traffic although every command succeeded.

use crate::command::{run, tool_in};
use crate::state::{Link, State, Vm};
use crate::{Error, Host, Lab};

impl Lab {
    /// Finds daemons that do not run, ports without a number, ARP flux, checksum offload left on, and machines whose packets
    /// do not fit a tunnel. An empty list means that there are no faults.
    pub fn check(&self) -> Result<Vec<String>, Error> {
        let state = self.state()?;
        let mut faults = Vec::new();
        for host in &state.hosts {
            check_host(host, &mut faults)?;
        }
        for vm in state.vms.values() {
            check_vm(vm, &state, &mut faults)?;
        }
        Ok(faults)
    }
}

fn check_host(host: &Host, faults: &mut Vec<String>) -> Result<(), Error> {
    let name = &host.name;
    for (daemon, pid) in [("ovs-vswitchd", host.vswitchd_pid()), ("ovsdb-server", host.ovsdb_pid())] {
        if pid.is_none() {
            faults.push(format!("{name}: {daemon} does not run, so the host forwards nothing"));
        }
    }
    let arp = host.exec(&["sysctl", "-n", "net.ipv4.conf.all.arp_ignore"])?;
    if arp.stdout.trim() != "1" {
        faults.push(format!(
            "{name}: arp_ignore is not 1, so the kernel answers ARP for br-phy with the uplink's MAC"
        ));
    }
    if offloads(name, &host.namespace, "uplink")? {
        faults.push(format!("{name}: tx checksum offload of uplink is on, so TCP through it hangs"));
    }
    Ok(())
}

fn check_vm(vm: &Vm, state: &State, faults: &mut Vec<String>) -> Result<(), Error> {
    let name = &vm.name;
    if offloads(name, &vm.namespace, "eth0")? {
        faults.push(format!("{name}: tx checksum offload of eth0 is on, so its TCP hangs"));
    }
    if vm.link != Link::Host {
        return Ok(());
    }
    let host = state.host(&vm.host)?;
    // Geneve and vxlan add 50 bytes to an inner IP packet.
    if u32::from(vm.mtu) + 50 > u32::from(host.mtu) {
        faults.push(format!(
            "{name}: mtu {} with 50 bytes of tunnel exceeds the underlay's {}",
            vm.mtu, host.mtu
        ));
    }
    if vm.attached
        && host.vswitchd_pid().is_some()
        && let Err(error) = host.ofport(&vm.port)
    {
        faults.push(error.to_string());
    }
    Ok(())
}

fn offloads(place: &str, namespace: &str, device: &str) -> Result<bool, Error> {
    let mut command = tool_in(namespace, "ethtool");
    command.args(["-k", device]);
    Ok(run(place, command)?.lines().any(|line| line.trim() == "tx-checksumming: on"))
}
