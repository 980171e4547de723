use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PATIENCE: Patience = Patience {
    lost_after: Duration::from_secs(10),
    back_after: Duration::from_secs(2),
    first: Duration::from_secs(30),
    most_lost: 50,
};

fn at(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

/// Hosts, by name, and whether they are lost.
struct Hosts {
    hosts: BTreeMap<String, (Link, bool)>,
    allowance: Allowance,
}

impl Hosts {
    fn new(links: &[Link]) -> Hosts {
        let host = |(number, link): (usize, &Link)| (format!("hv{}", number + 1), (*link, false));
        Hosts { hosts: links.iter().enumerate().map(host).collect(), allowance: Allowance::default() }
    }

    fn judge(&self, now: Moment) -> Judgement {
        let hosts = self.hosts.iter();
        let hosts = hosts.map(|(node, &(link, is_lost))| Host { node, link, is_lost });
        judge(hosts, &self.allowance, now, &PATIENCE)
    }

    /// Judges and follows the judgement, which it returns.
    fn follow(&mut self, now: Moment) -> Judgement {
        let judgement = self.judge(now);
        for (node, is_back) in &judgement.changes {
            self.hosts.get_mut(node).expect("a host").1 = !is_back;
        }
        if judgement.cut_off.is_some() {
            self.allowance.calm = Some(now);
        }
        judgement
    }

    fn lost(&self) -> Vec<&str> {
        self.hosts.iter().filter(|(_, (_, is_lost))| *is_lost).map(|(node, _)| node.as_str()).collect()
    }

    fn set(&mut self, node: &str, link: Link) {
        self.hosts.get_mut(node).expect("a host").0 = link;
    }

    /// It connects for the first time.
    fn arrives(&mut self, node: &str, now: Moment) {
        let Link::Awaited(since) = self.hosts[node].0 else { panic!("{node} is awaited") };
        self.allowance.arrivals.arrived(since, now, &PATIENCE);
        self.set(node, Link::Up(now));
    }
}

#[test]
fn d5_a_host_that_never_connects_is_lost_half_a_minute_after_the_start() {
    let links = [Link::Awaited(at(5)), Link::Up(at(6)), Link::Up(at(6))];
    let mut hosts = Hosts::new(&links);
    assert_eq!(hosts.follow(at(34)), Judgement { next: Some(at(35)), ..Judgement::default() });
    hosts.follow(at(35));
    assert_eq!(hosts.lost(), ["hv1"]);
}

#[test]
fn d5_a_host_is_awaited_while_others_that_started_with_it_come_in() {
    let mut hosts = Hosts::new(&[Link::Awaited(at(5)); 7]);
    for (node, now) in [("hv1", 20), ("hv2", 34), ("hv3", 60), ("hv4", 89)] {
        hosts.arrives(node, at(now));
        assert_eq!(hosts.follow(at(now)).changes, []);
    }
    // They are not the ones to wait for any more.
    hosts.set("hv3", Link::Down(at(100)));
    hosts.set("hv3", Link::Up(at(105)));
    assert_eq!(hosts.follow(at(105)), Judgement { next: Some(at(119)), ..Judgement::default() });
    hosts.arrives("hv5", at(118));
    assert_eq!(hosts.follow(at(119)), Judgement { next: Some(at(148)), ..Judgement::default() });
    hosts.follow(at(148));
    assert_eq!(hosts.lost(), ["hv6", "hv7"]);
}

#[test]
fn d5_hosts_that_are_added_later_do_not_keep_a_lost_one_from_being_lost() {
    let mut hosts =
        Hosts::new(&[Link::Awaited(at(5)), Link::Awaited(at(35)), Link::Awaited(at(36)), Link::Up(at(6))]);
    hosts.arrives("hv2", at(40));
    hosts.arrives("hv3", at(69));
    assert_eq!(hosts.follow(at(69)), Judgement { next: Some(at(70)), ..Judgement::default() });
    hosts.follow(at(70));
    assert_eq!(hosts.lost(), ["hv1"]);
}

#[test]
fn d6_a_link_that_blinks_changes_nothing_and_one_that_is_silent_does() {
    let mut hosts = Hosts::new(&[Link::Down(at(100)), Link::Up(at(0)), Link::Up(at(0))]);
    assert_eq!(hosts.follow(at(109)), Judgement { next: Some(at(110)), ..Judgement::default() });
    hosts.set("hv1", Link::Up(at(109)));
    assert_eq!(hosts.follow(at(110)), Judgement::default());
    hosts.set("hv1", Link::Down(at(111)));
    assert_eq!(hosts.follow(at(121)).changes, [("hv1".to_owned(), false)]);
    // It comes and goes.
    hosts.set("hv1", Link::Up(at(130)));
    assert_eq!(hosts.follow(at(131)), Judgement { next: Some(at(132)), ..Judgement::default() });
    hosts.set("hv1", Link::Down(at(131)));
    assert_eq!(hosts.follow(at(132)), Judgement::default());
    hosts.set("hv1", Link::Up(at(140)));
    assert_eq!(hosts.follow(at(142)).changes, [("hv1".to_owned(), true)]);
    assert_eq!(hosts.lost(), [] as [&str; 0]);
}

#[test]
fn d6_a_controller_that_is_cut_off_changes_nothing_until_enough_hosts_are_back() {
    let mut hosts = Hosts::new(&[Link::Down(at(100)); 5]);
    hosts.set("hv5", Link::Up(at(0)));
    let cut_off = hosts.follow(at(110));
    let said = CutOff { away: 4, hosts: 5, most_lost: 50 };
    assert_eq!(cut_off, Judgement { changes: vec![], cut_off: Some(said), next: Some(at(111)) });
    assert!(said.to_string().starts_with("4 of 5 hosts went away within a minute, more than 50 %"), "{said}");
    // However long that takes.
    assert_eq!(hosts.follow(at(5000)).cut_off, Some(said));
    for node in ["hv1", "hv2"] {
        hosts.set(node, Link::Up(at(5001)));
    }
    let calm = hosts.follow(at(5001));
    assert_eq!((calm.cut_off, calm.changes), (None, vec![]), "the others have time to follow");
    hosts.set("hv3", Link::Up(at(5029)));
    assert_eq!(hosts.follow(at(5030)).changes, [("hv4".to_owned(), false)]);
}

#[test]
fn d6_the_first_of_many_that_go_is_not_lost_before_the_others_are_seen_to_go() {
    let mut hosts = Hosts::new(&[Link::Up(at(0)); 4]);
    for (node, gone) in [("hv1", 100), ("hv2", 103), ("hv3", 109)] {
        hosts.set(node, Link::Down(at(gone)));
    }
    assert!(hosts.follow(at(110)).cut_off.is_some());
    assert_eq!(hosts.lost(), [] as [&str; 0]);
}

#[test]
fn d6_hosts_that_go_one_by_one_are_lost_one_by_one() {
    let mut hosts = Hosts::new(&[Link::Up(at(0)); 4]);
    for (node, gone) in [("hv1", 100), ("hv2", 200), ("hv3", 300)] {
        hosts.set(node, Link::Down(at(gone)));
        hosts.follow(at(gone + 10));
    }
    assert_eq!(hosts.lost(), ["hv1", "hv2", "hv3"]);
    // One host alone is never the controller's fault.
    let mut one = Hosts::new(&[Link::Down(at(100))]);
    one.follow(at(110));
    assert_eq!(one.lost(), ["hv1"]);
}

#[test]
fn d6_a_start_takes_over_what_was_believed_until_something_else_is_observed() {
    let mut hosts =
        Hosts::new(&[Link::Awaited(at(0)), Link::Awaited(at(0)), Link::Up(at(1)), Link::Up(at(1))]);
    for node in ["hv1", "hv3"] {
        hosts.hosts.get_mut(node).expect("a host").1 = true;
    }
    hosts.follow(at(2));
    assert_eq!(hosts.lost(), ["hv1", "hv3"], "neither relays nor leaders change");
    hosts.follow(at(3));
    assert_eq!(hosts.lost(), ["hv1"]);
    hosts.follow(at(30));
    assert_eq!(hosts.lost(), ["hv1", "hv2"]);
}

#[test]
fn differences_are_tried_again_until_they_have_an_effect() {
    let mut observed = Observed::default();
    let report = |number| Report { tunnels: [("t".to_owned(), number)].into(), ..Report::default() };
    let learned = |is_new| Difference::Learned { table: 1, cookie: 2, is_new };
    observed.learned(1, 2, true);
    observed.reported(report(1));
    let first = observed.take(7, at(0)).expect("a report");
    assert_eq!(first, Difference::Report(Box::new(report(1))), "before what depends on it");
    assert_eq!(observed.take(7, at(0)), Some(learned(true)));
    assert!(observed.is_settled());
    // Neither came onto the disk, and a newer report has come.
    observed.reported(report(2));
    observed.put_back(first);
    observed.put_back(learned(true));
    observed.learned(1, 2, false);
    assert_eq!(
        [observed.take(7, at(0)), observed.take(7, at(0))],
        [Some(Difference::Report(Box::new(report(2)))), Some(learned(true))]
    );
    // What has no effect now may have one after another transaction.
    observed.refused(1, 2, true, 7);
    assert_eq!((observed.take(7, at(0)), observed.is_settled()), (None, false));
    assert_eq!(observed.take(8, at(0)), Some(learned(true)));
}

#[test]
fn d20_a_host_that_changes_all_the_time_is_heard_ten_times_a_second_and_its_last_word_counts() {
    let mut observed = Observed::default();
    let report = |number| Report { tunnels: [("t".to_owned(), number)].into(), ..Report::default() };
    let mut taken = Vec::new();
    let mut now = at(1);
    // A report each millisecond, for 30 seconds.
    for number in 0..29_950 {
        observed.reported(report(number));
        if let Some(Difference::Report(report)) = observed.take(0, now) {
            taken.push(report.tunnels["t"]);
        }
        now += Duration::from_millis(1);
    }
    assert!((390..=402).contains(&taken.len()), "{}", taken.len());
    assert_eq!(taken[..50], (0..50).collect::<Vec<u16>>());
    assert!(observed.comes_too_often(now) && !observed.is_calm(now));
    let ready = observed.ready_at(now).expect("the last one waits");
    assert_eq!(observed.take(0, ready), Some(Difference::Report(Box::new(report(29_949)))));
    assert_eq!(observed.ready_at(ready), None);
    assert!(observed.is_calm(ready + at(10)));
}

proptest! {
    /// Whatever the history, hosts that stay as they are end up as their links say, if no more than the share has gone at a time.
    #[test]
    fn what_lasts_is_what_counts(
        history in prop::collection::vec((0_usize..4, any::<bool>(), 0_u64..15), 0..40),
        share in prop_oneof![Just(50_u8), Just(100)],
    ) {
        let patience = Patience { most_lost: share, ..PATIENCE };
        let mut hosts = Hosts::new(&[Link::Awaited(at(0)); 4]);
        let mut now = at(0);
        let judged = |hosts: &mut Hosts, now: Moment| {
            let all = hosts.hosts.iter().map(|(node, &(link, is_lost))| Host { node, link, is_lost });
            let judgement = judge(all, &hosts.allowance, now, &patience);
            for (node, is_back) in &judgement.changes {
                let (link, is_lost) = hosts.hosts.get_mut(node).expect("a host");
                prop_assert_eq!(*is_back, link.is_up());
                prop_assert_eq!(*is_lost, *is_back, "a change changes something");
                *is_lost = !is_back;
            }
            if judgement.cut_off.is_some() {
                prop_assert!(judgement.changes.iter().all(|(_, is_back)| *is_back), "it changes nothing");
                hosts.allowance.calm = Some(now);
            }
            // Until then it has no other answer.
            if let Some(next) = judgement.next {
                prop_assert!(next > now);
            }
            Ok(judgement)
        };
        for (host, up, passes) in history {
            let name = format!("hv{}", host + 1);
            match (hosts.hosts[&name].0, up) {
                (Link::Awaited(_), true) => hosts.arrives(&name, now),
                (Link::Down(_), true) => hosts.set(&name, Link::Up(now)),
                (Link::Up(_), false) => hosts.set(&name, Link::Down(now)),
                _ => {}
            }
            judged(&mut hosts, now)?;
            now += at(passes);
            judged(&mut hosts, now)?;
        }
        // All stays as it is, and the controller looks when it has to.
        for _ in 0..200 {
            let judgement = judged(&mut hosts, now)?;
            let Some(next) = judgement.next else { break };
            now = next;
        }
        let is_away = |(link, _): &(Link, bool)| !link.is_up();
        let away = hosts.hosts.values().filter(|host| is_away(host)).count();
        for host in hosts.hosts.values() {
            if is_away(host) {
                prop_assert!(host.1 || (share == 50 && away > 2), "{:?}", hosts.hosts);
            } else {
                prop_assert!(!host.1);
            }
        }
    }
}
