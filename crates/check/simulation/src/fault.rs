//! The kinds of fault. `docs/internals/simulation.md` lists them.

use sim_switches::faults;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A fault of a simulated switch or database.
    Host(faults::Kind),
    /// Something else that fails.
    System(System),
}

/// What fails besides switches and databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    /// A host loses power, and comes back without flows.
    HostDies,
    /// Connections of a host end while bytes are on their way.
    LinkReset,
    /// A connection ends in the middle of a message: after so many bytes.
    LinkCut,
    /// A connection carries no more bytes from some byte on, and stays open.
    LinkStalls,
    /// Nobody listens at a host.
    LinkRefuses,
    /// A host is dialled, and nothing answers.
    LinkHangs,
    /// Bytes take long.
    LinkIsSlow,
    /// Bytes arrive one or few at a time.
    LinkTrickles,
    /// A host is cut off, and its connections do not end.
    HostPartitioned,
    /// Bytes of a host arrive, and those to it do not.
    HostDeaf,
    /// Most hosts are cut off at once.
    ControllerPartitioned,
    /// The controller is killed between two transactions.
    Killed,
    /// The controller is killed before it writes to the journal.
    KilledBeforeWriting,
    /// The controller is killed while it writes: some of the records are on disk.
    KilledWhileWriting,
    /// The controller is killed when its records are on disk, and nobody has an answer.
    KilledAfterWriting,
    /// The controller is killed, and killed again as soon as it has started.
    KilledTwice,
    /// The controller is down for long.
    KilledForLong,
    /// The controller is stopped in order and started again.
    Restarted,
    /// The controller computes for long.
    EngineBusy,
    /// The controller before is not dead: it goes on beside the one that has taken its place.
    FormerGoesOn,
    /// Another controller, with a journal of its own, manages the same hosts.
    OtherController,
    /// A write to the journal fails.
    WriteFails,
    /// The disk is full for some time.
    DiskFull,
    /// A write to the journal takes long.
    WriteIsSlow,
    /// One record takes the place of the first ones of the journal. That is no fault, but what comes after must not notice.
    JournalFolded,
    /// The clock on the wall jumps ahead.
    ClockAhead,
    /// The clock on the wall jumps back.
    ClockBack,
    /// A client is gone before its request is computed.
    ClientVanishes,
    /// A client asks again with the same key.
    ClientRepeats,
    /// A client sends an invalid request.
    ClientErrs,
    /// Clients ask for much at once.
    ClientsFlood,
    /// Two hosts have an interface of one port.
    PortTwice,
}

impl System {
    /// All of them.
    pub const ALL: [System; 32] = [
        System::HostDies,
        System::LinkReset,
        System::LinkCut,
        System::LinkStalls,
        System::LinkRefuses,
        System::LinkHangs,
        System::LinkIsSlow,
        System::LinkTrickles,
        System::HostPartitioned,
        System::HostDeaf,
        System::ControllerPartitioned,
        System::Killed,
        System::KilledBeforeWriting,
        System::KilledWhileWriting,
        System::KilledAfterWriting,
        System::KilledTwice,
        System::KilledForLong,
        System::Restarted,
        System::EngineBusy,
        System::FormerGoesOn,
        System::OtherController,
        System::WriteFails,
        System::DiskFull,
        System::WriteIsSlow,
        System::JournalFolded,
        System::ClockAhead,
        System::ClockBack,
        System::ClientVanishes,
        System::ClientRepeats,
        System::ClientErrs,
        System::ClientsFlood,
        System::PortTwice,
    ];
}

impl Kind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Kind> {
        faults::Kind::ALL.map(Kind::Host).into_iter().chain(System::ALL.map(Kind::System))
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Kind::Host(kind) => format!("{kind:?}"),
            Kind::System(kind) => format!("{kind:?}"),
        }
    }
}
