import { join, sep } from "node:path";

// Folders, and files without their ending, below test/.
const PURE = [
  "bench/durations",
  "bench/http-messages",
  "config",
  "dashboard/json-source",
  "dashboard/overview-series",
  "dashboard/task-filter",
  "dashboard/task-page",
  "dashboard/timeline",
  "deliveries/arrivals",
  "deliveries/report",
  "domain",
  "engine",
  "helpers/fake-clock",
  "http/account-turns",
  "http/byte-budget",
  "http/connection-places",
  "http/place-shortage",
  "http/posted-task-schema",
  "http/rate-limiter",
  "http/task-shape",
  "http/usage-notes",
  "http/wait-places",
  "net/look-up-turns",
  "parser/parse-turns",
  "power-cut/disk-image",
  "runners/echo",
  "runners/command-output",
  "runners/excerpt",
  "scripts/flags",
  "soak/duplicates",
  "soak/ending-judge",
  "soak/lease-judge",
  "soak/lease-ledger",
  "soak/ledger",
].map((name) => join("test", name));

/**
 * Whether a file of tests shares the process of `test/pure.test.ts`: such tests start nothing and leave nothing in it,
 * and starting a process for each of their files took five times as long as they do.
 */
export function isPureTest(file: string): boolean {
  return PURE.some((pure) => file === `${pure}.test.ts` || file.startsWith(pure + sep));
}
