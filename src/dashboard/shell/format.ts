import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../domain/clock/duration.ts";

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
// The long style ends with the time zone.
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** `1,234`. */
export function countText(count: number): string {
  return numbers.format(count);
}

/** `1,234 tasks`, `1 task`. */
export function countOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${countText(count)} ${count === 1 ? noun : plural}`;
}

/** `99.9 %`; never 100 % while anything is missing, nor 0 % while there is anything. */
export function percentText(share: number | null): string {
  if (share === null) return "–";
  const percent = share * 100;
  if (percent === 100 || percent === 0) return `${percent} %`;
  const shown = Math.min(99.9, Math.max(0.1, Math.round(percent * 10) / 10));
  return `${shown.toFixed(1)} %`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** `12.3 MiB`. */
export function bytesText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < SIZES.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${SIZES[unit]}`;
}

/** A duration of an attempt or a wait: `12 ms`, `1.24 s`, `3 min 5 s`, `2 h 4 min`, `3 d 1 h`. */
export function durationText(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trimZeros((ms / 1000).toFixed(ms < 10_000 ? 2 : 1))} s`;
  return coarse(ms);
}

function trimZeros(text: string): string {
  return text.replace(/\.?0+$/, "");
}

const UNITS = [
  { ms: DAY_MS, name: "d" },
  { ms: HOUR_MS, name: "h" },
  { ms: MINUTE_MS, name: "min" },
  { ms: SECOND_MS, name: "s" },
];

function coarse(ms: number): string {
  const first = UNITS.findIndex((unit) => ms >= unit.ms);
  const big = UNITS[first];
  const small = UNITS[first + 1];
  if (big === undefined) return "0 s";
  const count = Math.floor(ms / big.ms);
  const rest = small === undefined ? 0 : Math.floor((ms % big.ms) / small.ms);
  return rest === 0 ? `${count} ${big.name}` : `${count} ${big.name} ${rest} ${small?.name}`;
}

/**
 * How long ago, or in how long: `5 s ago`, `in 3 min`. It has a single unit, because it changes in front of the
 * reader.
 */
export function relativeText(at: number, now: number): string {
  const ms = now - at;
  const size = Math.abs(ms);
  const unit = UNITS.find((each) => size >= each.ms);
  if (unit === undefined) return "now";
  const amount = `${Math.floor(size / unit.ms)} ${unit.name}`;
  return ms > 0 ? `${amount} ago` : `in ${amount}`;
}

/** The time left, to the second: `4:59`, `1:02:03`. */
export function countdownText(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown.map((part, i) => (i === 0 ? String(part) : String(part).padStart(2, "0"))).join(":");
}

/** Date and time in the reader's own zone and format, with the name of the zone. */
export function absoluteText(at: number): string {
  return dates.format(at);
}

/** Durations that are round on an axis. */
export const ROUND_MS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR_MS),
  ...[1, 2, 5, 10, 20, 50, 100].map((count) => count * DAY_MS),
];
