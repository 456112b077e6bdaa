import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import type { DefinedRow } from "../../scripts/cluster/define-row.ts";
import type { Flags, Values } from "../../scripts/kit/flags.ts";
import { testedProgram } from "./start.ts";

/** Runs a row of `scripts/cluster.ts` as short as the values say; rejects when its verdict is not clean. */
export async function runShort<Own extends Flags>(
  t: TestContext,
  row: DefinedRow<Own>,
  values: Values<Own>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  const tell = (text: string): void => t.diagnostic(text);
  try {
    await row.run({ place: { program: testedProgram(), folder }, note: tell, print: tell }, values);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
