import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { runFault, type Fault, type Strength } from "../../scripts/soak/cluster.ts";
import { testedProgram } from "./start.ts";

/** Runs a fault of `scripts/soak.ts cluster`; rejects unless its verdict is clean. */
export async function runShort(
  t: TestContext,
  fault: Fault,
  strength: Partial<Strength>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  const tell = (text: string): void => t.diagnostic(text);
  const bench = { place: { program: testedProgram(), folder }, note: tell, print: tell };
  try {
    await runFault(bench, fault, { ...fault.usual, ...strength, flags: [] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
