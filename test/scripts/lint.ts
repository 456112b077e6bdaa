import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";

const ROOT = dirname(dirname(import.meta.dirname));

/** Sources by path, as in `src/deliver/send.ts`. */
export type Sources = ReadonlyMap<string, string>;

/** Rules broken, by path: `eslint(no-restricted-imports)` and the like. */
export type Findings = ReadonlyMap<string, readonly string[]>;

/** Lints a throwaway tree with the project's own configuration. */
export function lintTree(sources: Sources): Findings {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-lint-"));
  try {
    for (const [path, text] of sources) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return findingsIn(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Report {
  readonly diagnostics: readonly { readonly filename: string; readonly code: string }[];
}

function findingsIn(folder: string): Findings {
  const oxlint = join(ROOT, "node_modules", "oxlint", "bin", "oxlint");
  const config = join(ROOT, "scripts", "oxlint.config.ts");
  const args = [oxlint, "--config", config, "--format", "json", "."];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });

  const findings = new Map<string, string[]>();
  for (const { filename, code } of reportOf(stdout, stderr).diagnostics) {
    const path = relative(folder, join(folder, filename));
    findings.set(path, [...(findings.get(path) ?? []), code]);
  }
  return findings;
}

function reportOf(stdout: string, stderr: string): Report {
  try {
    // The shape is oxlint's; every caller expects findings, so another shape fails the tests.
    return JSON.parse(stdout) as Report;
  } catch {
    throw new Error(`oxlint printed no report: ${stdout}${stderr}`);
  }
}
