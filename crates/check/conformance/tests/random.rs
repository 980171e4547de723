//! Random networks, histories and frames: the flow tables of all hosts deliver the same frames as the
//! model.

use conformance::{Count, Runner, Size, check, program};
use test_random::seeds;

/// Histories of all tests together: of networks without routers, and with them. `cargo xtask soak` runs new ones.
const HISTORIES: u64 = 200;
const ROUTED: u64 = 75;

/// Runs a quarter of the histories, so that the tests run side by side.
fn the_rules_do_what_the_model_says(quarter: usize) {
    let mut runner = Runner::new(program::rules()).expect("the rules start");
    let mut count = Count::default();
    for seed in seeds!("the_rules_do_what_the_model_says", HISTORIES).part(quarter, 4) {
        count += check(&mut runner, seed, Size::default()).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{count:?}");
}

#[test]
fn the_rules_do_what_the_model_says_1() {
    the_rules_do_what_the_model_says(0);
}

#[test]
fn the_rules_do_what_the_model_says_2() {
    the_rules_do_what_the_model_says(1);
}

#[test]
fn the_rules_do_what_the_model_says_3() {
    the_rules_do_what_the_model_says(2);
}

#[test]
fn the_rules_do_what_the_model_says_4() {
    the_rules_do_what_the_model_says(3);
}

/// Runs half of the histories with routers.
fn routers_do_what_the_model_says(half: usize) {
    let mut runner = Runner::new(program::rules()).expect("the rules start");
    let mut count = Count::default();
    for seed in seeds!("routers_do_what_the_model_says", ROUTED).part(half, 2) {
        count += check(&mut runner, seed, Size::routed()).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{count:?}");
    // About half of today's shares: a network that drops everything agrees with another one.
    if count.histories > ROUTED / 4 {
        for (seen, one_of) in
            [(count.routed, 25), (count.routed_out, 50), (count.past_silent, 2000), (count.undeliverable, 8)]
        {
            assert!(seen * one_of >= count.sent, "too little was for routers: {count:?}");
        }
    }
}

#[test]
fn routers_do_what_the_model_says_1() {
    routers_do_what_the_model_says(0);
}

#[test]
fn routers_do_what_the_model_says_2() {
    routers_do_what_the_model_says(1);
}
