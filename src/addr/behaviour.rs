//! Kernel behaviours that differ by version, or that look wrong, as named switches in one struct.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a switch or preset given as text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The text is not of the form `switch=value`.
    #[error("`{text}` is not a switch setting: write switch=value, for example key_on_page_out=kept")]
    NoEquals {
        /// What was given.
        text: String,
    },
    /// No switch of that name.
    #[error("no switch is named `{name}`; the switches are {known}")]
    UnknownSwitch {
        /// What was given.
        name: String,
        /// All names.
        known: String,
    },
    /// The switch exists, the value does not.
    #[error("`{value}` is no value of switch `{name}`; its values are {known}")]
    UnknownValue {
        /// The switch.
        name: String,
        /// What was given.
        value: String,
        /// Its values.
        known: String,
    },
    /// No preset of that name.
    #[error("no kernel preset is named `{name}`; the presets are linux-6.1 and linux-6.12")]
    UnknownPreset {
        /// What was given.
        name: String,
    },
}

/// A kernel version whose behaviour is known switch by switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Preset {
    /// Linux 6.1: legacy coalesced-ring room rule, no prefixed instructions.
    #[serde(rename = "linux-6.1")]
    Linux6_1,
    /// Linux 6.12: fixed coalesced-ring room rule, prefixed instructions.
    #[default]
    #[serde(rename = "linux-6.12")]
    Linux6_12,
}

impl Preset {
    /// The name used on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux6_1 => "linux-6.1",
            Self::Linux6_12 => "linux-6.12",
        }
    }

    /// Every switch as that kernel has it.
    #[must_use]
    pub const fn behaviour(self) -> KernelBehaviour {
        let mut behaviour = KernelBehaviour::LINUX_6_12;
        if matches!(self, Self::Linux6_1) {
            behaviour.coalesced_room = CoalescedRoom::Legacy;
            behaviour.prefixed = Prefixed::Unknown;
        }
        behaviour
    }

    /// The nearest for a running kernel by its release (`uname -r`): Linux 6.12's from 6.12 on, else Linux 6.1's; `None` if
    /// the text does not begin with two numbers.
    #[must_use]
    pub fn of_release(release: &str) -> Option<Self> {
        Some(if release_version(release)? >= (6, 12) { Self::Linux6_12 } else { Self::Linux6_1 })
    }
}

/// Major and minor number of a release (`uname -r`); `None` if the text does not begin with two numbers.
#[must_use]
pub fn release_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return None };
    Some((major, minor))
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = SwitchError;

    fn from_str(name: &str) -> Result<Self, SwitchError> {
        match name {
            "linux-6.1" => Ok(Self::Linux6_1),
            "linux-6.12" => Ok(Self::Linux6_12),
            _ => Err(SwitchError::UnknownPreset { name: name.to_owned() }),
        }
    }
}

/// One switch for a reader: its name, the hazard it belongs to, what it decides, its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchInfo {
    /// Name, as `--set` takes it.
    pub name: &'static str,
    /// What it decides.
    pub doc: &'static str,
    /// Its values, the kernel's own (6.12) first.
    pub values: &'static [&'static str],
}

macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $field:ident: $ty:ident {
        $($(#[$vdoc:meta])+ $variant:ident = $text:literal),+ $(,)?
    })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
            #[serde(rename_all = "kebab-case")]
            pub enum $ty {
                $($(#[$vdoc])+ $variant),+
            }

            impl $ty {
                const VALUES: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),+];

                /// The value's name, as `--set` takes it.
                #[must_use]
                pub const fn name(self) -> &'static str {
                    match self { $(Self::$variant => $text),+ }
                }
            }
        )+

        /// The table of named switches: what the emulated kernel does where kernels differ or look wrong.
        ///
        /// The default is Linux 6.12 as observed. See [`Preset`] for whole kernels and [`Self::set`] for one switch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct KernelBehaviour {
            $($(#[doc = $doc])+ pub $field: $ty),+
        }

        impl KernelBehaviour {
            /// Every switch, for help texts.
            pub const SWITCHES: &'static [SwitchInfo] = &[
                $(SwitchInfo {
                    name: stringify!($field),
                    doc: concat!($($doc),+),
                    values: &[$($text),+],
                }),+
            ];

            /// Sets one switch from `switch=value`; case and `-`/`_` do not matter in the value.
            ///
            /// # Errors
            /// No `=`, no such switch, or no such value: the error lists what there is.
            pub fn set(&mut self, text: &str) -> Result<(), SwitchError> {
                let (name, value) = text
                    .split_once('=')
                    .ok_or_else(|| SwitchError::NoEquals { text: text.to_owned() })?;
                let (name, value) = (name.trim(), value.trim());
                let wanted = value.to_ascii_lowercase().replace('_', "-");
                match name {
                    $(stringify!($field) => {
                        self.$field = $ty::VALUES
                            .iter()
                            .find(|(text, _)| *text == wanted)
                            .map(|(_, value)| *value)
                            .ok_or_else(|| SwitchError::UnknownValue {
                                name: name.to_owned(),
                                value: value.to_owned(),
                                known: [$($text),+].join(", "),
                            })?;
                    })+
                    _ => return Err(SwitchError::UnknownSwitch {
                        name: name.to_owned(),
                        known: [$(stringify!($field)),+].join(", "),
                    }),
                }
                Ok(())
            }

            /// The switches in which `self` differs from `other`, as (name, value here), in table order.
            #[must_use]
            pub fn differences(&self, other: &Self) -> Vec<(&'static str, &'static str)> {
                let mut differing = Vec::new();
                $(if self.$field != other.$field {
                    differing.push((stringify!($field), self.$field.name()));
                })+
                differing
            }
        }
    };
}

switches! {
    /// How `coalesced_mmio_has_room` counts free ring slots (fixed in 6.12).
    coalesced_room: CoalescedRoom {
        /// `(last + 1) % N != first`: N - 1 writes are absorbed from any start.
        #[default]
        Fixed = "fixed",
        /// `(first - last - 1) % N` in u32: wrong where N is no power of two.
        Legacy = "legacy",
    }
    /// What `kvmppc_unmap_hpte` does to the key field of the host's doubleword at page-out (patch 1 of the 2016 series).
    key_on_page_out: KeyOnPageOut {
        /// KEY_HI and KEY_LO are cleared, so a paged-out key-31 RAM page is not taken for MMIO.
        #[default]
        Cleared = "cleared",
        /// The key stays: the cache without patch 1, which no released kernel has.
        Kept = "kept",
    }
    /// Which direction DSISR shows when an instruction cannot be emulated.
    issstore_on_failure: IssstoreOnFailure {
        /// That of what `analyse_instr` made of the word, which `mmio_is_write` is set to before the refusal: seen on 6.1 and
        /// 6.12 (`tests/host_ppc64.rs`). A word it does not know counts as a load.
        #[default]
        Analysed = "analysed",
        /// `mmio_is_write` of the previous MMIO, if the refusal comes before it is set: older kernels, by reading the source.
        Stale = "stale",
        /// The refused access's own direction.
        Exact = "exact",
    }
    /// H0: what installing a new HPT does to `mmio_update`.
    generation_on_new_hpt: GenerationOnNewHpt {
        /// Set to 0 (and left alone by a same-order reset), so an old entry can match again.
        #[default]
        Reset = "reset",
        /// One more than before.
        Bumped = "bumped",
    }
    /// H1 and H2: which of several overlapping bus devices a write can reach.
    zone_lookup: ZoneLookup {
        /// Sorted array, binary search by containment, neighbours while they compare equal.
        #[default]
        SortedContainment = "sorted-containment",
        /// Every device whose range contains the access, in registration order.
        AllMatching = "all-matching",
    }
    /// H3: whether the early handler fills the cache for a page that a memslot backs by now.
    fill_when_memslot_backed: FillWhenMemslotBacked {
        /// It does: the memslot is searched only later.
        #[default]
        Yes = "yes",
        /// It does not.
        No = "no",
    }
    /// H4: whether a protection fault on a VALID key-31 page fills an entry (tagged generation 0).
    fill_on_protection_fault: FillOnProtectionFault {
        /// It does.
        #[default]
        Yes = "yes",
        /// It does not.
        No = "no",
    }
    /// H5: whether a zeroed cache entry can match at generation 0.
    empty_entry: EmptyEntry {
        /// EA 0 with slb_v 0 at generation 0 hits an entry that was never filled.
        #[default]
        ZeroMatches = "zero-matches",
        /// An unfilled entry never matches.
        Invalid = "invalid",
    }
    /// H6: the key of host doublewords that a deleted memslot leaves behind.
    key_on_memslot_delete: KeyOnMemslotDelete {
        /// Cleared by the unmap, so the page is MMIO but never cacheable until the guest re-enters it.
        #[default]
        Cleared = "cleared",
        /// Set to 31 (MMIO).
        Mmio = "mmio",
    }
    /// H7: how the kernel tells a store from a load by its instruction word.
    direction_rule: DirectionRule {
        /// One bit of the word: lmw and lxv count as stores.
        #[default]
        Bit = "bit",
        /// The decoded instruction.
        Decoded = "decoded",
    }
    /// H8: a load through a reserved PP value (PP0=1, PP=00).
    reserved_pp: ReservedPp {
        /// Permitted in software, refused by hardware: never progresses.
        #[default]
        Spin = "spin",
        /// Reflected to the guest as a protection fault.
        Reflect = "reflect",
    }
    /// What a guest's prefixed instruction (Power ISA 3.1) is to KVM HV.
    prefixed: Prefixed {
        /// Fetched whole and emulated like others: Linux 6.4 and later.
        #[default]
        Emulated = "emulated",
        /// Not enabled for guests (HFSCR without PREFIX): a program interrupt, whatever it accesses.
        Unknown = "unknown",
    }
}

impl KernelBehaviour {
    /// Linux 6.12 as observed: every switch at its default.
    pub const LINUX_6_12: Self = Self {
        coalesced_room: CoalescedRoom::Fixed,
        key_on_page_out: KeyOnPageOut::Cleared,
        issstore_on_failure: IssstoreOnFailure::Analysed,
        generation_on_new_hpt: GenerationOnNewHpt::Reset,
        zone_lookup: ZoneLookup::SortedContainment,
        fill_when_memslot_backed: FillWhenMemslotBacked::Yes,
        fill_on_protection_fault: FillOnProtectionFault::Yes,
        empty_entry: EmptyEntry::ZeroMatches,
        key_on_memslot_delete: KeyOnMemslotDelete::Cleared,
        direction_rule: DirectionRule::Bit,
        reserved_pp: ReservedPp::Spin,
        prefixed: Prefixed::Emulated,
    };
}

impl Default for KernelBehaviour {
    fn default() -> Self {
        Self::LINUX_6_12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_linux_6_12_and_6_1_differs_in_the_room_rule_and_prefixed_instructions() {
        assert_eq!(KernelBehaviour::default(), Preset::default().behaviour());
        for (release, preset) in [
            ("6.1.0-50-powerpc64le", Some(Preset::Linux6_1)),
            ("6.12.95+deb12-powerpc64le", Some(Preset::Linux6_12)),
            ("7.0", Some(Preset::Linux6_12)),
            ("5.19.1", Some(Preset::Linux6_1)),
            ("unknown", None),
            ("6", None),
        ] {
            assert_eq!(Preset::of_release(release), preset, "{release}");
        }
        let old = Preset::Linux6_1.behaviour();
        assert_eq!(
            old.differences(&KernelBehaviour::default()),
            [("coalesced_room", "legacy"), ("prefixed", "unknown")]
        );
    }

    #[test]
    fn every_listed_value_of_every_switch_can_be_set_and_the_first_is_the_default() {
        for switch in KernelBehaviour::SWITCHES {
            for (i, value) in switch.values.iter().enumerate() {
                let mut behaviour = KernelBehaviour::default();
                behaviour.set(&format!("{}={value}", switch.name)).unwrap();
                let changed = behaviour.differences(&KernelBehaviour::default());
                assert_eq!(changed.len(), usize::from(i != 0), "{} = {value}", switch.name);
            }
        }
    }

    #[test]
    fn a_wrong_setting_names_what_would_be_right() {
        let mut behaviour = KernelBehaviour::default();
        assert!(behaviour.set("key_on_page_out").unwrap_err().to_string().contains("switch=value"));
        assert!(behaviour.set("key=kept").unwrap_err().to_string().contains("key_on_page_out"));
        assert!(behaviour.set("key_on_page_out=lost").unwrap_err().to_string().contains("cleared, kept"));
        assert_eq!(behaviour, KernelBehaviour::default());
    }
}
