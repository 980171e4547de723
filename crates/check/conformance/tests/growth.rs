//! What a host more on a switch costs all hosts, from the first to the last, and the largest group of a switch whose hosts differ.
//!
//! The tests run at a reduced size. `WEFT_GROWTH_HOSTS=3000` runs them at full size, in minutes; `benches/RESULTS.md` has the
//! figures.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use conformance::derivation::Derivation;
use conformance::rows::{Reports, rows};
use conformance::{Change, NumberedWorld, program};
use network_spec::{Address, Encap, Node, Port};
use nlog_data::{Row, TableDelta, Value};

/// The hosts that the tests reach unless told otherwise: a few more than have branches of the usual size.
const USUAL: u16 = 110;
const SWITCH: &str = "wide";

/// As in `rules/interface/layout.nlog`.
const BRANCH_GROUP: i64 = 0x200_0000;
const BRANCH_BUCKET: i64 = 0x400_0000;
const LABEL_MASK: i64 = 0xff_ffff;

fn hosts() -> u16 {
    let named = std::env::var("WEFT_GROWTH_HOSTS").ok();
    named.map_or(USUAL, |text| text.parse().expect("WEFT_GROWTH_HOSTS is a number of hosts"))
}

fn world() -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    assert!(world.apply(&Change::Switch(SWITCH.to_owned(), "acme".to_owned())));
    world
}

/// Hosts of these numbers come, each with a port.
fn add(
    world: &mut NumberedWorld,
    numbers: impl Iterator<Item = u16>,
    kind: impl Fn(u16) -> (bool, Vec<Encap>),
) {
    for number in numbers {
        let mut apply = |change| assert!(world.apply(&change));
        let [high, low] = number.to_be_bytes();
        let (is_six, encaps) = kind(number);
        let ip: IpAddr = if is_six {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into()
        } else {
            Ipv4Addr::new(172, 16, high, low).into()
        };
        let node = Node { encaps, ..Node::at(ip) };
        let addresses = vec![Address { mac: [2, 0, 0, 0, high, low], ips: vec![] }];
        let port = Port { addresses, ..Port::of(SWITCH) };
        apply(Change::Node(format!("h{number}"), node));
        apply(Change::Port(format!("p{number}"), port));
        apply(Change::Plug(format!("h{number}"), format!("p{number}")));
    }
}

/// All hosts have their tunnel ports.
fn reports(world: &NumberedWorld) -> Reports {
    let mut reports = Reports::default();
    for (host, node) in &world.nodes {
        for (ofport, encap) in (1..).zip(&node.encaps) {
            reports.tunnels.insert((host.clone(), format!("weft-{}", encap.name())), ofport);
        }
    }
    reports
}

/// The number of rows that change, where a row that replaces another counts once.
fn changed(delta: &TableDelta, key: usize) -> usize {
    let rows = delta.delete.iter().chain(&delta.insert);
    rows.map(|row| row[..key].to_vec()).collect::<BTreeSet<Row>>().len()
}

/// The sizes at which a host more is counted: each at first, then each at which there is a branch more, the one after, and one
/// between.
fn sizes(hosts: u16) -> Vec<u16> {
    let squares = (1..).map(|root: u16| root * root).take_while(|square| *square < hosts);
    let around = squares.flat_map(|square| [square + 1, square + 2, square + 9]);
    let all: BTreeSet<u16> = (2..=80).chain(around).chain([hosts]).filter(|size| *size <= hosts).collect();
    all.into_iter().collect()
}

/// About the flows that each host has, whatever others there are. Twenty compare the addresses of ARP requests, and thirty are for gateways.
const OWN: usize = 280;

#[test]
fn a_host_more_changes_few_flows_and_buckets() {
    let hosts = hosts();
    let mut world = world();
    let alike = |_| (false, vec![Encap::Geneve]);
    let mut derivation = Derivation::new(program::rules()).expect("the rules start");
    let table = |derivation: &Derivation, name| derivation.schema().find(name).expect("the rules have it");
    let [flow, bucket, branch] = ["of_flow", "of_bucket", "branch"].map(|name| table(&derivation, name));
    let objects = program::rules().objects.clone();
    let mut step = |world: &NumberedWorld| {
        let rows = rows(world, &objects, &reports(world), &|_| true);
        derivation.replace(rows).expect("the rules accept it").expect("something changes")
    };
    println!(
        "| hosts | flows that change | for each other host, beyond {OWN} | buckets that change | branches split |"
    );
    println!("|---|---|---|---|---|");
    let mut at = 0;
    let (mut most, mut most_split) = ((0, 0), (0, 0));
    for size in sizes(hosts) {
        if at + 1 < size {
            add(&mut world, at + 1..size, alike);
            step(&world);
        }
        add(&mut world, size..=size, alike);
        at = size;
        let delta = step(&world);
        let count = |table, key| delta.get(&table).map_or(0, |delta| changed(delta, key));
        let (flows, buckets) = (count(flow, 4), count(bucket, 3));
        // Whoever changes its branch, besides the new host.
        let movers = delta.get(&branch).map_or(0, |delta| delta.delete.len());
        let more = (flows.saturating_sub(OWN)) as f64 / f64::from(size - 1);
        println!("| {size} | {flows} | {more:.2} | {buckets} | {} |", usize::from(movers > 0));
        // Four for what each pair exchanges, and two that count its probes.
        assert!(flows <= 6 * usize::from(size - 1) + OWN, "{flows} flows for host {size}");
        let limit = if movers > 0 { 10_000 } else { 6_000 };
        assert!(buckets <= limit, "{buckets} buckets for host {size}");
        let largest = if movers > 0 { &mut most_split } else { &mut most };
        *largest = (*largest).max((buckets, size));
    }
    println!(
        "most buckets: {} at {}; where a branch is added: {} at {}",
        most.0, most.1, most_split.0, most_split.1
    );
    assert!(most_split.0 > 0, "no branch was ever split");
}

/// Sixteen classes: each set of encapsulations, and hosts with tunnel endpoints of the other IP version.
fn class(number: u16) -> (bool, Vec<Encap>) {
    let set = number % 16;
    let all = [Encap::Geneve, Encap::Vxlan, Encap::Gre, Encap::Stt];
    let of_set = (0..).zip(all).filter(|(place, _)| set >> place & 1 == 1).map(|(_, encap)| encap);
    if set == 0 { (true, vec![Encap::Geneve]) } else { (false, of_set.collect()) }
}

#[test]
fn a_group_of_a_switch_of_sixteen_classes_has_few_buckets() {
    let hosts = hosts();
    let mut world = world();
    add(&mut world, 1..=hosts, class);
    let reports = reports(&world);
    let mut derivation = Derivation::new(program::rules()).expect("the rules start");
    let objects = program::rules().objects.clone();
    // The groups of some hosts of each class.
    let managed = |host: &str| host[1..].parse::<u16>().is_ok_and(|number| number / 16 % 8 == 0);
    derivation.replace(rows(&world, &objects, &reports, &managed)).expect("the rules accept it");
    let contents = derivation.contents().expect("the engine runs");
    let mut copies: BTreeMap<(String, i64), usize> = BTreeMap::new();
    let mut own: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for row in &contents["of_bucket"] {
        let [Value::String(host), Value::Int(group), Value::Int(bucket), _] = &row[..] else {
            panic!("a bucket is {row:?}")
        };
        if group & BRANCH_GROUP != 0 || *group <= LABEL_MASK {
            // The copies of the branch group belong to the flood group that leads to it.
            let flood = (host.to_string(), group & LABEL_MASK);
            *own.entry((host.to_string(), *group)).or_default() += 1;
            *copies.entry(flood).or_default() += usize::from(*bucket != 0 && *bucket != BRANCH_BUCKET);
        }
    }
    let largest = |counts: &BTreeMap<(String, i64), usize>| counts.values().max().copied().unwrap_or(0);
    println!(
        "{hosts} hosts of 16 classes: the largest group has {} buckets; a sender makes at most {} copies",
        largest(&own),
        largest(&copies)
    );
    assert!(largest(&copies) <= 300, "{copies:?}");
    assert!(largest(&copies) > 10, "nobody floods");
}
