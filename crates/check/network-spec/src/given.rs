//! The addresses that the network chooses for ports.
//!
//! Which free address a machine gets is for the network to choose. Any choice has to be such that
//!
//! - a MAC address gets one address of each IP version, from the network of the first DHCP server by name that its switch has of that
//!   version, and none without one;
//! - a machine can have it: it is not that of an IPv4 network itself, nor its broadcast address (RFC 1122, 3.2.1.3), nor that of all routers of
//!   an IPv6 network (RFC 4291, 2.6.1);
//! - it is nobody else's on the switch: a machine's, a router's, a server's, or one that a server tells machines to use;
//! - the machine keeps it as long as it has its port there, and the server the address to give.

use std::net::{IpAddr, Ipv4Addr};

use crate::World;
use crate::services::Dhcp;
use crate::world::{Mac, mac_text};

impl World {
    /// What is wrong with the addresses that the network has given to ports, given the world before.
    pub fn given_faults(&self, before: &World) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, port) in &self.ports {
            for address in port.addresses.iter().filter(|address| port.dynamic.contains(&address.mac)) {
                for is_ipv4 in [true, false] {
                    let of_version = address.ips.iter().filter(|ip| ip.is_ipv4() == is_ipv4);
                    let given: Vec<IpAddr> = of_version.copied().collect();
                    let fault = self.fault_of(before, (name, address.mac), is_ipv4, &given);
                    let says = |fault| {
                        format!("{name} has been given {given:?} for {}: {fault}", mac_text(address.mac))
                    };
                    faults.extend(fault.map(says));
                }
            }
        }
        faults
    }

    /// The server that gives addresses of an IP version to the ports of a switch.
    fn giver(&self, switch: &str, is_ipv4: bool) -> Option<(&str, &Dhcp)> {
        let mut of_version =
            self.dhcps.iter().filter(|(_, dhcp)| dhcp.switch == switch && dhcp.net.ip.is_ipv4() == is_ipv4);
        of_version.next().map(|(name, dhcp)| (name.as_str(), dhcp))
    }

    fn fault_of(
        &self,
        before: &World,
        (port, mac): (&str, Mac),
        is_ipv4: bool,
        given: &[IpAddr],
    ) -> Option<&'static str> {
        let switch = &self.ports[port].switch;
        let Some((giver, dhcp)) = self.giver(switch, is_ipv4) else {
            return (!given.is_empty()).then_some("no server gives any");
        };
        let [ip] = *given else { return Some("it is to have one") };
        if !dhcp.net.contains(ip) {
            return Some("it is not in the network of the server");
        }
        if is_of_network(dhcp, ip) {
            return Some("no machine can have it");
        }
        if self.owners(switch, ip) != 1 {
            return Some("it is somebody else's too");
        }
        let had =
            before.ports.get(port).filter(|before| before.switch == *switch && before.dynamic.contains(&mac));
        let same_giver = before.giver(switch, is_ipv4).is_some_and(|(name, _)| name == giver);
        let had = had.into_iter().flat_map(|port| &port.addresses).filter(|address| address.mac == mac);
        let mut had = had.flat_map(|address| &address.ips).filter(|had| had.is_ipv4() == is_ipv4);
        let lost = same_giver && had.any(|had| dhcp.net.contains(*had) && *had != ip);
        lost.then_some("it had another one, which it was to keep")
    }

    /// How many have an address on a switch.
    fn owners(&self, switch: &str, ip: IpAddr) -> usize {
        let machines =
            self.ports_of(switch).flat_map(|(_, port)| &port.addresses).flat_map(|address| &address.ips);
        let routers = self.router_ports.values().filter(|port| port.switch == switch);
        let routers = routers.flat_map(|port| port.networks.iter().map(|network| network.ip));
        let servers = self.servers_on(switch).map(|server| server.ip);
        let of_switch = self.dhcps.values().filter(|dhcp| dhcp.switch == switch);
        let told = of_switch.flat_map(|dhcp| dhcp.dns.iter().copied().chain(dhcp.router.map(IpAddr::from)));
        machines.copied().chain(routers).chain(servers).chain(told).filter(|other| *other == ip).count()
    }
}

/// Whether an address stands for the network of a server, or for all in it.
fn is_of_network(dhcp: &Dhcp, ip: IpAddr) -> bool {
    let first = dhcp.net.prefix().ip;
    match ip {
        IpAddr::V4(ip) => {
            let hosts = u32::MAX.checked_shr(dhcp.net.length.into()).unwrap_or(0);
            let is_last = ip.to_bits() & hosts == hosts;
            dhcp.net.length < 31 && (first == IpAddr::V4(ip) || is_last || ip == Ipv4Addr::BROADCAST)
        }
        IpAddr::V6(ip) => first == IpAddr::V6(ip) && dhcp.net.length < 127,
    }
}
