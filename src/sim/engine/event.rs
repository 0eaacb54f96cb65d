//! What can happen, and a word for it.

/// What a vCPU can have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) enum Task {
    /// The interrupt handler of a device.
    Interrupt(u32),
    /// A guest thread.
    Thread(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A vCPU is free for its next task.
    Vcpu(u32),
    /// A task becomes ready on a vCPU.
    Ready(u32, Task),
    /// A back end has finished a request.
    Backend(u32),
    /// The VMM's thread looks into the coalesced ring.
    Poll,
}

/// An [`Event`] as one word; vCPUs are below 2^29 (a scenario has at most 1024). As an enum it is stored in pieces, and reading them back wider makes the processor wait
/// longer than all else that a pending event costs.
#[derive(Clone, Copy)]
pub(super) struct Code(u64);

impl Code {
    const fn of(kind: u64, vcpu: u32, number: u32) -> Self {
        Self(kind << 62 | (vcpu as u64) << 33 | number as u64)
    }
}

/// Set in the code of an interrupt that becomes ready, not in that of a thread.
const INTERRUPT: u64 = 1 << 32;

impl From<Event> for Code {
    #[inline]
    fn from(event: Event) -> Self {
        match event {
            Event::Vcpu(vcpu) => Self::of(0, vcpu, 0),
            Event::Ready(vcpu, Task::Thread(thread)) => Self::of(1, vcpu, thread),
            Event::Ready(vcpu, Task::Interrupt(device)) => Self(Self::of(1, vcpu, device).0 | INTERRUPT),
            Event::Backend(device) => Self::of(2, 0, device),
            Event::Poll => Self::of(3, 0, 0),
        }
    }
}

impl From<Code> for Event {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each is the field it was put into")]
    fn from(Code(word): Code) -> Self {
        let (vcpu, number) = ((word << 2 >> 35) as u32, word as u32);
        match word >> 62 {
            0 => Self::Vcpu(vcpu),
            1 if word & INTERRUPT != 0 => Self::Ready(vcpu, Task::Interrupt(number)),
            1 => Self::Ready(vcpu, Task::Thread(number)),
            2 => Self::Backend(number),
            _ => Self::Poll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_back_from_its_word() {
        let most = (1 << 29) - 1;
        for number in [0, 1, u32::MAX] {
            for vcpu in [0, 1, most] {
                let events = [
                    Event::Vcpu(vcpu),
                    Event::Ready(vcpu, Task::Thread(number)),
                    Event::Ready(vcpu, Task::Interrupt(number)),
                    Event::Backend(number),
                    Event::Poll,
                ];
                for event in events {
                    assert_eq!(Event::from(Code::from(event)), event);
                }
            }
        }
    }
}
