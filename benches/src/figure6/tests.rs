//! All sides have the same output.

use super::*;

const SMALL: Run = Run { divisor: 100, workers: 1, steps: 3 };

#[test]
fn all_sides_have_the_same_output() {
    let expected = run(Side::HandIds, SMALL).expect("it runs").output;
    let network = Network::nvp_eval(SMALL.divisor);
    assert!(expected.loaded > 0 && expected.changes > expected.loaded as u64, "{expected:?}");
    let ours = [Side::WeftIds, Side::WeftColumns, Side::WeftRows, Side::WeftWords, Side::WeftInside];
    for side in std::iter::once(Side::HandValues).chain(ours) {
        assert_eq!(run(side, SMALL).expect("it runs").output, expected, "{side:?}");
    }
    let two = Run { workers: 2, ..SMALL };
    assert_eq!(run(Side::WeftIds, two).expect("it runs").output, expected);
    let none = Run { steps: 0, ..SMALL };
    assert_eq!(run(Side::HandIds, none).expect("it runs").output.tunnels, network.tunnels().len() as i64);
}

#[test]
fn the_checksum_tells_outputs_apart() {
    let count = |rows: &[[u32; 3]]| {
        let mut output = Output::default();
        for [host, stage, port] in rows {
            output.flow(*host, *stage, *port, true);
        }
        output.checksum
    };
    assert_eq!(count(&[[1, 2, 3], [4, 5, 6]]), count(&[[4, 5, 6], [1, 2, 3]]));
    assert_ne!(count(&[[1, 2, 3], [4, 5, 6]]), count(&[[1, 2, 6], [4, 5, 3]]));
}
