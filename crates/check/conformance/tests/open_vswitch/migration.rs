//! A port that may be on two hosts, on the one that stands by for it, in real Open vSwitch: what it delivers and accepts before
//! its machine has announced itself, and from then on, without anybody's help.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use conformance::{Change, NumberedWorld, Simulation, program};
use frame_builder::{
    BROADCAST, IPV4, Ipv4, Mac, UDP, announcement, ethernet, gratuitous_arp, tagged, udp_without_checksum,
    unsolicited_advertisement,
};
use network_spec::{Node, Port};
use ovs_testing::DummySwitch;

use super::numbered::{ipv4, ipv6, mac, port};
use super::start;

const OLD: &str = "h1";
const NEW: &str = "h2";

/// `vm` on the old host, plugged in at the new one too, with `box` behind it; `peer` and `mate` of their switches on the new host.
fn world(port_security: bool) -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    for (host, number) in [(OLD, 1), (NEW, 2)] {
        assert!(world.apply(&Change::Node(host.to_owned(), Node::at(Ipv4Addr::new(172, 16, 0, number)))));
    }
    for switch in ["blue", "red"] {
        assert!(world.apply(&Change::Switch(switch.to_owned(), String::new())));
    }
    let requested_hosts = vec![OLD.to_owned(), NEW.to_owned()];
    let behind = Port { parent: Some(("vm".to_owned(), 7)), port_security, ..port("red", 1) };
    let ports = [
        ("vm", Port { requested_hosts, port_security, ..port("blue", 1) }),
        ("peer", port("blue", 2)),
        ("box", behind),
        ("mate", port("red", 2)),
    ];
    for (name, port) in ports {
        assert!(world.apply(&Change::Port(name.to_owned(), port)), "{name}");
    }
    for (host, port) in [(OLD, "vm"), (NEW, "vm"), (NEW, "peer"), (NEW, "mate")] {
        assert!(world.apply(&Change::Plug(host.to_owned(), port.to_owned())), "{port}");
    }
    world
}

/// The new host's switch.
struct Standby {
    world: NumberedWorld,
    switch: DummySwitch,
}

impl Standby {
    fn start(security: bool) -> Standby {
        let world = world(security);
        let mut simulation = Simulation::new(program::rules()).expect("the rules start");
        simulation.change(&world, &|_| true).expect("the rules take the network");
        let host = simulation.hosts().fabric().host(NEW).expect("the host is there").clone();
        let switch = start(&host, &[Ipv4Addr::new(172, 16, 0, 1).into()]);
        Standby { world, switch }
    }

    fn number(&self, port: &str) -> u16 {
        self.world.ofports[&(NEW.to_owned(), port.to_owned())]
    }

    /// The ports of this host at which a frame comes out.
    fn send(&mut self, from: &str, bytes: &[u8]) -> Vec<&'static str> {
        let out = self.switch.receive(self.number(from), bytes);
        self.names(out)
    }

    /// The same if the datapath still does with the frame what it did with earlier ones.
    fn send_cached(&mut self, from: &str, bytes: &[u8]) -> Vec<&'static str> {
        let out = self.switch.receive_cached(self.number(from), bytes);
        self.names(out)
    }

    fn names(&mut self, out: Vec<(u16, Vec<u8>)>) -> Vec<&'static str> {
        let _ = self.switch.sent_up();
        let names = ["vm", "peer", "mate"];
        let name = |(number, _): (u16, Vec<u8>)| names.into_iter().find(|name| self.number(name) == number);
        let mut names: Vec<&str> = out.into_iter().map(|out| name(out).expect("a port")).collect();
        names.sort_unstable();
        names
    }
}

fn data(from: u8, to: Mac) -> Vec<u8> {
    let destination = if to == BROADCAST { Ipv4Addr::BROADCAST } else { ipv4(to[5]) };
    let datagram = udp_without_checksum(5, 6, b"said");
    ethernet(to, mac(from), IPV4, &Ipv4::new(ipv4(from), destination, UDP).packet(&datagram))
}

fn in_box(frame: &[u8]) -> Vec<u8> {
    tagged(frame, 0x8100, 7)
}

#[test]
fn a_standby_delivers_and_accepts_from_its_announcement_on() {
    let announcements = [
        ("RARP", announcement(mac(1))),
        ("gratuitous ARP", gratuitous_arp(mac(1), ipv4(1))),
        ("an unsolicited advertisement", unsolicited_advertisement(mac(1), ipv6(1))),
        ("gratuitous ARP of a trunk member", in_box(&gratuitous_arp(mac(1), ipv4(1)))),
    ];
    for (what, announcement) in announcements {
        for security in [false, true] {
            let at = format!("{what}, with port security: {security}");
            let mut standby = Standby::start(security);
            assert!(standby.send("peer", &data(2, mac(1))).is_empty(), "{at}");
            assert!(standby.send("mate", &data(2, mac(1))).is_empty(), "{at}");
            assert_eq!(standby.send("peer", &data(2, BROADCAST)), ["vm"], "{at}");
            assert_eq!(standby.send("mate", &data(2, BROADCAST)), ["vm"], "{at}");
            assert!(standby.send("vm", &data(1, mac(2))).is_empty(), "{at}");
            assert!(standby.send("vm", &in_box(&data(1, mac(2)))).is_empty(), "{at}");
            let heard_by = if what.ends_with("member") { "mate" } else { "peer" };
            assert_eq!(standby.send("vm", &announcement), [heard_by], "{at}");
            assert_eq!(standby.send("peer", &data(2, mac(1))), ["vm"], "{at}");
            assert_eq!(standby.send("mate", &data(2, mac(1))), ["vm"], "{at}");
            assert_eq!(standby.send("vm", &data(1, mac(2))), ["peer"], "{at}");
            assert_eq!(standby.send("vm", &in_box(&data(1, mac(2)))), ["mate"], "{at}");
        }
    }
}

/// The datapath keeps a decision to drop until the switch has looked at it again, which the learned flow makes it do.
#[test]
fn what_was_dropped_before_the_announcement_passes_soon_after_it() {
    let mut standby = Standby::start(true);
    for _ in 0..20 {
        assert!(standby.send_cached("peer", &data(2, mac(1))).is_empty());
        assert!(standby.send_cached("vm", &data(1, mac(2))).is_empty());
    }
    let announced = Instant::now();
    assert_eq!(standby.send_cached("vm", &announcement(mac(1))), ["peer"]);
    for (from, to, frame) in [("peer", "vm", data(2, mac(1))), ("vm", "peer", data(1, mac(2)))] {
        let mut lost = 0;
        while standby.send_cached(from, &frame) != [to] {
            lost += 1;
            assert!(
                announced.elapsed() < Duration::from_secs(5),
                "{from} cannot reach {to}, {lost} frames later"
            );
        }
        eprintln!("from {from} to {to}: {lost} lost, {:?} after the announcement", announced.elapsed());
    }
}
