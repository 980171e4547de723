//! Frames from and to machines whose addresses the rules have given. A history does not know these addresses, so it has seeds of such frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::Mac;
use network_spec::{Address, Port, Server};
use test_random::Random;

use super::Place;
use super::traffic::vnic;
use crate::frames::requests::{Dhcpv4, association, datagram, option};
use crate::frames::{frame, link_local};
use crate::world::NumberedWorld;

const BROADCAST: Mac = [0xff; 6];

/// The frame of a seed in a world, and where it is sent; none if no machine has such an address.
pub fn given_frame(world: &NumberedWorld, seed: u64) -> Option<(Place, Vec<u8>)> {
    let random = &mut Random::new(seed);
    let of_port = |port: &Port| -> Vec<Address> {
        let given = port.addresses.iter().filter(|address| port.dynamic.contains(&address.mac));
        given.cloned().collect()
    };
    let here = |(host, name): &&(String, String)| {
        let port = world.ports.get(name).filter(|port| port.parent.is_none());
        port.is_some() && world.location(name) == Some(host.as_str())
    };
    let places: Vec<&(String, String)> = world.vnics.keys().filter(here).collect();
    let gives = |(_, name): &&&(String, String)| !of_port(&world.ports[name]).is_empty();
    let givens: Vec<&(String, String)> = places.iter().filter(gives).copied().collect();
    if givens.is_empty() {
        return None;
    }
    let from_given = random.chance(60);
    let (host, name) = (*random.pick(if from_given { &givens } else { &places })).clone();
    let port = &world.ports[&name];
    let place = Place::Vnic(host, name.clone());
    if from_given && random.chance(35) {
        let own = random.pick(&of_port(port)).clone();
        return Some((place, request(random, world, &port.switch, &own)));
    }
    let mut book = vnic(world, &name);
    if from_given {
        book.own = of_port(port);
    } else {
        let others = world.ports_of(&port.switch).filter(|(other, _)| *other != name);
        let near: Vec<Address> = others.flat_map(|(_, port)| of_port(port)).collect();
        if !near.is_empty() {
            book.near = near;
        }
    }
    Some((place, frame(random, &book)))
}

/// What a machine asks the server that has given it an address: to have that, or another one.
fn request(random: &mut Random, world: &NumberedWorld, switch: &str, own: &Address) -> Vec<u8> {
    let server = |is_ipv4: bool| -> Option<Server> {
        let mut of_version =
            world.dhcps.values().filter(|one| one.switch == switch && one.server.ip.is_ipv4() == is_ipv4);
        of_version.next().map(|dhcp| dhcp.server)
    };
    let four = own.ips.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
    let six = own.ips.iter().find_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None });
    if random.chance(60) || six.is_none() {
        let given = four.unwrap_or(Ipv4Addr::new(10, 0, 0, 1));
        let wanted = if random.chance(20) { Ipv4Addr::from_bits(given.to_bits() ^ 1) } else { given };
        let mut options = vec![(55, vec![1, 3, 6, 26])];
        let kind = *random.pick(&[1, 3, 3, 3, 8]);
        let (mut has, mut to) = (Ipv4Addr::UNSPECIFIED, (BROADCAST, IpAddr::V4(Ipv4Addr::BROADCAST)));
        if kind == 8 || (kind == 3 && random.chance(50)) {
            has = wanted;
            to = server(true).filter(|_| random.chance(70)).map_or(to, |server| (server.mac, server.ip));
        } else if kind == 3 {
            options.push((50, wanted.octets().to_vec()));
        }
        let broadcast = random.chance(30);
        let relay = Ipv4Addr::UNSPECIFIED;
        let message = Dhcpv4 { kind: Some(kind), broadcast, has, relay, mac: own.mac, options };
        return datagram((to.0, own.mac), (has.into(), to.1), (68, 67), &message.message());
    }
    let given = six.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let wanted = if random.chance(20) { Ipv6Addr::from_bits(given.to_bits() ^ 1) } else { given };
    let kind = *random.pick(&[1, 3, 4, 6]);
    let mut message = vec![kind, 1, 2, 3];
    message.extend(option(1, &[&[0, 3, 0, 1][..], &own.mac].concat()));
    if let Some(server) = server(false).filter(|_| kind == 3) {
        message.extend(option(2, &[&[0, 3, 0, 1][..], &server.mac].concat()));
    }
    message.extend(association(3, 1, &[wanted]));
    let all_servers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
    let addresses = (link_local(own.mac).into(), all_servers.into());
    datagram(([0x33, 0x33, 0, 1, 0, 2], own.mac), addresses, (546, 547), &message)
}
