//! OpenFlow 1.5 and Nicira-extension messages: bytes, types and ovs-ofctl text. No I/O.
