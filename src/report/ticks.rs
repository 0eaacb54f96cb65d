//! Ticks a store: measured, fitted, predicted.

use crate::proof::ticks::{StoreWay, TickModel};

use super::Report;
use super::csv::Row;
use super::percent;
use super::table::figures;

impl Report for TickModel {
    fn table(&self) -> String {
        let ways: Vec<_> = StoreWay::ALL.into_iter().filter(|way| self.costs.iter().any(|it| it.way == *way)).collect();
        let mut header = vec!["ticks a store"];
        header.extend(ways.iter().map(|way| way.name()));
        let mut table = figures(&header);
        let mut line = |name: String, cell: &dyn Fn(StoreWay) -> Option<f64>| {
            let cells = ways.iter().map(|way| cell(*way).map_or_else(String::new, |ticks| format!("{ticks:.1}")));
            table.add_row(std::iter::once(name).chain(cells));
        };
        let mut pages: Vec<_> = self.rows.iter().map(|row| row.pages).collect();
        pages.dedup();
        for pages in pages {
            let cell = |way| self.rows.iter().find(|it| it.pages == pages && it.way == way).map(|it| it.ticks);
            line(format!("{pages} pages round robin, measured"), &cell);
        }
        let cost = |way| self.costs.iter().find(|it| it.way == way);
        line("a hit, fitted".to_owned(), &|way| Some(cost(way)?.hit));
        line("a miss, fitted".to_owned(), &|way| Some(cost(way)?.miss));
        line("a miss less a hit, fitted".to_owned(), &|way| Some(cost(way)?.miss - cost(way)?.hit));
        let mut text = format!("{table}\n\n");
        let mut table = figures(&["not in the fit", "way", "hits", "predicted", "measured", "error of miss less hit"]);
        for row in &self.mixes {
            table.add_row([
                row.mix.clone(),
                row.way.name().to_owned(),
                percent(row.hits),
                format!("{:.1}", row.predicted),
                format!("{:.1}", row.measured),
                format!("{:+.2} %", row.error_percent),
            ]);
        }
        text += &format!("{table}\n");
        text
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for row in &self.rows {
            let subject = format!("{} pages, {}", row.pages, row.way.name());
            rows.push(Row::new(&subject, "ticks a store", row.ticks, "ticks", "measured"));
        }
        for costs in &self.costs {
            for (what, ticks) in [("a hit", costs.hit), ("a miss", costs.miss)] {
                rows.push(Row::new(costs.way.name(), what, ticks, "ticks", "fitted"));
            }
        }
        for row in &self.mixes {
            let subject = format!("{}, {}", row.mix, row.way.name());
            rows.push(Row::new(&subject, "hits", row.hits, "", "predicted"));
            rows.push(Row::new(&subject, "ticks a store", row.predicted, "ticks", "predicted"));
            rows.push(Row::new(&subject, "ticks a store", row.measured, "ticks", "measured"));
            rows.push(Row::new(&subject, "error of miss less hit", row.error_percent, "%", "predicted"));
        }
        rows
    }
}
