//! Which devices a job uses, and where their queues and buffers lie in guest RAM.

use crate::addr::GuestPhysAddr;
use crate::device::BlkLayout;
use crate::sim::SimError;
use crate::sim::scenario::Scenario;
use crate::workload::fio::Plan;

/// Descriptors of a queue, at most: what QEMU's virtio-blk offers.
const MAX_QUEUE: u32 = 1024;
/// Descriptors of a request with data.
const CHAIN: u32 = 3;

/// Queues and buffers of all devices, one behind the other from address 0.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Layout {
    devices: u32,
    jobs: u32,
    queue: u16,
    max_bytes: u32,
    stride: u64,
}

impl Layout {
    pub fn new(scenario: &Scenario, plan: &Plan) -> Result<Self, SimError> {
        let jobs = u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX).max(1);
        let depth = plan.jobs.iter().map(|job| job.depth).max().unwrap_or(1);
        // Jobs that share a device share its queue; a full queue makes them wait.
        let sharing = jobs.div_ceil(scenario.devices);
        let descriptors = depth.saturating_mul(sharing).saturating_mul(CHAIN).min(MAX_QUEUE);
        let queue = u16::try_from(descriptors.max(4).next_power_of_two().min(MAX_QUEUE)).unwrap_or(4);
        let greatest = |job: &crate::workload::fio::FioJob| job.blocks.iter().map(|b| b.greatest()).max();
        let max_bytes = plan.jobs.iter().filter_map(greatest).max().unwrap_or(4096);
        let stride = BlkLayout::new(GuestPhysAddr(0), queue, max_bytes)?.bytes().next_multiple_of(1 << 16);
        Ok(Self { devices: scenario.devices, jobs, queue, max_bytes, stride })
    }

    /// Guest RAM that all of it takes.
    pub const fn ram_bytes(&self) -> u64 {
        self.stride.saturating_mul(self.devices as u64)
    }

    pub fn device(&self, device: u32) -> Result<BlkLayout, SimError> {
        let base = GuestPhysAddr(self.stride * u64::from(device));
        Ok(BlkLayout::new(base, self.queue, self.max_bytes)?)
    }

    /// Devices of a job: with more devices than jobs each job takes its share in turn, else jobs share them.
    pub fn devices_of(&self, job: u32) -> Vec<u32> {
        if self.jobs >= self.devices {
            vec![job % self.devices]
        } else {
            (0..self.devices).filter(|device| device % self.jobs == job % self.jobs).collect()
        }
    }

    /// The first job that uses a device: its vCPU takes the interrupts.
    pub const fn job_of(&self, device: u32) -> u32 {
        device % self.jobs
    }
}
