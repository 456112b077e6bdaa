import { join, sep } from "node:path";

// Folders, and files without their ending, below test/.
const PURE = [
  "config",
  "dashboard/json-source",
  "dashboard/overview-series",
  "dashboard/task-filter",
  "dashboard/task-page",
  "dashboard/timeline",
  "deliver/delivery-dispatcher",
  "deliver/failure-lines",
  "deliver/fair-queue",
  "deliver/fair-queue-nodes",
  "deliver/health-record",
  "deliver/look-up-turns",
  "deliver/loop",
  "deliver/prefetch",
  "deliver/prefetch-interleavings",
  "deliver/redeliverer",
  "deliver/store-fault",
  "domain",
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
  "parser/parse-turns",
  "power-cut/disk-image",
  "run/cancel",
  "run/claim-credit",
  "run/command-output",
  "run/echo",
  "run/excerpt",
  "run/held-leases",
  "run/lease-interleavings",
  "run/lease-reaper",
  "run/nodes",
  "run/progress",
  "run/progress-board",
  "run/start",
  "run/traffic-keeper",
  "run/worker-desk",
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
