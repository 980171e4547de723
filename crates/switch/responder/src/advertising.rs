//! Router advertisements that nobody asks for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::message::PacketOut;
use openflow_rs::{Action, FlowStats, Match, PortNo};
use packet_answers::{Advertisement, Answered, Ask, CONTROLLER_ID, Instruction};

use crate::counts::Counts;

/// How often the flows are read. What they advertise changes so much later at most.
pub(crate) const READ_EVERY: Duration = Duration::from_mins(1);
/// The interval between advertisements: half of what RFC 4861, 6.2.1, has by default, so that machines hear of the router twice as often as they must.
const ADVERTISE_EVERY: Duration = Duration::from_mins(5);
/// Advertisements that are sent at the rate of reading when they are new (RFC 4861, 6.2.4: `MAX_INITIAL_RTR_ADVERTISEMENTS`).
const FIRST: u32 = 3;
/// The most advertisements that are kept. More routers are on no host; a flow table that asks for more is faulty.
const MOST: usize = 4096;

/// What flows say is to be advertised, as of the last time that they were read.
#[derive(Debug)]
pub(crate) struct Advertising {
    counts: Arc<Counts>,
    known: BTreeMap<Vec<u8>, Sent>,
    /// What has been read of them this time.
    reading: BTreeMap<Vec<u8>, Instruction>,
}

/// What has been sent of an advertisement.
#[derive(Debug)]
struct Sent {
    instruction: Instruction,
    times: u32,
    last: Duration,
}

impl Advertising {
    /// Nothing has been read.
    pub(crate) fn new(counts: Arc<Counts>) -> Advertising {
        Advertising { counts, known: BTreeMap::new(), reading: BTreeMap::new() }
    }

    /// The flows will be read from their beginning: what is left of a reading that did not end is forgotten.
    pub(crate) fn begin(&mut self) {
        self.reading.clear();
    }

    /// Reads a part of the flows.
    pub(crate) fn read(&mut self, flows: &[FlowStats]) {
        for action in flows.iter().flat_map(|flow| &flow.entry.actions.0) {
            let Action::Controller(controller) = action else { continue };
            if controller.id != CONTROLLER_ID || self.reading.len() >= MOST {
                continue;
            }
            // What cannot be read is named in the log when a packet comes to it.
            let Ok(instruction) = Instruction::decode(&controller.userdata) else { continue };
            if periodic(&instruction).is_some() {
                self.reading.insert(controller.userdata.clone(), instruction);
            }
        }
    }

    /// All flows have been read: what is to be sent now. `now` is the time since any moment that stays the same.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<PacketOut> {
        let read = std::mem::take(&mut self.reading);
        let gone: Vec<Sent> =
            self.known.extract_if(.., |said, _| !read.contains_key(said)).map(|(_, sent)| sent).collect();
        // A router that says something else now is still there.
        let stays = |mac| read.values().filter_map(periodic).any(|other| other.mac == mac);
        let farewells = gone.iter().filter_map(|sent| {
            let advertisement = periodic(&sent.instruction)?;
            let frame = advertisement.farewell();
            (!stays(advertisement.mac)).then(|| message(&sent.instruction, frame))
        });
        let mut due: Vec<PacketOut> = farewells.collect();
        for (said, instruction) in read {
            let sent = self.known.entry(said).or_insert(Sent { instruction, times: 0, last: Duration::ZERO });
            let is_due = sent.times < FIRST || now.saturating_sub(sent.last) >= ADVERTISE_EVERY;
            if let Some(advertisement) = periodic(&sent.instruction).filter(|_| is_due) {
                due.push(message(&sent.instruction, advertisement.unsolicited()));
                (sent.times, sent.last) = (sent.times.saturating_add(1), now);
            }
        }
        for _ in &due {
            self.counts.answered(Answered::RouterAdvertisement);
        }
        due
    }
}

fn periodic(instruction: &Instruction) -> Option<&Advertisement> {
    match &instruction.ask {
        Ask::Advertisement(advertisement) => {
            Some(advertisement).filter(|advertisement| advertisement.periodic)
        }
        _ => None,
    }
}

fn message(instruction: &Instruction, frame: Vec<u8>) -> PacketOut {
    PacketOut::from_port(PortNo::LOCAL, instruction.actions_for(&Match::any(), &[]), frame)
}

#[cfg(test)]
mod tests {
    use openflow_rs::{Actions, FlowEntry};

    use super::*;

    /// The flows of routers with these last bytes of their MAC addresses, of which each advertises this MTU.
    fn flows(routers: &[(u8, u16)]) -> Vec<FlowStats> {
        let flow = |(number, mtu): &(u8, u16)| {
            let settings = [
                format!("mac=02:00:00:00:00:{number:02x}"),
                "mode=slaac".to_owned(),
                "prefix=fd00::/64".to_owned(),
                format!("mtu={mtu}"),
                "periodic=true".to_owned(),
            ];
            let settings = settings.iter().map(String::as_str);
            let instruction =
                Instruction::from_settings("router_advertisement", settings, Actions::drop()).unwrap();
            let actions = Actions(vec![instruction.action(1)]);
            FlowStats {
                entry: FlowEntry::new(60, 1, Match::any(), actions),
                duration: Duration::ZERO,
                packets: None,
                bytes: None,
                idle_s: None,
            }
        };
        routers.iter().map(flow).collect()
    }

    /// The last byte of the sender and the lifetime of each advertisement that is due.
    fn due(advertising: &mut Advertising, routers: &[(u8, u16)], minute: u64) -> Vec<(u8, u16)> {
        advertising.read(&flows(routers));
        let due = advertising.due(Duration::from_mins(minute));
        due.iter().map(|out| (out.data[11], u16::from_be_bytes([out.data[60], out.data[61]]))).collect()
    }

    #[test]
    fn a_router_advertises_itself_often_when_it_is_new_and_then_every_few_minutes() {
        let mut advertising = Advertising::new(Arc::default());
        let sent = (0..20).map(|minute| due(&mut advertising, &[(7, 1400)], minute).len());
        let minutes: Vec<usize> =
            sent.enumerate().filter(|(_, sent)| *sent == 1).map(|(minute, _)| minute).collect();
        assert_eq!(minutes, [0, 1, 2, 7, 12, 17]);
        assert_eq!(advertising.counts.get("router_advertisement"), Some(6));
    }

    #[test]
    fn a_router_that_goes_says_so_once_and_one_that_changes_does_not() {
        let mut advertising = Advertising::new(Arc::default());
        assert_eq!(due(&mut advertising, &[(7, 1400), (8, 1400)], 0), [(7, 1800), (8, 1800)]);
        assert_eq!(due(&mut advertising, &[(7, 1300), (8, 1400)], 1), [(7, 1800), (8, 1800)]);
        assert_eq!(due(&mut advertising, &[(8, 1400)], 2), [(7, 0), (8, 1800)]);
        assert_eq!(due(&mut advertising, &[(8, 1400)], 3), []);
    }

    #[test]
    fn a_reading_that_does_not_end_leaves_nothing() {
        let mut advertising = Advertising::new(Arc::default());
        advertising.read(&flows(&[(7, 1400)]));
        advertising.begin();
        assert_eq!(due(&mut advertising, &[(8, 1400)], 0), [(8, 1800)]);
    }
}
