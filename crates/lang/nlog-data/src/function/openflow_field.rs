//! Shared by the functions over OpenFlow fields: the types that a field accepts, and the conversion of
//! values to bits.

use std::net::IpAddr;

use openflow_rs::field::Format;
use openflow_rs::{Field, MacAddr, MatchError};

use super::Failure;
use super::define::Argument;

/// The types that values of a field can have in rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Int,
    Mac,
    Ip,
}

/// The types for a field: its natural type, and for registers every type that fits.
pub(super) fn forms(field: Field) -> &'static [Form] {
    let info = field.info();
    match info.format {
        Format::Ethernet => &[Form::Mac],
        Format::Ipv4 | Format::Ipv6 => &[Form::Ip],
        _ if info.name.starts_with("xxreg") => &[Form::Int, Form::Ip],
        _ if info.name.starts_with("xreg") => &[Form::Int, Form::Mac],
        _ if info.name.starts_with("reg") => &[Form::Int, Form::Ip],
        _ => &[Form::Int],
    }
}

/// The names of a field within function names; for IP address fields, also the field that takes IPv6.
pub(super) fn names(field: Field) -> impl Iterator<Item = &'static str> {
    let info = field.info();
    std::iter::once(info.name).chain(info.aliases.iter().copied())
}

/// A value that can go into a field.
pub(super) trait FieldValue: Argument + Copy + std::fmt::Display {
    /// The field that this value is written to.
    fn field(self, field: Field) -> Field {
        field
    }

    /// Its bits; none if the field cannot hold the value.
    fn bits(self, field: Field) -> Option<u128>;
}

impl FieldValue for i64 {
    fn bits(self, _: Field) -> Option<u128> {
        u128::try_from(self).ok()
    }
}

impl FieldValue for MacAddr {
    fn bits(self, _: Field) -> Option<u128> {
        Some(self.to_u64().into())
    }
}

impl FieldValue for IpAddr {
    fn field(self, field: Field) -> Field {
        field.for_address(self)
    }

    fn bits(self, field: Field) -> Option<u128> {
        match self {
            IpAddr::V4(ip) if field.bits() == 32 => Some(ip.to_bits().into()),
            IpAddr::V6(ip) if field.bits() == 128 => Some(ip.to_bits()),
            _ => None,
        }
    }
}

/// The failure of a function whose argument does not fit a field.
pub(super) fn misfit(function: &str, field: Field, value: impl std::fmt::Display) -> Failure {
    let width = field.bits();
    let bits = if width == 1 { "bit" } else { "bits" };
    Failure::range(format!("{function}: {value} does not fit in {field} ({width} {bits})"))
}

/// Converts an error of the field table to a failure; `value` is the argument in the rule.
pub(super) fn failure(function: &str, value: impl std::fmt::Display, error: &MatchError) -> Failure {
    match error {
        MatchError::Range { field, .. } => misfit(function, *field, value),
        error => Failure::range(format!("{function}: {error}")),
    }
}
