"""Rows of a comparison: figures by round, medians, ratios, what is wanted, as a table and as CSV.

A ratio says how many times as good radish is: its rate over the peer's, or the peer's time over its own. The ratio shown is that of the
medians; its spread is that of single rounds, in which both programs ran within minutes of each other.
"""
import csv, datetime, statistics

# What radish wants to reach against llama.cpp on two cores with AVX-512, by (row, type); "*": any type.
WANTED = {("prefill", "Q8_0"): 1.8, ("prefill", "Q4_0"): 1.5, ("prefill", "Q4_K"): 1.5, ("prefill", "BF16"): 1.4, ("decode at 0", "*"): 1.0,
          ("decode at 2048", "*"): 1.0, ("16 streams", "*"): 3.0, ("cold fan-out", "*"): 15.0, ("share of the bandwidth", "*"): 0.85}
SHARE = "of 1"  # the unit of figures that are wanted by themselves, not beside a peer
CSV_COLUMNS = ("date commit machine isa threads cpus load_before load_after workload model unit radish_median radish_min radish_max peer "
               "peer_median peer_min peer_max rounds ratio ratio_min ratio_max wanted").split()


def find_wanted(workload, kind):
    """For the made models of Qwen3-0.6B's shape only; None: nothing is promised."""
    name = "prefill" if workload.startswith("prefill") else workload
    return WANTED.get((name, kind), WANTED.get((name, "*")))


class Row:
    def __init__(self, workload, model, unit, higher_is_better, wanted):
        self.workload, self.model, self.unit, self.higher, self.wanted = workload, model, unit, higher_is_better, wanted
        self.rounds = []  # {label: value}

    def values(self, label):
        return [r[label] for r in self.rounds if r.get(label)]

    def ratio_of(self, ours, theirs):
        return ours / theirs if self.higher else theirs / ours

    def ratio(self, ours, peer):
        """(of the medians, smallest, largest), or None."""
        a, b = self.values(ours), self.values(peer)
        if not a or not b:
            return None
        single = [self.ratio_of(r[ours], r[peer]) for r in self.rounds if r.get(ours) and r.get(peer)]
        middle = self.ratio_of(statistics.median(a), statistics.median(b))
        return middle, min(single, default=middle), max(single, default=middle)


def show(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def show_spread(values):
    if not values:
        return "-"
    middle, low, high = statistics.median(values), min(values), max(values)
    return show(middle) if len(values) == 1 else f"{show(middle)} ({show(low)} to {show(high)})"


class Report:
    def __init__(self, ours, peers):
        self.ours, self.peers = ours, peers
        self.rows, self.notes = {}, []

    def add(self, workload, model, kind, unit, values, higher_is_better=True):
        """values: {label: figure} of one round; kind: the weights' type where something is wanted of it, else None."""
        key = (workload, model)
        if key not in self.rows:
            self.rows[key] = Row(workload, model, unit, higher_is_better, find_wanted(workload, kind) if kind else None)
        self.rows[key].rounds.append(values)
        return self.rows[key]

    def line(self, row):
        cells = [row.workload, row.model, row.unit, show_spread(row.values(self.ours))]
        for peer in self.peers:
            ratio = row.ratio(self.ours, peer)
            cells += [show_spread(row.values(peer)), f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})" if ratio else "-"]
        wanted = "" if not row.wanted else f"{row.wanted:g} or more" if row.unit == SHARE else f"{row.wanted:g}x"
        return "| " + " | ".join([*cells, wanted]) + " |"

    def table(self):
        heads = ["workload", "model", "unit", self.ours]
        for peer in self.peers:
            heads += [peer, "times as good"]
        heads.append("wanted (AVX-512)")
        return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *map(self.line, self.rows.values())])

    def write_csv(self, path, about):
        """about: the columns up to load_after."""
        with open(path, "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(CSV_COLUMNS)
            for row in self.rows.values():
                for peer in self.peers if any(row.values(p) for p in self.peers) else [""]:
                    ratio = row.ratio(self.ours, peer) or ("", "", "")
                    cells = [datetime.date.today(), *about, row.workload, row.model, row.unit, *spread(row.values(self.ours)), peer,
                             *spread(row.values(peer)), len(row.rounds), *ratio, row.wanted or ""]
                    out.writerow([f"{c:.4g}" if isinstance(c, float) else c for c in cells])


def spread(values):
    return (statistics.median(values), min(values), max(values)) if values else ("", "", "")
