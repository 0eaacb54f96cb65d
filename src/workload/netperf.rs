//! NetPerf's request/response test: TCP_RR by test name, request and response size, duration.

/// Why a netperf test was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetperfError {
    /// Not TCP_RR.
    #[error("netperf test `{test}` is not modelled: TCP_RR is")]
    Test {
        /// What was asked.
        test: String,
    },
    /// A size out of range.
    #[error("{which} of {bytes} bytes is out of range: 1 to {MAX_MESSAGE} bytes (one TSO frame)")]
    Size {
        /// Request or response.
        which: &'static str,
        /// What was asked.
        bytes: u64,
    },
    /// A duration out of range.
    #[error("a duration of {seconds} s is out of range: more than 0, at most 3600 s")]
    Duration {
        /// What was asked.
        seconds: f64,
    },
}

/// Largest message, bytes: what one TSO frame carries beside its headers.
pub const MAX_MESSAGE: u64 = 61_440;

/// TCP_RR: one connection; the client sends a request, waits for the response, sends the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpRr {
    /// Request, bytes.
    pub request: u32,
    /// Response, bytes.
    pub response: u32,
    /// Duration in ns of virtual time.
    pub duration_ns: u64,
}

impl TcpRr {
    /// The test as `netperf -t NAME -l DURATION -- -r REQUEST,RESPONSE` asks for it; case does not matter.
    ///
    /// # Errors
    /// Another test, a size of 0 or above [`MAX_MESSAGE`], a duration that is not in (0, 3600] s.
    pub fn by_name(test: &str, request: u64, response: u64, seconds: f64) -> Result<Self, NetperfError> {
        if !test.eq_ignore_ascii_case("TCP_RR") {
            return Err(NetperfError::Test { test: test.to_owned() });
        }
        let size = |which, bytes: u64| {
            let fits = u32::try_from(bytes).ok().filter(|_| (1..=MAX_MESSAGE).contains(&bytes));
            fits.ok_or(NetperfError::Size { which, bytes })
        };
        let (request, response) = (size("a request", request)?, size("a response", response)?);
        if !(seconds > 0.0 && seconds <= 3600.0) {
            return Err(NetperfError::Duration { seconds });
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 3600 s in ns fit u64")]
        let duration_ns = (seconds * 1e9).ceil() as u64;
        Ok(Self { request, response, duration_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_test_and_absurd_sizes_are_refused_in_words() {
        let refused = |test, a, b, s| TcpRr::by_name(test, a, b, s).unwrap_err().to_string();
        assert!(refused("TCP_STREAM", 1, 1, 10.0).contains("TCP_RR is"));
        assert!(refused("TCP_RR", 0, 1, 10.0).contains("1 to 61440"));
        assert!(refused("TCP_RR", 1, 1 << 63, 10.0).contains("1 to 61440"));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refused("tcp_rr", 1, 1, seconds).contains("3600"));
        }
        assert_eq!(TcpRr::by_name("tcp_rr", 1, 2, 0.5).unwrap().duration_ns, 500_000_000);
    }
}
