use openflow_rs::message::PortConfig;
use openflow_rs::{Actions, MacAddr};
use packet_answers::Instruction;
use proptest::prelude::*;

use super::*;
use crate::unasked::Unasked;

fn sends(kind: &str, settings: &[&str]) -> Sent {
    let actions: Actions = "output:9".parse().unwrap();
    let instruction = Instruction::from_settings(kind, settings.iter().copied(), actions).unwrap();
    (Unasked::of(instruction.ask).unwrap(), instruction.actions)
}

fn announced(settings: &[&str]) -> Sent {
    sends("announce", settings)
}

fn key(number: u32) -> FlowKey {
    Arc::new((1, format!("reg4={number}").parse().unwrap()))
}

fn begin(announcing: &mut Announcing, number: u32, settings: &[&str]) {
    announcing.change(vec![Change::Announces(key(number), vec![announced(settings)])]);
}

/// The last byte of the sender of each frame that is sent until this time, with the time.
fn sent(announcing: &mut Announcing, until: Duration) -> Vec<(u64, u8)> {
    let mut all = Vec::new();
    while let Some(next) = announcing.next().filter(|next| *next <= until) {
        for message in announcing.due(next) {
            all.push((next.as_millis() as u64, message.data[11]));
        }
    }
    all
}

fn status(reason: PortReason, number: u16, is_live: bool) -> PortStatus {
    let port = Port {
        number: PortNo(number),
        mac: MacAddr([0; 6]),
        name: String::new(),
        config: PortConfig(0),
        state: PortState(if is_live { 4 } else { 0 }),
        link: [0; 4],
        current_kbps: 0,
        max_kbps: 0,
    };
    PortStatus { reason, port }
}

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn an_announcement_is_sent_at_once_and_then_ever_later() {
    let mut announcing = Announcing::new(Arc::default());
    assert_eq!(announcing.next(), None);
    begin(&mut announcing, 1, &["mac=02:00:00:00:00:07"]);
    let first = announcing.due(Duration::ZERO);
    assert_eq!((first.len(), &first[0].actions), (1, &"output:9".parse().unwrap()));
    let again = sent(&mut announcing, HOUR);
    assert_eq!(again, [(1000, 7), (3000, 7), (7000, 7)]);
    assert_eq!(announcing.next(), None);
    assert_eq!(announcing.counts.get("announcement"), Some(4));
}

#[test]
fn a_querier_asks_twice_soon_and_then_at_its_interval() {
    let mut announcing = Announcing::new(Arc::default());
    let query = sends("query", &["mac=02:00:00:00:00:07", "igmp=10.0.0.252", "mld=true"]);
    announcing.change(vec![Change::Announces(key(1), vec![query])]);
    let asked = sent(&mut announcing, Duration::from_mins(5));
    let both = |at: u64| [(at, 7), (at, 7)];
    assert_eq!(asked, [both(0), both(31_250), both(156_250), both(281_250)].concat());
    assert_eq!(announcing.counts.get("query"), Some(8));
    // Its flow goes.
    announcing.change(vec![Change::Ends(key(1))]);
    assert_eq!(announcing.next(), None);
}

#[test]
fn a_neighbour_is_asked_three_times_and_then_at_the_interval() {
    let mut announcing = Announcing::new(Arc::default());
    let settings = |interval: &str| -> Sent {
        let all = ["mac=02:00:00:00:00:07", "from=10.0.0.1", "target=10.0.0.9", "watch=301", interval];
        sends("solicit", &all)
    };
    let asked = |announcing: &mut Announcing, interval: &str, until: u64| -> Vec<u64> {
        announcing.change(vec![Change::Announces(key(1), vec![settings(interval)])]);
        let begun = announcing.next().unwrap();
        let all = sent(announcing, begun + Duration::from_secs(until));
        all.iter().map(|(at, _)| at - begun.as_millis() as u64).collect()
    };
    assert_eq!(asked(&mut announcing, "interval=30", 70), [0, 1000, 2000, 32_000, 62_000]);
    // Never less often than it says.
    assert_eq!(asked(&mut announcing, "interval=1", 4), [0, 1000, 2000, 3000, 4000]);
    announcing.describe(&[status(PortReason::Add, 301, true).port]);
    asked(&mut announcing, "interval=30", 40);
    let begun = announcing.next_burst;
    announcing.port(&status(PortReason::Modify, 301, false));
    assert_eq!(sent(&mut announcing, begun).len(), 1, "a port that fails may have changed who answers");
}

#[test]
fn a_port_that_is_watched_decides_when_it_is_sent_again() {
    let mut announcing = Announcing::new(Arc::default());
    begin(&mut announcing, 1, &["mac=02:00:00:00:00:01", "watch=301", "watch=302"]);
    begin(&mut announcing, 2, &["mac=02:00:00:00:00:02"]);
    announcing.describe(&[status(PortReason::Add, 301, true).port, status(PortReason::Add, 302, false).port]);
    assert_eq!(sent(&mut announcing, HOUR).len(), 8);

    let mut after = |status: PortStatus| {
        let begun = announcing.next_burst;
        announcing.port(&status);
        announcing.next().map(|_| sent(&mut announcing, begun))
    };
    for (reason, number, is_live, changes) in [
        (PortReason::Modify, 301, true, false),
        (PortReason::Modify, 301, false, true),
        (PortReason::Modify, 301, false, false),
        (PortReason::Modify, 302, true, true),
        (PortReason::Delete, 302, true, true),
        (PortReason::Delete, 301, false, false),
        (PortReason::Add, 301, false, false),
        (PortReason::Add, 302, true, true),
        (PortReason::Modify, 303, true, false),
    ] {
        let frames = after(status(reason, number, is_live)).unwrap_or_default();
        let frames: Vec<u8> = frames.into_iter().map(|(_, mac)| mac).collect();
        let wanted: &[u8] = if changes { &[1] } else { &[] };
        assert_eq!(frames, wanted, "{reason:?} {number} {is_live}");
    }
    announcing.all_again();
    assert_eq!(sent(&mut announcing, HOUR).len(), 8);
}

#[test]
fn every_flow_sends_its_first_frame_before_any_sends_its_second() {
    let mut announcing = Announcing::new(Arc::default());
    begin(
        &mut announcing,
        1,
        &["mac=02:00:00:00:00:01", "address=10.0.0.1", "address=10.0.0.2", "address=fd00::1"],
    );
    begin(&mut announcing, 2, &["mac=02:00:00:00:00:02", "address=10.0.0.3"]);
    let first: Vec<u8> = sent(&mut announcing, Duration::ZERO).into_iter().map(|(_, mac)| mac).collect();
    assert_eq!(first, [1, 2, 1, 1]);
}

#[test]
fn a_flow_that_goes_is_not_announced_any_more() {
    let mut announcing = Announcing::new(Arc::default());
    begin(&mut announcing, 1, &["mac=02:00:00:00:00:01"]);
    announcing.change(vec![Change::Ends(key(1))]);
    begin(&mut announcing, 2, &["mac=02:00:00:00:00:02"]);
    assert_eq!(sent(&mut announcing, Duration::ZERO), [(0, 2)]);
    announcing.change(vec![Change::Ends(key(2))]);
    assert_eq!(announcing.next(), None);
}

#[test]
fn thousands_of_addresses_are_sent_at_a_bounded_rate() {
    let mut announcing = Announcing::new(Arc::default());
    for number in 0..7000 {
        let address = format!("address=10.{}.{}.1", number / 256, number % 256);
        begin(&mut announcing, number, &["mac=02:00:00:00:00:01", &address]);
    }
    // A port that flaps adds nothing to what is being sent.
    announcing.all_again();
    let all = sent(&mut announcing, HOUR);
    assert_eq!(all.len(), 4 * 7000);
    for second in all.windows(BURST + 1) {
        assert!(second[BURST].0 - second[0].0 >= TICK.as_millis() as u64);
    }
    let first = &all[..7000];
    assert_eq!(first[6999].0, 3490);
}

proptest! {
    /// Whatever comes in which order, each flow is either at rest, being sent or waiting, and all ends.
    #[test]
    fn all_that_is_announced_is_sent_four_times_after_its_last_reason(
        steps in proptest::collection::vec((0..4_u32, 0..5_u32, 0..3000_u64), 1..60)
    ) {
        let mut announcing = Announcing::new(Arc::default());
        let mut now = Duration::ZERO;
        let mut is_live = false;
        for (what, number, pause) in steps {
            match what {
                0 => begin(&mut announcing, number, &[&format!("mac=02:00:00:00:00:0{number}"), "watch=9"]),
                1 => announcing.change(vec![Change::Ends(key(number))]),
                2 => {
                    is_live = !is_live;
                    announcing.port(&status(PortReason::Modify, 9, is_live));
                }
                _ => {
                    now += Duration::from_millis(pause);
                    sent(&mut announcing, now);
                }
            }
        }
        announcing.all_again();
        let mut all: BTreeMap<u8, usize> = BTreeMap::new();
        for (_, mac) in sent(&mut announcing, HOUR) {
            *all.entry(mac).or_default() += 1;
        }
        prop_assert!(announcing.sending.is_empty());
        prop_assert_eq!(all.len(), announcing.flows.len());
        prop_assert!(all.values().all(|times| *times == 4), "{:?}", all);
    }
}
