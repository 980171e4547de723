//! Where frames enter and leave.

use std::fmt;

/// A place where a frame enters or leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The vNIC that this host reports for this port.
    Vnic(String, String),
    /// A machine on this physical network that receives all of its frames.
    Tap(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Vnic(host, port) => write!(f, "{port} on {host}"),
            Place::Tap(network) => write!(f, "physical network {network}"),
        }
    }
}

/// A delivered frame and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Out {
    /// The place.
    pub at: Place,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
