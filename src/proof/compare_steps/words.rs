//! The loads and stores that drawn streams make.

use crate::book3s::insn::{Access, Direction, Insn, Offset, access_names, decode, load_store};
use crate::workload::steps::GuestAccess;

/// Every integer load and store on the registers of an access, displacement 0.
pub(super) struct Words {
    loads: Vec<Access>,
    stores: Vec<Access>,
}

impl Words {
    pub fn new() -> Self {
        let offsets = [Offset::Displacement(0), Offset::Register(GuestAccess::RB)];
        let (mut loads, mut stores) = (Vec::new(), Vec::new());
        for name in access_names() {
            let word = offsets.iter().find_map(|it| load_store(name, GuestAccess::RT, GuestAccess::RA, *it).ok());
            if let Some(Insn::Access(access)) = word.and_then(decode) {
                match access.direction {
                    Direction::Load => loads.push(access),
                    Direction::Store => stores.push(access),
                }
            }
        }
        Self { loads, stores }
    }

    /// Those of a direction.
    pub fn of(&self, direction: Direction) -> &[Access] {
        match direction {
            Direction::Load => &self.loads,
            Direction::Store => &self.stores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_word_for_every_integer_load_and_store() {
        let words = Words::new();
        let (loads, stores) = (words.of(Direction::Load), words.of(Direction::Store));
        assert_eq!(loads.len() + stores.len(), access_names().count());
        assert!(loads.iter().chain(stores).all(Access::is_valid_form));
    }
}
