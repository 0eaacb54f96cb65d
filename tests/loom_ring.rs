//! The coalesced ring's two sides under every interleaving, on three slots.

use std::sync::atomic::Ordering;

use hvmmio::addr::CoalescedRoom;
use hvmmio::io::{Entry, OwnWord, RingFull, RingPage, SharedWord};
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// `first` or `last`. Loom looks for another thread's access behind a word's last access only, so a producer's load of
/// `last` would hide the consumer's from the store that follows: each access touches `seen` first, which orders nothing
/// but cannot be hidden.
struct Index {
    value: AtomicU32,
    seen: AtomicU32,
}

impl Index {
    fn touched(&self) -> &AtomicU32 {
        self.seen.fetch_add(1, Ordering::Relaxed);
        &self.value
    }
}

impl SharedWord for Index {
    type Value = u32;

    fn load(&self, order: Ordering) -> u32 {
        self.touched().load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.touched().store(value, order);
    }
}

impl OwnWord for Index {
    fn new(value: u32) -> Self {
        Self { value: AtomicU32::new(value), seen: AtomicU32::new(0) }
    }
}

struct Word(AtomicU64);

impl OwnWord for Word {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
}

impl SharedWord for Word {
    type Value = u64;

    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

/// The page, and the lock that producers take (`kvm->ring_lock`).
struct Shared {
    page: RingPage<Index, Word>,
    ring_lock: Mutex<()>,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { page: RingPage::new(3, CoalescedRoom::Fixed), ring_lock: Mutex::new(()) })
    }

    /// Address and data say the same thing, so that a torn entry shows.
    fn push(&self, number: u64) -> Result<(), RingFull> {
        let _producer = self.ring_lock.lock().unwrap();
        self.page.store(number, 0, &number.to_le_bytes())
    }
}

fn number(entry: &Entry) -> u64 {
    assert_eq!(entry.data(), entry.addr.to_le_bytes(), "an entry is seen whole");
    entry.addr
}

/// Explores interleavings with up to three preemptions, which finds nearly all bugs and ends.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Four writes against two free slots: some wrap around, some find the ring full.
#[test]
fn a_consumer_beside_a_producer_sees_each_absorbed_write_once_whole_and_in_order() {
    model(|| {
        let ring = Shared::new();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..5).filter(|number| ring.push(*number).is_ok()).collect::<Vec<_>>())
        };
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.extend(ring.page.take().unwrap().map(|entry| number(&entry)));
        }
        let absorbed = producer.join().unwrap();
        while let Some(entry) = ring.page.take().unwrap() {
            seen.push(number(&entry));
        }
        assert_eq!(seen, absorbed);
        assert!(absorbed.len() >= 2, "two slots are free at first");
    });
}

#[test]
fn ring_two_vcpus_keep_each_their_own_order_and_share_the_slots() {
    model(|| {
        let ring = Shared::new();
        let producers = [10, 20].map(|vcpu| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (vcpu..vcpu + 2).filter(|number| ring.push(*number).is_ok()).collect::<Vec<_>>())
        });
        let mut seen: Vec<_> = ring.page.take().unwrap().iter().map(number).collect();
        let absorbed = producers.map(|producer| producer.join().unwrap());
        while let Some(entry) = ring.page.take().unwrap() {
            seen.push(number(&entry));
        }
        for (vcpu, absorbed) in [10, 20].into_iter().zip(absorbed) {
            let own: Vec<_> = seen.iter().copied().filter(|number| number / 10 * 10 == vcpu).collect();
            assert_eq!(own, absorbed);
        }
    });
}

/// What the lock is for: without it two producers take the same slot.
#[test]
#[should_panic(expected = "lost")]
fn two_producers_without_the_ring_lock_would_lose_a_write() {
    model(|| {
        let ring = Shared::new();
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.page.store(1, 0, &1u64.to_le_bytes()).is_ok())
        };
        let absorbed = u32::from(ring.page.store(2, 0, &2u64.to_le_bytes()).is_ok()) + u32::from(other.join().unwrap());
        let mut seen = 0;
        while ring.page.take().unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, absorbed, "lost");
    });
}
