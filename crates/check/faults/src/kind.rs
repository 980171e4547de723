//! The kinds of fault. `docs/internals/faults.md` lists them.

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The controller is killed under load, and started again.
    ControllerKilled,
    /// The controller is stopped in order under load, and started again.
    ControllerRestarted,
    /// The controller stands still for some time (SIGSTOP), and goes on.
    ControllerFrozen,
    /// `ovs-vswitchd` of a host is killed, and started again without flows.
    SwitchKilled,
    /// `ovsdb-server` of a host is killed, and started again.
    DatabaseKilled,
    /// `ovs-vswitchd` of a host stands still for some time, and goes on.
    SwitchFrozen,
    /// `ovsdb-server` of a host stands still for some time, and goes on.
    DatabaseFrozen,
    /// All `OpenFlow` connections of a host are reset.
    OpenflowReset,
    /// The `OpenFlow` connections of a host stay open and carry nothing for some time.
    OpenflowStalls,
    /// An `OpenFlow` connection of a host is reset at some byte of either direction, again and again for some time.
    OpenflowCut,
    /// The `OpenFlow` connections of a host carry single bytes, slowly, for some time.
    OpenflowTrickles,
    /// All OVSDB connections of a host are reset.
    OvsdbReset,
    /// The OVSDB connections of a host stay open and carry nothing for some time.
    OvsdbStalls,
    /// An OVSDB connection of a host is reset at some byte of either direction, again and again for some time.
    OvsdbCut,
    /// The OVSDB connections of a host carry single bytes, slowly, for some time.
    OvsdbTrickles,
    /// The file system of the controller's state is full for some time.
    DiskFull,
    /// The controller is killed while that file system is full, and started again before there is room.
    KilledOnFullDisk,
    /// Some writes to the journal fail.
    WriteFails,
    /// Some syncs of the journal fail.
    SyncFails,
    /// All syncs fail for some time, also those that repair the journal, so that the controller ends.
    DiskFails,
    /// Each sync takes long for some time.
    SyncIsSlow,
    /// The clock on the wall jumps ahead by hours.
    ClockAhead,
    /// The clock on the wall jumps back by hours.
    ClockBack,
}

/// What a fault is about. Two faults at a time are about different parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The process of the controller, or its disk.
    Controller,
    /// The daemons or the connections of one host.
    Host,
    /// The clock on the wall.
    Clock,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 23] = [
        Kind::ControllerKilled,
        Kind::ControllerRestarted,
        Kind::ControllerFrozen,
        Kind::SwitchKilled,
        Kind::DatabaseKilled,
        Kind::SwitchFrozen,
        Kind::DatabaseFrozen,
        Kind::OpenflowReset,
        Kind::OpenflowStalls,
        Kind::OpenflowCut,
        Kind::OpenflowTrickles,
        Kind::OvsdbReset,
        Kind::OvsdbStalls,
        Kind::OvsdbCut,
        Kind::OvsdbTrickles,
        Kind::DiskFull,
        Kind::KilledOnFullDisk,
        Kind::WriteFails,
        Kind::SyncFails,
        Kind::DiskFails,
        Kind::SyncIsSlow,
        Kind::ClockAhead,
        Kind::ClockBack,
    ];

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it is about.
    pub fn part(self) -> Part {
        match self {
            Kind::ControllerKilled
            | Kind::ControllerRestarted
            | Kind::ControllerFrozen
            | Kind::DiskFull
            | Kind::KilledOnFullDisk
            | Kind::WriteFails
            | Kind::SyncFails
            | Kind::DiskFails
            | Kind::SyncIsSlow => Part::Controller,
            Kind::ClockAhead | Kind::ClockBack => Part::Clock,
            _ => Part::Host,
        }
    }

    /// Whether the host that it happens to may lose packets. Everything else is about the controller, which no packet passes, or about a
    /// database that the datapath waits for only when its connection is lost.
    pub fn stops_packets(self) -> bool {
        matches!(self, Kind::SwitchKilled | Kind::DatabaseKilled | Kind::SwitchFrozen)
    }
}
