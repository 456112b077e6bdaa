import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { runFault, type Fault } from "../../scripts/soak/cluster.ts";
import { testedProgram } from "./start.ts";

/** Runs a fault of `scripts/soak.ts cluster` at its usual strength; rejects unless its verdict is clean. */
export async function runShort(t: TestContext, fault: Fault): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  const note = (text: string): void => t.diagnostic(text);
  const bench = { place: { program: testedProgram(), folder }, note, print: note };
  try {
    await runFault(bench, fault, { ...fault.usual, flags: [] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
