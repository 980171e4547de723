//! Tenants with the same addresses on the same hosts: no frame of one tenant reaches another, whatever its
//! contents.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use conformance::frames::{Book, Ways, frame, routed};
use conformance::{Change, NumberedWorld, Place, Simulation, program};
use network_spec::{Address, Encap, Network, Node, Port, Reach, Route, Router, RouterPort, Target};
use test_random::Random;

const TENANTS: [&str; 3] = ["acme", "coke", "dash"];
/// A switch of no tenant, with the port whose interface the tenants share.
const SHARED: &str = "shared";
const HOSTS: u8 = 3;
const PORTS: u8 = 4;

fn name(tenant: &str, number: u8) -> String {
    format!("{tenant}-{number}")
}

fn addresses(number: u8) -> Address {
    let ips = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())),
    ];
    Address { mac: [2, 0, 0, 0, 0, number], ips: ips.to_vec() }
}

/// A switch for each tenant, with the same addresses and the same kinds of ports, at random places.
fn world(random: &mut Random) -> NumberedWorld {
    let mut world = NumberedWorld::new(random.chance(50));
    let encaps = [&[Encap::Geneve][..], &[Encap::Vxlan], &[Encap::Gre, Encap::Geneve]];
    let common = *random.pick(&encaps);
    for host in 1..=HOSTS {
        let node = Node { encaps: common.to_vec(), ..Node::at(Ipv4Addr::new(172, 16, 0, host)) };
        assert!(world.apply(&Change::Node(format!("h{host}"), node)));
    }
    let kinds: Vec<(bool, bool)> =
        (0..PORTS).map(|_| *random.pick(&[(true, false), (false, true), (false, false)])).collect();
    assert!(world.apply(&Change::Switch(SHARED.to_owned(), String::new())));
    assert!(world.apply(&Change::Port(name(SHARED, 1), Port::of(SHARED))));
    let host = format!("h{}", random.below(HOSTS.into()) + 1);
    assert!(world.apply(&Change::Plug(host, name(SHARED, 1))));
    for tenant in TENANTS {
        assert!(world.apply(&Change::Switch(tenant.to_owned(), tenant.to_owned())));
        for number in 1..=PORTS {
            let (port_security, unknown_addresses) = kinds[usize::from(number) - 1];
            // The last port is a trunk member of a port that all tenants share.
            let parent = (number == PORTS)
                .then(|| (name(SHARED, 1), tenant.len() as u16 + u16::from(tenant.as_bytes()[0])));
            let addresses = vec![addresses(number)];
            let port = Port { addresses, port_security, unknown_addresses, parent, ..Port::of(tenant) };
            assert!(world.apply(&Change::Port(name(tenant, number), port)));
            if number != PORTS {
                let host = format!("h{}", random.below(HOSTS.into()) + 1);
                assert!(world.apply(&Change::Plug(host, name(tenant, number))));
            }
        }
    }
    world
}

/// The tenant of a frame from a vNIC: decided by the tag, if a trunk member has it.
fn tenant(world: &NumberedWorld, port: &str, bytes: &[u8]) -> String {
    let tag = match bytes[12..] {
        [0x81, 0, high, low, ..] | [0x88, 0xa8, high, low, ..] => {
            Some(u16::from_be_bytes([high, low]) & 0xfff)
        }
        _ => None,
    };
    let child = world.children(port).find(|(of, _)| Some(*of) == tag).map(|(_, child)| child);
    world.ports[child.unwrap_or(port)].switch.clone()
}

#[test]
fn nothing_passes_between_tenants_with_the_same_addresses() {
    let mut simulation = Simulation::new(program::rules()).unwrap();
    let (mut worlds, mut arrived, mut pairs) = (0, 0, BTreeSet::new());
    for seed in test_random::seeds!("nothing_passes_between_tenants_with_the_same_addresses", 25) {
        let random = &mut Random::new(seed);
        let world = world(random);
        worlds += 1;
        simulation.change(&world, &|_| true).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
        for _ in 0..200 {
            let (host, port) = random.pick(&world.vnics.keys().cloned().collect::<Vec<_>>()).clone();
            let everybody: Vec<Address> = (1..=PORTS).map(addresses).collect();
            let tags = world.children(&port).map(|(tag, _)| (tag, vec![addresses(PORTS)], everybody.clone()));
            let book = Book {
                own: world.ports[&port].addresses.clone(),
                near: everybody.clone(),
                tags: tags.collect(),
                ..Book::default()
            };
            let bytes = frame(random, &book);
            let from = tenant(&world, &port, &bytes);
            let out = simulation.send(&Place::Vnic(host.clone(), port.clone()), &bytes).unwrap();
            arrived += out.len();
            for one in out {
                let Place::Vnic(_, to) = &one.at else { panic!("seed {seed}: there is no physical network") };
                let owner = tenant(&world, to, &one.bytes);
                pairs.insert(from.clone());
                assert_eq!(
                    owner, from,
                    "seed {seed}: {port} on {host} sends {bytes:02x?}, out comes {one:02x?}\n{world}"
                );
            }
        }
        simulation.change(&NumberedWorld::new(false), &|_| true).unwrap();
    }
    // A fifth of the frames, however many seeds run.
    assert!(
        arrived > 40 * worlds && pairs.len() == TENANTS.len(),
        "only {arrived} frames came out in {worlds} worlds, of {pairs:?}"
    );
}

/// The number of a router's port on a switch, of a network of its own: near, and behind the router.
const NEAR: u8 = 0;
const FAR: u8 = 1;

/// The switch of a tenant behind its router.
fn far(tenant: &str) -> String {
    format!("{tenant}-far")
}

/// The addresses of a machine in a network, or of the router's port there.
fn routed_addresses(network: u8, number: u8) -> Address {
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, network.into(), 0, 0, 0, number.into());
    let ips = [IpAddr::V4(Ipv4Addr::new(10, 0, network, number)), IpAddr::V6(v6)];
    Address { mac: [2, 0, 0, 0, network, number], ips: ips.to_vec() }
}

/// A router between two switches for each tenant, all with the same addresses and the same next hops, at random places.
fn routed_world(random: &mut Random) -> NumberedWorld {
    const GATEWAY: u8 = 254;
    let mut world = NumberedWorld::new(random.chance(50));
    for host in 1..=HOSTS {
        let node = Node { encaps: vec![Encap::Geneve], ..Node::at(Ipv4Addr::new(172, 16, 0, host)) };
        assert!(world.apply(&Change::Node(format!("h{host}"), node)));
    }
    let reach = *random.pick(&[Reach::Direct, Reach::Relay]);
    for tenant in TENANTS {
        let router = Router { tenant: tenant.to_owned(), reach, proxy_arp: vec![] };
        assert!(world.apply(&Change::Router(format!("{tenant}-router"), router)));
        for (network, switch) in [(NEAR, tenant.to_owned()), (FAR, far(tenant))] {
            assert!(world.apply(&Change::Switch(switch.clone(), tenant.to_owned())));
            let Address { mac, ips } = routed_addresses(network, GATEWAY);
            let networks = ips.iter().map(|ip| Network::of(*ip, if ip.is_ipv4() { 24 } else { 64 }));
            let (router, networks) = (format!("{tenant}-router"), networks.collect());
            let port = RouterPort { router, switch: switch.clone(), mac, networks, gateways: Vec::new() };
            assert!(world.apply(&Change::RouterPort(format!("{switch}-gateway"), port)));
            for number in 1..=PORTS {
                let addresses = vec![routed_addresses(network, number)];
                let port = Port { addresses, port_security: random.chance(50), ..Port::of(&switch) };
                assert!(world.apply(&Change::Port(name(&switch, number), port)));
                let host = format!("h{}", random.below(HOSTS.into()) + 1);
                assert!(world.apply(&Change::Plug(host, name(&switch, number))));
            }
        }
        let hops = [1, 2].map(|number| routed_addresses(FAR, number).ips[0]).to_vec();
        let destination = Network::of(Ipv4Addr::UNSPECIFIED, 0);
        let route = Route { router: format!("{tenant}-router"), destination, target: Target::NextHops(hops) };
        assert!(world.apply(&Change::Route(format!("{tenant}-out"), route)));
    }
    world
}

#[test]
fn nothing_passes_between_the_routers_of_tenants_with_the_same_addresses() {
    let mut simulation = Simulation::new(program::rules()).unwrap();
    let (mut worlds, mut arrived, mut crossed) = (0, 0, 0);
    for seed in
        test_random::seeds!("nothing_passes_between_the_routers_of_tenants_with_the_same_addresses", 10)
    {
        let random = &mut Random::new(seed);
        let world = routed_world(random);
        worlds += 1;
        simulation.change(&world, &|_| true).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
        let everybody: Vec<(u8, u8)> =
            [NEAR, FAR].iter().flat_map(|network| (1..=PORTS).map(|number| (*network, number))).collect();
        let ips = everybody.iter().flat_map(|(network, number)| routed_addresses(*network, *number).ips);
        let wanted: Vec<IpAddr> = ips.collect();
        for _ in 0..200 {
            let (host, port) = random.pick(&world.vnics.keys().cloned().collect::<Vec<_>>()).clone();
            let switch = world.ports[&port].switch.clone();
            let gateway = world.router_ports[&format!("{switch}-gateway")].address();
            let ways = Ways {
                own: world.ports[&port].addresses.clone(),
                routers: gateway.ips.clone(),
                gateways: vec![gateway],
                wanted: wanted.clone(),
                ..Ways::default()
            };
            let bytes = routed(random, &ways);
            let tenant = world.switches[&switch].tenant.clone();
            for one in simulation.send(&Place::Vnic(host.clone(), port.clone()), &bytes).unwrap() {
                let Place::Vnic(_, to) = &one.at else { panic!("seed {seed}: there is no physical network") };
                let owner = &world.ports[to].switch;
                arrived += 1;
                crossed += usize::from(*owner != switch);
                assert_eq!(
                    world.switches[owner].tenant, tenant,
                    "seed {seed}: {port} on {host} sends {bytes:02x?}, out comes {one:02x?}\n{world}"
                );
            }
        }
        simulation.change(&NumberedWorld::new(false), &|_| true).unwrap();
    }
    assert!(
        arrived > 40 * worlds && crossed > 10 * worlds,
        "only {arrived} frames came out in {worlds} worlds, {crossed} of them on another switch"
    );
}
