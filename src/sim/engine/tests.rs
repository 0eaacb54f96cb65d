//! The engine with a guest that has nothing to do, or does it in steps.

use super::*;
use crate::device::Sides;
use crate::sim::scenario::{Notify, Scenario};

/// Two vCPUs: thread 0 takes steps of 10 ns, thread 1 wakes once at 25 ns. Nobody ends before `steps` are over.
struct Idle {
    steps: u32,
    seen: Vec<(u32, u64)>,
}

impl Load for Idle {
    fn thread(&mut self, core: &mut Core, thread: u32, mut now: SimTime) -> Result<Step, SimError> {
        loop {
            self.seen.push((thread, now.whole_ns()));
            if thread == 1 || self.steps == 1 {
                return Ok(Step::Done(now));
            }
            self.steps -= 1;
            let next = now + SimTime::from_whole_ns(10);
            if !core.advance(next) {
                return Ok(Step::More(next));
            }
            now = next;
        }
    }

    fn interrupt(&mut self, _: &mut Core, _: u32, now: SimTime) -> Result<Step, SimError> {
        Ok(Step::Done(now))
    }

    fn notified(&mut self, _: &mut Core, _: u32, _: SimTime) {}

    fn backend(&mut self, _: &mut Core, _: u32, _: SimTime) -> Result<(), SimError> {
        Ok(())
    }

    fn finished(&self) -> bool {
        false
    }

    fn progress(&self, _: SimTime) -> f64 {
        0.0
    }
}

fn run(notify: Notify) -> (Vec<(u32, u64)>, SimError) {
    let mut scenario = Scenario::load("doorbells").unwrap();
    (scenario.notify, scenario.vcpus) = (notify, 2);
    let (vm, vcpus, setup) = Setup::build(&scenario, 1 << 16).unwrap();
    let ram = Arc::new(GuestRam::new(crate::addr::GuestPhysAddr(0), 1 << 16, Sides::OneThread).unwrap());
    let mut core = Core::new(vm, vcpus, Prices::new(&scenario.machine), setup, ram).unwrap();
    core.ready(0, Task::Thread(0), SimTime::default());
    core.ready(1, Task::Thread(1), SimTime::from_whole_ns(25));
    let mut idle = Idle { steps: 5, seen: Vec::new() };
    let error = core.run(&mut idle, &mut |_| ()).unwrap_err();
    (idle.seen, error)
}

#[test]
fn steps_of_a_task_and_what_others_do_come_in_the_order_of_time() {
    let (seen, _) = run(Notify::Ioeventfd { length: 2 });
    assert_eq!(seen, [(0, 0), (0, 10), (0, 20), (1, 25), (0, 30), (0, 40)]);
}

#[test]
fn a_guest_that_waits_for_nothing_is_told_and_not_waited_for() {
    for notify in [Notify::Ioeventfd { length: 2 }, Notify::Exit, Notify::Coalesced { poll_ns: 7 }] {
        let (_, error) = run(notify);
        assert!(matches!(error, SimError::Stalled { at } if at.whole_ns() < 60), "{notify:?}: {error}");
    }
}
