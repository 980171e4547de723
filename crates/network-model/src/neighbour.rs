//! Answers to ARP requests and neighbour solicitations.
