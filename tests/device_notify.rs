//! Doorbells: where they lie, which device an address names, how many pages they take.

use hvmmio::addr::GuestPhysAddr;
use hvmmio::device::{Doorbell, NotifyError, NotifyLayout};

#[test]
fn legacy_doorbells_of_1024_devices_share_one_64_kib_page() {
    let layout = NotifyLayout::Legacy;
    assert_eq!(layout.max_devices(), 1024);
    assert_eq!(layout.pages(1024, 64 << 10).unwrap(), [GuestPhysAddr(0x2000_0000_0000)]);
    assert_eq!(layout.pages(1024, 4 << 10).unwrap().len(), 16);
    assert_eq!(layout.pages(65, 4 << 10).unwrap().len(), 2);
    let doorbell = Doorbell { gpa: GuestPhysAddr(0x2000_0000_0000 + 3 * 64 + 16), len: 2, value: 5 };
    assert_eq!(layout.doorbell(3, 5), Ok(doorbell));
    let too_many = NotifyError::TooManyDevices { layout, devices: 1025, max: 1024 };
    assert_eq!(layout.doorbell(1024, 0), Err(too_many.clone()));
    assert_eq!(layout.pages(1025, 64 << 10), Err(too_many));
}

#[test]
fn modern_doorbells_take_one_page_per_device() {
    let layout = NotifyLayout::Modern;
    let pages = layout.pages(1024, 64 << 10).unwrap();
    assert_eq!((pages.len(), pages[1]), (1024, GuestPhysAddr(0x2100_0001_0000)));
    assert_eq!(layout.pages(3, 4 << 10).unwrap()[2], GuestPhysAddr(0x2100_0002_3000));
    assert_eq!(layout.pages(257, 16 << 20).unwrap().len(), 2);
    let doorbell = Doorbell { gpa: GuestPhysAddr(0x2100_0000_3000 + 5 * 4), len: 2, value: 5 };
    assert_eq!(layout.doorbell(0, 5), Ok(doorbell));
    assert_eq!(
        layout.doorbell(0, 1024).unwrap_err().to_string(),
        "queue 1024 has no doorbell in the modern layout; a device has 1024 queues at most"
    );
    assert!(layout.doorbell(1 << 24, 0).is_err());
    assert!(layout.doorbell(u32::MAX, 0).is_err());
}

#[test]
fn decoding_a_doorbell_gives_its_device_and_queue_back() {
    for layout in NotifyLayout::ALL {
        for device in [0, 1, 63, 1023] {
            for queue in [0, 1, 255, 1023] {
                let Doorbell { gpa, value, .. } = layout.doorbell(device, queue).unwrap();
                assert_eq!(layout.decode(gpa, value), Some((device, queue)));
                assert_eq!(layout.decode(GuestPhysAddr(gpa.0 + 2), value), None);
            }
        }
        for gpa in
            [0, 0x2000_0000_0000, 0x2000_0001_0010, 0x2100_0000_4000, 0x2100_0000_2ffc, 0x2200_0000_3000, u64::MAX]
        {
            assert_eq!(layout.decode(GuestPhysAddr(gpa), 0), None, "{layout} {gpa:#x}");
        }
    }
}

#[test]
fn layouts_are_named_alike_everywhere() {
    for layout in NotifyLayout::ALL {
        assert_eq!(layout.to_string().parse(), Ok(layout));
        assert_eq!(serde_json::to_string(&layout).unwrap(), format!("\"{layout}\""));
    }
    let wrong = "Legacy".parse::<NotifyLayout>().unwrap_err();
    assert!(wrong.to_string().contains("legacy and modern"));
    assert_eq!(NotifyLayout::Modern.pages(1, 3000), Err(NotifyError::PageBytes { bytes: 3000 }));
}
