//! Miss-ratio curves as SVG.

use plotters::prelude::{
    ChartBuilder, Color, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor, SVGBackend, WHITE,
};
use plotters::style::BLACK;

use crate::cachelab::{LabPolicy, Sweep};

/// A drawing that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the curves cannot be drawn: {0}")]
pub struct SvgError(
    /// The plotter's words.
    pub String,
);

/// Width and height, pixels.
const SIZE: (u32, u32) = (900, 560);
/// Told apart also by readers who do not see all colours (Okabe and Ito 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// The miss ratio against the entries, one curve a policy.
///
/// # Errors
/// The plotter's.
pub fn curves(sweep: &Sweep) -> Result<String, SvgError> {
    let failed = |error: &dyn std::fmt::Display| SvgError(error.to_string());
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let most = sweep.rows.iter().map(|row| row.entries).max().unwrap_or(0).max(1);
        let caption = format!("Miss ratio, {} (key {}, simulated)", sweep.file, sweep.key);
        let mut chart = ChartBuilder::on(&area)
            .caption(caption, ("sans-serif", 18).into_font())
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..most as f64, 0.0..1.0)
            .map_err(|error| failed(&error))?;
        let mesh = chart.configure_mesh().x_desc("entries").y_desc("miss ratio").draw();
        mesh.map_err(|error| failed(&error))?;
        for (policy, colour) in LabPolicy::ALL.into_iter().zip(COLOURS) {
            let rows = sweep.rows.iter().filter(|row| row.policy == policy);
            let points: Vec<_> = rows.map(|row| (row.entries as f64, 1.0 - row.hit_rate)).collect();
            if points.is_empty() {
                continue;
            }
            let line = LineSeries::new(points, colour.stroke_width(2));
            let series = chart.draw_series(line).map_err(|error| failed(&error))?;
            series
                .label(policy.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        }
        let labels = chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw();
        labels.map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(text)
}
