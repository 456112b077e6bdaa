import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import type { Series, SeriesBucket } from "../../src/api/stats.ts";
import { overviewCharts } from "../../src/dashboard/overview/overview-series.ts";
import {
  type ChartSpec,
  type ChartStep,
  type Point,
  areDays,
  axisMarks,
  axisScale,
  barPath,
  dotPath,
  linePath,
  newestStep,
  splitPoints,
  stepAt,
  timeMarks,
  timeScale,
} from "../../src/dashboard/overview/plot-scale.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";

const START = Date.parse("2026-03-04T05:06:00Z");

const QUIET: Omit<SeriesBucket, "at" | "is_whole"> = {
  ...{ posted: 0, completed: 0, failed: 0, cancelled: 0, attempts: 0, first_attempts: 0 },
  ...{ first_delivered: 0, delivered: 0, given_up: 0, refused: 0, queued: 0, oldest_ms: 0 },
  ...{ p50_ms: null, p95_ms: null, p99_ms: null },
};

const BUSY: typeof QUIET = {
  ...{ posted: 30, completed: 28, failed: 2, cancelled: 0, attempts: 40, first_attempts: 30 },
  ...{ first_delivered: 24, delivered: 27, given_up: 2, refused: 1, queued: 12 },
  ...{ oldest_ms: 65_000, p50_ms: 40, p95_ms: 900, p99_ms: 4200 },
};

interface Given {
  readonly stepMs?: number;
  readonly limitMs?: number;
  /** From the start of the last step; by default to its end. */
  readonly passedMs?: number;
}

function charts(counts: readonly (typeof QUIET)[], given: Given = {}): Record<string, ChartSpec> {
  const { stepMs = MINUTE_MS, limitMs = 10_000, passedMs = stepMs } = given;
  const readAt = START + (counts.length - 1) * stepMs + passedMs;
  const buckets = counts.map((each, i): SeriesBucket => {
    const at = START + i * stepMs;
    return { ...each, at: new Date(at).toISOString(), is_whole: at + stepMs <= readAt };
  });
  const series: Series = {
    from: new Date(START).toISOString(),
    to: new Date(START + counts.length * stepMs).toISOString(),
    step_ms: stepMs,
    limit_ms: limitMs,
    buckets,
  };
  const specs = overviewCharts({ series, readAt, when: "in the last hour" });
  return Object.fromEntries(specs.map((spec) => [spec.title, spec]));
}

function chart(specs: Record<string, ChartSpec>, title: string): ChartSpec {
  const spec = specs[title];
  assert(spec !== undefined, `there is no chart ${title}`);
  return spec;
}

function valuesOf(spec: ChartSpec, name: string): readonly (number | null)[] {
  const line = spec.lines.find((each) => each.name === name);
  assert(line !== undefined, `there is no line ${name}`);
  return line.values;
}

describe("the charts of the overview", () => {
  test("the queue has a gap if no daemon ran, and 0 if no task waited", () => {
    const unknown = { ...QUIET, queued: null, oldest_ms: null };
    const spec = chart(charts([BUSY, unknown, QUIET]), "Queue");
    assert.deepEqual(valuesOf(spec, "Most waiting"), [12, null, 0]);
    assert.deepEqual(valuesOf(spec, "Age of the oldest"), [65_000, null, 0]);
    assert.match(chart(charts([unknown]), "Queue").empty ?? "", /No daemon ran/);
  });

  test("success is the share of ended deliveries, and null without them", () => {
    const spec = chart(charts([BUSY, QUIET, BUSY]), "Delivery success");
    assert.deepEqual(valuesOf(spec, "In the end"), [0.9, null, 0.9]);
    assert.deepEqual(valuesOf(spec, "First attempt"), [0.8, null, 0.8]);
    for (const value of ["90.0 %", "54 of 60", "80.0 %"]) assert(spec.summary.includes(value));
  });

  test("a small loss is visible: the axis starts near the values", () => {
    const lost = { ...BUSY, first_delivered: 29, delivered: 29, given_up: 1, refused: 0 };
    assert.equal(chart(charts([lost]), "Delivery success").left.range[0], 0.9);
    assert.equal(chart(charts([BUSY]), "Delivery success").left.range[0], 0.5);
    const down = { ...BUSY, first_delivered: 0 };
    assert.equal(chart(charts([down]), "Delivery success").left.range[0], 0);
  });

  test("latency is above zero on a logarithmic axis that includes the limit", () => {
    const spec = chart(charts([{ ...BUSY, p50_ms: 0 }]), "Delivery latency");
    assert.deepEqual(valuesOf(spec, "p50"), [1]);
    assert.equal(spec.left.kind, "logarithmic");
    assert.equal(spec.left.range[0], 1);
    assert(spec.left.range[1] > 10_000);
    assert.deepEqual(spec.limit, { value: 10_000, text: "limit 10 s" });
    const slow = chart(charts([{ ...BUSY, p99_ms: 60_000 }]), "Delivery latency");
    assert(slow.left.range[1] > 60_000);
  });

  test("throughput is per minute for any step", () => {
    const spec = chart(charts([BUSY], { stepMs: 15 * MINUTE_MS }), "Throughput per minute");
    assert.deepEqual(valuesOf(spec, "Posted"), [2]);
    assert.deepEqual(valuesOf(spec, "Delivered"), [27 / 15]);
  });

  test("an open step counts its elapsed time, at least a quarter", () => {
    const stepMs = 60 * MINUTE_MS;
    const posted = (passedMs: number) =>
      valuesOf(chart(charts([BUSY], { stepMs, passedMs }), "Throughput per minute"), "Posted");
    assert.deepEqual(posted(30 * MINUTE_MS), [1]);
    assert.deepEqual(posted(1), [2]);
  });

  test("the newest complete step is shown first", () => {
    const { steps } = chart(charts([BUSY, BUSY, BUSY], { passedMs: 1000 }), "Queue");
    assert.deepEqual(
      steps.map(({ isWhole }) => isWhole),
      [true, true, false],
    );
    assert.equal(newestStep(steps), 1);
    assert.equal(newestStep(steps.slice(2)), 0);
  });

  test("the age of the queue has a separate axis", () => {
    const spec = chart(charts([QUIET, BUSY]), "Queue");
    assert.deepEqual(valuesOf(spec, "Most waiting"), [0, 12]);
    assert.deepEqual(valuesOf(spec, "Age of the oldest"), [0, 65_000]);
    assert.deepEqual(
      spec.lines.map(({ axis }) => axis),
      ["left", "right"],
    );
    assert(spec.right !== null && spec.right.range[1] > 65_000);
    assert.match(spec.summary, /12 tasks .* 1 min 5 s/);
  });

  test("an empty time has a note in each chart, and valid axes", () => {
    for (const counts of [[QUIET, QUIET], []]) {
      for (const [title, { empty, left }] of Object.entries(charts(counts))) {
        assert.match(empty ?? "", /^Nothing .* in the last hour\.$/, title);
        assert(left.range.every(Number.isFinite) && left.range[0] < left.range[1], title);
      }
    }
  });

  test("large numbers are short on the axis and full in the legend", () => {
    const spec = chart(charts([{ ...BUSY, queued: 10_482_113 }]), "Queue");
    assert.equal(spec.left.text(10_000_000), "10M");
    assert.equal(spec.lines[0]?.text(10_482_113), "10,482,113");
  });
});

const BERLIN = "Europe/Berlin";

const finite = (min: number, max: number) => fc.double({ min, max, noNaN: true });
const ranges = fc
  .tuple(finite(0, 1e6), finite(1e-2, 1e7))
  .map(([min, length]): readonly [number, number] => [min, min + length]);
const intervals = Array.from({ length: 24 }, (_, i) => {
  return ([1, 2, 5][i % 3] ?? 1) * 10 ** Math.floor(i / 3);
});

function steps(count: number, stepMs = MINUTE_MS): ChartStep[] {
  return Array.from({ length: count }, (_, i) => {
    const from = START + i * stepMs;
    return { from, to: from + stepMs, isWhole: i < count - 1 };
  });
}

/** Runs in a time zone. */
function inZone<T>(zone: string, act: () => T): T {
  const before = process.env["TZ"];
  process.env["TZ"] = zone;
  try {
    return act();
  } finally {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  }
}

describe("the scales of a chart", () => {
  test("every value is inside the chart, and a larger value is not below a smaller one", () => {
    const kinds = fc.constantFrom("linear", "logarithmic");
    const pairs = fc.tuple(finite(-1e9, 1e9), finite(-1e9, 1e9));
    fc.assert(
      fc.property(kinds, ranges, pairs, (kind, [min, max], [a, b]) => {
        const y = axisScale({ kind, range: [min + 1e-3, max] }, [166, 10]);
        for (const value of [a, b]) assert(y(value) >= 10 && y(value) <= 166, `${value}`);
        if (a < b) assert(y(a) >= y(b));
      }),
    );
  });

  test("powers of ten are evenly spaced on a logarithmic axis", () => {
    const y = axisScale({ kind: "logarithmic", range: [1, 10_000] }, [100, 0]);
    assert.deepEqual([1, 10, 100, 1000, 10_000].map(y), [100, 75, 50, 25, 0]);
    assert.equal(y(0), 100);
  });

  test("a pixel maps to its time, and beyond an edge to the edge", () => {
    const time = timeScale(steps(60), [50, 650]);
    assert.equal(time.x(START), 50);
    assert.equal(time.x(START + HOUR_MS), 650);
    fc.assert(
      fc.property(fc.integer({ min: 50, max: 650 }), (x) => {
        assert(Math.abs(time.x(time.at(x)) - x) < 1e-3);
      }),
    );
    assert.equal(time.at(-100), START);
    assert.equal(time.at(10_000), START + HOUR_MS);
  });

  test("a time belongs to its step, and the end to the last step", () => {
    const all = steps(3);
    const found = [-1, 0, 59_999, 60_000, 180_000, 180_001].map((ms) => stepAt(all, START + ms));
    assert.deepEqual(found, [-1, 0, 0, 1, 2, -1]);
    assert.equal(stepAt([], START), -1);
  });
});

describe("the marks of a chart", () => {
  test("marks fit, lie within the range and are evenly spaced", () => {
    fc.assert(
      fc.property(ranges, finite(1, 12), (range, most) => {
        const marks = axisMarks({ kind: "linear", range, intervals }, most);
        assert(marks.length <= most + 1);
        const slack = range[1] * 1e-6;
        for (const mark of marks) assert(mark >= range[0] - slack && mark <= range[1] + slack);
        const gaps = marks.slice(1).map((mark, i) => mark - (marks[i] ?? 0));
        for (const gap of gaps) assert(Math.abs(gap - (gaps[0] ?? 0)) <= slack);
      }),
    );
  });

  test("the smallest interval that fits is used", () => {
    const marks = (range: readonly [number, number]) =>
      axisMarks({ kind: "linear", range, intervals }, 7);
    assert.deepEqual(marks([0, 128]), [0, 20, 40, 60, 80, 100, 120]);
    assert.deepEqual(marks([0, 2]), [0, 1, 2]);
    const shares = { kind: "linear", range: [0.9, 1.003], intervals: [0.02, 0.05, 0.1] } as const;
    assert.deepEqual(
      axisMarks(shares, 7).map((share) => Math.round(share * 100)),
      [90, 92, 94, 96, 98, 100],
    );
  });

  test("a logarithmic axis has marks at powers of ten, and skips some of many", () => {
    const marks = (range: readonly [number, number], most: number) =>
      axisMarks({ kind: "logarithmic", range, intervals: [] }, most);
    assert.deepEqual(marks([1, 20_000], 7), [1, 10, 100, 1000, 10_000]);
    assert.deepEqual(marks([3, 50], 7), [10]);
    assert.deepEqual(marks([1, 1e8], 5), [1, 100, 10_000, 1e6, 1e8]);
  });

  test("time marks are ascending, within the span and limited in number", () => {
    const spans = fc.record({
      from: fc.integer({ min: 0, max: 400 * DAY_MS }).map((ms) => START + ms),
      length: fc.integer({ min: MINUTE_MS, max: 60 * DAY_MS }),
    });
    const zones = fc.constantFrom(BERLIN, "Asia/Kathmandu", "America/St_Johns", "UTC");
    fc.assert(
      fc.property(zones, spans, finite(2, 12), (zone, { from, length }, most) => {
        const marks = inZone(zone, () => timeMarks(from, from + length, most));
        // A repeated hour has its marks twice.
        assert(marks.length <= 2 * most + 2, `${marks.length} marks`);
        for (const [i, mark] of marks.entries()) {
          assert(mark >= from && mark <= from + length);
          assert(i === 0 || mark > (marks[i - 1] ?? 0));
        }
      }),
    );
  });

  test("marks are minutes, hours or midnights of the reader's time zone", () => {
    const marks = (lengthMs: number, most: number) =>
      inZone(BERLIN, () =>
        timeMarks(START, START + lengthMs, most).map((at) => new Date(at).toISOString()),
      );
    assert.deepEqual(marks(HOUR_MS, 6), [
      ...["2026-03-04T05:10:00.000Z", "2026-03-04T05:20:00.000Z", "2026-03-04T05:30:00.000Z"],
      ...["2026-03-04T05:40:00.000Z", "2026-03-04T05:50:00.000Z", "2026-03-04T06:00:00.000Z"],
    ]);
    assert.deepEqual(marks(DAY_MS, 5), [
      ...["2026-03-04T11:00:00.000Z", "2026-03-04T17:00:00.000Z"],
      ...["2026-03-04T23:00:00.000Z", "2026-03-05T05:00:00.000Z"],
    ]);
    assert.deepEqual(marks(3 * DAY_MS, 4), [
      ...["2026-03-04T23:00:00.000Z", "2026-03-05T23:00:00.000Z", "2026-03-06T23:00:00.000Z"],
    ]);
  });

  test("days are marked at midnight before and after a change of the offset", () => {
    const from = Date.parse("2026-03-27T12:00:00Z");
    const marks = inZone(BERLIN, () => timeMarks(from, from + 4 * DAY_MS, 5));
    assert.deepEqual(
      marks.map((at) => new Date(at).toISOString().slice(5, 16)),
      ["03-27T23:00", "03-28T23:00", "03-29T22:00", "03-30T22:00"],
    );
    assert(areDays(marks.slice(1)));
    assert(!areDays([START, START + 12 * HOUR_MS]));
  });
});

describe("the paths of a chart", () => {
  const line: readonly Point[] = [[0, 1.26], [1, 2], null, [3, 4], null, [5, 6], [6, 7]];

  test("a line has a gap at null", () => {
    assert.equal(linePath(line), "M0 1.3L1 2M3 4M5 6L6 7");
    assert.equal(linePath([null, null]), "");
  });

  test("a value between two gaps is a dot, and each of a few values is a dot", () => {
    assert.equal(dotPath(line), "M3 4h0");
    assert.equal(dotPath([[0, 1], [1, 2], ...Array<Point>(8).fill(null)]), "M0 1h0M1 2h0");
    assert.equal(dotPath([[0, 1]]), "M0 1h0");
  });

  test("an open step is drawn separately from the last complete point", () => {
    const points: readonly Point[] = [
      [0, 0],
      [1, 1],
      [2, 2],
    ];
    const { whole, open } = splitPoints(steps(3), points);
    assert.deepEqual(whole, [[0, 0], [1, 1], null]);
    assert.deepEqual(open, [null, [1, 1], [2, 2]]);
  });

  test("each point is on a line, on the dashed line or a dot", () => {
    const point = fc.option(fc.tuple(fc.nat(500), fc.nat(200)), { nil: null });
    fc.assert(
      fc.property(fc.array(point, { minLength: 1, maxLength: 200 }), (points) => {
        const { whole, open } = splitPoints(steps(points.length), points);
        const drawn = linePath(whole) + linePath(open);
        const dots = dotPath(points);
        for (const each of points) {
          if (each === null) continue;
          const place = `${each[0]} ${each[1]}`;
          const isSeen = drawn.includes(`L${place}`) || new RegExp(`M${place}L`).test(drawn);
          assert(isSeen || dots.includes(`M${place}h0`), place);
        }
      }),
    );
  });

  test("bars have whole pixels, and narrow bars have no gap", () => {
    const bars = [0, 3, 6].map((left) => ({ left, right: left + 3, top: 10, bottom: 20 }));
    assert.equal(barPath(bars), "M0 20v-10h3v10zM3 20v-10h3v10zM6 20v-10h3v10z");
    assert.equal(barPath([{ left: 0, right: 10, top: 10, bottom: 20 }]), "M1 20v-10h8v10z");
  });

  test("a small value is a bar, and zero is not", () => {
    assert.equal(barPath([{ left: 0, right: 4, top: 19.9, bottom: 20 }]), "M0 20v-1h4v1z");
    assert.equal(barPath([{ left: 0, right: 4, top: 20, bottom: 20 }, null]), "");
  });
});
