//! The tunnel encapsulations that Weft knows.
//!
//! Network objects, rules, the switch driver and the tests use the same name for an encapsulation, which is also the
//! type of the tunnel port in Open vSwitch. To add one, add a member here: the compiler then leads to every `match` that
//! must decide about it, and `crates/net/controller/tests/encapsulations.rs` reports what is missing in the rules.
//!
//! ```
//! use tunnel_encap::Encap;
//!
//! assert_eq!("vxlan".parse(), Ok(Encap::Vxlan));
//! assert_eq!(Encap::Geneve.to_string(), "geneve");
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A tunnel encapsulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encap {
    /// Geneve (RFC 8926). Its options carry the label of the ingress port.
    Geneve,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GRE (RFC 2784) with a key (RFC 2890).
    Gre,
    /// Stateless Transport Tunneling (draft-davie-stt). The userspace datapath does not support it.
    Stt,
}

/// The error of a name that is not an encapsulation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown encapsulation {name:?}; use one of {}", Encap::ALL.map(Encap::name).join(", "))]
pub struct UnknownEncap {
    /// The name.
    pub name: String,
}

impl Encap {
    /// All encapsulations.
    pub const ALL: [Encap; 4] = [Encap::Geneve, Encap::Vxlan, Encap::Gre, Encap::Stt];

    /// Its name in objects and rules, and the type of its tunnel ports in Open vSwitch.
    pub const fn name(self) -> &'static str {
        match self {
            Encap::Geneve => "geneve",
            Encap::Vxlan => "vxlan",
            Encap::Gre => "gre",
            Encap::Stt => "stt",
        }
    }
}

impl fmt::Display for Encap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Encap {
    type Err = UnknownEncap;

    fn from_str(text: &str) -> Result<Self, UnknownEncap> {
        let named = Encap::ALL.into_iter().find(|encap| encap.name() == text);
        named.ok_or_else(|| UnknownEncap { name: text.to_owned() })
    }
}

impl Serialize for Encap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encapsulation_is_read_as_it_prints() {
        for encap in Encap::ALL {
            assert_eq!(encap.to_string().parse(), Ok(encap));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "GENEVE".parse::<Encap>().unwrap_err();
        assert_eq!(error.to_string(), "unknown encapsulation \"GENEVE\"; use one of geneve, vxlan, gre, stt");
    }
}
