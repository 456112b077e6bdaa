import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { Series, SeriesBucket } from "../../src/api/stats.ts";
import { overviewCharts } from "../../src/dashboard/overview/overview-series.ts";
import { type ChartSpec, newestStep } from "../../src/dashboard/overview/plot-scale.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";

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
