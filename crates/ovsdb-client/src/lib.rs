//! OVSDB client (RFC 7047 and Open vSwitch extensions): monitor, transact, reconnect.
