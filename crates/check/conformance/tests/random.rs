//! Random networks, histories and frames: the flow tables of all hosts deliver the same frames as the
//! model.

use conformance::{Count, Runner, Size, check, program};
use test_random::{Seeds, seeds};

/// Histories of all tests together: of networks without routers, and with them. `cargo xtask soak` runs new ones.
const HISTORIES: u64 = 200;
const ROUTED: u64 = 75;
/// Histories of networks with servers, of which half have routers and half have ACLs.
const SERVED: u64 = 40;
/// The same, and the network chooses addresses of ports.
const DYNAMIC: u64 = 40;
/// Histories of networks whose routers have gateways.
const OUTSIDE: u64 = 40;
/// Histories of networks whose routers translate addresses there.
const TRANSLATED: u64 = 40;

/// Runs the histories of these seeds, and says how much they have compared.
fn compared(seeds: Seeds, size: Size) -> Count {
    let mut runner = Runner::new(program::rules()).expect("the rules start");
    let mut count = Count::default();
    for seed in seeds {
        count += check(&mut runner, seed, size).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{count:?}");
    count
}

/// Runs a quarter of the histories, so that the tests run side by side.
fn the_rules_do_what_the_model_says(quarter: usize) {
    compared(seeds!("the_rules_do_what_the_model_says", HISTORIES).part(quarter, 4), Size::default());
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
    let count = compared(seeds!("routers_do_what_the_model_says", ROUTED).part(half, 2), Size::routed());
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

#[test]
fn gateways_do_what_the_model_says() {
    compared(seeds!("gateways_do_what_the_model_says", OUTSIDE), Size::outside());
}

#[test]
fn nat_does_what_the_model_says() {
    let count = compared(seeds!("nat_does_what_the_model_says", TRANSLATED), Size::nat());
    if count.histories > TRANSLATED / 4 {
        assert!(count.translated * 100 >= count.sent, "too few frames were translated: {count:?}");
    }
}

#[test]
fn servers_do_what_the_model_says() {
    let count = compared(seeds!("servers_do_what_the_model_says", SERVED), Size::served());
    if count.histories > SERVED / 4 {
        assert!(count.served * 40 >= count.sent, "too few requests were answered: {count:?}");
    }
}

#[test]
fn addresses_that_the_network_chooses_do_what_the_model_says() {
    let count = compared(
        seeds!("addresses_that_the_network_chooses_do_what_the_model_says", DYNAMIC),
        Size::dynamic(),
    );
    if count.histories > DYNAMIC / 4 {
        assert!(count.given * 10 >= count.sent, "too few frames were for such addresses: {count:?}");
    }
}
