//! Packets that a controller hands to a switch (OpenFlow 1.5, section 7.3.6).

use crate::flow::NO_BUFFER;
use crate::wire::Reader;
use crate::{Actions, DecodeError, EncodeError, Field, Match, PortNo};

/// A packet for a switch, and what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The packet that the switch has kept under this number, [`NO_BUFFER`] if the message has it.
    pub buffer_id: u32,
    /// What belongs to the packet besides its bytes: at least `in_port`, else the switch refuses the message.
    pub metadata: Match,
    /// What to do with it.
    pub actions: Actions,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl PacketOut {
    /// A packet that counts as one of the controller, and comes from no port.
    pub fn new(actions: Actions, data: Vec<u8>) -> PacketOut {
        PacketOut::from_port(PortNo::CONTROLLER, actions, data)
    }

    /// A packet that counts as one that came in at a port.
    pub fn from_port(in_port: PortNo, actions: Actions, data: Vec<u8>) -> PacketOut {
        let metadata = Match::any().with(Field::InPort, in_port.0.into());
        let metadata = metadata.unwrap_or_else(|error| unreachable!("a port number of 16 bits: {error}"));
        PacketOut { buffer_id: NO_BUFFER, metadata, actions, data }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.buffer_id.to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        self.metadata.encode(out);
        let start = out.len();
        self.actions.encode_list(out);
        let len = out.len() - start;
        let actions = u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        out[at..at + 2].copy_from_slice(&actions.to_be_bytes());
        out.extend_from_slice(&self.data);
        Ok(())
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PacketOut, DecodeError> {
        let (buffer_id, actions) = (reader.u32()?, usize::from(reader.u16()?));
        reader.skip(2)?;
        let metadata = Match::decode(reader)?;
        let actions = Actions::decode_list(&mut reader.sub("actions", actions)?, 1)?;
        Ok(PacketOut { buffer_id, metadata, actions, data: reader.rest().to_vec() })
    }

    pub(super) fn print(&self) -> String {
        let PacketOut { buffer_id, metadata, actions, data } = self;
        let what = match *buffer_id {
            NO_BUFFER => format!("data_len={}", data.len()),
            buffer => format!("buffer={buffer:#010x}"),
        };
        format!(" {metadata} actions={actions} {what}")
    }
}
