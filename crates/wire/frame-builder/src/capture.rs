//! The frames of a capture, as tcpdump writes one.

use std::fmt;
use std::io::Read;

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// The size of the buffer, in bytes: more than the largest frame of a capture.
const BUFFER: usize = 1 << 18;

/// Why a file is no capture whose frames can be sent. The text is the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureError(String);

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CaptureError {}

/// The type of blocks of pcapng that say which process a frame is of (Apple's tcpdump), and the least size of any block, in bytes.
const PROCESS_INFORMATION: u32 = 0x8000_0001;
const BLOCK_MIN: u32 = 12;

/// What one read has given.
enum Step {
    /// A block of this many bytes.
    Block(usize),
    /// Nothing whole: the file has more.
    Part,
}

/// The frames of a capture in the format pcap or pcapng.
///
/// # Errors
/// The capture cannot be read, is damaged, has frames that are cut short, or is not of Ethernet.
pub fn captured(from: impl Read + Send) -> Result<Vec<Vec<u8>>, CaptureError> {
    let bad = |error: &dyn fmt::Display| CaptureError(error.to_string());
    let mut reader = create_reader(BUFFER, from).map_err(|error| bad(&error))?;
    let mut frames = Vec::new();
    loop {
        if begins_with_stub(reader.data()) {
            return Err(CaptureError("a block is shorter than its own head".to_owned()));
        }
        let step = match reader.next() {
            Ok((used, block)) => {
                frames.extend(frame(&block, frames.len() + 1).map_err(CaptureError)?);
                Step::Block(used)
            }
            Err(PcapError::Eof) => return Ok(frames),
            Err(PcapError::Incomplete(_)) => Step::Part,
            Err(PcapError::UnexpectedEof) => return Err(cut_within(frames.len() + 1)),
            Err(error) => return Err(bad(&error)),
        };
        match step {
            Step::Block(used) => reader.consume(used),
            Step::Part if reader.reader_exhausted() => return Err(cut_within(frames.len() + 1)),
            Step::Part => reader.refill().map_err(|error| bad(&error))?,
        }
    }
}

/// Whether these bytes begin with a block whose length cannot be, of the one type for which the library subtracts from it unseen (pcap-parser
/// 0.17, `process_information.rs`). The order of the bytes of the type is that of the length.
fn begins_with_stub(bytes: &[u8]) -> bool {
    let Some((&[a, b, c, d, length @ ..], _)) = bytes.split_first_chunk::<8>() else { return false };
    let kind = [a, b, c, d];
    let in_both_orders = [
        (u32::from_be_bytes(kind), u32::from_be_bytes(length)),
        (u32::from_le_bytes(kind), u32::from_le_bytes(length)),
    ];
    in_both_orders.iter().any(|(kind, length)| *kind == PROCESS_INFORMATION && *length < BLOCK_MIN)
}

fn cut_within(number: usize) -> CaptureError {
    CaptureError(format!("it ends within frame {number}"))
}

/// The frame of a block, if it has one. `number` is that of the next frame.
fn frame(block: &PcapBlockOwned<'_>, number: usize) -> Result<Option<Vec<u8>>, String> {
    let ethernet = |kind: Linktype| match kind {
        Linktype::ETHERNET => Ok(None),
        other => Err(format!(
            "its frames are of link type {}, not of Ethernet: capture on another interface",
            other.0
        )),
    };
    let whole = |data: &[u8], length: u32, captured: u32| {
        let frame = usize::try_from(captured).ok().and_then(|captured| data.get(..captured));
        match frame {
            Some(frame) if captured == length => Ok(Some(frame.to_vec())),
            _ => Err(format!("frame {number} is cut short: capture whole frames (tcpdump -s 0)")),
        }
    };
    match block {
        PcapBlockOwned::LegacyHeader(header) => ethernet(header.network),
        PcapBlockOwned::Legacy(block) => whole(block.data, block.origlen, block.caplen),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => ethernet(interface.linktype),
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => whole(block.data, block.origlen, block.caplen),
        PcapBlockOwned::NG(Block::SimplePacket(block)) => whole(block.data, block.origlen, block.origlen),
        PcapBlockOwned::NG(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_shorter_than_its_head_is_refused() {
        // A section header of 28 bytes, and the beginning of a block of a process.
        for (magic, length, kind) in [
            (0x1a2b_3c4d_u32.to_le_bytes(), 28_u32.to_le_bytes(), PROCESS_INFORMATION.to_le_bytes()),
            (0x1a2b_3c4d_u32.to_be_bytes(), 28_u32.to_be_bytes(), PROCESS_INFORMATION.to_be_bytes()),
        ] {
            let is_little = kind[0] == 1;
            let version = if is_little { [1, 0, 0, 0] } else { [0, 1, 0, 0] };
            let section =
                [&[0x0a, 0x0d, 0x0d, 0x0a][..], &length, &magic, &version, &[0xff; 8], &length].concat();
            assert_eq!(captured(&section[..]).unwrap(), Vec::<Vec<u8>>::new());
            for short in 0..BLOCK_MIN {
                let short = if is_little { short.to_le_bytes() } else { short.to_be_bytes() };
                let file = [&section[..], &kind, &short, &[0; 8]].concat();
                assert_eq!(
                    captured(&file[..]).unwrap_err().to_string(),
                    "a block is shorter than its own head"
                );
            }
        }
    }
}
