//! Hello: the versions that a peer supports.

use crate::wire::Reader;

/// The element of a hello that lists versions.
const VERSION_BITMAP: u16 = 1;

/// The first message on a connection, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    versions: u32,
}

impl Hello {
    /// A hello from a peer that supports only OpenFlow 1.5.
    pub fn new() -> Hello {
        Hello { versions: 1 << super::VERSION }
    }

    /// A hello with these versions, bit n for version byte n; bit 0 is ignored.
    pub fn with_versions(versions: u32) -> Hello {
        Hello { versions: versions & !1 }
    }

    /// The versions, bit n for version byte n.
    pub fn versions(self) -> u32 {
        self.versions
    }

    /// Whether the peer supports the version with this byte, such as 6 for OpenFlow 1.5.
    pub fn speaks(self, version: u8) -> bool {
        version < 32 && self.versions >> version & 1 == 1
    }

    /// The header's version byte: the highest version.
    pub(super) fn version(self) -> u8 {
        self.versions.checked_ilog2().unwrap_or(0) as u8
    }

    /// Appends the list of versions unless the header already implies it.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        if ((self.versions >> 1) + 1).is_power_of_two() {
            return;
        }
        out.extend_from_slice(&VERSION_BITMAP.to_be_bytes());
        out.extend_from_slice(&8_u16.to_be_bytes());
        out.extend_from_slice(&self.versions.to_be_bytes());
    }

    /// Reads the body. Every hello is valid: unknown elements are ignored (OpenFlow 1.5,
    /// section 7.5.1); without a list the peer speaks all versions up to the header's.
    pub(super) fn decode(reader: &mut Reader<'_>, version: u8) -> Hello {
        let up_to = if version < 31 { (2_u32 << version) - 1 } else { u32::MAX };
        let mut hello = Hello::with_versions(up_to);
        while let (Ok(kind), Ok(len)) = (reader.u16(), reader.u16()) {
            let Some(body) = usize::from(len).checked_sub(4) else { break };
            let padding = usize::from(len).next_multiple_of(8) - usize::from(len);
            let Ok(mut element) = reader.sub("hello element", body) else { break };
            if kind == VERSION_BITMAP
                && body % 4 == 0
                && let Ok(versions) = element.u32()
                && versions & !1 != 0
            {
                hello = Hello::with_versions(versions);
            }
            if reader.skip(padding).is_err() {
                break;
            }
        }
        hello
    }

    pub(super) fn print(self) -> String {
        let versions: Vec<_> = (0..32).filter(|v| self.speaks(*v)).map(|v| format!("{v:#04x}")).collect();
        format!("\n version bitmap: {}", versions.join(", "))
    }
}

impl Default for Hello {
    fn default() -> Hello {
        Hello::new()
    }
}
