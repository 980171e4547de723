//! Random migrations under traffic each way: every kind of port, whatever the manager calls, in whatever order, with the
//! controller and without it. No frame that was sent before the switch-over is lost, none is received twice, and frames come
//! through to the new host afterwards, whether anybody helps or not. `WEFT_TEST_CASES=200` runs 200 of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use lab::{VmSpec, frame};
use test_random::{Random, seeds};
use testbed::Testbed;

use super::conversation::{Conversation, End, Live};
use super::support::{ask, settings, wait_for};

const HOSTS: [&str; 3] = ["hv1", "hv2", "hv3"];
const NETWORK: &str = "plant";

/// Time between two frames of one direction. What waits in a queue while a process is not scheduled for a second is not lost.
const EVERY: Duration = Duration::from_millis(4);
/// So many frames in a row show that they come through.
const ROW: u32 = 25;

/// A port that moves.
struct Mover {
    port: &'static str,
    /// Its address among those of the test, and its switch's.
    number: u8,
    switch: &'static str,
    fields: &'static str,
    /// The tag of the port behind it, of switch `blue`, that talks in its place.
    behind: Option<u16>,
    peer: &'static str,
}

const MOVERS: [Mover; 5] = [
    Mover { port: "plain", number: 1, switch: "red", fields: "", behind: None, peer: "red-peer" },
    Mover {
        port: "secured",
        number: 2,
        switch: "red",
        fields: ", port_security: true",
        behind: None,
        peer: "red-peer",
    },
    Mover {
        port: "trunk",
        number: 3,
        switch: "red",
        fields: ", port_security: true",
        behind: Some(7),
        peer: "blue-peer",
    },
    Mover {
        port: "guest",
        number: 4,
        switch: "green",
        fields: ", unknown_addresses: true",
        behind: None,
        peer: "green-peer",
    },
    Mover {
        port: "known",
        number: 5,
        switch: "wide",
        fields: ", port_security: true",
        behind: None,
        peer: "wide-peer",
    },
];

/// The machines that stay: their ports, on which switch, and where. That of `wide` is on the physical network.
const PEERS: [(&str, u8, &str, Option<&str>); 4] = [
    ("red-peer", 11, "red", Some("hv3")),
    ("blue-peer", 12, "blue", Some("hv1")),
    ("green-peer", 13, "green", Some("hv2")),
    ("wide-peer", 14, "wide", None),
];

/// The port behind the trunk.
const BEHIND: (&str, u8) = ("box", 6);

fn end(number: u8) -> End {
    End { mac: [2, 0, 0, 0, 9, number], ip: Ipv4Addr::new(10, 9, 0, number) }
}

fn mac(number: u8) -> String {
    format!("02:00:00:00:09:{number:02x}")
}

/// A machine at each host for each port that moves, which is plugged in at one or two of them.
fn machine(port: &str, host: &str) -> String {
    format!("{port}-{host}")
}

/// The objects, given the hosts that each port requests.
fn network(requested: &BTreeMap<&str, Vec<&str>>) -> String {
    let mut text =
        format!("{{kind: localnet_port, id: wide-plant, switch: wide, physical_network: {NETWORK}}}\n");
    for switch in ["red", "blue", "green", "wide"] {
        writeln!(text, "---\n{{kind: switch, id: {switch}}}").unwrap();
    }
    let addresses =
        |number: u8| format!("addresses: [{{mac: '{}', ips: [{}]}}]", mac(number), end(number).ip);
    for (port, number, switch, _) in PEERS.into_iter().filter(|peer| peer.3.is_some()) {
        writeln!(text, "---\n{{kind: switch_port, id: {port}, switch: {switch}, {}}}", addresses(number))
            .unwrap();
    }
    for Mover { port, number, switch, fields, .. } in &MOVERS {
        let known = if fields.contains("unknown") { "addresses: []".to_owned() } else { addresses(*number) };
        let hosts = requested[port].join(", ");
        writeln!(text, "---\n{{kind: switch_port, id: {port}, switch: {switch}, {known}{fields}, requested_hosts: [{hosts}]}}")
            .unwrap();
    }
    let (id, number) = BEHIND;
    writeln!(
        text,
        "---\n{{kind: switch_port, id: {id}, switch: blue, parent: trunk, tag: 7, {}}}",
        addresses(number)
    )
    .unwrap();
    text
}

/// The network while it is tested.
struct Scene {
    testbed: Testbed,
    requested: BTreeMap<&'static str, Vec<&'static str>>,
    /// The hosts of the ports.
    home: BTreeMap<&'static str, &'static str>,
}

impl Scene {
    fn start() -> Scene {
        let hosts = HOSTS.len() as u8;
        let physical = vec![NETWORK.to_owned()];
        let testbed =
            Testbed::start(testbed::Settings { hosts, physical, ..settings("random-moves") }).unwrap();
        let lab = testbed.lab().unwrap();
        // No addresses: the kernel answers nothing, and announces nothing.
        for (name, number, _, host) in PEERS {
            let spec = match host {
                Some(host) => VmSpec::new(name, host, name, mac(number)),
                None => VmSpec::physical(NETWORK, 0, name, mac(number)),
            };
            lab.add_vms(&[spec]).unwrap();
        }
        let mut home = BTreeMap::new();
        for (mover, first) in MOVERS.iter().zip(HOSTS.iter().cycle()) {
            for host in HOSTS {
                let name = machine(mover.port, host);
                lab.create_vm(&VmSpec::new(&name, host, mover.port, mac(mover.number))).unwrap();
            }
            lab.attach(&machine(mover.port, first)).unwrap();
            home.insert(mover.port, *first);
        }
        let requested = home.iter().map(|(port, host)| (*port, vec![*host])).collect();
        let scene = Scene { testbed, requested, home };
        scene.request_all();
        scene.testbed.wait_in_sync().unwrap();
        scene
    }

    fn request_all(&self) {
        self.testbed.apply("network.yaml", &network(&self.requested)).unwrap();
    }

    fn request(&mut self, port: &'static str, hosts: &[&'static str]) {
        self.requested.insert(port, hosts.to_vec());
        self.request_all();
    }

    /// Adds a machine's interface to its host's switch, for no port yet. Whenever a link changes, Open vSwitch reads the routes of
    /// the host anew, and what it translates meanwhile into the userspace datapath goes into no tunnel for some
    /// milliseconds (`name_table_change` in its lib/route-table.c). That would hide what Weft loses.
    fn add_interface(&self, machine: &str) {
        let lab = self.testbed.lab().unwrap();
        let vm = lab.vm(machine).unwrap();
        let host = lab.host(&vm.host).unwrap();
        host.vsctl(&["add-port", "br-int", &vm.port]).unwrap();
    }

    /// Makes the interface that of its port.
    fn plug_in(&self, machine: &str) {
        self.testbed.lab().unwrap().attach(machine).unwrap();
    }

    fn detach(&self, machine: &str) {
        self.testbed.lab().unwrap().detach(machine).unwrap();
    }

    /// Waits until `weft get` says where a port is, and who stands by for it, and all switches know.
    fn wait_for_homes(&self, port: &str, home: &str, standby: Option<&str>) {
        let home = format!("# node: {home}\n");
        let standby = standby.map(|standby| format!("# standbys: [\"{standby}\"]"));
        wait_for("the port's place", || {
            let said = ask(&self.testbed, &["get", "switch_port", port]);
            let stands_by = match &standby {
                Some(line) => said.contains(line),
                None => !said.contains("# standbys:"),
            };
            (said.contains(&home) && stands_by).then_some(())
        });
        self.testbed.wait_in_sync().unwrap();
    }
}

/// How a migration goes on once both hosts have the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The new host announces the machine.
    Announced,
    /// The same while no controller runs.
    WithoutController,
    /// The machine is announced, and returns: the old host announces it.
    Returned,
    /// Nobody announces it, and the list shrinks to the new host.
    Shrunk,
    /// It fails: the list shrinks to the old host.
    Failed,
    /// No hosts are requested, and the latest claim has the port.
    Claimed,
}

const COURSES: [Course; 6] = [
    Course::Announced,
    Course::WithoutController,
    Course::Returned,
    Course::Shrunk,
    Course::Failed,
    Course::Claimed,
];

/// An announcement of a machine.
fn announcement(random: &mut Random, mover: &Mover) -> Vec<u8> {
    let own = end(mover.number);
    let frame = match random.below(3) {
        0 => frame::announcement(own.mac),
        1 => frame::gratuitous_arp(own.mac, own.ip),
        _ => frame::unsolicited_advertisement(
            own.mac,
            [0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, own.mac[5].into()].into(),
        ),
    };
    match mover.behind {
        // The machine behind announces itself, and with it its parent.
        Some(tag) if random.chance(30) => frame::tagged(&frame::announcement(end(BEHIND.1).mac), tag),
        _ => frame,
    }
}

/// One migration.
struct Migration<'a> {
    mover: &'a Mover,
    old: (&'static str, String),
    new: (&'static str, String),
    course: Course,
}

impl Migration<'_> {
    /// Both hosts are requested, and the new one has the interface, in either order.
    fn prepare(&self, scene: &mut Scene, random: &mut Random, live: &Live<'_>) {
        let port = self.mover.port;
        if self.course == Course::Claimed {
            return scene.request(port, &[]);
        }
        let both = [self.old.0, self.new.0];
        if random.chance(50) {
            scene.request(port, &both);
            live.note("both requested");
            scene.plug_in(&self.new.1);
            live.note("plugged in");
        } else {
            scene.plug_in(&self.new.1);
            live.note("plugged in");
            scene.request(port, &both);
            live.note("both requested");
        }
        scene.wait_for_homes(port, self.old.0, Some(self.new.0));
    }

    /// The switch-over, until frames come through. Returns the number of the first frame after it.
    fn switch_over(&self, scene: &mut Scene, random: &mut Random, live: &Live<'_>) -> u32 {
        let announcement = announcement(random, self.mover);
        let both = [&*self.old.1, &*self.new.1];
        let early = live.reached(&self.new.1);
        assert!(!early, "{} hears something before it runs", self.new.1);
        match self.course {
            Course::Announced | Course::Returned => {
                let border = live.switch_over(&self.new.1, Some(&announcement));
                live.wait_for_row(&[&self.new.1], ROW);
                scene.wait_for_homes(self.mover.port, self.new.0, Some(self.old.0));
                border
            }
            Course::WithoutController => {
                scene.testbed.kill_controller().unwrap();
                let border = live.switch_over(&self.new.1, Some(&announcement));
                live.wait_for_row(&[&self.new.1], ROW);
                scene.testbed.start_controller().unwrap();
                scene.wait_for_homes(self.mover.port, self.new.0, Some(self.old.0));
                border
            }
            Course::Shrunk => {
                let border = live.switch_over(&self.new.1, None);
                scene.request(self.mover.port, &[self.new.0]);
                live.wait_for_row(&[&self.new.1], ROW);
                border
            }
            Course::Failed => {
                let border = live.pause();
                scene.request(self.mover.port, &[self.old.0]);
                border
            }
            Course::Claimed => {
                // From its claim on the new host may have the port.
                let border = live.pause();
                scene.plug_in(&self.new.1);
                live.continue_at(&self.new.1, None);
                scene.wait_for_homes(self.mover.port, self.new.0, None);
                live.wait_for_row(&both, ROW);
                border
            }
        }
    }

    /// Back to one host, in either order. Returns it and its machine.
    fn end(&self, scene: &mut Scene, random: &mut Random, live: &Live<'_>) -> (&'static str, String) {
        let port = self.mover.port;
        if self.course == Course::Returned {
            live.continue_at(&self.old.1, Some(&announcement(random, self.mover)));
            live.wait_for_row(&[&self.old.1], ROW);
            scene.wait_for_homes(port, self.old.0, Some(self.new.0));
        }
        let stays = matches!(self.course, Course::Returned | Course::Failed);
        let (home, left) = if stays { (&self.old, &self.new) } else { (&self.new, &self.old) };
        if random.chance(50) {
            scene.request(port, &[home.0]);
            scene.detach(&left.1);
        } else {
            scene.detach(&left.1);
            scene.request(port, &[home.0]);
        }
        scene.wait_for_homes(port, home.0, None);
        live.wait_for_row(&[&home.1], ROW);
        home.clone()
    }
}

fn migrate(scene: &mut Scene, seed: u64) {
    let mut random = Random::new(seed);
    let mover = random.pick(&MOVERS);
    let course = *random.pick(&COURSES);
    let old = scene.home[mover.port];
    let others: Vec<&'static str> = HOSTS.into_iter().filter(|host| *host != old).collect();
    let new = *random.pick(&others);
    let place = |host: &'static str| (host, machine(mover.port, host));
    let migration = Migration { mover, old: place(old), new: place(new), course };
    let (_, number, ..) = PEERS.into_iter().find(|(peer, ..)| *peer == mover.peer).expect("it is listed");
    let moves = end(if mover.behind.is_some() { BEHIND.1 } else { mover.number });
    let taps = scene.testbed.lab().unwrap().all_taps().unwrap();
    let peer = mover.peer;
    let conversation = Conversation { taps: &taps, peer, stays: end(number), moves, tag: mover.behind };
    scene.add_interface(&migration.new.1);
    // Tunnels resolve their neighbours, and switches learn, with the first frames.
    Live::during(&conversation, &migration.old.1, EVERY, |live| {
        live.wait_for_row(&[&migration.old.1], ROW);
    });
    let (start, mut border, mut last) = (Instant::now(), 0, None);
    let (heard, sent) = Live::during(&conversation, &migration.old.1, EVERY, |live| {
        migration.prepare(scene, &mut random, live);
        border = migration.switch_over(scene, &mut random, live);
        last = Some(migration.end(scene, &mut random, live));
    });
    let (home, _) = last.expect("the migration has ended");
    let both = [&*migration.old.1, &*migration.new.1];
    let lost = |numbers: std::ops::Range<u32>| {
        (heard.missing(&both, true, numbers.clone()), heard.missing(&[peer], false, numbers))
    };
    let (before, after) = (lost(0..border), lost(border..sent));
    let port = mover.port;
    println!(
        "{port} from {old} to {new}, {course:?}: {sent} frames each way, {border} of them before the switch-over; lost before \
         {before:?}, after {after:?} (to it, from it); {:?}; {:?}",
        start.elapsed(),
        heard.notes
    );
    assert_eq!(before, (vec![], vec![]), "lost before the switch-over");
    assert_eq!(heard.twice(), Vec::<&(String, bool, u32)>::new(), "received twice");
    scene.home.insert(mover.port, home);
}

#[test]
fn random_migrations_lose_nothing_before_the_switch_over_and_nothing_comes_twice() {
    let mut scene = Scene::start();
    for seed in seeds!("random_migrations_lose_nothing_before_the_switch_over_and_nothing_comes_twice", 6) {
        migrate(&mut scene, seed);
    }
}
