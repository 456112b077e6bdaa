import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ROOT } from "../manifest.ts";
import { thirdPartyNotices } from "./notices.ts";
import { runTool } from "./staging.ts";

/** What every package holds beside the executable, whatever the platform. */
export interface PackageParts {
  readonly licence: Buffer;
  readonly readme: Buffer;
  readonly changelog: Buffer;
  readonly notices: Buffer;
  readonly unit: Buffer;
  readonly manual: Buffer;
  /** The configuration with every setting commented out. */
  readonly sample: Buffer;
  readonly completion: Readonly<Record<"bash" | "zsh" | "fish", Buffer>>;
}

/** Collects them; `executable` is one that runs here, and prints some. */
export function packageParts(executable: string): PackageParts {
  const source = (...path: string[]) => readFileSync(join(ROOT, ...path));
  const printed = (...args: string[]) => Buffer.from(runTool([executable, ...args]));
  return {
    licence: source("LICENSE"),
    readme: source("README.md"),
    changelog: source("CHANGELOG.md"),
    notices: Buffer.from(thirdPartyNotices()),
    unit: source("deploy", "postbackd.service"),
    manual: printed("man"),
    sample: sampleOf(executable),
    completion: {
      bash: printed("completion", "bash"),
      zsh: printed("completion", "zsh"),
      fish: printed("completion", "fish"),
    },
  };
}

function sampleOf(executable: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    runTool([executable, "config", "init", "sample.toml"], { cwd: folder });
    return readFileSync(join(folder, "sample.toml"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
