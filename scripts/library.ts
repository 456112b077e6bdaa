import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { build } from "esbuild";

/** Where the sources are and where the modules go, absolute paths. */
export interface LibraryOptions {
  readonly root: string;
  readonly outFolder: string;
}

// What package.json exports; each becomes a module of its own, with all that it needs.
const MODULES = ["index.ts", "verify.ts"];

/** Makes the modules that other programs import, and their types. Rejects on warnings too. */
export async function buildLibrary({ root, outFolder }: LibraryOptions): Promise<void> {
  const files = MODULES.map((name) => join(root, "src", name));
  const { warnings } = await build({
    entryPoints: files,
    outdir: outFolder,
    bundle: true,
    // No global and no module of any runtime is taken for granted.
    platform: "neutral",
    target: "es2022",
    format: "esm",
    logLevel: "warning",
  });
  if (warnings.length > 0) throw new Error(`esbuild warned ${warnings.length} times, see above`);
  declareTypes({ root, outFolder }, files);
}

function declareTypes({ root, outFolder }: LibraryOptions, files: readonly string[]): void {
  const tsc = join(root, "node_modules", ".bin", "tsc");
  const args = [
    // Files are named, so none of the project's settings is read.
    ...["--ignoreConfig", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck"],
    ...["--module", "nodenext", "--target", "esnext", "--lib", "esnext", "--types", "node"],
    ...["--declaration", "--emitDeclarationOnly", "--allowImportingTsExtensions"],
    ...["--rootDir", join(root, "src"), "--outDir", outFolder],
  ];
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...args, ...files], {
    cwd: root,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`tsc ended with ${status}:\n${stdout}`);
}
