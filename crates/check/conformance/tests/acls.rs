//! Random networks with ACLs: the flow tables of all hosts deliver the same frames as the model.

use conformance::{Count, Runner, Size, check, program};
use test_random::seeds;

/// Histories of all tests of one kind together. `cargo xtask soak` runs new ones.
const STATELESS: u64 = 45;
const STATEFUL: u64 = 75;

/// Runs half of the histories without connections.
fn stateless_acls_do_what_the_model_says(half: usize) {
    let mut runner = Runner::new(program::rules()).expect("the rules start");
    let mut count = Count::default();
    for seed in seeds!("stateless_acls_do_what_the_model_says", STATELESS).part(half, 2) {
        count += check(&mut runner, seed, Size::stateless()).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{count:?}");
    // About half of today's shares.
    let filtered = count.filtered;
    if count.histories > STATELESS / 4 {
        for (seen, one_of) in [(filtered.out, 6), (filtered.dropped, 16)] {
            assert!(seen * one_of >= count.sent, "ACLs did too little: {count:?}");
        }
    }
}

#[test]
fn stateless_acls_do_what_the_model_says_1() {
    stateless_acls_do_what_the_model_says(0);
}

#[test]
fn stateless_acls_do_what_the_model_says_2() {
    stateless_acls_do_what_the_model_says(1);
}

/// Runs a third of the histories with connections.
fn stateful_acls_do_what_the_model_says(third: usize) {
    let mut runner = Runner::new(program::rules()).expect("the rules start");
    let mut count = Count::default();
    for seed in seeds!("stateful_acls_do_what_the_model_says", STATEFUL).part(third, 3) {
        count += check(&mut runner, seed, Size::filtered()).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{count:?}");
    let filtered = count.filtered;
    if count.histories > STATEFUL / 6 {
        for (seen, one_of) in [(filtered.out, 6), (filtered.dropped, 18), (filtered.replies, 40)] {
            assert!(seen * one_of >= count.sent, "ACLs did too little: {count:?}");
        }
    }
}

#[test]
fn stateful_acls_do_what_the_model_says_1() {
    stateful_acls_do_what_the_model_says(0);
}

#[test]
fn stateful_acls_do_what_the_model_says_2() {
    stateful_acls_do_what_the_model_says(1);
}

#[test]
fn stateful_acls_do_what_the_model_says_3() {
    stateful_acls_do_what_the_model_says(2);
}
