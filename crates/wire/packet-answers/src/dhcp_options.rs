//! Options of DHCP by name, as text (RFC 2132 and others).

mod form;

use std::fmt;

pub use form::Form;

use crate::dhcpv4::code;

/// An option that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionName {
    /// The name.
    pub name: &'static str,
    /// The code.
    pub code: u8,
    /// What its value is, and how it is written.
    pub form: Form,
}

const fn named(name: &'static str, code: u8, form: Form) -> OptionName {
    OptionName { name, code, form }
}

/// The options that have names. Others are given by their code.
pub const NAMES: &[OptionName] = &[
    named("time_offset", 2, Form::Seconds),
    named("router", 3, Form::Addresses),
    named("time_server", 4, Form::Addresses),
    named("dns", 6, Form::Addresses),
    named("domain_name_server", 6, Form::Addresses),
    named("log_server", 7, Form::Addresses),
    named("hostname", 12, Form::Domain),
    named("domain_name", 15, Form::Domain),
    named("mtu", 26, Form::Mtu),
    named("broadcast", 28, Form::Address),
    named("ntp", 42, Form::Addresses),
    named("vendor", 43, Form::Bytes),
    named("netbios_name_server", 44, Form::Addresses),
    named("tftp_server", 66, Form::Text),
    named("boot_file", 67, Form::Text),
    // RFC 4833.
    named("tz_posix", 100, Form::Text),
    named("tz_name", 101, Form::Text),
    // RFC 8910.
    named("captive_portal", 114, Form::Text),
    // RFC 3397.
    named("domain_search", 119, Form::Domains),
    // RFC 3442.
    named("classless_static_route", 121, Form::Routes),
    // RFC 5859.
    named("tftp_server_address", 150, Form::Addresses),
    // Web Proxy Auto-Discovery, in the range for private use.
    named("wpad", 252, Form::Text),
];

/// An option that cannot be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    /// The name or code of the option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// What is wrong, and how to do better.
    pub cause: String,
}

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DHCP option {} with value {:?}: {}", self.option, self.value, self.cause)
    }
}

impl std::error::Error for BadOption {}

/// The code and the bytes of an option: of one of [`NAMES`] with its value as text, or of a code with the value as hexadecimal bytes.
///
/// ```
/// use packet_answers::dhcp_option;
///
/// assert_eq!(dhcp_option("dns", "10.0.0.53, 10.0.1.53")?, (6, vec![10, 0, 0, 53, 10, 0, 1, 53]));
/// assert_eq!(dhcp_option("128", "01ff")?, (128, vec![0x01, 0xff]));
/// # Ok::<(), packet_answers::BadOption>(())
/// ```
///
/// # Errors
/// The option is not known, its value is not of its form, or it follows from the request or the lease.
pub fn dhcp_option(name: &str, value: &str) -> Result<(u8, Vec<u8>), BadOption> {
    let bad = |cause| BadOption { option: name.to_owned(), value: value.to_owned(), cause };
    let known = NAMES.iter().find(|known| known.name == name).map(|known| (known.code, known.form));
    let (code, form) = match (known, name.parse::<u8>()) {
        (Some(known), _) => known,
        (None, Ok(code)) => (code, Form::Bytes),
        (None, Err(_)) => {
            let names: Vec<&str> = NAMES.iter().map(|known| known.name).collect();
            return Err(bad(format!(
                "no option has this name: use its code (1 to 254), or one of {}",
                names.join(", ")
            )));
        }
    };
    if code::OURS.contains(&code) {
        return Err(bad("it follows from the request and the lease: leave it out".to_owned()));
    }
    form.bytes(value.trim()).map(|bytes| (code, bytes)).map_err(bad)
}

/// Domain names, separated by commas, as DNS has them (RFC 1035, 3.1) and without compression: the form of the lists of domains in which
/// clients search for names, for `DHCPv6` too (RFC 8415, 10).
///
/// # Errors
/// A name is no domain name.
pub fn domain_search(value: &str) -> Result<Vec<u8>, BadOption> {
    dhcp_option("domain_search", value).map(|(_, bytes)| bytes)
}
