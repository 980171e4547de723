//! Hosts and a network between them, in virtual time.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::cell::RefCell;
use std::net::IpAddr;

use openflow_rs::{Actions, FlowEntry};
use switch_model::probe_length;

use super::*;
use crate::derived::probe_plan::ProbeHost;

const INTERVAL: Duration = Duration::from_mins(1);

/// Whether a packet of so many bytes, Ethernet header included, gets from one host to another.
type Carries = Box<dyn Fn(&str, &str, usize) -> bool>;

struct World {
    underlay: Underlay,
    plan: ProbePlan,
    now: Moment,
    carries: Carries,
    /// The hosts that are not connected.
    away: BTreeSet<&'static str>,
    /// What flows have counted, by receiver and sender.
    counters: BTreeMap<(String, String), (u64, u64)>,
    /// All problems, as text, that there were.
    stated: Vec<String>,
    sent: usize,
}

fn plan(names: &[&str]) -> ProbePlan {
    let host = |(number, name): (usize, &&str)| {
        let ip = IpAddr::V4([172, 31, 0, u8::try_from(number + 1).unwrap()].into());
        (Arc::from(*name), ProbeHost { ip, mtu: 1500, interval: INTERVAL })
    };
    ProbePlan::between(names.iter().enumerate().map(host), |_, _| true, actions)
}

fn actions(ip: IpAddr) -> Actions {
    let entry: FlowEntry = format!("table=0 actions=set_field:{ip}->tun_dst,output:1").parse().unwrap();
    entry.actions
}

impl World {
    fn new(names: &[&str]) -> World {
        World {
            underlay: Underlay::default(),
            plan: plan(names),
            now: Moment::ZERO,
            carries: Box::new(|_, _, _| true),
            away: BTreeSet::new(),
            counters: BTreeMap::new(),
            stated: Vec::new(),
            sent: 0,
        }
    }

    /// Time passes, and all hosts carry out their orders at once.
    fn pass(&mut self, intervals: u32) {
        let end = self.now + INTERVAL * intervals;
        loop {
            let away = &self.away;
            let orders = self.underlay.orders(&self.plan, |node| !away.contains(node), self.now);
            for order in orders {
                self.carry_out(order);
            }
            if self.underlay.state(&self.plan, "transport_node", self.now).is_some() {
                let texts = self
                    .underlay
                    .problems()
                    .iter()
                    .map(|problem| format!("{}: {}", problem.id, problem.text));
                self.stated.extend(texts);
            }
            match self.underlay.next().filter(|next| *next <= end) {
                Some(next) => self.now = next.max(self.now),
                None => break,
            }
        }
        self.now = end;
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Send { host, number, packets } => {
                for Packet { actions, frame } in packets {
                    self.sent += 1;
                    let text = actions.get().to_string();
                    let to = self.plan.hosts().iter().find(|(_, to)| text.contains(&format!("{}->", to.ip)));
                    let (to, _) = to.unwrap();
                    if (self.carries)(&host, to, frame.len()) {
                        let counted = self.counters.entry((to.to_string(), host.to_string())).or_default();
                        *counted = (counted.0 + 1, counted.1 + frame.len() as u64);
                    }
                }
                self.underlay.sent(&self.plan, &host, number, true, self.now);
            }
            Order::Count { host, table, covers } => {
                assert_eq!((table, covers.to_string().as_str()), (1, "tun_id=0x1"));
                let flow = |from: &Arc<str>| {
                    let ip = self.plan.hosts()[from].ip;
                    let entry = format!("table=1,tun_id=0x1,tun_src={ip} actions=drop").parse().unwrap();
                    let counted = self.counters.get(&(host.to_string(), from.to_string()));
                    let (packets, bytes) = counted.copied().unwrap_or_default();
                    SeenFlow { entry, packets, bytes }
                };
                let flows = self.plan.senders(&host).unwrap().iter().map(flow).collect();
                let now = Time { moment: self.now, wall: SystemTime::UNIX_EPOCH + self.now };
                self.underlay.counted(&self.plan, &host, Ok(flows), now);
            }
        }
    }

    fn measured(&self, from: &str, to: &str) -> Measured {
        let all = self.underlay.measured(&self.plan, Some(from), |node| !self.away.contains(node));
        all.into_iter().find(|one| &*one.from == from && &*one.to == to).unwrap()
    }

    fn problems(&self) -> Vec<(&str, &str)> {
        let problems = self.underlay.problems().iter();
        problems.map(|problem| (problem.id.as_str(), problem.text.as_str())).collect()
    }
}

#[test]
fn each_host_measures_the_way_to_each_other_once_an_interval() {
    let mut world = World::new(&["hv1", "hv2", "hv3"]);
    assert_eq!(world.measured("hv1", "hv2").text(), "not measured yet");
    world.pass(3);
    for (from, to) in [("hv1", "hv2"), ("hv2", "hv1"), ("hv3", "hv1")] {
        let measured = world.measured(from, to);
        assert_eq!(measured.text(), "packets of 1,442 bytes arrive", "{from} {to}");
        assert_eq!((measured.sent, measured.verdict), (3, Verdict::Arrives));
    }
    assert_eq!((world.sent, world.stated.len()), (6 * 3, 0), "one packet for each pair and interval");
}

#[test]
fn one_lost_packet_is_no_fault_and_two_are_until_one_arrives() {
    let mut world = World::new(&["hv1", "hv2", "hv3"]);
    world.pass(3);
    let lost = RefCell::new(1);
    world.carries = Box::new(move |from, to, _| {
        let is_lost = (from, to) == ("hv1", "hv2") && *lost.borrow() > 0;
        lost.replace_with(|left| if is_lost { *left - 1 } else { *left });
        !is_lost
    });
    world.pass(4);
    assert_eq!((world.problems(), world.stated.len()), (vec![], 0), "{:?}", world.stated);

    world.carries = Box::new(|from, to, _| (from, to) != ("hv1", "hv2"));
    world.pass(4);
    let expected = "its packets to hv2 do not arrive: check that the host has the address 172.31.0.1, that a route leads from each host to \
                    the other, and that UDP port 6081 (geneve) passes; `weft get tunnels hv1` shows each tunnel";
    assert_eq!(world.problems(), [("hv1", expected)]);
    let measured = world.measured("hv1", "hv2");
    assert_eq!((measured.verdict, measured.verdict.code()), (Verdict::Silent, "unreachable"));
    assert!(measured.text().starts_with("no probe arrives since 1970-01-01T00:"), "{}", measured.text());
    assert_eq!(world.measured("hv2", "hv1").verdict, Verdict::Arrives);

    world.carries = Box::new(|_, _, _| true);
    world.pass(2);
    assert_eq!(world.problems(), []);
    assert_eq!(world.measured("hv1", "hv2").verdict, Verdict::Arrives);
}

#[test]
fn a_responder_that_gives_nothing_back_is_a_problem_of_its_host_alone() {
    let mut world = World::new(&["hv1", "hv2"]);
    world.plan = plan(&["hv1", "hv2"]).with_responders(actions);
    world.pass(3);
    assert_eq!(world.problems(), []);
    world.carries = Box::new(|from, to, _| (from, to) != ("hv2", "hv2"));
    world.pass(4);
    let [("hv2", text)] = world.problems()[..] else { panic!("{:?}", world.problems()) };
    assert!(text.contains("its responder does not answer"), "{text}");
    assert!(text.contains("systemctl enable --now weft-responder"), "{text}");
    // It is no tunnel.
    let measured = world.underlay.measured(&world.plan, None, |_| true);
    assert_eq!(measured.len(), 2, "{measured:?}");
    world.carries = Box::new(|_, _, _| true);
    world.pass(2);
    assert_eq!(world.problems(), []);
}

#[test]
fn a_network_that_carries_only_small_packets_is_told_from_none() {
    let mut world = World::new(&["hv1", "hv2", "hv3"]);
    world.pass(3);
    world.carries = Box::new(|from, to, bytes| bytes < 1400 || (from != "hv3" && to != "hv3"));
    world.pass(4);
    let expected = "between it and 2 hosts (hv1, hv2), small packets arrive and packets of 1,442 bytes do not: raise the MTU of the network \
                    between the hosts to 1,500, or lower `mtu` of the transport_zone; `weft get tunnels hv3` shows each tunnel";
    assert_eq!(world.problems(), [("hv3", expected)]);
    let measured = world.measured("hv3", "hv1");
    assert_eq!(
        measured.text(),
        "small packets arrive, packets of 1,442 bytes do not: the MTU of the underlay is below 1,500"
    );
    world.carries = Box::new(|_, _, _| true);
    world.pass(2);
    assert_eq!((world.problems(), world.measured("hv3", "hv1").verdict), (vec![], Verdict::Arrives));
}

#[test]
fn the_host_with_the_wrong_address_is_named_and_not_each_of_its_peers() {
    let mut world = World::new(&["hv1", "hv2", "hv3", "hv4", "hv5"]);
    world.carries = Box::new(|from, to, _| from != "hv3" && to != "hv3");
    world.pass(5);
    let expected = "packets between 4 hosts (hv1, hv2, hv4 and 1 more) and its `ip` 172.31.0.3 do not arrive: check that the host has the \
                    address 172.31.0.3, that a route leads from each host to the other, and that UDP port 6081 (geneve) passes; `weft get \
                    tunnels hv3` shows each tunnel";
    assert_eq!(world.problems(), [("hv3", expected)]);
    // It is given another address, or leaves.
    world.plan = plan(&["hv1", "hv2"]);
    world.pass(1);
    assert_eq!(world.problems(), []);
}

#[test]
fn a_host_that_is_not_connected_says_nothing_of_the_network() {
    let mut world = World::new(&["hv1", "hv2", "hv3"]);
    world.pass(3);
    // It is off, and not connected.
    world.away.insert("hv3");
    world.carries = Box::new(|from, to, _| from != "hv3" && to != "hv3");
    world.pass(6);
    assert_eq!((world.problems(), world.stated.join("\n")), (vec![], String::new()));
    assert_eq!(world.measured("hv1", "hv3").text(), "not measured: hv3 is not connected or not in sync");
    assert_eq!(world.measured("hv3", "hv1").text(), "not measured: hv3 is not connected or not in sync");
    // It is back, and its flows count from the beginning.
    world.away.clear();
    world.counters.retain(|(to, _), _| to != "hv3");
    world.carries = Box::new(|_, _, _| true);
    world.pass(4);
    assert_eq!((world.problems(), world.stated.join("\n")), (vec![], String::new()));
    assert_eq!(world.measured("hv1", "hv3").verdict, Verdict::Arrives);
    // A way that was at fault is unknown, and no problem, once a host of it is away.
    world.carries = Box::new(|_, to, _| to != "hv3");
    world.pass(4);
    assert_eq!(world.problems().len(), 1);
    world.away.insert("hv3");
    world.pass(2);
    assert_eq!(world.problems(), []);
}

#[test]
fn what_was_counted_before_the_controller_started_says_nothing() {
    let mut world = World::new(&["hv1", "hv2"]);
    world.pass(5);
    world.underlay = Underlay::default();
    world.carries = Box::new(|from, _, _| from != "hv1");
    world.pass(1);
    assert_ne!(world.measured("hv1", "hv2").verdict, Verdict::Arrives);
    world.pass(4);
    assert_eq!(world.measured("hv1", "hv2").verdict, Verdict::Silent);
    assert_eq!(world.measured("hv2", "hv1").verdict, Verdict::Arrives);
}

#[test]
fn an_answer_that_never_comes_or_is_late_is_no_loss() {
    let mut world = World::new(&["hv1", "hv2"]);
    world.pass(3);
    let mut orders = Vec::new();
    for _ in 0..400 {
        orders.extend(world.underlay.orders(&world.plan, |_| true, world.now));
        world.now += Duration::from_secs(1);
        world.underlay.state(&world.plan, "transport_node", world.now);
    }
    // Each host has one question and one order at a time.
    assert_eq!((orders.len(), world.problems()), (4, vec![]));
    for order in orders {
        match order {
            Order::Send { host, number, .. } => {
                world.underlay.sent(&world.plan, &host, number, false, world.now);
            }
            Order::Count { host, .. } => {
                let now = Time { moment: world.now, wall: SystemTime::UNIX_EPOCH };
                world.underlay.counted(&world.plan, &host, Err(ReadError::Late), now);
            }
        }
    }
    assert_eq!(world.measured("hv1", "hv2").text(), "not measured yet");
    world.pass(3);
    assert_eq!(world.measured("hv1", "hv2").verdict, Verdict::Arrives);
}

/// The packets of each second, and of each host in an interval, in a network of so many hosts with so many peers.
fn load(hosts: usize, peers: usize) -> (usize, usize, Duration) {
    // Groups of hosts that share switches.
    let name = |number: usize| format!("{:03}-{number:05}", number / (peers + 1));
    let names: Vec<Arc<str>> = (0..hosts).map(|number| name(number).into()).collect();
    let host = |(number, name): (usize, &Arc<str>)| {
        let ip = IpAddr::V4((number as u32).into());
        (name.clone(), ProbeHost { ip, mtu: 1500, interval: INTERVAL })
    };
    let sends = |from: &str, to: &str| from.as_bytes()[..3] == to.as_bytes()[..3];
    let plan =
        ProbePlan::between(names.iter().enumerate().map(host), sends, |_| openflow_rs::Actions::default());
    let interval = interval(&plan, &names[0]).unwrap();
    let (mut underlay, mut seconds, mut of_host) = (Underlay::default(), BTreeMap::new(), BTreeMap::new());
    let (mut now, mut first) = (Moment::ZERO, BTreeMap::new());
    while now < 2 * interval {
        for order in underlay.orders(&plan, |_| true, now) {
            let Order::Send { host, number, packets } = order else { continue };
            underlay.sent(&plan, &host, number, true, now);
            *seconds.entry(now.as_secs()).or_insert(0) += packets.len();
            let begun = *first.entry(host.clone()).or_insert(now);
            if now < begun + interval {
                *of_host.entry(host).or_insert(0) += packets.len();
            }
        }
        underlay.state(&plan, "transport_node", now);
        now = underlay.next().unwrap();
    }
    // Each host sends to each peer once an interval.
    assert!(of_host.values().all(|count| peers.abs_diff(*count) <= AT_ONCE), "{of_host:?}");
    // All hosts have begun after the first interval.
    let busy = seconds.range(interval.as_secs() + 1..).map(|(_, count)| *count);
    let seconds: Vec<usize> = busy.take(interval.as_secs() as usize - 2).collect();
    let mean = seconds.iter().sum::<usize>() / seconds.len();
    (mean, *seconds.iter().max().unwrap(), interval)
}

#[test]
fn the_packets_of_a_large_network_are_spread_and_bounded() {
    let (mean, most, interval) = load(3030, 100);
    assert_eq!(interval, INTERVAL);
    assert!((4800..=5300).contains(&mean) && most < 7500, "{mean} a second, at most {most}");
    // With more pairs, the interval grows.
    let (mean, most, interval) = load(900, 899);
    assert!(interval > INTERVAL * 2, "{interval:?}");
    assert!((5700..=6100).contains(&mean) && most < 9000, "{mean} a second, at most {most}");
}

#[test]
fn counters_tell_large_packets_from_small_ones() {
    let of =
        |large: u64, small: u64| (large + small, large * probe_length(1442) + small * probe_length(SMALL));
    let mut pair = Pair::default();
    let (second, wall) = (Duration::from_secs(1), SystemTime::UNIX_EPOCH);
    let counted = |pair: &mut Pair, counts, asked: u32| pair.counted(counts, 1442, second * asked, wall);
    assert!(!counted(&mut pair, Some(of(0, 7)), 1), "the first answer is where counting begins");
    pair.sent(second * 2);
    // The small one of two is counted earlier, as the datapath tells its counters from time to time.
    assert!(!counted(&mut pair, Some(of(0, 8)), 3));
    assert!(counted(&mut pair, Some(of(1, 8)), 4));
    assert_eq!(pair.verdict(), Verdict::Arrives);
    pair.sent(second * 5);
    assert!(counted(&mut pair, Some(of(1, 9)), 8));
    assert_eq!(pair.verdict(), Verdict::TooNarrow);
    assert!(pair.is_in_doubt());
    // A flow that was made anew counts from the beginning; one that is not there says nothing.
    assert!(counted(&mut pair, Some(of(1, 0)), 9));
    assert_eq!(pair.verdict(), Verdict::Arrives);
    assert!(counted(&mut pair, None, 10));
    assert_eq!(pair.verdict(), Verdict::Unknown);
}
