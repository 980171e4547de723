//! Data that move between the workers of one process and never leave it.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Data for a worker of the same process. Timely serializes what it sends to other processes, and asks that everything
/// it exchanges could be. These data refer to the process's table of symbols.
#[derive(Debug, Clone)]
pub(super) struct Local<D>(pub(super) D);

const WHY: &str = "the workers of a program's operator must be in one process";

impl<D> Serialize for Local<D> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom(WHY))
    }
}

impl<'de, D> Deserialize<'de> for Local<D> {
    fn deserialize<S: Deserializer<'de>>(_: S) -> Result<Self, S::Error> {
        Err(S::Error::custom(WHY))
    }
}
