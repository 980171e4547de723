//! Virtual hosts in network namespaces with real Open vSwitch.
