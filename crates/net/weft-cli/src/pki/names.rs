//! What a certificate says besides its role: a name, and addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The most bytes that a common name or an organisation may have (X.520: `ub-common-name`, `ub-organization-name`).
const MOST: usize = 64;
/// Names whose files would be those of the CA.
const RESERVED: [&str; 2] = ["ca", "revoked"];

/// The name of a certificate: its subject's common name, and the stem of its files. Nothing in it needs quotes in a shell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        if RESERVED.contains(&text) {
            return Err(format!("{text}.pem is a file of the CA, so no certificate can have this name"));
        }
        check(text, "a name", "._-", MOST)?;
        Ok(Name(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Checks that a text consists of letters, digits and these signs, and begins with no sign that a shell or a program takes for something else.
fn check(text: &str, what: &str, signs: &str, most: usize) -> Result<(), String> {
    let fits = |each: char| each.is_ascii_alphanumeric() || signs.contains(each);
    if text.is_empty() || text.starts_with(['.', '-']) || !text.chars().all(fits) {
        let signs: String = signs.chars().flat_map(|sign| [' ', sign]).collect();
        return Err(format!(
            "{what} consists of letters, digits and{signs}, and does not begin with a dot or a hyphen"
        ));
    }
    if text.len() > most {
        return Err(format!("{what} has at most {most} characters, and this one has {}", text.len()));
    }
    Ok(())
}

/// Where a server is reached: a subject alternative name of its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// An IP address.
    Ip(IpAddr),
    /// A DNS name.
    Dns(String),
}

impl Address {
    /// The address that the name itself is, if it can be one.
    pub(super) fn of_name(name: &Name) -> Option<Address> {
        name.0.parse().ok()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Address::Ip(ip));
        }
        if is_dns_name(text) {
            return Ok(Address::Dns(text.to_owned()));
        }
        Err("this is neither an IP address nor a DNS name, such as 10.0.0.7 or weft.example.net".to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(ip) => ip.fmt(f),
            Address::Dns(name) => f.write_str(name),
        }
    }
}

/// Whether this is a host name (RFC 1123, 2.1): labels of letters, digits and hyphens. The last one is no number (WHATWG, 3.5), because a name such
/// as `10.0.0` would be read as an address.
fn is_dns_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|each| each.is_ascii_alphanumeric() || each == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !last.chars().all(|each| each.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_files_and_in_shells() {
        let longest = "a".repeat(64);
        for good in ["hv1", "controller", "alice_2", "hv1.example.net", "0", "revoked.1", &longest] {
            assert_eq!(good.parse::<Name>().map(|name| name.to_string()), Ok(good.to_owned()));
        }
        let long = "a".repeat(65);
        for bad in ["", ".", "..", ".hv1", "-x", "a/b", "a b", "é", "a\n", "$x", "ca", "revoked", &long] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_an_ip_address_or_a_host_name() {
        let dns = |text: &str| Ok(Address::Dns(text.to_owned()));
        assert_eq!("10.0.0.7".parse(), Ok(Address::Ip([10, 0, 0, 7].into())));
        assert_eq!(
            "2001:db8::7".parse::<Address>().map(|address| address.to_string()),
            Ok("2001:db8::7".into())
        );
        assert_eq!("weft.example.net".parse(), dns("weft.example.net"));
        assert_eq!("hv1".parse(), dns("hv1"));
        let long = "a".repeat(64);
        for bad in ["", "a_b", "-a", "a-", "a..b", "a.", "10.0.0", "10.0.0.7:6640", "[::1]", "*.net", &long] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        let of = |name: &str| name.parse().ok().and_then(|name| Address::of_name(&name));
        assert_eq!(of("hv_1"), None);
        assert_eq!(of("10.0.0.7"), Some(Address::Ip([10, 0, 0, 7].into())));
    }
}
