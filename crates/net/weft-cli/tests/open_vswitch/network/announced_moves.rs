//! What the physical network hears of a machine that moves, also if the controller ends before it has told all.

use lab::{Migration, Taps, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{bring_up, settings};

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: localnet_port, id: red-plant, switch: red, physical_network: plant}
---
{kind: switch_port, id: moves, switch: red, addresses: [{mac: '02:00:00:00:07:01', ips: [10.7.0.1]}]}
";

const MOVES: [u8; 6] = [2, 0, 0, 0, 7, 1];
/// How often a move is announced.
const SERIES: usize = 5;

/// Waits until so many announcements of the machine have come to the physical network.
fn heard(taps: &Taps, count: usize) {
    let announcement = frame::announcement(MOVES);
    let arrived = taps.first(|frame| frame.starts_with(&announcement), count, DEADLINE).unwrap();
    let found = arrived.get("outside").map_or(0, Vec::len);
    assert!(found >= count, "{found} announcements, and not {count}");
}

#[test]
fn d21_a_controller_that_ends_during_a_move_announces_it_when_it_is_back() {
    let physical = vec!["plant".to_owned()];
    let mut testbed = Testbed::start(Settings { physical, ..settings("announced") }).unwrap();
    let outside = VmSpec::physical("plant", 0, "outside", "02:00:00:00:07:02").address("10.7.0.2/24");
    bring_up(&testbed, NETWORK, &[outside]);
    let lab = testbed.lab().unwrap();
    let taps = lab.taps(&["outside"]).unwrap();
    lab.add_vm(&VmSpec::new("moves", "hv1", "moves", "02:00:00:00:07:01").address("10.7.0.1/24")).unwrap();
    heard(&taps, SERIES);

    // The machine moves, and the controller ends at the first frame of the series.
    taps.clear().unwrap();
    lab.migrate_vm("moves", "hv2", Migration::default()).unwrap();
    heard(&taps, 1);
    testbed.kill_controller().unwrap();
    taps.clear().unwrap();
    testbed.start_controller().unwrap();
    heard(&taps, SERIES);
    let reached = testbed.lab().unwrap().wait_ping("outside", [10, 7, 0, 1].into(), DEADLINE);
    reached.unwrap();
}
