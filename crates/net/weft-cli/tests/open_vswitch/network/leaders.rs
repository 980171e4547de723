//! A leader of a branch dies while another host floods: its branch gets floods again once the controller knows. How long that
//! takes is printed; benches/RESULTS.md has figures. A leader that was drained before is missed by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Host, Lab, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, bring_up, settings, unique, wait_for};

const HOSTS: u8 = 8;
/// The machine that floods, on the first host.
const SENDER: &str = "vm1";
/// Time between two floods.
const EVERY: Duration = Duration::from_millis(5);
/// So many floods in a row that reach everybody show that all is well again.
const ROW: usize = 100;

/// The rules with trees for switches on more than two hosts.
fn rules(folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let to = folder.join("rules");
    let copied = Command::new("cp").arg("-r").arg(&from).arg(&to).status().unwrap();
    assert!(copied.success());
    let trees = to.join("locators/replication_trees.nlog");
    let text = fs::read_to_string(&trees).unwrap();
    let few = text.replace("const MAX_COPIES = 64;", "const MAX_COPIES = 2;");
    assert_ne!(text, few, "the limit is elsewhere now");
    fs::write(trees, few).unwrap();
    to
}

fn mac(number: u8) -> String {
    format!("02:00:00:00:0a:{number:02x}")
}

/// Eight hosts with a machine each, on one switch.
fn start(folder: &Path) -> Testbed {
    let rules = vec![rules(folder)];
    let testbed = Testbed::start(Settings { hosts: HOSTS, rules, ..settings("leaders") }).unwrap();
    let mut network = "{kind: switch, id: wide}\n".to_owned();
    let mut machines = Vec::new();
    for number in 1..=HOSTS {
        let (name, mac) = (format!("vm{number}"), mac(number));
        network +=
            &format!("---\n{{kind: switch_port, id: {name}, switch: wide, addresses: [{{mac: '{mac}'}}]}}\n");
        machines.push(VmSpec::new(&name, format!("hv{number}"), &name, mac));
    }
    bring_up(&testbed, &network, &machines);
    testbed
}

/// The hosts to which groups of `from` send copies: those below or from `border` on, the first id of branch groups.
fn copies(lab: &Lab, from: &Host, is_branch: bool) -> BTreeSet<String> {
    const BRANCH_GROUP: u32 = 0x0200_0000;
    let hosts = lab.hosts().unwrap();
    let groups = from.ofctl(&["-O", "OpenFlow15", "dump-groups", &from.bridge_endpoint("br-int")]).unwrap();
    let mut found = BTreeSet::new();
    for group in groups.lines().filter_map(|line| line.trim().strip_prefix("group_id=")) {
        let id: u32 = group.split(',').next().unwrap().parse().unwrap();
        if (id >= BRANCH_GROUP) == is_branch {
            let gets = |host: &&Host| group.contains(&format!("set_field:{}->tun_dst", host.ip));
            found.extend(hosts.iter().filter(gets).map(|host| host.name.clone()));
        }
    }
    found
}

/// A host that leads a branch with others, for the sender's host, and these others.
fn leader(lab: &Lab) -> Option<(Host, BTreeSet<String>)> {
    let sender = lab.host("hv1").unwrap();
    copies(lab, &sender, false).into_iter().find_map(|name| {
        let host = lab.host(&name).unwrap();
        let others = copies(lab, &host, true);
        (!others.is_empty() && !others.contains(&sender.name)).then_some((host, others))
    })
}

/// Floods until every machine but that of `dead` gets them, after `kill`. Returns for how long some did not, and how many
/// floods each of them has lost.
fn flood_until_whole(lab: &Lab, dead: &Host, kill: impl FnOnce()) -> (Duration, BTreeMap<String, usize>) {
    let taps = lab.all_taps().unwrap();
    let vms = lab.vms().unwrap();
    let living = vms.iter().filter(|vm| vm.host != dead.name && vm.name != SENDER);
    let living: Vec<&str> = living.map(|vm| vm.name.as_str()).collect();
    let from = frame::mac(&mac(1)).unwrap();
    // A switch that goes on after a pause has frames of before in its queues: these do not count.
    let prefix = unique("flood") + "-";
    let read = |frame: &[u8]| -> Option<usize> {
        let length = prefix.len();
        let at = frame.windows(length).position(|part| part == prefix.as_bytes())? + length;
        std::str::from_utf8(frame.get(at..at + 8)?).ok()?.parse().ok()
    };
    let mut heard: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut sent = Vec::new();
    kill();
    let start = Instant::now();
    loop {
        let mark = format!("{prefix}{:08}", sent.len());
        let flood = frame::udp4(frame::BROADCAST, from, [255; 4].into(), [0; 4].into(), mark.as_bytes());
        sent.push(start.elapsed());
        taps.send(SENDER, &flood).unwrap();
        for (machine, frames) in taps.first(|frame| read(frame).is_some(), 0, Duration::ZERO).unwrap() {
            for number in frames.iter().filter_map(|frame| read(frame)) {
                assert!(heard.entry(machine.clone()).or_default().insert(number), "{machine} gets it twice");
            }
        }
        // The latest are in flight.
        let arrived = sent.len().saturating_sub(ROW / 2);
        let lost = |machine: &&str| -> Vec<usize> {
            let got = heard.get(*machine);
            (0..arrived).filter(|number| !got.is_some_and(|got| got.contains(number))).collect()
        };
        let lost: BTreeMap<&str, Vec<usize>> =
            living.iter().map(|machine| (*machine, lost(machine))).collect();
        let last = lost.values().filter_map(|lost| lost.last()).max().map_or(0, |last| last + 1);
        if arrived >= last + ROW {
            let lost = lost.into_iter().map(|(machine, lost)| (machine.to_owned(), lost.len()));
            return (sent[last], lost.collect());
        }
        assert!(start.elapsed() < DEADLINE, "floods are lost still: {lost:?}");
        std::thread::sleep((EVERY * sent.len() as u32).saturating_sub(start.elapsed()));
    }
}

fn signal(host: &Host, signal: &str) {
    let pid = host.vswitchd_pid().expect("it runs").to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[test]
fn a_leader_that_dies_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let testbed = start(folder.path());
    let lab = testbed.lab().unwrap();
    let whole = lab.host("hv1").unwrap();
    flood_until_whole(lab, &whole, || {});
    for how in ["-STOP", "-KILL"] {
        let (dead, branch) = wait_for("a leader", || leader(lab));
        let (dark, lost) = flood_until_whole(lab, &dead, || signal(&dead, how));
        println!("{} gets {how}; its branch is {branch:?}; dark for {dark:?}, lost: {lost:?}", dead.name);
        let of_branch = |machine: &str| branch.contains(&machine.replace("vm", "hv"));
        for (machine, lost) in &lost {
            assert!(*lost == 0 || of_branch(machine), "{machine} is of another branch, and loses {lost}");
        }
        if how == "-STOP" {
            assert!(lost.values().any(|lost| *lost > 0), "it led nobody: {lost:?}");
            signal(&dead, "-CONT");
            flood_until_whole(lab, &whole, || {});
            wait_for("another leader", || leader(lab).filter(|(host, _)| host.name != dead.name));
        }
    }
}

/// Sets a field of a host while another floods, and waits until it is in force. Every machine gets every flood.
fn set_while_flooding(testbed: &Testbed, host: &Host, field: &str) {
    let lab = testbed.lab().unwrap();
    let whole = lab.host("hv1").unwrap();
    let all_arrive = || {
        let (_, lost) = flood_until_whole(lab, &whole, || {});
        assert!(lost.values().all(|lost| *lost == 0), "{field} of {}: lost {lost:?}", host.name);
    };
    std::thread::scope(|scope| {
        let set = scope.spawn(|| ask(testbed, &["set", "transport_node", &host.name, field, "--wait"]));
        while !set.is_finished() {
            all_arrive();
        }
    });
    all_arrive();
}

#[test]
fn a_leader_that_is_drained_hands_over_and_is_missed_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let testbed = start(folder.path());
    let lab = testbed.lab().unwrap();
    let sender = lab.host("hv1").unwrap();
    flood_until_whole(lab, &sender, || {});
    let (drained, branch) = wait_for("a leader", || leader(lab));
    let leads = |host: &str| copies(lab, &sender, false).contains(host);

    let hands_over = || {
        set_while_flooding(&testbed, &drained, "drain=true");
        assert!(!leads(&drained.name), "{} leads still", drained.name);
        assert!(branch.iter().any(|host| leads(host)), "nobody leads {branch:?}");
    };
    hands_over();
    set_while_flooding(&testbed, &drained, "drain=false");
    assert!(leads(&drained.name) && !branch.iter().any(|host| leads(host)), "it does not lead again");
    hands_over();
    let (_, lost) = flood_until_whole(lab, &drained, || signal(&drained, "-STOP"));
    assert!(lost.values().all(|lost| *lost == 0), "it led somebody: {lost:?}");
    signal(&drained, "-CONT");
}
