//! Addresses with the lengths of their prefixes.

use nlog_data::InterfaceAddress;

#[test]
fn spellings_of_one_address_are_one_value() {
    for (text, canonical) in [
        ("10.0.0.254/24", "10.0.0.254/24"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("10.0.0.1/032", "10.0.0.1/32"),
        ("FD00:0:0::1/64", "fd00::1/64"),
        ("fd00::1/0", "fd00::1/0"),
        ("::FFFF:10.0.0.1/128", "::ffff:10.0.0.1/128"),
    ] {
        let address: InterfaceAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(address));
    }
}

#[test]
fn other_texts_say_what_is_missing() {
    let error = |text: &str| text.parse::<InterfaceAddress>().unwrap_err().to_string();
    assert_eq!(error("10.0.0.254"), "the length of the prefix is missing; write it as 10.0.0.254/24");
    assert_eq!(error("fd00::1"), "the length of the prefix is missing; write it as fd00::1/64");
    for text in ["10.0.0.254/33", "10.0.0.254/", "10.0.0.254/+1", "10.0.0.254/-1", "10.0.0.254/256"] {
        assert_eq!(error(text), "the length of the prefix must be a number from 0 to 32", "{text}");
    }
    assert_eq!(error("fd00::1/129"), "the length of the prefix must be a number from 0 to 128");
    assert_eq!(error("10.0.0.254/255.255.255.0"), error("10.0.0.254/33"));
    for text in ["", "/24", "gateway", "10.0.0/24", "10.0.0.01/24", " 10.0.0.1/24"] {
        let wanted = "not an IP address with the length of its prefix, such as 10.0.0.254/24";
        assert_eq!(error(text), wanted, "{text}");
    }
}

#[test]
fn host_bits_are_kept_beside_the_prefix() {
    let address: InterfaceAddress = "10.0.0.254/24".parse().unwrap();
    assert_eq!(address.ip().to_string(), "10.0.0.254");
    assert_eq!((address.net().to_string(), address.length()), ("10.0.0.0/24".to_owned(), 24));
}
