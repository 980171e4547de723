//! The kinds of things that a switch keeps in its database, besides ports. No I/O here.
//!
//! switch-model lists them. Each has a file of the name that the list gives it, which implements [`InDatabase`]: without the file, or
//! without a part of it, this crate does not compile. From the list follow what is monitored, what the database should have, what it
//! has, and the operations that lead from one to the other. New things are in force before the flows of their transaction; others go
//! after them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use ovsdb_client::open_vswitch::{Bridge, Interface};
use ovsdb_client::{Client, MonitorSpec, Operation, Replica};
use switch_model::{Changes, Desired, Kind};

/// The things of a kind.
type Things<K> = BTreeMap<<K as Kind>::Key, <K as Kind>::Value>;

/// A kind of thing that a switch keeps in its database.
trait InDatabase: Kind {
    /// What the database of a switch can say of them.
    type Support: Debug + Clone + Copy + Default;
    /// What the database says of them.
    type View: Debug + Clone + Default;

    /// Adds what is read, as far as the database has it.
    fn monitor(spec: MonitorSpec) -> MonitorSpec;

    /// What this database can say.
    fn support(client: &Client) -> Self::Support;

    /// Reads the things of the integration bridge.
    fn view(here: &Here<'_>, support: Self::Support) -> Self::View;

    /// The operations that create the missing things and change the others, in one transaction; none if they are there.
    fn additions(view: &Self::View, want: &Things<Self>) -> Vec<Operation>;

    /// The operations that remove the driver's other things; none if there is none.
    fn removals(view: &Self::View, want: &Things<Self>) -> Vec<Operation>;

    /// What this switch cannot do of them.
    fn problem(_view: &Self::View, _want: &Things<Self>) -> Option<String> {
        None
    }
}

/// Where the things are.
pub(crate) struct Here<'a> {
    pub(crate) replica: &'a Replica,
    /// The integration bridge, and the name of the type of its datapath.
    pub(crate) bridge: &'a Bridge,
    pub(crate) datapath_type: &'a str,
    /// The driver's tunnel ports there.
    pub(crate) tunnels: Vec<&'a Interface>,
}

/// Derives everything from the list of kinds.
macro_rules! kinds {
    ($($field:ident: $kind:ty;)*) => {
        $(mod $field;)*

        /// What the database should have. Clones share it.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct Wanted {
            $($field: Arc<Things<$kind>>,)*
        }

        /// What the database can say.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Support {
            $($field: <$kind as InDatabase>::Support,)*
        }

        /// What the database has.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct View {
            $($field: <$kind as InDatabase>::View,)*
        }

        /// Adds what is read.
        pub(crate) fn monitor(spec: MonitorSpec) -> MonitorSpec {
            $(let spec = <$kind as InDatabase>::monitor(spec);)*
            spec
        }

        impl Wanted {
            pub(crate) fn new(desired: &Desired) -> Self {
                Wanted { $($field: Arc::new(desired.$field.clone()),)* }
            }

            /// Applies the changes of a transaction.
            pub(crate) fn push(&mut self, changes: &Changes) {
                $(changes.$field.apply_shared(&mut self.$field);)*
            }
        }

        impl Support {
            pub(crate) fn of(client: &Client) -> Self {
                Support { $($field: <$kind as InDatabase>::support(client),)* }
            }
        }

        impl View {
            pub(crate) fn read(here: &Here<'_>, support: Support) -> Self {
                View { $($field: <$kind as InDatabase>::view(here, support.$field),)* }
            }

            /// The operations that create the missing things and change the others, a transaction for each kind.
            pub(crate) fn additions(&self, want: &Wanted) -> Vec<Vec<Operation>> {
                let all = [$(<$kind as InDatabase>::additions(&self.$field, &want.$field),)*];
                all.into_iter().filter(|operations| !operations.is_empty()).collect()
            }

            /// The operations that remove the driver's other things; none if there is none.
            pub(crate) fn removals(&self, want: &Wanted) -> Vec<Operation> {
                [$(<$kind as InDatabase>::removals(&self.$field, &want.$field),)*].concat()
            }

            /// What this switch cannot do of what is wanted.
            pub(crate) fn problems(&self, want: &Wanted) -> impl Iterator<Item = String> + use<> {
                [$(<$kind as InDatabase>::problem(&self.$field, &want.$field),)*].into_iter().flatten()
            }
        }
    };
}

switch_model::kinds_in_database!(kinds);
