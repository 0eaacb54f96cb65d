//! The guest's program: exception vectors, a loop over the queue, and what performs each kind of record.
//!
//! It runs with MSR\[IR\] and MSR\[DR\] off, in the VRMA, little-endian. r31 is the record, and SPRG1 too: an access may be
//! an instruction that writes every register from r14 on (lmw), so nothing that matters after it is kept there.

use crate::book3s::insn::asm::{
    BCTR, ISYNC, SYNC, addi, b, bdnz, dcbst, icbi, ld, li, li64, lwz, lwzu, mfspr, mftb, mr, mtctr, mtmsrd, mtspr, sc,
    slbie, slbmte, spr, std, stw, stwx,
};
use crate::book3s::msr::{MSR_DR, MSR_FP, MSR_IR, MSR_LE, MSR_ME, MSR_RI, MSR_SF, MSR_VEC, MSR_VSX};
use crate::workload::steps::{GuestAccess, STUB_EA};

use super::record::{self, Field};

/// The hypercall that ends a batch: a number that PAPR does not have, so that it exits.
pub(super) const HCALL_END: u16 = 0xf001;

/// MSR of the program: 64 bits, little-endian, machine checks taken.
pub(super) const MSR_OFF: u64 = MSR_SF | MSR_ME | MSR_RI | MSR_LE;
/// MSR of an access: translation, and all facilities, so that none of them interrupts it.
const MSR_ON: u64 = MSR_OFF | MSR_IR | MSR_DR | MSR_FP | MSR_VEC | MSR_VSX;

/// Interrupt vectors (Power ISA 2.07 and 3.0 Book III, 6.5).
const VECTORS: [u16; 23] = [
    0x100, 0x200, 0x300, 0x380, 0x400, 0x480, 0x500, 0x600, 0x700, 0x800, 0x900, 0x980, 0xa00, 0xc00, 0xd00, 0xe00,
    0xe20, 0xe40, 0xe80, 0xf00, 0xf20, 0xf40, 0xf60,
];

/// Bytes between two blocks of code.
const BLOCK: u64 = 0x100;
/// Takes an interrupt; r3 is the vector.
const TRAP: u64 = 0x3000;
/// Begins with the record in r31.
const NEXT: u64 = TRAP + BLOCK;
/// Completes a record.
const FINISH: u64 = NEXT + BLOCK;
/// Where an access goes on; where the VMM moves one that makes no progress.
pub(super) const AFTER_ACCESS: u64 = FINISH + BLOCK;
pub(super) const ACCESS: u64 = AFTER_ACCESS + BLOCK;
pub(super) const HCALL: u64 = ACCESS + BLOCK;
pub(super) const SLBMTE: u64 = HCALL + BLOCK;
pub(super) const SLBIE: u64 = SLBMTE + BLOCK;
pub(super) const MTAMR: u64 = SLBIE + BLOCK;
pub(super) const STORES: u64 = MTAMR + BLOCK;
const AFTER_STORES: u64 = STORES + BLOCK;
/// Ends a batch; goes on with the queue's first record.
pub(super) const END: u64 = AFTER_STORES + BLOCK;
/// Where the guest starts.
pub(super) const ENTRY: u64 = END + BLOCK;

/// Part of the stub page that makes an access.
const STUB_ACCESS: u64 = STUB_EA.0;
/// The access itself: its word is written here.
pub(super) const SLOT: u64 = STUB_ACCESS + 8;
/// Part of the stub page that makes timed stores.
const STUB_STORES: u64 = STUB_EA.0 + BLOCK;
/// Offsets of timed stores from their base, words, in the stub page.
pub(super) const OFFSETS: u64 = STUB_EA.0 + 0x1000;
/// How many of them there is room for.
pub(super) const MAX_OFFSETS: u64 = (0x1_0000 - 0x1000) / 4;

const RT: u8 = GuestAccess::RT;
const RA: u8 = GuestAccess::RA;
const RB: u8 = GuestAccess::RB;
/// The record.
const RECORD: u8 = 31;
/// Time base before and after, for [`FINISH`].
const BEFORE: u8 = 30;
const AFTER: u8 = 29;
/// Where an access keeps the time base from before: `lmw 14` leaves it alone.
const ACCESS_BEFORE: u8 = 6;
const STORES_AFTER: u8 = 8;
const ON: u8 = 4;
const OFF: u8 = 5;

/// Code at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub at: u64,
    pub words: Vec<u32>,
}

impl Block {
    const fn new(at: u64) -> Self {
        Self { at, words: Vec::new() }
    }

    fn put(mut self, words: &[u32]) -> Self {
        self.words.extend_from_slice(words);
        self
    }

    /// Branches to an address.
    fn jump(self, to: u64) -> Self {
        let here = self.at + self.words.len() as u64 * 4;
        let distance = i32::try_from(to.wrapping_sub(here) as i64);
        // All of the program lies within 2 MiB.
        let word = distance.map_or(0, b);
        self.put(&[word])
    }

    fn load(self, rt: u8, field: Field, n: u8) -> Self {
        self.put(&[ld(rt, field.nth(n), RECORD)])
    }

    fn store(self, rs: u8, field: Field, n: u8) -> Self {
        self.put(&[std(rs, field.nth(n), RECORD)])
    }

    /// The words as the guest has them in memory.
    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn timed(block: Block, word: u32) -> Block {
    block.put(&[ISYNC, mftb(BEFORE), word, ISYNC, mftb(AFTER)]).jump(FINISH)
}

/// Stores of `count`, a register, at the offsets that begin at r9: `lwzu`, `stwx`, `bdnz` each.
fn stores(block: Block, count: u8) -> Block {
    block.put(&li64(9, OFFSETS - 4)).put(&[
        mtctr(count),
        mftb(ACCESS_BEFORE),
        lwzu(10, 4, 9),
        stwx(RT, RA, 10),
        bdnz(-8),
    ])
}

/// The whole program.
pub(super) fn program() -> Vec<Block> {
    let vector = |vector: u16| {
        let low = vector as i16;
        Block::new(vector.into()).put(&[li(3, low)]).jump(TRAP)
    };
    let mut blocks: Vec<_> = VECTORS.into_iter().map(vector).collect();
    let trap = Block::new(TRAP).put(&[mftb(AFTER), mfspr(RECORD, spr::SPRG1)]);
    let trap = trap.store(3, Field::Vector, 0);
    let saved =
        [(spr::DSISR, Field::Dsisr), (spr::DAR, Field::Dar), (spr::SRR0, Field::Srr0), (spr::SRR1, Field::Srr1)];
    let trap = saved.into_iter().fold(trap, |trap, (from, to)| trap.put(&[mfspr(3, from)]).store(3, to, 0));
    // The interrupt turned MSR[RI] off. What an access had in its registers stays theirs.
    let trap = trap.put(&li64(OFF, MSR_OFF)).put(&[mtmsrd(OFF), ISYNC, mr(BEFORE, ACCESS_BEFORE)]);
    blocks.push(trap.store(RT, Field::Out, 0).store(RA, Field::Out, 1).jump(FINISH));
    let next = Block::new(NEXT).put(&[mtspr(spr::SPRG1, RECORD)]).load(4, Field::Handler, 0);
    blocks.push(next.put(&[mtctr(4), BCTR]));
    let finish = Block::new(FINISH).store(BEFORE, Field::Before, 0).store(AFTER, Field::After, 0);
    let finish = finish.put(&[li(3, 1)]).store(3, Field::Done, 0);
    blocks.push(finish.put(&[addi(RECORD, RECORD, record::STEP)]).jump(NEXT));
    let after = Block::new(AFTER_ACCESS).put(&[mftb(AFTER), mfspr(RECORD, spr::SPRG1), mr(BEFORE, ACCESS_BEFORE)]);
    blocks.push(after.store(RT, Field::Out, 0).store(RA, Field::Out, 1).jump(FINISH));
    // The word goes to memory, then out of the instruction cache, then out of the pipeline (Power ISA 2.07 Book II, 1.8).
    let access = Block::new(ACCESS).put(&li64(7, SLOT)).put(&[lwz(8, Field::Word.at(), RECORD), stw(8, 0, 7)]);
    let access =
        access.put(&[dcbst(0, 7), SYNC, icbi(0, 7), SYNC, ISYNC]).put(&li64(ON, MSR_ON)).put(&li64(OFF, MSR_OFF));
    let access = access.load(RT, Field::In, 0).load(RA, Field::In, 1).load(RB, Field::In, 2);
    blocks.push(access.put(&[mftb(ACCESS_BEFORE)]).jump(STUB_ACCESS));
    blocks.push(Block::new(STUB_ACCESS).put(&[mtmsrd(ON), ISYNC, 0, mtmsrd(OFF), ISYNC]).jump(AFTER_ACCESS));
    let hcall = (0..10).fold(Block::new(HCALL), |hcall, n| hcall.load(3 + n, Field::In, n));
    let hcall = hcall.put(&[mftb(BEFORE), sc(1), mftb(AFTER)]);
    blocks.push((0..10).fold(hcall, |hcall, n| hcall.store(3 + n, Field::Out, n)).jump(FINISH));
    blocks.push(timed(Block::new(SLBMTE).load(3, Field::In, 0).load(4, Field::In, 1), slbmte(3, 4)));
    blocks.push(timed(Block::new(SLBIE).load(3, Field::In, 0), slbie(3)));
    blocks.push(timed(Block::new(MTAMR).load(3, Field::In, 0), mtspr(spr::AMR, 3)));
    let begin = Block::new(STORES).put(&li64(ON, MSR_ON)).put(&li64(OFF, MSR_OFF)).put(&[li(RT, 0)]);
    let begin = begin.load(RA, Field::In, 0).load(11, Field::In, 1).load(12, Field::In, 2);
    blocks.push(begin.jump(STUB_STORES));
    let loops = stores(stores(Block::new(STUB_STORES).put(&[mtmsrd(ON), ISYNC]), 11), 12);
    blocks.push(loops.put(&[mftb(STORES_AFTER), mtmsrd(OFF), ISYNC]).jump(AFTER_STORES));
    blocks.push(Block::new(AFTER_STORES).put(&[mr(BEFORE, ACCESS_BEFORE), mr(AFTER, STORES_AFTER)]).jump(FINISH));
    let end = Block::new(END).put(&li64(3, HCALL_END.into())).put(&[sc(1)]);
    blocks.push(end.jump(ENTRY));
    blocks.push(Block::new(ENTRY).put(&li64(RECORD, record::QUEUE)).jump(NEXT));
    blocks
}

#[cfg(test)]
mod tests {
    use powerpc::{Extension, Extensions, Ins, Opcode};

    use super::*;

    /// What a branch's word names, from its own address.
    fn target(at: u64, word: u32) -> Option<u64> {
        let distance = match word >> 26 {
            18 => ((word as i32) << 6 >> 6) & !3,
            16 => i32::from((word & 0xfffc) as u16 as i16),
            _ => return None,
        };
        Some(at.wrapping_add_signed(distance.into()))
    }

    #[test]
    fn no_block_reaches_into_the_next() {
        let mut blocks = program();
        blocks.sort_by_key(|block| block.at);
        for pair in blocks.windows(2) {
            assert!(pair[0].at + pair[0].words.len() as u64 * 4 <= pair[1].at, "{:#x}", pair[0].at);
        }
        let stub = STUB_EA.0..OFFSETS;
        let end = |block: &Block| block.at + block.words.len() as u64 * 4;
        assert!(blocks.iter().filter(|block| block.at >= STUB_EA.0).all(|block| stub.contains(&end(block))));
        assert!(blocks.iter().filter(|block| block.at < STUB_EA.0).all(|block| end(block) <= record::QUEUE));
    }

    #[test]
    fn every_branch_goes_to_a_block_or_back_within_its_own() {
        let blocks = program();
        for block in &blocks {
            for (index, word) in block.words.iter().enumerate() {
                let at = block.at + index as u64 * 4;
                if let Some(to) = target(at, *word) {
                    let inside = to >= block.at && to < at;
                    assert!(inside || blocks.iter().any(|block| block.at == to), "{at:#x} branches to {to:#x}");
                }
            }
            let last = *block.words.last().unwrap();
            assert!(last == BCTR || last >> 26 == 18, "the block at {:#x} runs on into nothing", block.at);
        }
    }

    #[test]
    fn every_word_but_the_access_itself_is_an_instruction_to_the_powerpc_crate_too() {
        let mut extensions = Extensions::none();
        extensions.insert(Extension::Ppc64);
        for block in program() {
            for (index, word) in block.words.iter().enumerate() {
                let at = block.at + index as u64 * 4;
                let known = Ins::new(*word, extensions).op != Opcode::Illegal;
                // It has neither hypercalls nor the SLB; the encoders' own tests have these.
                let lacking = [sc(1), slbmte(3, 4), slbie(3)].contains(word);
                assert!(known || lacking || at == SLOT, "{word:08x} at {at:#x}");
            }
        }
    }

    #[test]
    fn interrupts_name_their_vector_and_an_access_keeps_nothing_that_lmw_14_would_take() {
        let blocks = program();
        let at = |at: u64| blocks.iter().find(|block| block.at == at).unwrap();
        for vector in VECTORS {
            assert_eq!(at(vector.into()).words[0], li(3, vector as i16));
        }
        assert_eq!(at(AFTER_ACCESS).words[..2], [mftb(AFTER), mfspr(RECORD, spr::SPRG1)]);
        const { assert!(ACCESS_BEFORE < 14 && ON < 14 && OFF < 14) };
    }
}
