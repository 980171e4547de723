//! Options of DHCP from text.

use packet_answers::{NAMES, dhcp_option, domain_search};

use crate::golden::hex;

#[test]
fn values_have_the_bytes_of_the_rfcs() {
    for (name, value, code, bytes) in [
        ("router", "10.0.0.254", 3, "0a0000fe"),
        ("dns", "10.0.0.53, 10.0.1.53", 6, "0a000035 0a000135"),
        ("time_offset", "-3600", 2, "fffff1f0"),
        ("mtu", "1442", 26, "05a2"),
        ("hostname", "a-1", 12, "612d31"),
        ("domain_name", "a.example.", 15, "612e6578616d706c65"),
        ("broadcast", "10.0.0.255", 28, "0a0000ff"),
        ("tftp_server", "a b", 66, "612062"),
        ("vendor", "01:ff 0a", 43, "01ff0a"),
        ("200", "0x01", 200, "01"),
        // RFC 3397, 3, has this example with a pointer in place of the second "apple.com".
        (
            "domain_search",
            "eng.apple.com, marketing.apple.com",
            119,
            "03656e67 056170706c65 03636f6d 00 096d61726b6574696e67 056170706c65 03636f6d 00",
        ),
        // The examples of RFC 3442, each with the router 10.0.0.1.
        ("classless_static_route", "0.0.0.0/0 via 10.0.0.1", 121, "00 0a000001"),
        ("classless_static_route", "10.0.0.0/8 via 10.0.0.1", 121, "08 0a 0a000001"),
        ("classless_static_route", "10.17.0.0/16 via 10.0.0.1", 121, "10 0a11 0a000001"),
        ("classless_static_route", "10.27.129.0/24 via 10.0.0.1", 121, "18 0a1b81 0a000001"),
        ("classless_static_route", "10.229.0.128/25 via 10.0.0.1", 121, "19 0ae50080 0a000001"),
        (
            "classless_static_route",
            "10.198.122.47/32 via 10.0.0.1, 0.0.0.0/0 via 10.0.0.2",
            121,
            "20 0ac67a2f 0a000001 00 0a000002",
        ),
    ] {
        assert_eq!(dhcp_option(name, value), Ok((code, hex(bytes))), "{name} {value}");
    }
    assert_eq!(domain_search("a.example"), Ok(hex("0161 076578616d706c65 00")));
}

#[test]
fn each_name_has_an_example_that_is_right() {
    let mut names: Vec<&str> = NAMES.iter().map(|known| known.name).collect();
    for known in NAMES {
        let (code, _) = dhcp_option(known.name, known.form.example()).unwrap();
        assert_eq!(code, known.code, "{}", known.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NAMES.len());
}

#[test]
fn a_mistake_names_the_option_the_value_and_the_remedy() {
    let mistake = |name: &str, value: &str| dhcp_option(name, value).unwrap_err().to_string();
    assert_eq!(
        mistake("router", "10.0.0"),
        "DHCP option router with value \"10.0.0\": this is not IPv4 addresses separated by commas: write it as in \
         10.0.0.1, 10.0.0.2"
    );
    assert!(
        mistake("rooter", "10.0.0.1")
            .contains("no option has this name: use its code (1 to 254), or one of time_offset, router")
    );
    assert!(mistake("51", "00000e10").ends_with("it follows from the request and the lease: leave it out"));
    for (name, value) in [
        ("mtu", "67"),
        ("mtu", "65536"),
        ("hostname", "-a"),
        ("hostname", "a..b"),
        ("domain_name", "über.example"),
        ("domain_search", ""),
        ("tftp_server", ""),
        ("tftp_server", "a\nb"),
        ("vendor", "0"),
        ("vendor", ""),
        ("vendor", "0g"),
        ("classless_static_route", "10.0.0.1/24 via 10.0.0.1"),
        ("classless_static_route", "10.0.0.0/33 via 10.0.0.1"),
        ("classless_static_route", "10.0.0.0/24 10.0.0.1"),
        ("256", "00"),
        ("0", "00"),
        ("255", "00"),
        ("-1", "00"),
    ] {
        assert!(dhcp_option(name, value).is_err(), "{name} {value:?}");
    }
    assert!(dhcp_option("hostname", &"a".repeat(63)).is_ok());
    assert!(dhcp_option("hostname", &"a".repeat(64)).is_err());
    let long = [&"a".repeat(63)[..]; 4].join(".");
    assert!(dhcp_option("domain_name", &long).is_err(), "257 bytes");
}
