//! Flows in the driver's compact form: the encoded bytes of their canonical form.
//!
//! A controller keeps the flows of thousands of switches. The encoded form takes a quarter of the memory of the
//! decoded types. Equal flows are equal bytes, cloning shares the parts that several flows or switches have in
//! common, and a push only copies bytes. `openflow-rs` defines the canonical form. Flows that a switch reports are
//! decoded and encoded again, so two spellings of one match or one action list become the same bytes.

use std::fmt;
use std::sync::Arc;

use nlog_data::{Packed, Row, Value};
use openflow_rs::{Actions, Body, DecodeError, FlowEntry, FlowMod, Match, Message};

use crate::kind::{Kind, Lasting, Reader, RowError, int, text};
use crate::pool::Pool;
use crate::table::{ACTIONS, INT, MATCH, STRING, SwitchTable};

/// The longest match and the longest actions, in encoded bytes. A match, its actions and the bundle message around
/// them must fit into one message of 65,535 bytes.
pub const ENCODED_BYTES_MAX: usize = 32_000;

/// The offset of the match in an encoded flow-mod (OpenFlow 1.5, section 7.3.4.2).
const MATCH_AT: usize = 48;
/// `OFPT_FLOW_MOD`.
const FLOW_MOD: u8 = 14;
/// Class and number of `packet_type`.
const PACKET_TYPE: [u8; 3] = [0x80, 0x00, 44];
/// The type of the action that sends a packet to a group (`OFPAT_GROUP`).
const GROUP: [u8; 2] = [0, 22];
/// That of the action that sends it through a meter (`OFPAT_METER`).
const METER: [u8; 2] = [0, 29];
/// The match without fields.
const ANY_MATCH: [u8; 8] = [0, 1, 0, 4, 0, 0, 0, 0];

/// The identity of a flow: a switch has at most one flow with a given table, priority and match.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    pub(crate) table: u8,
    pub(crate) priority: u16,
    pub(crate) matching: Arc<[u8]>,
}

/// The cookie, attributes and instructions of a flow.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Flow {
    pub(crate) cookie: u64,
    /// Idle timeout, hard timeout, flags and importance, as the switch reports them. Our flows have zeros here, so a
    /// flow that differs is replaced.
    pub(crate) attributes: [u8; 8],
    pub(crate) instructions: Arc<[u8]>,
}

/// A flow that cannot be sent to any switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The match or the actions are too long.
    #[error("a flow's {part} take {bytes} bytes, but a message has room for {ENCODED_BYTES_MAX}")]
    TooLong {
        /// "match" or "actions".
        part: &'static str,
        /// Their length.
        bytes: usize,
    },
    /// A bucket's actions are too long.
    #[error("a bucket's actions take too many bytes: a message has room for {ENCODED_BYTES_MAX}")]
    LongBucket,
    /// A bucket's actions include an instruction.
    #[error("a bucket cannot contain {actions}: it takes actions only, no instructions")]
    NoBucket {
        /// The actions.
        actions: String,
    },
}

impl FlowKey {
    /// Encodes the match of a flow.
    ///
    /// # Errors
    /// [`FlowError::TooLong`]. No meaningful match is that long.
    pub fn new(table: u8, priority: u16, matching: &Match) -> Result<Self, FlowError> {
        Ok(FlowKey { table, priority, matching: encode_match(matching)? })
    }

    /// The key of a flow that takes all packets of a table.
    pub fn of_all_packets(table: u8, priority: u16) -> Self {
        FlowKey { table, priority, matching: Arc::from(ANY_MATCH) }
    }

    /// A key that is before all of the table with this priority, in their order, and after those with a lower one.
    pub fn before(table: u8, priority: u16) -> Self {
        FlowKey { table, priority, matching: Arc::from([]) }
    }

    /// The key with the same match in another table or with another priority.
    pub fn at(&self, table: u8, priority: u16) -> Self {
        FlowKey { table, priority, matching: Arc::clone(&self.matching) }
    }

    /// Replaces the encoded match by an equal one from the pool.
    pub fn share(&mut self, pool: &mut Pool) {
        pool.share(&mut self.matching);
    }

    /// Whether both keys share one encoded match in memory.
    pub fn shares_with(&self, other: &FlowKey) -> bool {
        Arc::ptr_eq(&self.matching, &other.matching)
    }

    /// The table, 0 to 254.
    pub fn table(&self) -> u8 {
        self.table
    }

    /// The priority. A packet takes the matching flow with the highest one.
    pub fn priority(&self) -> u16 {
        self.priority
    }

    /// The match, or an error if the switch reported a match that this crate cannot decode.
    pub fn matching(&self) -> Result<Match, DecodeError> {
        decode(&self.matching, &[]).map(|entry| entry.matches)
    }

    /// The encoded match.
    pub fn match_bytes(&self) -> &[u8] {
        &self.matching
    }
}

impl Flow {
    /// A flow without timeouts, which lasts until it is replaced or deleted.
    ///
    /// # Errors
    /// [`FlowError::TooLong`].
    pub fn new(cookie: u64, actions: &Actions) -> Result<Self, FlowError> {
        Ok(Flow { cookie, attributes: [0; 8], instructions: encode_actions(actions)? })
    }

    /// The same actions with another cookie.
    pub fn with_cookie(&self, cookie: u64) -> Self {
        Flow { cookie, ..self.clone() }
    }

    /// Replaces the encoded actions by equal ones from the pool.
    pub fn share(&mut self, pool: &mut Pool) {
        pool.share(&mut self.instructions);
    }

    /// Whether both flows share their encoded actions in memory.
    pub fn shares_with(&self, other: &Flow) -> bool {
        Arc::ptr_eq(&self.instructions, &other.instructions)
    }

    /// The cookie, which the controller chooses.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Whether the flow has no actions, so that what meets it is dropped.
    pub fn drops(&self) -> bool {
        self.instructions.is_empty()
    }

    /// The actions, or an error if the switch reported actions that this crate cannot decode.
    pub fn actions(&self) -> Result<Actions, DecodeError> {
        decode(&ANY_MATCH, &self.instructions).map(|entry| entry.actions)
    }

    /// The encoded instructions.
    pub fn instructions(&self) -> &[u8] {
        &self.instructions
    }

    /// Whether it sends packets to a group that satisfies `which`.
    pub fn uses_group(&self, which: impl Fn(u32) -> bool) -> bool {
        self.uses(GROUP, which)
    }

    /// Whether it sends packets through a meter that satisfies `which`.
    pub fn uses_meter(&self, which: impl Fn(u32) -> bool) -> bool {
        self.uses(METER, which)
    }

    /// Whether it has this action, which is its type and a number, with a number that satisfies `which`.
    fn uses(&self, action: [u8; 2], which: impl Fn(u32) -> bool) -> bool {
        // Actions begin at multiples of eight bytes. Other bytes may look like one, which costs one redundant flow-mod at
        // most.
        let id = |bytes: &[u8]| match bytes {
            [high, low, 0, 8, a, b, c, d] if [*high, *low] == action => {
                Some(u32::from_be_bytes([*a, *b, *c, *d]))
            }
            _ => None,
        };
        self.instructions.chunks_exact(8).filter_map(id).any(which)
    }
}

/// A row of the table of flows, before its match and its actions are encoded.
#[derive(Debug, Clone, Copy)]
pub struct FlowRow<'r> {
    /// The host.
    pub host: &'r Arc<str>,
    /// The table of its switch.
    pub table: u8,
    /// The priority.
    pub priority: u16,
    /// The match.
    pub matches: &'r Packed<Match>,
    /// The actions.
    pub actions: &'r Packed<Actions>,
}

impl<'r> FlowRow<'r> {
    /// Reads a row.
    ///
    /// # Errors
    /// No switch can have this flow.
    pub fn read(row: &'r Row) -> Result<FlowRow<'r>, RowError> {
        let [
            Value::String(host),
            Value::Int(table),
            Value::Int(priority),
            Value::Match(matches),
            Value::Actions(actions),
        ] = &row[..]
        else {
            return Err(RowError::misfit(&Flows::TABLE, row));
        };
        let fault = |why: String| RowError::range(&Flows::TABLE, host, why);
        // 255 is OFPTT_ALL.
        let table_id = u8::try_from(*table).ok().filter(|table| *table < u8::MAX);
        let table =
            table_id.ok_or_else(|| fault(format!("table {table} does not exist; the last is 254")))?;
        let priority = u16::try_from(*priority)
            .map_err(|_| fault(format!("priority {priority} is out of range; the highest is 65535")))?;
        Ok(FlowRow { host, table, priority, matches, actions })
    }

    fn key(&self, reader: &mut Reader<'_, 'r>) -> Result<FlowKey, RowError> {
        let FlowRow { host, table, priority, matches, .. } = *self;
        if let Some((_, what)) = reader.reserved.filter(|(reserved, _)| *reserved == table) {
            return Err(RowError::range(&Flows::TABLE, host, format!("table {table} is {what}")));
        }
        let matching = reader.matching(matches, encode_match);
        let matching = matching.map_err(|error| RowError::range(&Flows::TABLE, host, error))?;
        Ok(FlowKey { table, priority, matching })
    }
}

/// The flows of a switch.
#[derive(Debug)]
pub enum Flows {}

impl Kind for Flows {
    const TABLE: SwitchTable = SwitchTable::output(
        "of_flow",
        &[("hv", STRING), ("table_id", INT), ("priority", INT), ("match", MATCH), ("actions", ACTIONS)],
    );
    const ATTRIBUTED: bool = true;
    type Key = FlowKey;
    type Value = Flow;

    fn read<'r>(row: &'r Row, reader: &mut Reader<'_, 'r>) -> Result<(&'r str, FlowKey, Flow), RowError> {
        let row = FlowRow::read(row)?;
        let key = row.key(reader)?;
        let instructions = reader.instructions(row.actions, encode_packed);
        let instructions = instructions.map_err(|error| RowError::range(&Flows::TABLE, row.host, error))?;
        Ok((row.host, key, Flow { cookie: reader.rule, attributes: [0; 8], instructions }))
    }

    fn key<'r>(row: &'r Row, reader: &mut Reader<'_, 'r>) -> Result<(&'r str, FlowKey), RowError> {
        let row = FlowRow::read(row)?;
        Ok((row.host, row.key(reader)?))
    }
}

impl Lasting for Flows {
    fn row(host: &str, key: &FlowKey, flow: &Flow) -> Result<Row, DecodeError> {
        let matching = Value::Match(Packed::new(&key.matching()?));
        let actions = Value::Actions(Packed::new(&flow.actions()?));
        Ok(vec![text(host), int(key.table), int(key.priority), matching, actions])
    }
}

/// Writes a flow, or with `None` its deletion, in the notation of `ovs-ofctl`.
pub fn show(f: &mut fmt::Formatter<'_>, key: &FlowKey, flow: Option<&Flow>) -> fmt::Result {
    let (matching, actions) = (key.matching(), flow.map(Flow::actions).transpose());
    match (matching, actions) {
        (Ok(matches), Ok(actions)) => {
            let mut entry = FlowEntry::new(key.table, key.priority, matches, actions.unwrap_or_default());
            match flow {
                Some(flow) => {
                    entry.cookie = flow.cookie;
                    write!(f, "{entry}")
                }
                None => write!(f, "{}", FlowMod::delete_strict(entry).to_string().trim_end()),
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            write!(f, "table={}, priority={}, unreadable here: {error}", key.table, key.priority)
        }
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table={}, priority={}", self.table, self.priority)?;
        match self.matching() {
            Ok(matching) => write!(f, ",{matching}"),
            Err(error) => write!(f, ",unreadable here: {error}"),
        }
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cookie={:#x}, actions=", self.cookie)?;
        match self.actions() {
            Ok(actions) => write!(f, "{actions}")?,
            Err(error) => write!(f, "unreadable here: {error}")?,
        }
        if self.attributes == [0; 8] { Ok(()) } else { write!(f, " attributes={:02x?}", self.attributes) }
    }
}

/// The key and the flow that a switch reported. A match or actions that cannot be decoded are not ours and keep their
/// bytes, which the switch needs to find and delete the flow. A match with `packet_type` keeps its bytes too: the
/// canonical form omits this field, but Open vSwitch distinguishes `in_port=1` from `packet_type=(0,0),in_port=1`,
/// although it prints them alike.
pub fn from_switch(
    (table, priority): (u8, u16),
    (cookie, attributes): (u64, [u8; 8]),
    matching: &[u8],
    instructions: &[u8],
) -> (FlowKey, Flow) {
    let canonical = |matching: &[u8], instructions: &[u8]| {
        let entry = decode(matching, instructions).ok()?;
        Some((entry.matches.to_wire(), entry.actions.to_wire()))
    };
    let (ours, instructions) = canonical(matching, instructions).unwrap_or_else(|| {
        let ours = canonical(matching, &[]).map_or_else(|| matching.to_vec(), |(bytes, _)| bytes);
        let actions = canonical(&ANY_MATCH, instructions);
        (ours, actions.map_or_else(|| instructions.to_vec(), |(_, bytes)| bytes))
    });
    let same = ours == matching || says_packet_type(&ours) == says_packet_type(matching);
    let matching = if same { Arc::from(ours) } else { Arc::from(matching) };
    (
        FlowKey { table, priority, matching },
        Flow { cookie, attributes, instructions: Arc::from(instructions) },
    )
}

/// Whether an encoded match has the field `packet_type`, which the canonical form omits. A field has a header of four
/// bytes; the last of them is the length of the rest (section 7.2.3.2).
fn says_packet_type(matching: &[u8]) -> bool {
    let mut rest = matching.get(4..match_length(matching)).unwrap_or_default();
    while let [class0, class1, field, length, more @ ..] = rest {
        if [*class0, *class1, *field >> 1] == PACKET_TYPE {
            return true;
        }
        rest = more.get(usize::from(*length)..).unwrap_or_default();
    }
    false
}

/// The length of an encoded match without padding, read from its header.
fn match_length(matching: &[u8]) -> usize {
    match matching {
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}

fn checked(part: &'static str, bytes: &[u8]) -> Result<Arc<[u8]>, FlowError> {
    match bytes.len() {
        0..=ENCODED_BYTES_MAX => Ok(Arc::from(bytes)),
        bytes => Err(FlowError::TooLong { part, bytes }),
    }
}

fn encode_match(matching: &Match) -> Result<Arc<[u8]>, FlowError> {
    checked("match", &matching.to_wire())
}

fn encode_actions(actions: &Actions) -> Result<Arc<[u8]>, FlowError> {
    checked("actions", &actions.to_wire())
}

/// The same for actions that are packed, and so in wire format already unless they are too long for it.
fn encode_packed(actions: &Packed<Actions>) -> Result<Arc<[u8]>, FlowError> {
    match actions.instructions() {
        Some(bytes) => checked("actions", bytes),
        None => encode_actions(&actions.get()),
    }
}

/// Reads the match, with its padding, and the instructions of a flow-mod.
fn decode(matching: &[u8], instructions: &[u8]) -> Result<FlowEntry, DecodeError> {
    let length = u16::try_from(MATCH_AT + matching.len() + instructions.len()).unwrap_or(u16::MAX);
    let mut head = [0; MATCH_AT];
    (head[0], head[1]) = (openflow_rs::message::VERSION, FLOW_MOD);
    head[2..4].copy_from_slice(&length.to_be_bytes());
    let bytes = [&head, matching, instructions].concat();
    match Message::decode(&bytes)?.body {
        Body::FlowMod(flow_mod) => Ok(flow_mod.entry),
        // Unreachable: the type byte above makes it a flow-mod.
        _ => Ok(FlowEntry::new(0, 0, Match::any(), Actions::drop())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (FlowKey, Flow) {
        let entry: FlowEntry = text.parse().expect("a flow");
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("short");
        (key, Flow::new(entry.cookie, &entry.actions).expect("short"))
    }

    #[test]
    fn flows_that_use_a_group_or_a_meter_are_found() {
        let flow = |actions: &str| Flow::new(0, &actions.parse().expect("actions")).expect("short");
        let both = flow("meter:7,set_field:5->reg1,group:8");
        assert!(both.uses_group(|id| id == 8) && both.uses_meter(|id| id == 7));
        assert!(!both.uses_group(|id| id == 7) && !both.uses_meter(|id| id == 8));
        assert!(!flow("output:7").uses_group(|_| true) && !flow("group:7").uses_meter(|_| true));
    }

    #[test]
    fn spellings_of_one_flow_are_the_same() {
        let one = parts(
            "table=3,priority=5,ip,nw_src=10.1.2.3/24,xreg0=0x500000006 actions=load:0x5->NXM_NX_REG0[0..15]",
        );
        let other = parts(
            "table=3,priority=5,ip,nw_src=10.1.2.0/24,reg0=5,reg1=6 actions=set_field:0x5/0xffff->reg0",
        );
        assert_eq!(one, other);
        assert_ne!(
            one,
            parts(
                "table=3,priority=6,ip,nw_src=10.1.2.0/24,reg0=5,reg1=6 actions=set_field:0x5/0xffff->reg0"
            )
        );
    }

    #[test]
    fn what_was_put_in_comes_out() {
        let entry: FlowEntry =
            "cookie=0x7, table=3, priority=5,arp,arp_tpa=10.0.0.1 actions=IN_PORT".parse().expect("a flow");
        let (key, flow) = parts("cookie=0x7, table=3, priority=5,arp,arp_tpa=10.0.0.1 actions=IN_PORT");
        assert_eq!((key.table(), key.priority(), flow.cookie()), (3, 5, 7));
        assert_eq!((key.matching(), flow.actions()), (Ok(entry.matches), Ok(entry.actions)));
        assert_eq!(
            format!("{key:?} {flow:?}"),
            "table=3, priority=5,arp,arp_tpa=10.0.0.1 cookie=0x7, actions=IN_PORT"
        );
    }

    #[test]
    fn actions_that_fit_no_message_are_refused() {
        for count in [5_000, 100_000] {
            let text = vec!["output:1"; count].join(",");
            let actions: Actions = text.parse().expect("actions");
            let error = Flow::new(0, &actions).expect_err("too long").to_string();
            assert!(error.starts_with("a flow's actions take "), "{error}");
        }
        let text = vec!["output:1"; 1_500].join(",");
        assert!(Flow::new(0, &text.parse().expect("actions")).is_ok());
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_came() {
        // A field of an unknown class.
        let matching = [0, 1, 0, 12, 0x12, 0x34, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
        let (key, flow) = from_switch((3, 5), (7, [0; 8]), &matching, &[]);
        assert_eq!(key.match_bytes(), matching);
        assert_eq!(flow, Flow::new(7, &Actions::drop()).expect("short"));
        assert!(format!("{key:?}").contains("unreadable here"));
    }
}
