//! Random histories of networks with ACLs, in the model alone: the generator makes what the rules must be tried on. The kinds of
//! things that happen must not be rare, or a test of the rules would agree with everything.

use conformance::{Filtered, Size, history, rehearse};
use test_random::Random;

const HISTORIES: u64 = 150;

#[test]
fn histories_with_acls_have_connections_with_replies_errors_and_edits_that_cut_them() {
    let mut count = Filtered::default();
    for seed in 0..HISTORIES {
        count += rehearse(&history(&mut Random::new(seed), Size::filtered()));
    }
    println!("{count:?}");
    // About half of what they do: a network that drops everything agrees with another one, and so does one that drops nothing.
    for (what, seen, one_of) in [
        ("arrived", count.out, 5),
        ("dropped by ACLs", count.dropped, 18),
        ("first of connections", count.begun, 24),
        ("replies", count.replies, 30),
        ("replies of connections that were cut", count.cut, 450),
        ("errors about connections", count.errors, 150),
        ("errors about nothing", count.strays, 150),
        ("fragments that wait", count.waiting, 110),
        ("edits", count.edits, 17),
    ] {
        assert!(seen * one_of >= count.sent, "too few are {what}: {count:?}");
    }
}

#[test]
fn histories_without_acls_know_nothing_of_them() {
    let mut count = Filtered::default();
    for seed in 0..20 {
        count += rehearse(&history(&mut Random::new(seed), Size::default()));
    }
    assert_eq!(count, Filtered { sent: count.sent, out: count.out, ..Filtered::default() });
}
