//! Tracks one packet: finds, updates, translates or opens its connection (`process_one` of `lib/conntrack.c`).

use std::time::Duration;

use super::nat::Side;
use super::*;

/// The connections while one packet is processed: those of the bridge, and what the packet changed.
pub(crate) struct Tracker<'a> {
    pub(crate) before: &'a Connections,
    pub(crate) changes: &'a mut Changes,
    pub(crate) now: Duration,
    pub(crate) mishap: Option<Mishap>,
}

/// What a trace should say of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mishap {
    /// The switch would abort: it takes the tuple of answers for a connection.
    Aborts,
    /// No tuple is left for its translation.
    Exhausted(Nat),
}

/// What a look-up finds: the slot of a tuple, and whether the packet goes the other way.
#[derive(Clone, Copy, Debug)]
struct Found {
    slot: Tuple,
    /// What the slot calls its other direction.
    other: Tuple,
    reply: bool,
    is_connection: bool,
}

/// The connection of a packet, if it has one, and how to translate the packet.
type Met = (Option<(Tuple, Entry)>, Option<Translation>);

/// The packet answers a connection that is over.
struct Gone;

/// A packet while it is tracked.
struct Passing<'a> {
    sighting: Sighting<'a>,
    /// Its tuple, before `nat` has translated it in this zone.
    tuple: Tuple,
    reply: bool,
    how: How,
    translation: Option<Translation>,
}

impl Tracker<'_> {
    fn slot(&self, tuple: &Tuple) -> Option<&Slot> {
        let found = match self.changes.slots.get(tuple) {
            Some(changed) => changed.as_ref(),
            None => self.before.slots.get(tuple),
        };
        found.filter(|slot| !slot.is_over(self.now))
    }

    fn entry(&self, original: &Tuple) -> Option<&Entry> {
        match &self.slot(original)?.what {
            Meaning::Connection(entry) => Some(entry),
            Meaning::AnswersTo(_) => None,
        }
    }

    fn add(&mut self, tuple: Tuple, what: Meaning) {
        self.changes.made += 1;
        let number = self.before.made + self.changes.made;
        self.changes.slots.insert(tuple, Some(Slot { what, number }));
    }

    fn update(&mut self, original: Tuple, entry: Entry) {
        if let Some(number) = self.slot(&original).map(|slot| slot.number) {
            self.changes.slots.insert(original, Some(Slot { what: Meaning::Connection(entry), number }));
        }
    }

    /// Ends a connection early. Its reply tuple stays in use until the next sweep of expired connections
    /// (`conn_force_expire`).
    fn end(&mut self, original: Tuple) {
        self.changes.slots.insert(original, None);
    }

    /// What a tuple finds among the slots of a pair of ends, which the switch finds by a hash that both directions share
    /// (`conn_key_lookup`).
    fn find_among(&self, ends: Tuple, tuple: Tuple) -> Option<Found> {
        let mut best: Option<(u64, Found)> = None;
        for slot in [ends, ends.reversed()] {
            let Some(there) = self.slot(&slot) else { continue };
            let (other, is_connection) = match &there.what {
                Meaning::Connection(entry) => (entry.replies, true),
                Meaning::AnswersTo(original) => (*original, false),
            };
            let fits = slot == tuple || other == tuple;
            if fits && best.is_none_or(|(number, _)| there.number > number) {
                best = Some((there.number, Found { slot, other, reply: slot != tuple, is_connection }));
            }
        }
        best.map(|(_, found)| found)
    }

    pub(super) fn is_taken(&self, tuple: Tuple) -> bool {
        self.find_among(tuple, tuple).is_some()
    }

    /// Tracks a packet, and updates what the datapath knows of it. Returns how to translate it.
    pub(crate) fn track(
        &mut self,
        sighting: Option<Sighting<'_>>,
        mark: &mut Mark,
        how: How,
    ) -> Option<Translation> {
        let known = mark.connection.filter(|known| known.original.zone == how.zone && !how.force);
        let (connection, translation) = match known {
            Some(known) => self.meet_again(known, mark, how),
            None => self.meet(sighting, mark, how)?,
        };
        mark.seen.zone = how.zone;
        self.write_mark(connection, &mut mark.seen, how);
        translation
    }

    /// A packet whose connection is known already: only `nat` does something (`process_one_fast`).
    fn meet_again(&self, known: Known, mark: &mut Mark, how: How) -> Met {
        let Known { original, reply, related } = known;
        let entry = self.entry(&original).cloned();
        let mut translation = None;
        if how.nat.is_some() {
            mark.connection = None;
            let translated = |entry: &Entry| translate(original, entry, reply, related, &mut mark.seen.state);
            translation = entry.as_ref().and_then(translated);
        }
        (entry.map(|entry| (original, entry)), translation)
    }

    /// A packet whose connection is looked for. None if it is invalid and belongs to none.
    fn meet(&mut self, sighting: Option<Sighting<'_>>, mark: &mut Mark, how: How) -> Option<Met> {
        let invalid = |state| Tracked { state, zone: how.zone, ..Tracked::default() };
        let Some(sighting) = sighting else {
            mark.seen = invalid(INVALID | TRACKED);
            return None;
        };
        // What another zone said is forgotten.
        if mark.seen.zone != how.zone {
            mark.seen.state = 0;
        }
        let mut packet = Passing { sighting, tuple: sighting.tuple, reply: false, how, translation: None };
        let Ok(connection) = self.identify(&mut packet, &mut mark.seen) else {
            mark.seen = invalid(mark.seen.state | INVALID | TRACKED);
            return None;
        };
        mark.seen.state |= TRACKED;
        let original = connection.as_ref().map(|(original, _)| *original);
        mark.seen.show_original(original.unwrap_or(packet.tuple));
        mark.connection = original.filter(|_| how.nat.is_none()).map(|original| Known {
            original,
            reply: packet.reply,
            related: sighting.related,
        });
        Some((connection, packet.translation))
    }

    fn write_mark(&mut self, connection: Option<(Tuple, Entry)>, seen: &mut Tracked, how: How) {
        let (old, label) = connection.as_ref().map_or((0, 0), |(_, entry)| (entry.mark, entry.label));
        (seen.mark, seen.label) = (old, label);
        if let Some((original, entry)) = connection
            && (how.mark.1 != 0 || how.label.1 != 0)
        {
            seen.mark = old & !how.mark.1 | how.mark.0 & how.mark.1;
            seen.label = label & !how.label.1 | how.label.0 & how.label.1;
            self.update(original, Entry { mark: seen.mark, label: seen.label, ..entry });
        }
    }

    /// Finds, updates or opens the connection of a packet, and changes the packet's state.
    fn identify(
        &mut self,
        packet: &mut Passing<'_>,
        seen: &mut Tracked,
    ) -> Result<Option<(Tuple, Entry)>, Gone> {
        let mut found = self.look_up(packet, seen.state);
        if let Some(one) = found.filter(|_| packet.how.force && packet.reply) {
            if one.is_connection {
                self.end(one.slot);
            }
            found = None;
        }
        if let Some(one) = found.filter(|one| !one.is_connection) {
            packet.reply = true;
            found = self.find_among(one.other, packet.tuple);
            packet.reply = found.ok_or(Gone)?.reply;
        }
        let found = found.or_else(|| self.find_by_original(packet, seen));
        let Some(Found { slot: original, is_connection, .. }) = found else {
            if packet.sighting.related {
                seen.state = INVALID;
                return Ok(None);
            }
            return Ok(self.open_unless_taken(packet, None, &mut seen.state));
        };
        if !is_connection {
            self.mishap = Some(Mishap::Aborts);
            return Err(Gone);
        }
        let entry = self.entry(&original).cloned().ok_or(Gone)?;
        let (entry, reopens) = self.advance(packet, original, entry, &mut seen.state);
        if !reopens {
            if packet.how.nat.is_some() {
                packet.translation =
                    translate(original, &entry, packet.reply, packet.sighting.related, &mut seen.state);
            }
            return Ok(Some((original, entry)));
        }
        // Answers to what was translated find a tuple that is still taken, and stay with the old connection.
        Ok(self.open_unless_taken(packet, Some((original, entry)), &mut seen.state))
    }

    /// Opens a connection, unless one has the tuple already. Then the packet has this one, or none.
    fn open_unless_taken(
        &mut self,
        packet: &mut Passing<'_>,
        old: Option<(Tuple, Entry)>,
        state: &mut u8,
    ) -> Option<(Tuple, Entry)> {
        if self.is_taken(packet.tuple) { old } else { self.open(packet, state) }
    }

    /// Looks a packet up. One that was translated in this zone before is found by the reverse of its tuple
    /// (`initial_conn_lookup`).
    fn look_up(&self, packet: &mut Passing<'_>, state: u8) -> Option<Found> {
        if state & (SOURCE_TRANSLATED | DESTINATION_TRANSLATED) == 0 {
            let found = self.find_among(packet.tuple, packet.tuple)?;
            packet.reply = found.reply;
            return Some(found);
        }
        let reversed = packet.tuple.reversed();
        let found = self.find_among(reversed, reversed)?;
        packet.reply = !found.reply;
        packet.tuple = if packet.reply { found.other } else { found.slot };
        Some(found)
    }

    /// The connection of a translated packet whose addresses were written since, by the direction that the packet shows
    /// (`check_orig_tuple`).
    fn find_by_original(&self, packet: &Passing<'_>, seen: &Tracked) -> Option<Found> {
        let translated = seen.state & (SOURCE_TRANSLATED | DESTINATION_TRANSLATED) != 0;
        if !translated || packet.how.nat.is_some() {
            return None;
        }
        let original = seen.original(packet.tuple)?;
        self.find_among(original, original)
    }

    /// Advances a connection by a packet. Returns it, and whether the packet opens a new one in its place.
    fn advance(
        &mut self,
        packet: &Passing<'_>,
        original: Tuple,
        mut entry: Entry,
        state: &mut u8,
    ) -> (Entry, bool) {
        let reply_bit = if packet.reply { REPLY } else { 0 };
        if packet.sighting.related {
            *state |= RELATED | reply_bit;
            return (entry, false);
        }
        let (verdict, lasts) = entry.progress.advance(packet.reply, packet.sighting.transport);
        if let Some(lasts) = lasts {
            entry.expires = self.now + lasts;
        }
        self.update(original, entry.clone());
        match verdict {
            Verdict::Established => *state = *state & !NEW | ESTABLISHED | reply_bit,
            Verdict::StillNew => *state |= NEW,
            Verdict::Invalid => *state = INVALID,
            Verdict::Reopens => self.end(original),
        }
        (entry, verdict == Verdict::Reopens)
    }

    /// Opens a connection (`conn_not_found`). If no tuple is left for a translation, there is none, and the packet goes on as
    /// it is.
    fn open(&mut self, packet: &mut Passing<'_>, state: &mut u8) -> Option<(Tuple, Entry)> {
        let (tuple, how) = (packet.tuple, packet.how);
        let begun = Progress::begin(tuple.protocol, packet.sighting.transport);
        *state = if begun.is_some() { NEW } else { INVALID };
        let (progress, lasts) = begun.filter(|_| how.commit)?;
        let expires = self.now + lasts;
        let mut entry = Entry { mark: 0, label: 0, progress, expires, replies: tuple.reversed(), side: None };
        if let Some(nat) = how.nat {
            let Some(replies) = self.free_replies(tuple, nat) else {
                self.mishap = Some(Mishap::Exhausted(nat));
                return None;
            };
            entry.replies = replies;
            entry.side = Side::of(nat);
            packet.translation = translate(tuple, &entry, false, packet.sighting.related, state);
            self.add(entry.replies, Meaning::AnswersTo(tuple));
        }
        self.add(tuple, Meaning::Connection(entry.clone()));
        Some((tuple, entry))
    }
}

/// How a packet of a connection is translated, and its state after that. None if it was already, or the connection is not
/// translated (`handle_nat`).
fn translate(
    original: Tuple,
    entry: &Entry,
    reply: bool,
    related: bool,
    state: &mut u8,
) -> Option<Translation> {
    let side = entry.side.filter(|_| *state & (SOURCE_TRANSLATED | DESTINATION_TRANSLATED) == 0)?;
    let (side, other) = if reply { (side.opposite(), original) } else { (side, entry.replies) };
    *state |= match side {
        Side::Source => SOURCE_TRANSLATED,
        Side::Destination => DESTINATION_TRANSLATED,
    };
    Some(Translation { to: other.reversed(), side, related })
}
