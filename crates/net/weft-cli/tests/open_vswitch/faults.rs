//! The short form of `cargo xtask faults`: each kind of fault once, two at a time.

use std::time::Duration;

use faults::Run;
use faults::kind::Kind;
use test_random::seeds;

#[test]
fn after_each_kind_of_fault_nothing_is_lost_and_all_hosts_are_in_sync() {
    for seed in seeds!("after_each_kind_of_fault_nothing_is_lost_and_all_hosts_are_in_sync", 1) {
        let run = Run {
            name: format!("faults-{}", std::process::id()),
            weft: env!("CARGO_BIN_EXE_weft").into(),
            seed,
            kinds: Kind::ALL.to_vec(),
            faults: Kind::ALL.len() as u64,
            time: Duration::MAX,
            is_short: true,
            is_told: false,
        };
        let (report, done) = run.run();
        println!("{report}");
        if let Err(error) = done {
            panic!("{error:#}\ncargo xtask faults --short --faults {} --seed {seed}", Kind::ALL.len());
        }
        assert_eq!(report.never(), Vec::<Kind>::new(), "these had no effect");
    }
}
