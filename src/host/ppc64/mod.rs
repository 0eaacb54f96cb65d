//! KVM Book3S HV.
