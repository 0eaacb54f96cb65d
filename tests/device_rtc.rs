//! The RTC: index and data, time registers, alarm, update and periodic flags, register C.

use hvmmio::device::Rtc;
use hvmmio::io::DeviceModel;

const SECOND: u64 = 1_000_000_000;
/// 2016-11-04 13:45:58 UTC, a Friday.
const START: i64 = 1_478_267_158;

fn read(rtc: &mut Rtc, index: u8) -> u8 {
    let mut data = [0xff];
    rtc.write(0x70, &[index]);
    rtc.read(0x71, &mut data);
    data[0]
}

fn write(rtc: &mut Rtc, index: u8, value: u8) {
    rtc.write(0x70, &[index]);
    rtc.write(0x71, &[value]);
}

/// Hours, minutes, seconds.
fn clock(rtc: &mut Rtc) -> [u8; 3] {
    [0x04, 0x02, 0x00].map(|index| read(rtc, index))
}

/// Century, year, month, day, weekday.
fn date(rtc: &mut Rtc) -> [u8; 5] {
    [0x32, 0x09, 0x08, 0x07, 0x06].map(|index| read(rtc, index))
}

#[test]
fn bit_7_of_the_index_port_masks_the_nmi_and_is_no_part_of_the_index() {
    let mut rtc = Rtc::new(START);
    write(&mut rtc, 0x80 | 0x40, 0x5a);
    assert!(rtc.nmi_masked());
    assert_eq!(read(&mut rtc, 0x40), 0x5a);
    assert!(!rtc.nmi_masked());
    let mut index = [0xff];
    rtc.read(0x70, &mut index);
    assert_eq!(index, [0xff], "the index port cannot be read");
}

#[test]
fn a_word_to_the_index_port_is_index_and_data() {
    let mut rtc = Rtc::new(START);
    rtc.write(0x70, &[0x41, 0x77]);
    assert_eq!(read(&mut rtc, 0x41), 0x77);
}

#[test]
fn ram_keeps_its_bytes_and_the_status_registers_their_meaning() {
    let mut rtc = Rtc::new(START);
    for index in (0x0e..0x80).filter(|index| *index != 0x32) {
        write(&mut rtc, index, index ^ 0xa5);
    }
    for index in (0x0e..0x80).filter(|index| *index != 0x32) {
        assert_eq!(read(&mut rtc, index), index ^ 0xa5);
    }
    for index in [0x0c, 0x0d] {
        write(&mut rtc, index, 0xff);
    }
    assert_eq!((read(&mut rtc, 0x0c), read(&mut rtc, 0x0d), read(&mut rtc, 0x0a)), (0, 0x80, 0x26));
}

#[test]
fn time_is_shown_in_bcd_and_binary_in_12_and_24_hours() {
    let mut rtc = Rtc::new(START);
    assert_eq!(clock(&mut rtc), [0x13, 0x45, 0x58]);
    assert_eq!(date(&mut rtc), [0x20, 0x16, 0x11, 0x04, 6]);
    write(&mut rtc, 0x0b, 0x06);
    assert_eq!(clock(&mut rtc), [13, 45, 58]);
    assert_eq!(date(&mut rtc), [20, 16, 11, 4, 6]);
    write(&mut rtc, 0x0b, 0x04);
    assert_eq!(clock(&mut rtc)[0], 0x81);
    write(&mut rtc, 0x0b, 0x00);
    assert_eq!(clock(&mut rtc)[0], 0x81);
    for (hour, shown) in [(0, 0x12), (1, 0x01), (11, 0x11), (12, 0x92), (23, 0x91)] {
        let mut rtc = Rtc::new(hour * 3600);
        write(&mut rtc, 0x0b, 0x00);
        assert_eq!(read(&mut rtc, 0x04), shown, "hour {hour}");
        write(&mut rtc, 0x04, shown);
        write(&mut rtc, 0x0b, 0x06);
        assert_eq!(i64::from(read(&mut rtc, 0x04)), hour);
    }
}

#[test]
fn time_goes_on_with_virtual_time_over_the_end_of_a_day_and_of_a_leap_february() {
    let mut rtc = Rtc::new(START);
    rtc.advance_to(2 * SECOND - 1);
    assert_eq!(clock(&mut rtc), [0x13, 0x45, 0x59]);
    rtc.advance_to(2 * SECOND);
    assert_eq!(clock(&mut rtc), [0x13, 0x46, 0x00]);
    rtc.advance_to(86_400 * SECOND);
    assert_eq!((clock(&mut rtc), date(&mut rtc)), ([0x13, 0x45, 0x58], [0x20, 0x16, 0x11, 0x05, 7]));
    let mut leap = Rtc::new(1_709_164_799); // 2024-02-28 23:59:59
    leap.advance_to(SECOND);
    assert_eq!(date(&mut leap), [0x20, 0x24, 0x02, 0x29, 5]);
    leap.advance_to(SECOND + 86_400 * SECOND);
    assert_eq!(date(&mut leap)[2..4], [0x03, 0x01]);
    rtc.advance_to(0);
    assert_eq!(clock(&mut rtc), [0x13, 0x45, 0x58], "time does not go back");
}

#[test]
fn set_holds_updates_while_the_guest_writes_the_time_field_by_field() {
    let mut rtc = Rtc::new(START);
    write(&mut rtc, 0x0b, 0x82 | 0x10);
    assert_eq!(read(&mut rtc, 0x0b), 0x82, "SET clears UIE");
    rtc.advance_to(5 * SECOND);
    assert_eq!(clock(&mut rtc), [0x13, 0x45, 0x58]);
    assert_eq!(read(&mut rtc, 0x0c) & 0x10, 0, "a held update sets no flag");
    // The 31st goes in while the month is still November.
    for (index, value) in
        [(0x07, 0x31), (0x08, 0x12), (0x09, 0x99), (0x32, 0x19), (0x04, 0x23), (0x02, 0x59), (0x00, 0x59)]
    {
        write(&mut rtc, index, value);
    }
    assert_eq!(date(&mut rtc)[..4], [0x19, 0x99, 0x12, 0x31]);
    write(&mut rtc, 0x06, 0x06);
    write(&mut rtc, 0x0b, 0x02);
    rtc.advance_to(6 * SECOND);
    assert_eq!((clock(&mut rtc), date(&mut rtc)), ([0, 0, 0], [0x20, 0x00, 0x01, 0x01, 7]));
}

#[test]
fn every_byte_in_every_time_register_is_taken_without_a_panic() {
    for mode in [0x00, 0x02, 0x04, 0x06, 0x80, 0x86] {
        for index in [0, 2, 4, 6, 7, 8, 9, 0x32, 1, 3, 5, 0x0a, 0x0b] {
            for value in 0..=255 {
                let mut rtc = Rtc::new(START);
                write(&mut rtc, 0x0b, mode);
                write(&mut rtc, index, value);
                write(&mut rtc, 0x0b, 0x02);
                rtc.advance_to(3 * SECOND);
                clock(&mut rtc);
                date(&mut rtc);
            }
        }
    }
    for time in [i64::MIN, i64::MAX, -1] {
        let mut rtc = Rtc::new(time);
        rtc.advance_to(u64::MAX);
        clock(&mut rtc);
        date(&mut rtc);
        assert!(rtc.next_periodic_ns().is_some());
    }
}

#[test]
fn register_c_shows_its_flags_once_and_reading_it_lets_the_line_go() {
    let mut rtc = Rtc::new(START);
    rtc.advance_to(SECOND);
    assert!(!rtc.interrupt(), "flags without their enables raise nothing");
    assert_eq!(read(&mut rtc, 0x0c), 0x50, "periodic and update flag");
    assert_eq!(read(&mut rtc, 0x0c), 0);
    write(&mut rtc, 0x0b, 0x12);
    rtc.advance_to(2 * SECOND);
    assert!(rtc.interrupt());
    assert_eq!(read(&mut rtc, 0x0c), 0xd0);
    assert!(!rtc.interrupt());
}

#[test]
fn an_enable_written_while_its_flag_is_up_raises_the_line() {
    let mut rtc = Rtc::new(START);
    rtc.advance_to(SECOND);
    write(&mut rtc, 0x0b, 0x42);
    assert!(rtc.interrupt());
    write(&mut rtc, 0x0b, 0x02);
    assert!(!rtc.interrupt());
}

#[test]
fn the_periodic_rate_is_selected_by_register_a() {
    let rates =
        [(1, 256.0), (2, 128.0), (3, 8192.0), (4, 4096.0), (6, 1024.0), (8, 256.0), (9, 128.0), (10, 64.0), (15, 2.0)];
    for (code, hz) in rates {
        let mut rtc = Rtc::new(START);
        write(&mut rtc, 0x0a, 0x20 | code);
        assert_eq!(rtc.periodic_hz(), Some(hz));
        // Ten seconds hold so many edges, each seen by a guest that is there in time.
        let mut edges = 0;
        while let Some(next) = rtc.next_periodic_ns().filter(|next| *next <= 10 * SECOND) {
            rtc.advance_to(next - 1);
            assert_eq!(read(&mut rtc, 0x0c) & 0x40, 0);
            rtc.advance_to(next);
            assert_eq!(read(&mut rtc, 0x0c) & 0x40, 0x40);
            edges += 1;
        }
        assert_eq!(f64::from(edges), 10.0 * hz, "rate code {code}");
    }
    let mut rtc = Rtc::new(START);
    write(&mut rtc, 0x0a, 0x20);
    assert_eq!((rtc.periodic_hz(), rtc.next_periodic_ns()), (None, None));
    assert_eq!([2, 64, 1024, 8192].map(Rtc::rate_select), [Some(15), Some(10), Some(6), Some(3)]);
    assert_eq!([0, 1, 100, 16384, u32::MAX].map(Rtc::rate_select), [None; 5]);
}

#[test]
fn periods_that_pass_before_c_is_read_are_one_interrupt() {
    let mut rtc = Rtc::new(START);
    write(&mut rtc, 0x0b, 0x42);
    rtc.advance_to(SECOND / 2);
    assert!(rtc.interrupt());
    assert_eq!(read(&mut rtc, 0x0c), 0xc0);
    rtc.advance_to(SECOND / 2 + 1);
    assert_eq!(read(&mut rtc, 0x0c), 0);
}

#[test]
fn a_held_divider_stops_time_and_its_release_starts_it_half_a_second_before_an_update() {
    let mut rtc = Rtc::new(START);
    write(&mut rtc, 0x0a, 0x76);
    rtc.advance_to(100 * SECOND);
    assert_eq!((clock(&mut rtc), read(&mut rtc, 0x0c)), ([0x13, 0x45, 0x58], 0));
    assert_eq!(rtc.next_periodic_ns(), None);
    write(&mut rtc, 0x0a, 0x26);
    rtc.advance_to(100 * SECOND + SECOND / 2 - 1);
    assert_eq!(read(&mut rtc, 0x0a), 0xa6, "update in progress");
    assert_eq!(clock(&mut rtc), [0x13, 0x45, 0x58]);
    rtc.advance_to(100 * SECOND + SECOND / 2);
    assert_eq!((clock(&mut rtc), read(&mut rtc, 0x0a)), ([0x13, 0x45, 0x59], 0x26));
}

#[test]
fn the_alarm_comes_at_its_time_and_with_dont_cares_every_minute() {
    let mut rtc = Rtc::new(START);
    for (index, value) in [(0x01, 0x01), (0x03, 0x46), (0x05, 0x13), (0x0b, 0x22)] {
        write(&mut rtc, index, value);
    }
    rtc.advance_to(3 * SECOND - 1);
    assert!(!rtc.interrupt());
    rtc.advance_to(3 * SECOND);
    assert!(rtc.interrupt());
    assert_eq!(read(&mut rtc, 0x0c) & 0xa0, 0xa0);
    for index in [0x03, 0x05] {
        write(&mut rtc, index, 0xc0);
    }
    for minute in 1..5 {
        rtc.advance_to((3 + 60 * minute) * SECOND - 1);
        assert!(!rtc.interrupt());
        rtc.advance_to((3 + 60 * minute) * SECOND);
        assert!(rtc.interrupt());
        read(&mut rtc, 0x0c);
    }
    assert_eq!(read(&mut rtc, 0x01), 0x01, "alarm registers are read back as written");
}
