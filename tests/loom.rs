//! The lock protocols of `kvm_hv::lock` under every interleaving, on a few words.

use std::sync::atomic::Ordering;

use hvmmio::book3s::hpte::{HPTE_R_C, HPTE_V_ABSENT, HPTE_V_HVLOCK, HPTE_V_VALID};
use hvmmio::kvm_hv::lock::{
    AtomicWord, bump_generation, invalidate, lock_hpte, lock_ring_head, lock_rmap, read_generation, read_v, set_rc,
    unlock_hpte, unlock_rmap,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

/// A word that loom drives.
struct Word(AtomicU64);

impl AtomicWord for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn compare_exchange(&self, current: u64, new: u64, order: Ordering) -> bool {
        self.0.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_add(value, order)
    }

    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_or(value, order)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn relax() {
        thread::yield_now();
    }
}

fn word(value: u64) -> Word {
    Word(AtomicU64::new(value))
}

fn hpte(v: u64) -> Word {
    word(v.to_be())
}

fn relaxed(word: &Word) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Explores interleavings with up to three preemptions, which finds nearly all bugs and ends.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn hvlock_excludes_and_loses_no_update() {
    model(|| {
        let shared = Arc::new((hpte(HPTE_V_VALID), word(0)));
        let add = |(lock, data): &(Word, Word)| {
            let v = lock_hpte(lock);
            // Not atomic on purpose: only the lock keeps the two halves together.
            data.store(relaxed(data) + 1, Ordering::Relaxed);
            unlock_hpte(lock, v);
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared))
        };
        add(&shared);
        other.join().unwrap();
        assert_eq!(relaxed(&shared.1), 2);
        assert_eq!(read_v(&shared.0), HPTE_V_VALID);
    });
}

/// One page with one HPTE in its ring.
struct Page {
    v: Word,
    rmap: Word,
    /// Times the entry was unmapped by page-out.
    unmapped: Word,
}

/// The ring is not empty.
const PRESENT: u64 = 1 << 32;

fn page() -> Arc<Page> {
    Arc::new(Page { v: hpte(HPTE_V_VALID), rmap: word(PRESENT), unmapped: word(0) })
}

/// H_REMOVE's order: HVLOCK, then the rmap lock.
fn remove(page: &Page) {
    let v = lock_hpte(&page.v);
    if v & HPTE_V_VALID != 0 {
        invalidate(&page.v, 0);
        let word = lock_rmap(&page.rmap);
        unlock_rmap(&page.rmap, word & !PRESENT);
    }
    unlock_hpte(&page.v, 0);
}

fn page_out(page: &Page) {
    let head = |word: u64| (word & PRESENT != 0).then_some(((), &page.v));
    while let Ok(((), v, word)) = lock_ring_head(&page.rmap, head) {
        assert_eq!(v & HPTE_V_VALID, HPTE_V_VALID, "an entry in the ring is VALID once both locks are held");
        page.unmapped.store(relaxed(&page.unmapped) + 1, Ordering::Relaxed);
        unlock_rmap(&page.rmap, word & !PRESENT);
        unlock_hpte(&page.v, v & !HPTE_V_VALID | HPTE_V_ABSENT);
    }
}

#[test]
fn page_out_against_h_remove_neither_deadlocks_nor_unmaps_twice() {
    model(|| {
        let page = page();
        let remover = {
            let page = Arc::clone(&page);
            thread::spawn(move || remove(&page))
        };
        page_out(&page);
        remover.join().unwrap();
        assert_eq!((read_v(&page.v), relaxed(&page.rmap)), (0, 0));
        assert!(relaxed(&page.unmapped) <= 1);
    });
}

#[test]
fn two_page_outs_of_one_page_unmap_its_entry_once() {
    model(|| {
        let page = page();
        let other = {
            let page = Arc::clone(&page);
            thread::spawn(move || page_out(&page))
        };
        page_out(&page);
        other.join().unwrap();
        assert_eq!((read_v(&page.v), relaxed(&page.unmapped)), (HPTE_V_ABSENT, 1));
    });
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn waiting_for_hvlock_under_the_rmap_lock_would_deadlock() {
    model(|| {
        let page = page();
        let remover = {
            let page = Arc::clone(&page);
            thread::spawn(move || remove(&page))
        };
        let word = lock_rmap(&page.rmap);
        let v = lock_hpte(&page.v);
        unlock_rmap(&page.rmap, word & !PRESENT);
        unlock_hpte(&page.v, v);
        remover.join().unwrap();
    });
}

/// What a cache entry is made of here: the generation read before the lookup, and the word looked up.
struct Table {
    v: Word,
    r: Word,
    generation: Word,
}

/// In which order a hypercall changes an entry and moves the generation.
#[derive(Clone, Copy)]
enum Bump {
    AfterUnlock,
    Before,
}

/// One vCPU looks an entry up, another changes it: does a tag as new as the change promise the new word?
fn generation_protocol(bump: Bump) {
    model(move || {
        let table = Arc::new(Table { v: hpte(HPTE_V_ABSENT), r: word(1), generation: word(0) });
        let changer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                if matches!(bump, Bump::Before) {
                    bump_generation(&table.generation);
                }
                let v = lock_hpte(&table.v);
                table.r.store(2, Ordering::Release);
                unlock_hpte(&table.v, v);
                if matches!(bump, Bump::AfterUnlock) {
                    bump_generation(&table.generation);
                }
            })
        };
        let tag = read_generation(&table.generation);
        let v = lock_hpte(&table.v);
        let seen = table.r.load(Ordering::Acquire);
        unlock_hpte(&table.v, v);
        // A hit now or at any time later needs the tag to be the generation.
        if tag == 1 {
            assert_eq!(seen, 2, "an entry tagged after the bump holds the word from before it");
        }
        changer.join().unwrap();
    });
}

#[test]
fn an_entry_tagged_with_a_generation_holds_no_word_that_the_bump_to_it_made_stale() {
    generation_protocol(Bump::AfterUnlock);
}

#[test]
#[should_panic(expected = "holds the word from before it")]
fn a_bump_before_the_change_would_let_a_stale_entry_live() {
    generation_protocol(Bump::Before);
}

#[test]
fn rc_gathered_a_store_that_hardware_let_through_is_seen_by_who_invalidated_the_entry() {
    model(|| {
        let entry = Arc::new((hpte(HPTE_V_VALID), word(0)));
        let hardware = {
            let entry = Arc::clone(&entry);
            thread::spawn(move || {
                let v = read_v(&entry.0) & !HPTE_V_HVLOCK;
                v & HPTE_V_VALID != 0 && set_rc(&entry.0, &entry.1, v, HPTE_R_C)
            })
        };
        lock_hpte(&entry.0);
        invalidate(&entry.0, 0);
        let gathered = u64::from_be(entry.1.load(Ordering::Acquire)) & HPTE_R_C;
        unlock_hpte(&entry.0, 0);
        if hardware.join().unwrap() {
            assert_eq!(gathered, HPTE_R_C, "C lost");
        }
    });
}
