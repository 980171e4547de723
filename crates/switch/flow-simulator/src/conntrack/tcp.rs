//! The state of a TCP connection: how far each side has come, and which sequence numbers it may send.
//!
//! The switch follows Guido van Rooij, "Real stateful TCP packet filtering in IP Filter" (2000): a segment must lie in the
//! window that the other side has announced. Connections that are picked up in the middle get wide windows.

use std::time::Duration;

use super::{Verdict, seconds};

/// How long a connection lasts that is not yet open.
pub(super) const OPENING: Duration = seconds(30);
const OPEN: Duration = seconds(24 * 60 * 60);
const HALF_CLOSED: Duration = seconds(15 * 60);
const CLOSING: Duration = seconds(45);
const CLOSED: Duration = seconds(30);

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const URG: u8 = 32;

/// The largest shift of a window (RFC 7323).
const MOST_SCALE: u8 = 14;
/// How far behind or ahead an acknowledgment may be.
const MOST_SKEW: i32 = 0xffff + 1500;

/// How far one side has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Silent,
    Opening,
    Open,
    /// It has sent its FIN.
    Closing,
    /// Its FIN was acknowledged.
    Closed,
    /// After a reset.
    Over,
}

/// The window scale of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Without,
    By(u8),
    /// The opening was not seen.
    Unknown,
}

impl Scale {
    fn shift(self) -> u8 {
        if let Scale::By(shift) = self { shift } else { 0 }
    }
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    stage: Stage,
    /// The end of what it has sent.
    sent: u32,
    /// The end of what it may send.
    may_send: u32,
    window: u16,
    scale: Scale,
}

/// A connection: the side that began it, and the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialogue([Side; 2]);

/// The parts of a segment.
#[derive(Clone, Copy)]
struct Segment {
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    window: u16,
    /// The number of bytes.
    payload: u32,
    scale: Scale,
}

impl Segment {
    fn read(bytes: &[u8]) -> Option<Segment> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let number =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = usize::from(header[12] >> 4) * 4;
        Some(Segment {
            flags: header[13],
            sequence: number(4),
            acknowledged: number(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            payload: bytes.len().checked_sub(length)? as u32,
            scale: scale(bytes.get(header.len()..length)?),
        })
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether no stack sends these flags together.
    fn is_illegal(self) -> bool {
        let opens_and_closes = self.has(SYN) && self.has(RST | FIN);
        let says_nothing = !self.has(SYN | ACK | RST);
        opens_and_closes || says_nothing || !self.has(ACK) && self.has(FIN | PSH | URG)
    }

    /// The sequence number after it.
    fn end(self) -> u32 {
        let flags = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.sequence.wrapping_add(self.payload).wrapping_add(flags)
    }
}

/// The window scale among the options of a SYN.
fn scale(mut options: &[u8]) -> Scale {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SCALE: u8 = 3;
    loop {
        match *options {
            [NOTHING, ..] => options = &options[1..],
            [SCALE, length, shift, ..] if length >= 3 => return Scale::By(shift.min(MOST_SCALE)),
            [END, ..] | [] | [_] | [_, 0 | 1, ..] => return Scale::Without,
            [_, length, ..] => options = options.get(usize::from(length)..).unwrap_or_default(),
        }
    }
}

/// Whether a sequence number is at or after another one.
fn reaches(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 >= 0
}

impl Dialogue {
    /// The state after the first segment that is seen; none if it opens no connection and belongs to none.
    pub(super) fn begin(bytes: &[u8]) -> Option<Dialogue> {
        let segment = Segment::read(bytes)?;
        if segment.is_illegal() || (segment.has(SYN) && segment.has(ACK)) {
            return None;
        }
        let opens = segment.has(SYN);
        let scale = if opens { segment.scale } else { Scale::Unknown };
        let first = Side {
            stage: Stage::Opening,
            sent: segment.sequence,
            may_send: segment.end().wrapping_add(1),
            window: segment.window.max(1).div_ceil(1 << scale.shift()),
            scale,
        };
        let scale = if opens { Scale::Without } else { Scale::Unknown };
        let other = Side { stage: Stage::Silent, sent: 0, may_send: 1, window: 1, scale };
        Some(Dialogue([first, other]))
    }

    /// Advances the state by a segment.
    pub(super) fn advance(&mut self, reply: bool, bytes: &[u8]) -> (Verdict, Option<Duration>) {
        let Some(segment) = Segment::read(bytes) else { return (Verdict::Invalid, None) };
        let [mut from, mut to] = if reply { [self.0[1], self.0[0]] } else { self.0 };
        if segment.is_illegal() {
            return (Verdict::Invalid, None);
        }
        let result = if segment.has(SYN)
            && !segment.has(ACK)
            && from.stage >= Stage::Closed
            && to.stage >= Stage::Closed
        {
            (Verdict::Reopens, None)
        } else if segment.has(SYN) && !segment.has(ACK) && from.stage <= Stage::Opening {
            from.stage = Stage::Opening;
            (Verdict::StillNew, Some(OPENING))
        } else {
            exchange(&mut from, &mut to, segment)
        };
        self.0 = if reply { [to, from] } else { [from, to] };
        result
    }
}

/// What a segment means, with the scales of both windows.
struct Terms {
    /// The window that it announces.
    window: u16,
    /// The shifts of the window of its sender, and of the other side.
    shift: u8,
    other_shift: u8,
    /// Whether what it acknowledges must be near what the other side has sent.
    is_strict: bool,
}

impl Terms {
    fn new(from: &Side, to: &Side, segment: Segment) -> Terms {
        let (shift, other_shift) = match (from.scale, to.scale) {
            _ if segment.has(SYN) => (0, 0),
            (Scale::By(one), Scale::By(other)) => (one, other),
            (Scale::Unknown, Scale::Unknown) => (MOST_SCALE, MOST_SCALE),
            _ => (0, 0),
        };
        Terms { window: segment.window, shift, other_shift, is_strict: true }
    }

    /// The first segment from this side. A refused one leaves these changes.
    fn hear_first(&mut self, from: &mut Side, to: &mut Side, segment: Segment) {
        if segment.has(SYN) && matches!(to.scale, Scale::By(_)) {
            from.scale = segment.scale;
            if let Scale::By(own) = from.scale {
                (self.shift, self.other_shift) = (own, to.scale.shift());
                self.window = self.window.div_ceil(1 << own);
            } else {
                to.window = (u32::from(to.window) << to.scale.shift()) as u16;
                to.scale = Scale::Without;
            }
        }
        (from.sent, from.stage) = (segment.sequence, Stage::Opening);
        let limit = segment.end().wrapping_add((u32::from(to.window) << self.other_shift).max(1));
        if from.may_send == 1 || reaches(limit, from.may_send) {
            from.may_send = limit;
            self.is_strict = false;
        }
        from.window = from.window.max(self.window);
    }
}

/// A segment goes from one side to the other.
fn exchange(from: &mut Side, to: &mut Side, segment: Segment) -> (Verdict, Option<Duration>) {
    let mut terms = Terms::new(from, to, segment);
    if from.stage < Stage::Opening {
        terms.hear_first(from, to, segment);
    }
    let Terms { window, shift, other_shift, is_strict } = terms;
    let unacknowledged = !segment.has(ACK) || (segment.acknowledged == 0 && segment.has(RST));
    let acknowledged = if unacknowledged { to.sent } else { segment.acknowledged };
    let (mut sequence, mut end) = (segment.sequence, segment.end());
    if sequence == end {
        (sequence, end) = (from.sent, from.sent);
    }
    let skew = if is_strict { to.sent.wrapping_sub(acknowledged) as i32 } else { 0 };
    let back = u32::from(to.window) << other_shift;
    let near = segment.sequence.wrapping_sub(from.sent).wrapping_add(1) <= 2;
    let fits = reaches(from.may_send, end)
        && reaches(sequence, from.sent.wrapping_sub(back))
        && (-MOST_SKEW..=MOST_SKEW << shift).contains(&skew)
        && (!segment.has(RST) || near);
    let picked_up = to.stage < Stage::Opening || to.stage >= Stage::Closed || from.stage >= Stage::Closed;
    let most = MOST_SKEW as u32;
    let nearly = picked_up
        && reaches(from.may_send.wrapping_add(most), end)
        && reaches(sequence, from.sent.wrapping_sub(most));
    if !fits && !nearly {
        return (Verdict::Invalid, None);
    }
    from.window = from.window.max(window);
    if reaches(end, from.sent) {
        from.sent = end;
    }
    let wide = u32::from(window) << shift;
    if reaches(acknowledged.wrapping_add(wide), to.may_send) {
        to.may_send = acknowledged.wrapping_add(wide.max(1));
    }
    advance_stages(from, to, segment, fits);
    (Verdict::Established, fits.then(|| lasts(from.stage, to.stage)))
}

/// What a segment opens, closes and ends.
fn advance_stages(from: &mut Side, to: &mut Side, segment: Segment, fits: bool) {
    if segment.has(FIN) {
        from.stage = from.stage.max(Stage::Closing);
    }
    if fits && segment.has(ACK) {
        to.stage = match to.stage {
            Stage::Opening => Stage::Open,
            Stage::Closing => Stage::Closed,
            stage => stage,
        };
    }
    if segment.has(RST) {
        (from.stage, to.stage) = (Stage::Over, Stage::Over);
    }
}

/// How long a connection lasts with its sides at these stages.
fn lasts(one: Stage, other: Stage) -> Duration {
    let (less, more) = (one.min(other), one.max(other));
    if less >= Stage::Closed {
        CLOSED
    } else if less >= Stage::Closing {
        CLOSING
    } else if less < Stage::Open {
        OPENING
    } else if more >= Stage::Closing {
        HALF_CLOSED
    } else {
        OPEN
    }
}
