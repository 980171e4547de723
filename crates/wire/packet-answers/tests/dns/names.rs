//! Names and their keys.

use packet_answers::{DomainName, NoDomainName, name_key};

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

#[test]
fn keys_are_the_same_for_ever() {
    // Flows of one version are matched by responders of another.
    assert_eq!(name_key(""), 0x77e8_0fb0_5d4c_9493);
    assert_eq!(name_key("a"), 0x4151_54ac_54df_672d);
    assert_eq!(name_key("db.blue.example"), 0x4dbf_238e_65c6_be12);
    assert_eq!(name_key("10.0.0.2"), 0x5558_d4e1_6259_0138);
    assert_eq!(name_key("fd00::2"), 0x47ac_a8ad_533a_1d6e);
}

#[test]
fn case_and_the_last_dot_make_no_difference() {
    assert_eq!(name_key("DB.Blue.EXAMPLE."), name_key("db.blue.example"));
    assert_eq!(name_key("."), name_key(""));
    assert_ne!(name_key("db.blue.example.."), name_key("db.blue.example"));
}

#[test]
fn a_reverse_name_has_the_key_of_its_address() {
    assert_eq!(name_key("2.0.0.10.in-addr.arpa"), name_key("10.0.0.2"));
    assert_eq!(name_key("2.0.0.10.IN-ADDR.ARPA."), name_key("10.0.0.2"));
    let nibbles = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa";
    assert_eq!(name_key(nibbles), name_key("fd00::2"));
    assert_eq!(name_key(&nibbles.to_uppercase()), name_key("FD00:0::2"));
    for text in ["10.0.0.2", "255.255.255.255", "fd00::2", "::ffff:10.0.0.2", "::"] {
        assert_eq!(name_key(&DomainName::reverse(text.parse().unwrap()).to_string()), name_key(text));
    }
    // What is no whole address is a name.
    let shorter = nibbles.replacen("2.", "", 1);
    let signed = nibbles.replacen("d.f", "d.+", 1);
    for text in [
        "0.0.10.in-addr.arpa",
        "02.0.0.10.in-addr.arpa",
        "in-addr.arpa",
        "1.2.0.0.10.in-addr.arpa",
        &shorter,
        &signed,
    ] {
        for address in ["10.0.0.2", "10.0.0", "fd00::2", "d00::2"] {
            assert_ne!(name_key(text), name_key(address), "{text}");
        }
    }
}

#[test]
fn names_are_what_hosts_and_services_have() {
    for text in ["a", "db.blue.example", "_dns._udp.blue.example", "a-b.1", &"a.".repeat(127)] {
        assert_eq!(name(text).to_string(), text.trim_end_matches('.'));
    }
    let long = "a".repeat(64);
    for text in ["", ".", "a..b", ".a", "-a", "a-", "a b", "ä", r"a\.b", "*.a", &long, &"a.".repeat(128)] {
        assert_eq!(text.parse::<DomainName>(), Err(NoDomainName), "{text:?}");
    }
}

#[test]
fn a_domain_is_above_whole_labels() {
    assert!(name("A.b").is(&name("a.B.")) && !name("a.b").is(&name("a.c")));
    assert!(name("x.Blue.example").is_under(&name("blue.Example")));
    assert!(name("x.y.blue.example").is_under(&name("blue.example")));
    assert!(!name("blue.example").is_under(&name("blue.example")));
    assert!(!name("xblue.example").is_under(&name("blue.example")));
    assert!(!name("example").is_under(&name("blue.example")));
}
