import assert from "node:assert/strict";
import { test } from "node:test";

import { judgeFlat, type Sample } from "../../scripts/soak/report.ts";

const STEP_MS = 5000;

/** The samples of a daemon that ran for so many minutes. */
function samples(minutes: number, at: (minute: number) => Partial<Sample>): readonly Sample[] {
  return Array.from({ length: (minutes * 60_000) / STEP_MS }, (_, i) => {
    const atMs = i * STEP_MS;
    return { atMs, rssBytes: 200e6, descriptors: 40, ...at(atMs / 60_000) };
  });
}

const CASES: readonly (readonly [name: string, samples: readonly Sample[], fault: RegExp])[] = [
  [
    "memory and descriptors that go up and down",
    samples(15, (minute) => ({
      rssBytes: 200e6 + 40e6 * Math.sin(minute * 9),
      descriptors: 40 + Math.round(10 * Math.sin(minute * 9)),
    })),
    /^$/,
  ],
  [
    "memory that rises only at the beginning",
    samples(15, (minute) => ({ rssBytes: 300e6 - 150e6 * Math.exp(-minute) })),
    /^$/,
  ],
  ["a run of a minute", samples(1, (minute) => ({ rssBytes: 200e6 + 900e6 * minute })), /^$/],
  [
    "memory that goes on rising",
    samples(15, (minute) => ({ rssBytes: 200e6 + 8e6 * minute })),
    /^memory grew by \d+ MB$/,
  ],
  [
    "descriptors that go on rising",
    samples(15, (minute) => ({ descriptors: 40 + Math.round(4 * minute) })),
    /^\d+ more descriptors/,
  ],
];
for (const [name, given, fault] of CASES) {
  test(`${name}: ${fault.source === "^$" ? "no fault" : "a fault"}`, () => {
    assert.match(judgeFlat(given).join(), fault);
  });
}
